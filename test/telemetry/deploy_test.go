package telemetry

import (
	"encoding/json"
	"log/slog"
	"net/http/httptest"
	"os"
	"regexp"
	"strings"
	"testing"
	"time"

	"go.yaml.in/yaml/v3"

	"orderonce/internal/telemetry"
)

const deploy = "../../deploy/observability/"

// exposed are the names of all metrics that a server can have: each is recorded once.
func exposed(t *testing.T) map[string]bool {
	t.Helper()
	ctx := t.Context()
	tells, err := telemetry.New(ctx, telemetry.Config{Metrics: true, Endpoint: "http://127.0.0.1:1"}, slog.New(slog.DiscardHandler))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = tells.Close(ctx) }) // nobody is there to take what is left
	tells.Request(ctx, "createOrder", telemetry.Created)
	tells.Waited(ctx, time.Second)
	tells.Overdue(ctx, time.Second)
	tells.Outbox(ctx, 1, time.Second)
	tells.Dispatched(ctx, time.Second)
	tells.EffectAttempt(ctx, "payment", "done")
	tells.Effects(ctx, "payment", "unknown", 1)
	tells.UnknownEffects(ctx, time.Second)
	tells.Tasks(ctx, "processing", 1)
	tells.UnfinishedTasks(ctx, time.Second)
	tells.Looked(ctx)
	tells.Answered(ctx, "POST", "/orders", 201, "", time.Second)
	text := scrapeOf(t, tells)
	// What the server registers when it has something to read: of a whole one.
	text += setup(t).scraped("")
	names := map[string]bool{}
	for line := range strings.Lines(text) {
		if name, ok := strings.CutPrefix(line, "# TYPE "); ok {
			name, kind, _ := strings.Cut(strings.TrimSpace(name), " ")
			names[name] = true
			if kind == "histogram" {
				names[name+"_bucket"], names[name+"_sum"], names[name+"_count"] = true, true, true
			}
		}
	}
	return names
}

func scrapeOf(t *testing.T, tells *telemetry.Telemetry) string {
	t.Helper()
	w := httptest.NewRecorder()
	tells.Handler().ServeHTTP(w, httptest.NewRequestWithContext(t.Context(), "GET", "/metrics", nil))
	return w.Body.String()
}

var metricName = regexp.MustCompile(`\b(orderonce|http|db|go)_[a-z0-9_]+\b`)

// notMetrics are words of expressions that only look like one.
var notMetrics = regexp.MustCompile(`^(http_route|http_request_method|http_response_status_code|db_client_connection_(pool_name|state))$`)

// Each metric that the dashboard, the alerts and their tests speak of is one that the server exposes.
func TestWhatIsDeployedSpeaksOfMetricsThatAreThere(t *testing.T) {
	t.Parallel()
	names := exposed(t)
	var used int
	for _, expression := range append(alertsOf(t).expressions(), dashboardOf(t).expressions()...) {
		for _, name := range metricName.FindAllString(labelled.ReplaceAllString(expression, ""), -1) {
			if used++; !names[name] && !notMetrics.MatchString(name) {
				t.Errorf("there is no metric %s, which is in %s", name, expression)
			}
		}
	}
	if used < 40 {
		t.Errorf("only %d names were found: is the pattern still right?", used)
	}
}

// labelled are the strings that stand for labels' values.
var labelled = regexp.MustCompile(`"[^"]*"`)

type rules struct {
	Groups []struct {
		Name  string
		Rules []struct {
			Alert       string
			Expr        string
			Labels      map[string]string
			Annotations map[string]string
		}
	}
}

func alertsOf(t *testing.T) (r rules) {
	t.Helper()
	must(t, yaml.Unmarshal(file(t, deploy+"orderonce.rules.yml"), &r))
	return r
}

func (r rules) expressions() (all []string) {
	for _, group := range r.Groups {
		for _, rule := range group.Rules {
			all = append(all, rule.Expr)
		}
	}
	return all
}

