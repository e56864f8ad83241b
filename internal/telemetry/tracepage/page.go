package tracepage

import (
	"bytes"
	_ "embed"
	"fmt"
	"html/template"
	"net/http"
	"time"

	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/codes"
	sdktrace "go.opentelemetry.io/otel/sdk/trace"
	"go.opentelemetry.io/otel/trace"

	"orderonce/internal/telemetry"
)

// Path is where the pages are.
const Path = "/debug/traces"

//go:embed list.html
var listSource string

//go:embed trace.html
var traceSource string

//go:embed style.css
var style []byte

var (
	listPage  = template.Must(template.New("list").Parse(listSource))
	tracePage = template.Must(template.New("trace").Parse(traceSource))
)

// Handler answers below Path. The pages run nothing and load nothing but their style sheet.
func (s *Store) Handler() http.Handler {
	routes := http.NewServeMux()
	routes.HandleFunc("GET "+Path, s.list)
	routes.HandleFunc("GET "+Path+"/style.css", func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Type", "text/css; charset=utf-8")
		_, _ = w.Write(style) // the client may be gone
	})
	routes.HandleFunc("GET "+Path+"/{id}", s.show)
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		h := w.Header()
		h.Set("Content-Security-Policy", "default-src 'none'; style-src 'self'; base-uri 'none'; form-action 'none'; frame-ancestors 'none'")
		h.Set("X-Content-Type-Options", "nosniff")
		h.Set("Referrer-Policy", "no-referrer")
		h.Set("Cache-Control", "no-store")
		routes.ServeHTTP(w, r)
	})
}

// line is a trace in the list.
type line struct {
	ID, Name, Outcome, Began, Took string
	Status                         int64
	Spans                          int
	Failed                         bool
}

func (s *Store) list(w http.ResponseWriter, r *http.Request) {
	wanted := r.URL.Query().Get("outcome")
	seen := map[string]bool{}
	var lines []line
	for _, one := range s.latest() {
		l := one.line()
		seen[l.Outcome] = true
		if wanted == "" || l.Outcome == wanted {
			lines = append(lines, l)
		}
	}
	var outcomes []string
	for _, outcome := range []string{
		telemetry.Created, telemetry.Rejected, telemetry.Replayed, telemetry.KeyReused, telemetry.InProgress, telemetry.Invalid,
		telemetry.Denied, telemetry.Failed,
	} {
		if seen[outcome] {
			outcomes = append(outcomes, outcome)
		}
	}
	render(w, listPage, map[string]any{"Path": Path, "Lines": lines, "Outcomes": outcomes, "Wanted": wanted, "Most": mostTraces})
}

func (r *record) line() line {
	outermost := r.outermost()
	began, took := r.extent()
	return line{
		ID: r.id.String(), Name: outermost.Name(), Outcome: value(outermost, telemetry.Outcome).AsString(),
		Status: value(outermost, "http.response.status_code").AsInt64(),
		Began:  began.Format("15:04:05.000"), Took: short(took), Spans: len(r.spans), Failed: outermost.Status().Code == codes.Error,
	}
}

// bar is a span in the waterfall; its place and width are in thousandths of the whole.
type bar struct {
	ID, Name, Kind, Began, Took string
	Indent, Left, Width         int64
	Failed                      bool
	Attributes                  []pair
	Events                      []event
	Links                       []link
}

type pair struct{ Name, Value string }

type event struct {
	Name, At   string
	Attributes []pair
}

// link leads to a span of another trace.
type link struct {
	Trace, Span, Name string
	Known             bool // it is in the store
}

func (s *Store) show(w http.ResponseWriter, r *http.Request) {
	id, err := trace.TraceIDFromHex(r.PathValue("id"))
	found, ok := s.find(id)
	if err != nil || !ok {
		http.Error(w, "This trace is not, or no longer, in the memory of this process.", http.StatusNotFound)
		return
	}
	began, took := found.extent()
	var bars []bar
	for _, row := range found.tree() {
		bars = append(bars, s.bar(row, began, took))
	}
	var linking []link
	for _, span := range s.linking(id) {
		linking = append(linking, s.linkTo(span.SpanContext()))
	}
	render(w, tracePage, map[string]any{
		"Path": Path, "Line": found.line(), "Bars": bars, "Linking": linking, "Dropped": found.dropped,
	})
}

func (s *Store) bar(of row, began time.Time, whole time.Duration) bar {
	const all, least = 1000, 3
	part := func(d time.Duration) int64 { return all * int64(d) / max(int64(whole), 1) }
	took := of.EndTime().Sub(of.StartTime())
	left := min(part(of.StartTime().Sub(began)), all-least)
	b := bar{
		ID: of.SpanContext().SpanID().String(), Name: of.Name(), Kind: of.SpanKind().String(),
		Began: short(of.StartTime().Sub(began)), Took: short(took),
		Indent: int64(12 * of.depth), Left: left, Width: min(max(part(took), least), all-left),
		Failed: of.Status().Code == codes.Error, Attributes: pairs(of.Attributes()),
	}
	for _, e := range of.Events() {
		b.Events = append(b.Events, event{Name: e.Name, At: short(e.Time.Sub(began)), Attributes: pairs(e.Attributes)})
	}
	for _, l := range of.Links() {
		b.Links = append(b.Links, s.linkTo(l.SpanContext))
	}
	return b
}

// linkTo names the span by its trace's outermost one, which is what a person knows.
func (s *Store) linkTo(sc trace.SpanContext) link {
	l := link{Trace: sc.TraceID().String(), Span: sc.SpanID().String()}
	if found, ok := s.find(sc.TraceID()); ok {
		of := found.line()
		l.Known, l.Name = true, of.Name
		if of.Outcome != "" {
			l.Name += ", " + of.Outcome
		}
	}
	return l
}

func render(w http.ResponseWriter, page *template.Template, data any) {
	var text bytes.Buffer
	if err := page.Execute(&text, data); err != nil {
		http.Error(w, "The page cannot be made.", http.StatusInternalServerError)
		return
	}
	w.Header().Set("Content-Type", "text/html; charset=utf-8")
	_, _ = w.Write(text.Bytes()) // the client may be gone
}

func value(span sdktrace.ReadOnlySpan, key attribute.Key) attribute.Value {
	for _, a := range span.Attributes() {
		if a.Key == key {
			return a.Value
		}
	}
	return attribute.Value{}
}

func pairs(attributes []attribute.KeyValue) (all []pair) {
	for _, a := range attributes {
		all = append(all, pair{string(a.Key), a.Value.String()})
	}
	return all
}

func short(d time.Duration) string {
	if d < time.Second {
		return fmt.Sprintf("%.2f ms", float64(d)/float64(time.Millisecond))
	}
	return fmt.Sprintf("%.3f s", d.Seconds())
}
