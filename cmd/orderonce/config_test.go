package main

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/spf13/cobra"
	"go.yaml.in/yaml/v3"

	"orderonce/internal/telemetry"
)

// A flag wins over the environment, the environment over the file, the file over the default: for every setting
// there is, so that a new one cannot be left out of a layer.
func TestEverySettingTakesItsValueFromTheNearestLayer(t *testing.T) {
	t.Parallel()
	from := func(layer string) map[string]string {
		values := map[string]string{}
		for _, s := range settings {
			values[s.name] = layer
			if s.secret() {
				values[s.name] = "(set)" // as it is shown
			}
		}
		values["database-url"] = "postgres://" + layer + "/shop"
		return values
	}
	file, err := yaml.Marshal(from("file"))
	must(t, err)
	path := filepath.Join(t.TempDir(), "settings.yaml")
	must(t, os.WriteFile(path, file, 0o600))
	var environment, flags []string
	for name, value := range from("environment") {
		environment = append(environment, envPrefix+strings.ToUpper(strings.ReplaceAll(name, "-", "_"))+"="+value)
	}
	for name, value := range from("flag") {
		flags = append(flags, "--"+name+"="+value)
	}
	defaults := map[string]string{}
	for _, s := range settings {
		defaults[s.name] = s.value
	}
	for name, c := range map[string]struct {
		env, args []string
		want      map[string]string
	}{
		"nothing":                            {want: defaults},
		"the file":                           {args: []string{"--config=" + path}, want: from("file")},
		"the environment":                    {env: environment, want: from("environment")},
		"the environment over the file":      {env: environment, args: []string{"--config=" + path}, want: from("environment")},
		"flags over the file":                {args: append([]string{"--config=" + path}, flags...), want: from("flag")},
		"flags over environment and file":    {env: environment, args: append([]string{"--config=" + path}, flags...), want: from("flag")},
		"a variable that is no setting's":    {env: []string{"ORDERONCE_TEST_DATABASE_URL=x"}, want: defaults},
		"a variable without the prefix":      {env: []string{"LISTEN=0.0.0.0:80"}, want: defaults},
		"an argument that repeats a default": {args: []string{"--max-body=262144"}, want: defaults},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			// Most of these values are no valid ones: print shows them first and then says what is wrong with them.
			_, stdout, _ := run(t, c.env, append([]string{"config", "print"}, c.args...)...)
			var got map[string]string
			must(t, yaml.Unmarshal([]byte(stdout), &got))
			if diff := cmp.Diff(c.want, got); diff != "" {
				t.Errorf("(-want +got)\n%s", diff)
			}
		})
	}
}

// What print prints is a file that --config takes.
func TestConfigPrintIsASettingsFile(t *testing.T) {
	t.Parallel()
	status, stdout, stderr := run(t, nil, "config", "print")
	if status != 0 {
		t.Fatalf("status %d: %s", status, stderr)
	}
	path := filepath.Join(t.TempDir(), "settings.yaml")
	must(t, os.WriteFile(path, []byte(stdout), 0o600))
	status, again, stderr := run(t, nil, "config", "print", "--config="+path)
	if status != 0 || again != stdout {
		t.Errorf("status %d: %s\n%s", status, stderr, again)
	}
}

// Dev has defaults of its own. They are defaults: everything else wins over them.
func TestACommandsOwnDefaults(t *testing.T) {
	t.Parallel()
	path := filepath.Join(t.TempDir(), "settings.yaml")
	must(t, os.WriteFile(path, []byte("drain-delay: 7s\n"), 0o600))
	for name, c := range map[string]struct {
		cmd  *cobra.Command
		args []string
		want time.Duration
	}{
		"serve":            {serveCommand(), nil, 2 * time.Second},
		"dev":              {devCommand(), nil, 0},
		"dev with a file":  {devCommand(), []string{"--config=" + path}, 7 * time.Second},
		"dev with a flag":  {devCommand(), []string{"--config=" + path, "--drain-delay=9s"}, 9 * time.Second},
		"dev, flag of 2 s": {devCommand(), []string{"--drain-delay=2s"}, 2 * time.Second},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			must(t, c.cmd.ParseFlags(c.args))
			got, err := loadConfig(c.cmd.Flags())
			must(t, err)
			if got.DrainDelay != c.want {
				t.Errorf("drain-delay is %s, want %s", got.DrainDelay, c.want)
			}
		})
	}
}

// Whoever starts a server with ten mistakes is told ten, and not one after each restart.
func TestEveryMistakeIsNamedAtOnce(t *testing.T) {
	t.Parallel()
	status, _, stderr := run(t, []string{"ORDERONCE_MAX_CONNECTIONS=0"}, "serve", "--max-body=many",
		"--log-level=loud", "--drain-delay=-1s", "--stop-timeout=5", "--body-timeout=1h",
		"--tenant-rate=-1", "--tenant-burst=-1", "--cors-origins=*,https://shop.example/")
	if status != 1 {
		t.Errorf("status %d, want 1", status)
	}
	lines := strings.Split(strings.TrimSpace(stderr), "\n")
	for _, name := range []string{
		"max-connections", "max-body", "log-level", "drain-delay", "stop-timeout", "body-timeout", "tenant-rate", "tenant-burst",
		`cors-origins: "*"`, `cors-origins: "https://shop.example/"`,
	} {
		if !strings.Contains(stderr, "orderonce: "+name) {
			t.Errorf("%s is not named in\n%s", name, stderr)
		}
	}
	if len(lines) != 10 {
		t.Errorf("ten mistakes in %d lines:\n%s", len(lines), stderr)
	}
}

