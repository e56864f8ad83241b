# The product, its tests and its tools are pure Go: one build cache for all of them, and no C compiler but for -race.
export CGO_ENABLED := 0
.DEFAULT_GOAL := help
.NOTPARALLEL:
.PHONY: help dev gen check-gen fmt test clients test-clients test-typescript test-race lint rules vuln bench fuzz faults postgres \
	check

PKG ?= ./...
FUZZTIME ?= 10s
# Where goroutines share memory: leaders and followers, the shared commit, workers, an issuer's keys, spans that are held,
# and the server that drives them.
RACED := ./internal/postgres ./internal/idempotency/... ./internal/effects ./internal/identity/... ./internal/httpapi/... \
	./internal/telemetry

# Long walks, one request after the other: once is enough.
SEQUENTIAL := -skip='^(TestMatrixOfOperationsAndCallers|TestSnippetsWork|TestEveryRequestIsAnsweredByTheContract)'

# What must hold with shared commits and without: `make test` tries the protocol both ways.
PROTOCOL := ./internal/idempotency ./internal/httpapi

help: ## Lists these targets
	@awk -F ':.*## ' '/^[a-z-]+:.*## /{printf "  make %-15s %s\n", $$1, $$2}' $(MAKEFILE_LIST)

dev: postgres ## Runs everything on an own PostgreSQL, with keys and a curl to paste; ARGS="--listen …"
	go run ./cmd/orderonce dev $(ARGS)

gen: ## Generates the Go code of openapi.yaml and sql/queries
	scripts/gen.sh

check-gen: ## Fails where the committed code is not what gen makes
	scripts/check-gen.sh

fmt: ## Formats the Go code
	go tool -modfile=tools/go.mod golangci-lint fmt

test: postgres ## Runs the tests; PKG=./internal/orders/... narrows them, ARGS="-run TestPlace -v" too
	go test -timeout=15m $(ARGS) $(PKG)
	$(if $(filter ./...,$(PKG)),ORDERONCE_TEST_ALONE=1 go test -timeout=15m $(SEQUENTIAL) $(ARGS) $(PROTOCOL))

test-clients: postgres ## Runs the Go client's tests: a module of its own, which ./... does not reach; ARGS="-race" too
	cd clients/go && CGO_ENABLED=$(if $(filter -race,$(ARGS)),1,0) go test -timeout=15m $(ARGS) ./...

test-typescript: postgres ## Builds and tests the TypeScript client, in a browser too; installs Node.js and Chromium where it can
	@scripts/chromium.sh
	cd clients/typescript && ../../scripts/node.sh npm ci --silent && ../../scripts/node.sh npm test

clients: ## Builds and tests the clients, the Go one under the race detector
	@$(MAKE) --no-print-directory test-clients ARGS=-race
	@$(MAKE) --no-print-directory test-typescript

test-race: postgres ## Runs the tests under the race detector, which needs a C compiler
	CGO_ENABLED=1 go test -race -timeout=15m $(ARGS) $(PKG)

lint: ## Checks format, habits, the floors and the SQL
	scripts/lint.sh

rules: ## Checks and tests the alerts of deploy/observability
	scripts/rules.sh

vuln: ## Looks for known vulnerabilities in reach of the code; ARGS=--stdlib fails on Go's own too
	scripts/vuln.sh $(ARGS)

bench: postgres ## Measures the server against pgbench on this machine; ARGS="-all", "-storm", "-help" …
	go run ./test/bench $(ARGS)

fuzz: postgres ## Fuzzes each fuzz target for FUZZTIME (10s)
	FUZZTIME=$(FUZZTIME) scripts/fuzz.sh $(PKG)

faults: postgres ## Kills and cuts for minutes: 200 servers at random times, 50 behind a gateway, 60 workers
	go test ./test/faults -run TestRandomKills -kills 200 -timeout 20m -v
	go test ./test/gateway -orders 500 -kills 50 -timeout 20m -v
	go test ./test/effects -run TestRandomFaults -orders 2000 -kills 60 -timeout 30m -v

postgres: ## Installs a PostgreSQL where there is none
	@scripts/postgres.sh

check: lint rules vuln check-gen test ## All that must hold before a commit lands; what .ci/run runs
	@$(MAKE) --no-print-directory test-race PKG="$(RACED)" ARGS="$(SEQUENTIAL)"
	@$(MAKE) --no-print-directory clients