// Each alert says how bad it is, who acts and where the runbook is, has one there, and a test that fires it and one that
// does not.
func TestEachAlertHasARunbookAndTests(t *testing.T) {
	t.Parallel()
	text, tests := string(file(t, page)), string(file(t, deploy+"orderonce.rules.test.yml"))
	for _, group := range alertsOf(t).Groups {
		for _, rule := range group.Rules {
			if rule.Labels["severity"] == "" || rule.Labels["owner"] == "" || rule.Annotations["summary"] == "" {
				t.Errorf("%s does not say how bad it is, whose it is, or what", rule.Alert)
			}
			if want := "docs/observability.md#" + strings.ToLower(rule.Alert); rule.Annotations["runbook_url"] != want {
				t.Errorf("the runbook of %s is at %s", rule.Alert, rule.Annotations["runbook_url"])
			}
			if !strings.Contains(text, "\n### "+rule.Alert+"\n") {
				t.Errorf("docs/observability.md has no runbook for %s", rule.Alert)
			}
			for _, test := range []string{" fires", " is silent"} {
				if !strings.Contains(tests, "- name: "+rule.Alert+test+"\n") {
					t.Errorf("no test says that %s%s", rule.Alert, test)
				}
			}
		}
	}
}

type dashboard struct {
	Panels []panel
}

type panel struct {
	ID                 int
	Type               string
	Title, Description string
	GridPos            struct{ H, W, X, Y int }
	Targets            []struct{ Expr string }
}

func dashboardOf(t *testing.T) (d dashboard) {
	t.Helper()
	must(t, json.Unmarshal(file(t, deploy+"dashboard.json"), &d))
	return d
}

func (d dashboard) expressions() (all []string) {
	for _, p := range d.Panels {
		for _, target := range p.Targets {
			all = append(all, target.Expr)
		}
	}
	return all
}

// The dashboard is whole: each panel asks for something, says what it means, and covers no other.
func TestDashboardIsWhole(t *testing.T) {
	t.Parallel()
	taken := map[[2]int]string{}
	ids := map[int]bool{}
	for _, p := range dashboardOf(t).Panels {
		if ids[p.ID] {
			t.Errorf("two panels have the id %d", p.ID)
		}
		ids[p.ID] = true
		if p.Type != "row" && (p.Title == "" || p.Description == "" || len(p.Targets) == 0) {
			t.Errorf("panel %d (%s) has no title, no description or nothing to show", p.ID, p.Title)
		}
		for x := p.GridPos.X; x < p.GridPos.X+p.GridPos.W; x++ {
			for y := p.GridPos.Y; y < p.GridPos.Y+p.GridPos.H; y++ {
				if other, ok := taken[[2]int{x, y}]; ok || x >= 24 {
					t.Fatalf("%s covers %s, or leaves the page", p.Title, other)
				}
				taken[[2]int{x, y}] = p.Title
			}
		}
	}
}

// The collector's example is what it is called: every component that a pipeline names is there.
func TestCollectorExampleIsWhole(t *testing.T) {
	t.Parallel()
	var c struct {
		Receivers, Processors, Exporters map[string]any
		Service                          struct {
			Pipelines map[string]struct{ Receivers, Processors, Exporters []string }
		}
	}
	must(t, yaml.Unmarshal(file(t, deploy+"collector.yaml"), &c))
	if len(c.Service.Pipelines) != 2 {
		t.Errorf("%d pipelines", len(c.Service.Pipelines))
	}
	for name, pipeline := range c.Service.Pipelines {
		for _, part := range []struct {
			there map[string]any
			named []string
		}{{c.Receivers, pipeline.Receivers}, {c.Processors, pipeline.Processors}, {c.Exporters, pipeline.Exporters}} {
			for _, component := range part.named {
				if _, ok := part.there[component]; !ok {
					t.Errorf("the pipeline of %s names %s, which is not there", name, component)
				}
			}
		}
	}
}

func file(t *testing.T, path string) []byte {
	t.Helper()
	text, err := os.ReadFile(path)
	must(t, err)
	return text
}

func must(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}
