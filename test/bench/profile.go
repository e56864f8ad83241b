package main

import (
	"bufio"
	"context"
	"fmt"
	"io"
	"net/http"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"time"

	"golang.org/x/sync/errgroup"
)

// profile begins CPU and allocation profiles of the server for as long as a leg is measured, where they are wanted. What
// it returns waits for their end.
func (s *server) profile(ctx context.Context) (wait func() error) {
	dir := s.stage.options.profile
	if dir == "" {
		return func() error { return nil }
	}
	seconds := strconv.Itoa(int(s.stage.options.measure.Seconds()))
	group, ctx := errgroup.WithContext(ctx)
	for kind, path := range map[string]string{"cpu": "profile", "allocs": "allocs"} {
		group.Go(func() error {
			text, err := s.ask(ctx, "/debug/pprof/"+path+"?seconds="+seconds)
			if err != nil {
				return err
			}
			return writeFile(filepath.Join(dir, fileName(s.stage.turnName)+"-"+kind+".pprof"), text)
		})
	}
	return group.Wait
}

// fileName is a leg's name without what a shell would read.
func fileName(turn string) string {
	return strings.NewReplacer(", ", "-", " ", "-").Replace(turn)
}

// ask gets one page of the server's debug listener.
func (s *server) ask(ctx context.Context, path string) (string, error) {
	if s.debug == "" {
		return "", fmt.Errorf("the server has no debug listener to ask for %s", path)
	}
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, s.debug+path, nil)
	if err != nil {
		return "", err
	}
	response, err := plainClient.Do(request)
	if err != nil {
		return "", err
	}
	defer response.Body.Close()
	text, err := io.ReadAll(response.Body)
	if err == nil && response.StatusCode != http.StatusOK {
		err = fmt.Errorf("%s: %s: %.300s", path, response.Status, text)
	}
	return string(text), err
}

// vitals are what a server holds at one moment.
type vitals struct {
	At         float64 `json:"at_s"`     // from the beginning of the load
	RSS        float64 `json:"rss_mib"`  // all of the process that is in memory; 0 elsewhere than on Linux
	Heap       float64 `json:"heap_mib"` // live objects, after a collection
	Goroutines float64 `json:"goroutines"`
}

const mib = 1 << 20

// vitals looks at the server. It makes the server collect its garbage, so that what is counted is what is held.
func (s *server) vitals(ctx context.Context, began time.Time) (vitals, error) {
	heap, err := s.ask(ctx, "/debug/pprof/heap?debug=1&gc=1")
	if err != nil {
		return vitals{}, err
	}
	goroutines, err := s.ask(ctx, "/debug/pprof/goroutine?debug=1")
	if err != nil {
		return vitals{}, err
	}
	v := vitals{At: time.Since(began).Seconds()}
	if v.Heap, err = numberAfter(heap, "# HeapAlloc = "); err != nil {
		return vitals{}, err
	}
	v.Heap /= mib
	if v.Goroutines, err = numberAfter(goroutines, "goroutine profile: total "); err != nil {
		return vitals{}, err
	}
	// Without /proc it stays empty.
	if status, err := os.ReadFile(fmt.Sprintf("/proc/%d/status", s.cmd.Process.Pid)); err == nil {
		kilobytes, err := numberAfter(string(status), "VmRSS:")
		if err != nil {
			return vitals{}, err
		}
		v.RSS = kilobytes / 1024
	}
	return v, nil
}

// numberAfter reads the number of the line that begins so.
func numberAfter(text, prefix string) (float64, error) {
	for lines := bufio.NewScanner(strings.NewReader(text)); lines.Scan(); {
		if rest, found := strings.CutPrefix(lines.Text(), prefix); found {
			field, _, _ := strings.Cut(strings.TrimSpace(rest), " ")
			return strconv.ParseFloat(field, 64)
		}
	}
	return 0, fmt.Errorf("no line begins with %q", prefix)
}
