package main

import (
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"

	"orderonce/internal/load"
	"orderonce/internal/postgres/postgrestest"
)

func TestMain(m *testing.M) {
	if len(os.Args) == 2 && os.Args[1] == loadFlag { // a run under test starts its generators from this binary
		main()
		return
	}
	postgrestest.Main(m)
}

// A whole run in miniature, on a server of its own: most legs, none of pgbench, the storm, the growth and
// the soak. Every one of them counts its answers against the rows, and fails the run where they differ.
func TestARunInMiniature(t *testing.T) {
	t.Parallel()
	if testing.Short() {
		t.Skip("it takes seconds")
	}
	dir := t.TempDir()
	err := run(t.Context(), options{
		table: true, storm: true, worker: true, growth: []int{1000, 2000}, soak: 2 * time.Second,
		rounds: 1, measure: time.Second, warmup: 200 * time.Millisecond,
		only: regexp.MustCompile(`create c16|without RLS|replay db|static|beside|catching`),
		out:  filepath.Join(dir, "all.json"), svg: filepath.Join(dir, "all.svg"), profile: filepath.Join(dir, "profiles"),
	})
	if err != nil {
		t.Fatal(err)
	}
	if err := render([]string{filepath.Join(dir, "all.json")}, filepath.Join(dir, "again.svg")); err != nil {
		t.Fatal(err)
	}
	first, err := os.ReadFile(filepath.Join(dir, "all.svg"))
	if err != nil {
		t.Fatal(err)
	}
	if again, err := os.ReadFile(filepath.Join(dir, "again.svg")); err != nil || string(again) != string(first) {
		t.Errorf("the picture of the JSON is not that of the run: %v", err)
	}
	for _, name := range []string{"create-c16-round-1-cpu.pprof", "create-c16-round-1-allocs.pprof"} {
		if text, err := os.ReadFile(filepath.Join(dir, "profiles", name)); err != nil || len(text) == 0 {
			t.Errorf("%s: %v", name, err)
		}
	}
}

func connect(t *testing.T) *database {
	t.Helper()
	url := postgrestest.URL(t)
	db, err := pgx.Connect(t.Context(), url)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = db.Close(t.Context()) })
	return &database{url: url, db: db}
}

// PostgreSQL and the load generator count to the same ids.
func TestCountedIDsAreTheSameInSQL(t *testing.T) {
	t.Parallel()
	d := connect(t)
	if _, err := d.db.Exec(t.Context(), fmt.Sprintf(counting, "", "", "orders", "currency")); err != nil {
		t.Fatal(err)
	}
	for _, i := range []int{0, 1, 15, 16, 17, 123_456, 4_999_999} {
		const begin = 1_790_000_000_123
		var id string
		if err := d.db.QueryRow(t.Context(), "SELECT pg_temp.id('order', $1, $2)::text", begin, i).Scan(&id); err != nil {
			t.Fatal(err)
		}
		if want := load.ID("order", begin, i).String(); id != want {
			t.Errorf("the %dth is %s in SQL and %s in Go", i, id, want)
		}
	}
}

func TestRowLevelSecurityIsSwitched(t *testing.T) {
	t.Parallel()
	d := connect(t)
	if _, err := d.db.Exec(t.Context(), "ALTER TABLE orders ENABLE ROW LEVEL SECURITY"); err != nil {
		t.Fatal(err)
	}
	guarded := func() []string {
		tables, err := d.guarded(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		return tables
	}
	before := guarded()
	if !slices.Contains(before, "orders") {
		t.Fatalf("guarded are %v", before)
	}
	for _, on := range []bool{false, true} {
		if err := d.guard(t.Context(), before, on); err != nil {
			t.Fatal(err)
		}
		if got := guarded(); on && !slices.Equal(got, before) || !on && len(got) > 0 {
			t.Errorf("switched %t, guarded are %v", on, got)
		}
	}
}
