package httpapi

import (
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/google/uuid"

	"orderonce"
	"orderonce/internal/httpapi/internal/reference"
	"orderonce/internal/identity"
)

// staged is an operation with a tenant that has what it is about, and what its snippet takes from the environment.
type staged struct {
	reference.Operation
	environment map[string]string
	known       bool // false where it has a parameter that this test knows no value of: then it can find nothing
}

// runner runs the snippets of operations, and returns an error for each whose output says that it was not done.
type runner func(all []staged) map[string]error

// Whoever pastes a snippet of the reference gets what it promises: each is run, as it stands on the page, on a tenant
// that has what the operation is about.
func TestSnippetsWork(t *testing.T) {
	t.Parallel()
	w := setup(t)
	operations := reference.Operations(w.server.spec.doc, orderonce.OpenAPI)
	for language, prepare := range map[string]func(*testing.T, []reference.Operation) runner{
		reference.Curl: withCurl, reference.Go: withGo, reference.TypeScript: withTypeScript,
	} {
		t.Run(language, func(t *testing.T) {
			t.Parallel()
			own := *w
			own.t = t
			run := prepare(t, operations)
			var all []staged
			for _, o := range operations {
				all = append(all, own.stage(o, strings.ToLower(language+"-"+o.ID)))
			}
			failed := run(all)
			for _, o := range all {
				if err := failed[o.ID]; err != nil && (o.known || !strings.Contains(err.Error(), "not_found")) {
					t.Errorf("%s: %v\n%s", o.ID, err, snippet(o.Operation, language))
				}
			}
		})
	}
}

// snippet is the code on the page. A body's example can name nobody's principal: in its place comes the environment's.
func snippet(o reference.Operation, language string) string {
	principal := map[string]string{
		reference.Curl:       `'"$PRINCIPAL_ID"'`,
		reference.Go:         "` + os.Getenv(\"PRINCIPAL_ID\") + `",
		reference.TypeScript: `" + process.env.PRINCIPAL_ID + "`,
	}

	for _, s := range o.Snippets {
		if s.Language == language {
			return strings.ReplaceAll(s.Code, reference.SampleUUID, principal[language])
		}
	}
	return ""
}

func (w *world) stage(o reference.Operation, name string) staged {
	w.t.Helper()
	tenant, token := w.principal(name, "shop", identity.TenantScopes()...)
	key := freshKey()
	placed := w.place(key, order(), as(token))
	wantCreated(w.t, placed, "false")
	values := map[string]string{
		"ORDERONCE_URL": w.base, "ORDERONCE_KEY": token, "TENANT_ID": tenant.String(), "KEY": key, "OPERATION": "createOrder",
		"ORDER_ID": strings.TrimPrefix(placed.header.Get("Location"), "/orders/"), "CLIENT_ORDER_ID": freshKey(), "CODE": "internal",
	}
	if identity.ForOperators(o.Scope) {
		values["ORDERONCE_KEY"] = w.operator
	}
	if o.ID == "getClientOrder" {
		w.send(http.MethodPut, "/client-orders/"+values["CLIENT_ORDER_ID"], strings.NewReader(order()),
			as(token), with("Content-Type", "application/json"))
	}
	var principal, apiKey uuid.UUID
	conn := w.connect()
	defer conn.Close(w.t.Context())
	w.must(conn.QueryRow(w.t.Context(),
		`SELECT principal_id, id FROM api_keys WHERE tenant_id = $1`, tenant).Scan(&principal, &apiKey))
	values["PRINCIPAL_ID"], values["API_KEY_ID"] = principal.String(), apiKey.String()
	known := true
	for _, name := range regexp.MustCompile(`\$([A-Z_]+)`).FindAllStringSubmatch(snippet(o, reference.Curl), -1) {
		if _, ok := values[name[1]]; !ok && name[1] != "IDEMPOTENCY_KEY" {
			values[name[1]], known = freshKey(), false
		}
	}
	return staged{o, values, known}
}

// executed runs a command to its end, and tells all that it said where it ends badly.
func executed(t *testing.T, dir string, environment map[string]string, name string, arguments ...string) (string, error) {
	t.Helper()
	command := exec.CommandContext(t.Context(), name, arguments...)
	command.Dir, command.Env = dir, os.Environ()
	for name, value := range environment {
		command.Env = append(command.Env, name+"="+value)
	}
	out, err := command.CombinedOutput()
	if err != nil {
		return "", fmt.Errorf("%w: %s", err, out)
	}
	return string(out), nil
}

func withCurl(t *testing.T, _ []reference.Operation) runner {
	t.Helper()
	need(t, "curl", "openssl")
	dir := t.TempDir()
	return each(func(o staged) error {
		_, err := executed(t, dir, o.environment, "sh", "-ec", snippet(o.Operation, reference.Curl))
		return err
	})
}

func each(run func(o staged) error) runner {
	return func(all []staged) map[string]error {
		failed := map[string]error{}
		for _, o := range all {
			failed[o.ID] = run(o)
		}
		return failed
	}
}

