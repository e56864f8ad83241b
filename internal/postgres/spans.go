package postgres

import (
	"context"
	"errors"
	"strings"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"
	semconv "go.opentelemetry.io/otel/semconv/v1.43.0"
	"go.opentelemetry.io/otel/trace"

	"orderonce/internal/telemetry"
)

// Statements are told of in sampled traces alone. Those of a pipeline run one behind the other in one trip, for several
// units at once: what they took is seen when their answers come, and told to each unit's trace afterwards.

// queryName is the name that sqlc wrote above a statement, and otherwise its first word.
func queryName(sql string) string {
	if rest, ok := strings.CutPrefix(sql, "-- name: "); ok {
		name, _, _ := strings.Cut(rest, " ")
		return name
	}
	word, _, _ := strings.Cut(sql, " ")
	return word
}

func statementAttributes(name string) trace.SpanStartEventOption {
	return trace.WithAttributes(semconv.DBSystemNamePostgreSQL, semconv.DBQuerySummary(name))
}

// statement starts the span of one that is sent by itself.
func statement(ctx context.Context, sql string) (context.Context, trace.Span) {
	if !telemetry.Sampled(ctx) {
		return telemetry.Detail(ctx, "")
	}
	name := queryName(sql)
	return telemetry.Detail(ctx, name, trace.WithSpanKind(trace.SpanKindClient), statementAttributes(name))
}

// ended ends a statement's span. A refusal by the database is not yet a fault of the service: whoever asked decides.
func ended(span trace.Span, err error) {
	if pe := (*pgconn.PgError)(nil); errors.As(err, &pe) && span.IsRecording() {
		span.SetAttributes(semconv.DBResponseStatusCode(pe.Code))
	}
	span.End()
}

// tracedRow ends a statement's span when its row has been read.
func tracedRow(r pgx.Row, span trace.Span) pgx.Row {
	if !span.IsRecording() {
		return r
	}
	return row(func(dest ...any) error {
		err := r.Scan(dest...)
		ended(span, err)
		return err
	})
}

// tracedRows ends a statement's span when its rows are closed.
type tracedRows struct {
	pgx.Rows
	span trace.Span
}

func (r tracedRows) Close() {
	r.Rows.Close()
	ended(r.span, r.Err())
}

// trip is when a pipeline was sent and each of its statements answered; nil where no trace wants to know.
type trip struct {
	sent     time.Time
	answered []time.Time
}

// next is the trip of the statements that follow.
func (t *trip) next() *trip {
	if t == nil {
		return nil
	}
	return &trip{}
}

// tell writes the span of the statement at an index into ctx's trace, if that is sampled and the statement has run.
func (p *pipeline) tell(ctx context.Context, index int, failed error) {
	if p.trip == nil || index >= len(p.trip.answered) || !telemetry.Sampled(ctx) {
		return
	}
	began := p.trip.sent
	if index > 0 {
		began = p.trip.answered[index-1]
	}
	name := queryName(p.batch.QueuedQueries[index].SQL)
	_, span := telemetry.Detail(
		ctx, name, trace.WithTimestamp(began), trace.WithSpanKind(trace.SpanKindClient), statementAttributes(name),
	)
	if pe := (*pgconn.PgError)(nil); errors.As(failed, &pe) && index == len(p.trip.answered)-1 {
		span.SetAttributes(semconv.DBResponseStatusCode(pe.Code))
	}
	span.End(trace.WithTimestamp(p.trip.answered[index]))
}

// tellAll tells a unit's own trace of all its statements. Those that control the transaction are left out, COMMIT
// excepted.
func (p *pipeline) tellAll(ctx context.Context, failed error) {
	for i := range p.kinds {
		if p.kinds[i] != nil {
			p.tell(ctx, i, failed)
		}
	}
}

// tellUnits tells each unit of its own rows' statements.
func (p *pipeline) tellUnits(entries []*entry[*sharer], controls int, failed error) {
	if p.trip == nil {
		return
	}
	for i, e := range entries {
		for _, unit := range e.members {
			if unit.traced {
				p.tell(unit.ctx, controls+i, failed)
			}
		}
	}
}

// tellCommit tells each unit that was not refused of the COMMIT, the last statement, and how many shared it.
func (p *pipeline) tellCommit(entries []*entry[*sharer], refused map[*sharer]*Kind, sharing int, failed error) {
	if p.trip == nil {
		return
	}
	told := map[*sharer]bool{}
	for _, e := range entries {
		for _, unit := range e.members {
			if unit.traced && !told[unit] && refused[unit] == nil {
				told[unit] = true
				trace.SpanFromContext(unit.ctx).SetAttributes(telemetry.Units.Int(sharing))
				p.tell(unit.ctx, len(p.kinds)-1, failed)
			}
		}
	}
}
