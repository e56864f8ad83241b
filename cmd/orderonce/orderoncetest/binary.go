// Package orderoncetest runs the real command as processes of their own, for the tests that stop, kill and cut them.
// It knows the command line, the HTTP contract and the tables' counts, and nothing of what lies between them. Every
// process that it starts ends with its test, even when the test binary is killed.
package orderoncetest

import (
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"
)

// built are this test binary's builds of the command, by their tags.
var built struct {
	sync.Mutex
	dir      string
	binaries map[string]binary
}

type binary struct {
	path string
	err  error
}

// Binary builds the command with the given build tags, once, and returns the executable's path. RemoveBinaries
// belongs into TestMain.
func Binary(tb testing.TB, tags ...string) string {
	tb.Helper()
	built.Lock()
	defer built.Unlock()
	key := strings.Join(tags, ",")
	b, ok := built.binaries[key]
	if !ok {
		b.path, b.err = build(key)
		if built.binaries == nil {
			built.binaries = map[string]binary{}
		}
		built.binaries[key] = b
	}
	if b.err != nil {
		tb.Fatal(b.err)
	}
	return b.path
}

// RemoveBinaries removes what Binary has built.
func RemoveBinaries() error {
	built.Lock()
	defer built.Unlock()
	if built.dir == "" {
		return nil
	}
	return os.RemoveAll(built.dir)
}

const tempPrefix = "orderonce-binary-"

// abandoned is the age from which a directory is taken for that of a test binary that was killed.
const abandoned = 6 * time.Hour

func build(tags string) (path string, err error) {
	if built.dir == "" {
		removeAbandoned()
		if built.dir, err = os.MkdirTemp("", tempPrefix); err != nil {
			return "", err
		}
	}
	path = filepath.Join(built.dir, "orderonce-"+tags)
	//nolint:noctx // one build serves all tests, so none of them bounds it
	out, err := exec.Command("go", "build", "-buildvcs=false", "-tags="+tags, "-o", path, "orderonce/cmd/orderonce").CombinedOutput()
	if err != nil {
		return "", errors.Join(fmt.Errorf("build the command: %w", err), errors.New(string(out)))
	}
	return path, nil
}

func removeAbandoned() {
	dirs, _ := filepath.Glob(filepath.Join(os.TempDir(), tempPrefix+"*"))
	for _, dir := range dirs {
		if info, err := os.Stat(dir); err == nil && time.Since(info.ModTime()) > abandoned {
			_ = os.RemoveAll(dir) // another user's stays
		}
	}
}
