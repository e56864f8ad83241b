package main

import (
	"context"
	"fmt"
	"os"
	"regexp"
	"runtime"
	"strings"
)

// machine is where a run took place.
type machine struct {
	Processor  string            `json:"processor"`
	Cores      int               `json:"cores"`
	System     string            `json:"system"`
	Go         string            `json:"go"`
	PostgreSQL string            `json:"postgresql"`
	Settings   map[string]string `json:"postgresql_settings"`
}

func inspectMachine(ctx context.Context, c *cluster) (machine, error) {
	m := machine{
		Processor: runtime.GOARCH, Cores: runtime.NumCPU(), System: runtime.GOOS, Go: runtime.Version(), Settings: settings,
	}
	if text, err := os.ReadFile("/proc/cpuinfo"); err == nil {
		if match := regexp.MustCompile(`(?m)^model name\s*: (.+)$`).FindSubmatch(text); match != nil {
			m.Processor = string(match[1])
		}
	}
	if text, err := os.ReadFile("/proc/sys/kernel/osrelease"); err == nil {
		m.System += " " + strings.TrimSpace(string(text))
	}
	if err := c.admin.QueryRow(ctx, "SHOW server_version").Scan(&m.PostgreSQL); err != nil {
		return machine{}, fmt.Errorf("ask for PostgreSQL's version: %w", err)
	}
	return m, nil
}

func (m machine) String() string {
	return fmt.Sprintf("%d × %s, %s, PostgreSQL %s with durable settings, %s; the load runs on the same machine",
		m.Cores, m.Processor, m.System, m.PostgreSQL, m.Go)
}
