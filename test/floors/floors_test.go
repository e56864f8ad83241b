//go:build floors

// Package floors breaks the house rules of .golangci.yml on purpose and expects the linter to say which: a rule
// whose glob or pattern matches nothing passes as silently as a rule that is kept. It says once more, in its own
// words, who may import whom; it knows nothing of the product's code but the names of its packages.
//
// It needs the linter's build and is run by make lint: go test -tags floors ./test/floors
package floors

import (
	"encoding/json"
	"fmt"
	"maps"
	"os"
	"os/exec"
	"path"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/google/go-cmp/cmp"
	"go.yaml.in/yaml/v3"
)

const root = "../.."

// floor is the height of each package under internal/: it may import what lies lower, and nothing beside it.
var floor = map[string]int{
	"fault": 0, "faultpoint": 0,
	"telemetry": 1, "postgres": 1,
	"outbox": 2, "idempotency": 2, "identity": 2,
	"effects": 3, "tasks": 3,
	"orders": 4, "imports": 4,
	"httpapi": 5, "sandbox": 5, "load": 5,
}

// neighbours may be imported although they are not lower, strangers may not although they are.
var (
	neighbours = map[string][]string{
		"postgres": {"telemetry"},
		"imports":  {"orders"},
	}
	strangers = map[string][]string{
		"effects": {"idempotency"},
		"orders":  {"idempotency"},
		"imports": {"idempotency"},
		"load": {
			"fault", "faultpoint", "telemetry", "postgres", "outbox", "idempotency", "identity", "effects", "tasks", "orders",
			"imports",
		},
		"sandbox": {"outbox", "idempotency", "identity", "effects", "tasks", "orders", "imports"},
	}
)

// importers are the places a rule can speak of. Those under planted/ carry the same path as the real package further
// down, so that the globs meet them, while nobody imports them: no planted import can close a cycle.
func importers() []string {
	places := []string{
		"planted/internal/postgres/localpg", "planted/internal/postgres/postgrestest", "planted/internal/httpapi/api",
		"planted/internal/identity/oidc", "planted/internal/identity/oidc/oidctest",
		"planted/internal/httpapi/internal/contract", "planted/internal/httpapi/internal/reference",
		"planted/sql/schema", "cmd/orderonce", "test/faults", "clients/go", "clients/vectors", ".",
	}
	for name := range floor {
		places = append(places, "planted/internal/"+name)
	}
	slices.Sort(places)
	return places
}

func targets() []string {
	paths := []string{
		"net/http", "net/http/httptest", "strings",
		"github.com/jackc/pgx/v5", "github.com/jackc/pgx/v5/pgxpool",
		"go.opentelemetry.io/otel/trace", "go.opentelemetry.io/otel/sdk/trace",
		"go.opentelemetry.io/otel/exporters/prometheus",
		"orderonce", "orderonce/sql/schema", "orderonce/clients/go", "orderonce/test/helper",
		"orderonce/internal/httpapi/api",
		"orderonce/internal/postgres/localpg", "orderonce/internal/postgres/postgrestest",
		"orderonce/internal/identity/oidc", "orderonce/internal/identity/oidc/oidctest",
	}
	for name := range floor {
		paths = append(paths, "orderonce/internal/"+name)
	}
	slices.Sort(paths)
	return paths
}