func TestUnknownSettingsOfAFileAreRefused(t *testing.T) {
	t.Parallel()
	path := filepath.Join(t.TempDir(), "settings.yaml")
	must(t, os.WriteFile(path, []byte("max-boddy: 1\nlisten: 127.0.0.1:0\nlog:\n  level: info\n"), 0o600))
	status, _, stderr := run(t, nil, "config", "print", "--config="+path)
	if status != 1 || !strings.Contains(stderr, `"max-boddy"`) || !strings.Contains(stderr, `"log.level"`) ||
		!strings.Contains(stderr, path) || strings.Contains(stderr, `"listen"`) {
		t.Errorf("status %d: %s", status, stderr)
	}
}

// Each bound is shorter than the one outside it. Equal is not shorter: either of the two could fire first.
func TestBoundsAreNested(t *testing.T) {
	t.Parallel()
	for _, pair := range [][2]string{
		{"acquire-timeout", "statement-timeout"},
		{"statement-timeout", "idle-in-transaction-timeout"},
		{"idle-in-transaction-timeout", "unit-deadline"},
		{"unit-deadline", "request-timeout"},
		{"body-timeout", "request-timeout"},
	} {
		t.Run(pair[0], func(t *testing.T) {
			t.Parallel()
			cmd := serveCommand()
			outer := cmd.Flags().Lookup(pair[1]).Value.String()
			must(t, cmd.ParseFlags([]string{"--" + pair[0] + "=" + outer}))
			_, err := loadConfig(cmd.Flags())
			want := pair[0] + " (" + outer + ") must be shorter than " + pair[1] + " (" + outer + ")"
			if err == nil || !strings.Contains(err.Error(), want) {
				t.Errorf("got %v, want %s", err, want)
			}
		})
	}
}

// The innermost bound is the contract's own: how long a duplicate waits for the first.
func TestStatementTimeoutCoversTheLongestWait(t *testing.T) {
	t.Parallel()
	cmd := serveCommand()
	must(t, cmd.ParseFlags([]string{"--acquire-timeout=1s", "--statement-timeout=2s"}))
	c, err := loadConfig(cmd.Flags())
	must(t, err)
	c.DatabaseURL = databaseOfTest(t)
	_, err = newApp(t.Context(), c, newLogger(cmd, c), telemetry.Off())
	if err == nil || !strings.Contains(err.Error(), "wait in openapi.yaml (2s) must be shorter than statement-timeout (2s)") {
		t.Errorf("got %v", err)
	}
}

// No password leaves, neither where the settings are shown nor where they do not work.
func TestPasswordsAreNotShown(t *testing.T) {
	t.Parallel()
	const secret = "s3cret"
	for name, url := range map[string]string{
		"in the authority":      "postgres://shop:" + secret + "@127.0.0.1:1/shop?sslmode=disable",
		"in the query":          "postgres://127.0.0.1:1/shop?user=shop&sslmode=disable&password=" + secret,
		"in both":               "postgresql://shop:" + secret + "@127.0.0.1:1/shop?password=" + secret,
		"as key and value":      "host=127.0.0.1 port=1 user=shop sslmode=disable password=" + secret,
		"in what is no URL":     "postgres://shop:" + secret + "@127.0.0.1:port/shop",
		"in an unknown setting": "postgres://shop:" + secret + "@127.0.0.1:1/shop?sslmode=" + "never",
		"without a scheme":      "shop:" + secret + "@127.0.0.1:1/shop",
		"of a client's key":     "postgres://127.0.0.1:1/shop?sslmode=disable&sslpassword=" + secret,
		"with a bad escape":     "postgres://shop:" + secret + "%zz@127.0.0.1:1/shop",
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			environment := []string{"ORDERONCE_DATABASE_URL=" + url}
			for _, args := range [][]string{{"config", "print"}, {"serve"}, {"migrate", "up"}, {"dev"}} {
				status, stdout, stderr := run(t, environment, args...)
				if strings.Contains(stdout+stderr, secret) {
					t.Errorf("%v shows it:\n%s%s", args, stdout, stderr)
				}
				if args[0] != "config" && status != 1 {
					t.Errorf("%v ends with status %d:\n%s", args, status, stderr)
				}
			}
		})
	}
	if got := redacted("postgres://shop:" + secret + "@db:5432/shop?sslmode=disable"); got != "postgres://shop:xxxxx@db:5432/shop?sslmode=disable" { //nolint:gosec // as it is shown
		t.Errorf("what is no secret is lost: %s", got)
	}
	// A password with a character that ought to be escaped is read as something else.
	for _, url := range []string{
		"postgres://shop:5432/" + secret + "@db/shop", "postgres://shop:5432?" + secret + "@db/shop", "postgres://shop:5432#" + secret + "@db/shop",
		"postgres:shop:" + secret + "@db/shop", "postgres:/shop:" + secret + "@db/shop", "shop:" + secret + "@db/shop",
	} {
		if got := redacted(url); got != "(set)" {
			t.Errorf("%s is shown as %s", url, got)
		}
	}
}

func must(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}
