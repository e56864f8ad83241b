package orderonce_test

import (
	"bufio"
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"sync"
	"testing"
)

// root is the repository: the server and the vectors are there. The module alone cannot run these tests.
var root = filepath.Join("..", "..")

// proxy is the running vectors command, started by the first test that asks.
var proxy struct {
	once    sync.Once
	control string
	end     func() error
	err     error
}

func TestMain(m *testing.M) {
	status := m.Run()
	if proxy.end != nil {
		if err := proxy.end(); err != nil {
			fmt.Fprintln(os.Stderr, "end the vectors:", err)
			status = 1
		}
	}
	os.Exit(status)
}

// control is the address of the vectors' control API.
func control(t *testing.T) string {
	t.Helper()
	if _, err := os.Stat(filepath.Join(root, "clients", "vectors")); errors.Is(err, os.ErrNotExist) {
		t.Skip("outside of the repository there is no server to test against")
	}
	proxy.once.Do(func() { proxy.control, proxy.end, proxy.err = startVectors() })
	if proxy.err != nil {
		t.Fatal(proxy.err)
	}
	return proxy.control
}

func startVectors() (control string, end func() error, err error) {
	var stderr bytes.Buffer
	command := exec.Command("go", "run", "./clients/vectors") //nolint:noctx // it serves all tests, so none of them bounds it
	command.Dir, command.Stderr = root, &stderr
	command.Env = append(os.Environ(), "CGO_ENABLED=0") // the race detector is for the client; the server is built as ever
	stdin, err := command.StdinPipe()
	if err != nil {
		return "", nil, err
	}
	stdout, err := command.StdoutPipe()
	if err != nil {
		return "", nil, err
	}
	if err := command.Start(); err != nil {
		return "", nil, err
	}
	end = func() error { return errors.Join(stdin.Close(), command.Wait()) }
	line, err := bufio.NewReader(stdout).ReadBytes('\n')
	var ready struct {
		ControlURL string `json:"control_url"`
	}
	if err := errors.Join(err, json.Unmarshal(line, &ready)); err != nil {
		return "", nil, fmt.Errorf("start the vectors: %w", errors.Join(err, end(), errors.New(stderr.String())))
	}
	return ready.ControlURL, end, nil
}

// post asks the control API for something.
func post(t *testing.T, path string, body, into any) {
	t.Helper()
	text, err := json.Marshal(body)
	must(t, err)
	r, err := http.NewRequestWithContext(t.Context(), http.MethodPost, control(t)+path, bytes.NewReader(text))
	must(t, err)
	do(t, r, into)
}

func get(t *testing.T, path string, into any) {
	t.Helper()
	r, err := http.NewRequestWithContext(t.Context(), http.MethodGet, control(t)+path, nil)
	must(t, err)
	do(t, r, into)
}

func do(t *testing.T, r *http.Request, into any) {
	t.Helper()
	response, err := http.DefaultClient.Do(r)
	must(t, err)
	defer response.Body.Close()
	text, err := io.ReadAll(response.Body)
	must(t, err)
	if response.StatusCode >= 300 {
		t.Fatalf("%s: %s: %s", r.URL.Path, response.Status, text)
	}
	must(t, json.Unmarshal(text, into))
}

func must(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}