// broken names the rules that an import breaks, by the architecture and without a look at the configuration.
func broken(importer, target string, test bool) []string {
	var rules []string
	place := strings.TrimPrefix(importer, "planted/")
	under := func(dirs ...string) bool {
		return slices.ContainsFunc(dirs, func(dir string) bool { return place == dir || strings.HasPrefix(place, dir+"/") })
	}
	breaks := func(rule string, is bool) {
		if is {
			rules = append(rules, rule)
		}
	}
	first, _, _ := strings.Cut(target, "/")
	own := first == "orderonce"
	local, standard := own && target != first, !own && !strings.Contains(first, ".")
	from, inside := strings.CutPrefix(place, "internal/")
	from, _, _ = strings.Cut(from, "/")
	to, internal := strings.CutPrefix(target, "orderonce/internal/")
	to, _, _ = strings.Cut(to, "/")

	switch {
	case place == ".":
		breaks("floor-0-contract", !test && !standard)
	case place == "sql/schema":
		breaks("floor-0-schema", !test && !standard)
	case place == "internal/fault":
		breaks("floor-0-fault", !standard && to != "fault")
	case place == "internal/faultpoint":
		breaks("floor-0-faultpoint", !standard && to != "faultpoint")
	case inside:
		lower := internal && (to == from || floor[to] < floor[from] || slices.Contains(neighbours[from], to)) &&
			!slices.Contains(strangers[from], to)
		schema := from == "postgres" && target == "orderonce/sql/schema"
		breaks(fmt.Sprintf("floor-%d-%s", floor[from], from), local && !lower && !schema)
	case under("cmd"):
		breaks("floor-6-cmd", strings.HasPrefix(target, "orderonce/test/"))
	case under("clients/go"):
		breaks("clients", !test && local && target != "orderonce/clients/go")
	case under("clients/vectors"):
		breaks("vectors", !test && !standard)
	}

	breaks("contract", target == "orderonce" && !test && !under("internal/httpapi", "cmd", "test", "."))
	breaks("generated-api", target == "orderonce/internal/httpapi/api" && !under("internal/httpapi"))
	breaks("test-databases", target == "orderonce/internal/postgres/postgrestest" && !test &&
		!under("test", "internal/postgres/postgrestest"))
	breaks("test-issuers", target == "orderonce/internal/identity/oidc/oidctest" && !test &&
		!under("test", "internal/identity/oidc/oidctest"))
	breaks("own-server", target == "orderonce/internal/postgres/localpg" && !test &&
		!under("test", "cmd", "internal/postgres/localpg", "internal/postgres/postgrestest"))
	breaks("pools", path.Base(target) == "pgxpool" && !test && !under("test", "cmd", "internal/postgres"))
	breaks("fault-points", target == "orderonce/internal/faultpoint" && !test &&
		!under("test", "internal/postgres", "internal/outbox", "internal/effects", "internal/httpapi"))
	breaks("telemetry-start", (strings.Contains(target, "otel/sdk") || strings.Contains(target, "otel/exporters")) &&
		!test && !under("test", "cmd", "internal/telemetry"))
	breaks("no-http", strings.HasPrefix(target, "net/http") && !test &&
		under("internal/fault", "internal/postgres", "internal/outbox", "internal/idempotency", "internal/identity",
			"internal/orders", "internal/httpapi/internal/contract") && !under("internal/identity/oidc"))
	breaks("floor-5-reference", under("internal/httpapi/internal/reference") && !test && !standard)
	breaks("floor-5-contract", under("internal/httpapi/internal/contract") && !test && !standard && to != "fault")
	slices.Sort(rules)
	return rules
}

// TestEveryImportRule plants every import in every place, in a file of the package and in one of its tests, and wants
// exactly the rules that the architecture names, so an allowed import that is refused fails too.
func TestEveryImportRule(t *testing.T) {
	t.Parallel()
	type verdicts map[string][]string // planted file -> names of the rules that it breaks
	dir := plant(t)
	want, planted := verdicts{}, map[string]int{}
	for _, importer := range importers() {
		for i, target := range targets() {
			own := target == path.Join("orderonce", strings.TrimPrefix(importer, "planted/"))
			if own || importer == "." && target == "orderonce/clients/go" { // the latter would be a cycle here
				continue
			}
			for _, suffix := range []string{".go", "_test.go"} {
				file := path.Join(importer, fmt.Sprintf("import%02d%s", i, suffix))
				write(t, dir, file, fmt.Sprintf("package %s\n\nimport _ %q\n", packageName(importer), target))
				rules := broken(importer, target, suffix == "_test.go")
				if len(rules) > 0 {
					want[file] = rules
				}
				for _, rule := range rules {
					planted[rule]++
				}
			}
		}
	}
	got := verdicts{}
	for _, found := range lint(t, dir, "depguard") {
		_, rule, ok := strings.Cut(found.Text, "from list '")
		rule, _, _ = strings.Cut(rule, "'")
		if !ok {
			t.Fatalf("depguard names no rule: %s", found.Text)
		}
		got[found.Pos.Filename] = append(got[found.Pos.Filename], rule)
	}
	for file := range got {
		slices.Sort(got[file])
	}
	for _, file := range slices.Sorted(maps.Keys(union(want, got))) {
		if diff := cmp.Diff(want[file], got[file]); diff != "" {
			source, _ := os.ReadFile(filepath.Join(dir, file))
			_, imported, _ := strings.Cut(string(source), "import _ ")
			t.Errorf("%s imports %s (-rules it should break +rules it breaks):\n%s", file, strings.TrimSpace(imported), diff)
		}
	}
	for _, rule := range configuredRules(t) {
		if planted[rule] == 0 {
			t.Errorf("rule %s of .golangci.yml is broken by no planted import: tell broken() what it is for", rule)
		}
	}
}

