package localpg

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
)

// BinEnv names the environment variable that, when set, is the only folder in which PostgreSQL is looked for.
const BinEnv = "ORDERONCE_POSTGRES_BIN"

// oldest is the first major version that this product's SQL runs on.
const oldest = 15

// Binaries is an installation of PostgreSQL: a folder that has both initdb and postgres, of one version.
type Binaries struct {
	Dir   string // without symbolic links, because the two find each other and their libraries from there
	Major int    // 15 for PostgreSQL 15.14
}

// Find returns the PostgreSQL that a new cluster would be made with. It looks in $ORDERONCE_POSTGRES_BIN
// alone if that is set, else in PATH, in Debian's /usr/lib/postgresql (highest version first) and in what
// make postgres unpacked. The error says what was wrong with each folder and names the command that
// installs one.
func Find(ctx context.Context) (Binaries, error) {
	found, err := findAll(ctx)
	if err != nil {
		return Binaries{}, err
	}
	return found[0], nil
}

// findAll returns every usable installation, the preferred one first; at least one if there is no error.
func findAll(ctx context.Context) ([]Binaries, error) {
	if dir := os.Getenv(BinEnv); dir != "" {
		bin, err := inspect(ctx, dir)
		if err != nil {
			return nil, fmt.Errorf("%s is set: %w; correct it, or unset it and run: make postgres", BinEnv, err)
		}
		return []Binaries{bin}, nil
	}

	var found []Binaries
	var unusable []error
	for _, dir := range places() {
		bin, err := inspect(ctx, dir)
		switch {
		case err != nil:
			unusable = append(unusable, err)
		case !slices.Contains(found, bin):
			found = append(found, bin)
		}
	}
	if len(found) > 0 {
		return found, nil
	}
	missing := errors.New("no PostgreSQL on this machine, install one with: make postgres")
	return nil, errors.Join(append([]error{missing}, unusable...)...)
}

// forCluster picks the installation that can open a cluster made by the given major version, or, for a
// cluster yet to be made (0), the preferred one. PostgreSQL never opens another major version's files.
func forCluster(ctx context.Context, home home, major int) (Binaries, error) {
	found, err := findAll(ctx)
	if err != nil {
		return Binaries{}, err
	}
	for _, bin := range found {
		if major == 0 || bin.Major == major {
			return bin, nil
		}
	}
	return Binaries{}, fmt.Errorf("%s was made by PostgreSQL %d, but here is only PostgreSQL %d (%s): "+
		"install version %d and set %s to its bin folder, or remove %s to start again without its data",
		home.data(), major, found[0].Major, found[0].Dir, major, BinEnv, home.dir)
}

// places lists the folders that may hold PostgreSQL, preferred ones first; all of them exist.
func places() []string {
	var dirs []string
	for _, name := range []string{"postgres", "initdb"} {
		if path, err := exec.LookPath(name); err == nil {
			dirs = append(dirs, filepath.Dir(real(path)))
		}
	}
	dirs = append(dirs, newestFirst(matches("/usr/lib/postgresql", "*/bin"))...)
	if own, err := ownRoot(); err == nil {
		dirs = append(dirs, newestFirst(matches(filepath.Join(own, "postgresql"), "*/native/bin"))...)
	}
	return slices.Compact(dirs)
}

var numbers = regexp.MustCompile(`\d+`)

// newestFirst sorts folders by the numbers in their names, so that 18.10 comes before 18.9.
func newestFirst(dirs []string) []string {
	version := func(dir string) (v []int) {
		for _, digits := range numbers.FindAllString(dir, -1) {
			n, _ := strconv.Atoi(digits)
			v = append(v, n)
		}
		return v
	}
	slices.SortFunc(dirs, func(a, b string) int { return slices.Compare(version(b), version(a)) })
	return dirs
}

var versionOutput = regexp.MustCompile(`\(PostgreSQL\) (\d+)`)

// inspect asks the binaries for their version, which also shows that they run on this machine at all.
func inspect(ctx context.Context, dir string) (Binaries, error) {
	bin := Binaries{Dir: real(dir)}
	for _, name := range []string{"postgres", "initdb"} {
		out, err := exec.CommandContext(ctx, filepath.Join(bin.Dir, name), "--version").CombinedOutput()
		if err != nil {
			return Binaries{}, fmt.Errorf("%s cannot be used: %w %s", dir, err, strings.TrimSpace(string(out)))
		}
		match := versionOutput.FindSubmatch(out)
		if match == nil {
			return Binaries{}, fmt.Errorf("%s cannot be used: %s --version says %q", dir, name, out)
		}
		major, err := strconv.Atoi(string(match[1]))
		if err != nil {
			return Binaries{}, fmt.Errorf("%s cannot be used: %w", dir, err)
		}
		if bin.Major != 0 && bin.Major != major {
			return Binaries{}, fmt.Errorf("%s cannot be used: postgres is version %d, initdb is %d", dir, bin.Major, major)
		}
		bin.Major = major
	}
	if bin.Major < oldest {
		return Binaries{}, fmt.Errorf("%s cannot be used: version %d, at least %d is needed", dir, bin.Major, oldest)
	}
	return bin, nil
}

func (b Binaries) path(name string) string { return filepath.Join(b.Dir, name) }

// real resolves symbolic links; a path that cannot be resolved fails at its use, with a better error.
func real(path string) string {
	if resolved, err := filepath.EvalSymlinks(path); err == nil {
		path = resolved
	}
	if abs, err := filepath.Abs(path); err == nil {
		path = abs
	}
	return path
}
