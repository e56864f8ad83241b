package orderonce_test

import (
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
)

// The program of the README is one that a stranger can paste: in a module of its own, against a real server.
func TestReadmeProgram(t *testing.T) {
	t.Parallel()
	s, _ := open(t, "answer-lost")
	page, err := os.ReadFile("README.md")
	must(t, err)
	_, program, _ := strings.Cut(string(page), "```go\n")
	program, _, _ = strings.Cut(program, "```")
	here, err := filepath.Abs(".")
	must(t, err)
	module, err := os.ReadFile("go.mod")
	must(t, err)
	sums, err := os.ReadFile("go.sum")
	must(t, err)
	_, requires, _ := strings.Cut(string(module), "module orderonce/clients/go\n")
	dir := t.TempDir()
	for name, text := range map[string]string{
		"main.go": program,
		"go.sum":  string(sums),
		"go.mod": "module stranger\n" + requires +
			"\nrequire orderonce/clients/go v0.0.0\n\nreplace orderonce/clients/go => " + here + "\n",
	} {
		must(t, os.WriteFile(filepath.Join(dir, name), []byte(text), 0o600))
	}
	command := exec.CommandContext(t.Context(), "go", "run", ".", s.BaseURL, s.Credentials["shop"])
	command.Dir = dir
	command.Env = append(os.Environ(), "GOFLAGS=-buildvcs=false", "GOPROXY=off")
	out, err := command.CombinedOutput()
	if err != nil || !strings.HasPrefix(string(out), "order ") {
		t.Fatalf("%v\n%s", err, out)
	}
	if stored, _ := filepath.Glob(filepath.Join(dir, "*.json")); len(stored) != 1 {
		t.Errorf("stored: %v", stored)
	}
	if sends, _ := s.seen(t); sends != 2 {
		t.Errorf("%d sends", sends)
	}
}