// TestEveryPackageHasAFloor fails for a package under internal/ that no rule speaks of yet.
func TestEveryPackageHasAFloor(t *testing.T) {
	t.Parallel()
	entries, err := os.ReadDir(filepath.Join(root, "internal"))
	if err != nil {
		t.Fatal(err)
	}
	for _, entry := range entries {
		if _, known := floor[entry.Name()]; !known && entry.IsDir() {
			t.Errorf("internal/%s stands on no floor: give it one here and a rule in .golangci.yml", entry.Name())
		}
	}
}

// TestEveryForbiddenName plants each forbidigo rule where it must bite and where it must not.
func TestEveryForbiddenName(t *testing.T) {
	t.Parallel()
	const (
		environment = `"os"; func init() { _ = os.Getenv("X") }`
		lookup      = `"os"; func init() { _, _ = os.LookupEnv("X") }`
		sleep       = `"time"; func init() { time.Sleep(1) }`
		prints      = `"fmt"; func init() { fmt.Println() }`
		exit        = `"os"; func init() { os.Exit(1) }`
		fatal       = `"log"; func init() { log.Fatal() }`
		panics      = `_ "os"; func init() { panic(1) }`
		randomID    = `"github.com/google/uuid"; func init() { _ = uuid.New() }`
		timeOrdered = `"github.com/google/uuid"; func init() { _, _ = uuid.NewV7() }`
		binary      = `"os"; const BinEnv = "X"; func init() { _ = os.Getenv(BinEnv) }`
		plan        = `"os"; const Env = "X"; func init() { _ = os.Getenv(Env) }`
	)
	dir := plant(t)
	want, got := map[string]string{}, map[string]string{}
	for i, c := range []struct{ place, suffix, code, rule string }{
		{"internal/orders", ".go", environment, "environment"},
		{"internal/orders", ".go", lookup, "environment"},
		{"internal/orders", "_test.go", environment, ""},
		{"internal/postgres/localpg", ".go", environment, "environment"},
		{"internal/postgres/localpg", ".go", binary, ""},
		{"internal/faultpoint", ".go", environment, "environment"},
		{"internal/faultpoint", ".go", plan, ""},
		{"internal/postgres", ".go", plan, "environment"},
		{"cmd/orderonce", ".go", environment, ""},
		{"test/faults", ".go", environment, ""},
		{"internal/orders", ".go", sleep, "sleep"},
		{"internal/orders", "_test.go", sleep, "sleep"},
		{"cmd/orderonce", ".go", sleep, "sleep"},
		{"test/faults", ".go", sleep, "sleep"},
		{"internal/orders", ".go", prints, "print"},
		{"internal/orders", "_test.go", prints, "print"},
		{"test/faults", ".go", prints, "print"},
		{"test/bench", ".go", prints, ""},
		{"cmd/orderonce", ".go", prints, ""},
		{"internal/orders", ".go", exit, "exit"},
		{"internal/orders", ".go", fatal, "exit"},
		{"internal/orders", "_test.go", exit, ""},
		{"clients/vectors", ".go", exit, ""},
		{"cmd/orderonce", ".go", exit, ""},
		{"internal/orders", ".go", panics, "panic"},
		{"cmd/orderonce", ".go", panics, "panic"},
		{"internal/orders", "_test.go", panics, ""},
		{"internal/orders", ".go", randomID, "random id"},
		{"cmd/orderonce", ".go", randomID, "random id"},
		{"internal/orders", "_test.go", randomID, ""},
		{"internal/orders", ".go", timeOrdered, ""},
	} {
		// A folder of its own, so that a constant of one case is no other's.
		file := fmt.Sprintf("%s/case%02d/name%s", c.place, i, c.suffix)
		write(t, dir, file, fmt.Sprintf("package case%02d\n\nimport %s\n", i, c.code))
		if c.rule != "" {
			want[file] = c.rule
		}
	}
	for _, found := range lint(t, dir, "forbidigo") {
		_, rule, _ := strings.Cut(found.Text, `because "`)
		got[found.Pos.Filename], _, _ = strings.Cut(rule, ":")
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("(-rule that should bite +rule that bites):\n%s", diff)
	}
}