func need(t *testing.T, programs ...string) {
	t.Helper()
	for _, program := range programs {
		if _, err := exec.LookPath(program); err != nil {
			t.Skip(err)
		}
	}
}

func clients(t *testing.T, language string) (dir string) {
	t.Helper()
	dir, err := filepath.Abs(filepath.Join("..", "..", "clients", language))
	if err != nil {
		t.Fatal(err)
	}
	return dir
}

func file(t *testing.T, path ...string) string {
	t.Helper()
	text, err := os.ReadFile(filepath.Join(path...))
	if err != nil {
		t.Fatal(err)
	}
	return string(text)
}

const goImports = `package main

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"log"
	"net/url"
	"os"
	"strings"

	"github.com/google/uuid"

	orderonce "orderonce/clients/go"
	"orderonce/clients/go/api"
)

var _, _, _, _, _, _ = io.Copy, json.Marshal, url.PathEscape, strings.NewReader, uuid.Parse, api.NewClient

func check(err error) {
	if err != nil {
		log.Fatal(err)
	}
}

func main() {
	ctx := context.Background()
`

// withGo builds one program of all snippets, in a module of its own as a stranger's.
func withGo(t *testing.T, operations []reference.Operation) runner {
	t.Helper()
	client, dir := clients(t, "go"), t.TempDir()
	_, requires, _ := strings.Cut(file(t, client, "go.mod"), "\n")
	program := goImports + reference.Preamble(reference.Go) + "\nswitch os.Args[1] {\n"
	for _, o := range operations {
		program += fmt.Sprintf("case %q:\n%s\n", o.ID, snippet(o, reference.Go))
	}
	for name, text := range map[string]string{
		"main.go": program + "}\n}\n",
		"go.sum":  file(t, client, "go.sum"),
		"go.mod": "module stranger\n" + requires + "\nrequire orderonce/clients/go v0.0.0\n\nreplace orderonce/clients/go => " +
			client + "\n",
	} {
		if err := os.WriteFile(filepath.Join(dir, name), []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	if _, err := executed(t, dir, map[string]string{"GOFLAGS": "-buildvcs=false", "GOPROXY": "off"}, "go", "build", "-o", "snippets", "."); err != nil {
		t.Fatalf("%v\n%s", err, program)
	}
	done := regexp.MustCompile(`^(created|accepted|2\d\d) `)
	return each(func(o staged) error {
		out, err := executed(t, dir, o.environment, "./snippets", o.ID)
		if err == nil && !done.MatchString(out) {
			err = fmt.Errorf("it says %s", out)
		}
		return err
	})
}

// withTypeScript runs the snippets as JavaScript, which they are too, with the client as it was built.
func withTypeScript(t *testing.T, operations []reference.Operation) runner {
	t.Helper()
	need(t, "node")
	client, dir := clients(t, "typescript"), t.TempDir()
	if _, err := os.Stat(filepath.Join(client, "dist")); err != nil {
		t.Skipf("the TypeScript client is not built: %v", err)
	}
	scope := filepath.Join(dir, "node_modules", "@orderonce")
	if err := errors.Join(os.MkdirAll(scope, 0o700), os.Symlink(client, filepath.Join(scope, "client"))); err != nil {
		t.Fatal(err)
	}
	imports, preamble, _ := strings.Cut(reference.Preamble(reference.TypeScript), "\n\n")
	program := imports + "\nconst snippets = {\n"
	for _, o := range operations {
		outcome := "if (error) throw new Error(JSON.stringify(error));"
		if o.Policy != nil {
			outcome = `if (!["created", "accepted"].includes(result.kind)) throw new Error(JSON.stringify(result));`
		}
		program += fmt.Sprintf("%s: async () => {\n%s\n%s\n%s\n},\n", o.ID, preamble, snippet(o, reference.TypeScript), outcome)
	}
	if err := os.WriteFile(filepath.Join(dir, "snippets.mjs"), []byte(program+runAll), 0o600); err != nil {
		t.Fatal(err)
	}
	return func(all []staged) map[string]error {
		environments := map[string]map[string]string{}
		for _, o := range all {
			environments[o.ID] = o.environment
		}
		text, err := json.Marshal(environments)
		if err != nil {
			t.Fatal(err)
		}
		out, err := executed(t, dir, nil, "node", "snippets.mjs", string(text))
		if err != nil {
			t.Fatal(err)
		}
		var said map[string]string
		if err := json.Unmarshal([]byte(out), &said); err != nil || len(said) != len(all) {
			t.Fatalf("%v: %s", err, out)
		}
		failed := map[string]error{}
		for id, complaint := range said {
			if complaint != "" {
				failed[id] = errors.New(complaint)
			}
		}
		return failed
	}
}

// runAll is the rest of the program: one process runs all, since one is slow to start.
const runAll = `};
const said = {}, say = console.log;
console.log = () => {};
for (const [id, environment] of Object.entries(JSON.parse(process.argv[2]))) {
  Object.assign(process.env, environment);
  said[id] = await snippets[id]().then(() => "", (error) => String(error.stack));
}
say(JSON.stringify(said));
`