// plant makes a module with the repository's linter settings and a hollow package for each target, so that the
// imports resolve and nothing else has to be compiled.
func plant(t *testing.T) string {
	t.Helper()
	dir := t.TempDir()
	settings, err := os.ReadFile(filepath.Join(root, ".golangci.yml"))
	if err != nil {
		t.Fatal(err)
	}
	write(t, dir, ".golangci.yml", string(settings))
	mod := "module orderonce\n\ngo 1.26\n"
	for _, module := range []string{"github.com/jackc/pgx/v5", "github.com/google/uuid", "go.opentelemetry.io/otel"} {
		version := "v1.0.0"
		if path.Base(module) == "v5" {
			version = "v5.0.0"
		}
		mod += fmt.Sprintf("require %s %s\nreplace %s => ./hollow/%s\n", module, version, module, module)
		write(t, dir, "hollow/"+module+"/go.mod", "module "+module+"\n\ngo 1.26\n")
	}
	write(t, dir, "go.mod", mod)
	for _, target := range targets() {
		local, isLocal := strings.CutPrefix(target+"/", "orderonce/")
		switch {
		case isLocal:
			write(t, dir, path.Join(local, "doc.go"), "package "+packageName(target)+"\n")
		case strings.Contains(target, "."):
			write(t, dir, "hollow/"+target+"/doc.go", "package "+packageName(target)+"\n")
		}
	}
	write(t, dir, "hollow/github.com/google/uuid/uuid.go",
		"package uuid\n\nfunc New() int { return 0 }\n\nfunc NewV7() (int, error) { return 0, nil }\n")
	return dir
}

type finding struct {
	Text string
	Pos  struct{ Filename string }
}

// linter builds golangci-lint as pinned in tools/go.mod, once, and returns the executable's path.
var linter = sync.OnceValues(func() (string, error) {
	command := exec.Command("go", "tool", "-modfile=tools/go.mod", "-n", "golangci-lint")
	command.Dir = root
	out, err := command.Output()
	return strings.TrimSpace(string(out)), err
})

func lint(t *testing.T, dir, only string) []finding {
	t.Helper()
	binary, err := linter()
	if err != nil {
		t.Fatalf("build golangci-lint: %v", err)
	}
	command := exec.CommandContext(t.Context(), binary, "run", "--enable-only="+only, "--uniq-by-line=false",
		"--allow-parallel-runners", "--issues-exit-code=0", "--output.json.path=stdout", "--show-stats=false", "./...")
	command.Dir = dir
	command.Env = append(os.Environ(), "GOFLAGS=-mod=mod", "GOWORK=off", "GOPROXY=off")
	var stderr strings.Builder
	command.Stderr = &stderr
	out, err := command.Output()
	if err != nil {
		t.Fatalf("golangci-lint: %v\n%s%s", err, out, stderr.String())
	}
	var report struct{ Issues []finding }
	if err := json.Unmarshal(out, &report); err != nil {
		t.Fatalf("golangci-lint's report: %v\n%s", err, out)
	}
	return report.Issues
}

func configuredRules(t *testing.T) []string {
	t.Helper()
	var settings struct {
		Linters struct {
			Settings struct {
				Depguard struct{ Rules map[string]any }
			}
		}
	}
	text, err := os.ReadFile(filepath.Join(root, ".golangci.yml"))
	if err != nil {
		t.Fatal(err)
	}
	if err := yaml.Unmarshal(text, &settings); err != nil {
		t.Fatal(err)
	}
	rules := slices.Sorted(maps.Keys(settings.Linters.Settings.Depguard.Rules))
	if len(rules) == 0 {
		t.Fatal("no rule found in .golangci.yml")
	}
	return rules
}

func packageName(dir string) string {
	name := path.Base(dir)
	switch name {
	case "v5", "go":
		return "p" + name
	case ".":
		return "orderonce"
	}
	return name
}

func write(t *testing.T, dir, file, text string) {
	t.Helper()
	full := filepath.Join(dir, filepath.FromSlash(file))
	if err := os.MkdirAll(filepath.Dir(full), 0o755); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(full, []byte(text), 0o644); err != nil {
		t.Fatal(err)
	}
}

func union[K comparable, V any](a, b map[K]V) map[K]V {
	all := maps.Clone(a)
	maps.Copy(all, b)
	return all
}
