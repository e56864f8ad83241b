// Package webhooks owns the subscriptions of tenants to their events, and delivers to them in the form of Standard
// Webhooks (https://www.standardwebhooks.com). The addresses are the tenants' own words, so it trusts none of them: not
// the name, not what it resolves to, and no answer. A receiver gets each event at least once under one webhook-id, and
// those of one order in their order.
package webhooks

import (
	"context"
	"errors"
	"fmt"
	"regexp"
	"slices"
	"strings"
	"time"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"

	"orderonce/internal/effects/webhooks/internal/webhooksdb"
	"orderonce/internal/fault"
	"orderonce/internal/postgres"
)

// MaxActive is how many active subscriptions a tenant has: each event is sent to each of them.
const MaxActive = 20

// Subscription is where a tenant wants events sent: all that is known of it but its secrets.
type Subscription struct {
	ID             uuid.UUID  `json:"id"`
	Tenant         uuid.UUID  `json:"tenant_id"`
	Name           string     `json:"name"`
	URL            string     `json:"url"`
	EventTypes     []string   `json:"event_types"` // none: all
	Active         bool       `json:"active"`
	DisabledReason *string    `json:"disabled_reason,omitempty"`
	FailingSince   *time.Time `json:"failing_since,omitempty"` // since when no delivery has reached the receiver
	CreatedAt      time.Time  `json:"created_at"`
}

// Why a subscription gets no events.
const (
	Requested = "requested" // somebody disabled it
	Gone      = "gone"      // its receiver answered 410
	Failing   = "failing"   // its receiver was not reached for GiveUp
)

// Draft is what a new subscription is to be.
type Draft struct {
	Name       string // 1 to 63 of a-z 0-9 . -; the tenant's subscriptions never share one, disabled ones included
	URL        string
	EventTypes []string // none: all, those to come too
}

// EventTypes lists the events that there are.
func EventTypes() []string {
	return []string{
		"orderonce.order.created.v1", "orderonce.order.confirmed.v1", "orderonce.order.rejected.v1", "orderonce.order.cancelled.v1",
	}
}

var nameForm = regexp.MustCompile(`^[a-z0-9][a-z0-9.-]{0,62}$`)

var queries = webhooksdb.New()

// Create makes a subscription and returns the secret that its deliveries are signed with, which cannot be had a second
// time. It finds the tenant's one of this name where that has the same URL and types, and then the secret is empty;
// another one's name is fault.NameTaken. A name, URL or type that cannot be is fault.ValidationFailed, one active
// subscription too many fault.LimitReached.
func Create(ctx context.Context, tx *postgres.Tx, guard Guard, tenant uuid.UUID, draft Draft) (s Subscription, secret string, err error) {
	if draft, err = draft.checked(guard); err != nil {
		return Subscription{}, "", err
	}
	db, err := tx.DB(ctx)
	if err != nil {
		return Subscription{}, "", err
	}
	if s, err = Find(ctx, db, tenant, draft.Name); err == nil {
		return s, "", draft.sameAs(s)
	}
	if fault.KindOf(err) != fault.NotFound {
		return Subscription{}, "", err
	}
	if err := room(ctx, db, tenant); err != nil {
		return Subscription{}, "", err
	}
	id, err := uuid.NewV7()
	if err != nil {
		return Subscription{}, "", err
	}
	now := time.Now()
	rows, err := queries.InsertSubscription(ctx, db, webhooksdb.InsertSubscriptionParams{
		TenantID: tenant, ID: id, Name: draft.Name, Url: draft.URL, EventTypes: draft.EventTypes, CreatedAt: now,
	})
	if err != nil {
		return Subscription{}, "", fmt.Errorf("insert webhook %s: %w", draft.Name, err)
	}
	// Another unit may have made it since it was looked for.
	if s, err = Find(ctx, db, tenant, draft.Name); err != nil {
		return Subscription{}, "", err
	}
	if rows == 0 {
		return s, "", draft.sameAs(s)
	}
	secret, err = addSecret(ctx, db, tenant, id, now)
	return s, secret, err
}

// checked is the draft as it is stored: the types in one order, each once.
func (d Draft) checked(guard Guard) (Draft, error) {
	if !nameForm.MatchString(d.Name) {
		return Draft{}, fault.Invalid("/name", "must be 1 to 63 of a-z 0-9 . -, a letter or digit first")
	}
	if err := guard.CheckURL(d.URL); err != nil {
		return Draft{}, err
	}
	for i, name := range d.EventTypes {
		if !slices.Contains(EventTypes(), name) {
			return Draft{}, fault.Invalid(fmt.Sprintf("/event_types/%d", i), "is none of "+strings.Join(EventTypes(), ", "))
		}
	}
	d.EventTypes = append([]string{}, d.EventTypes...) // never NULL
	slices.Sort(d.EventTypes)
	d.EventTypes = slices.Compact(d.EventTypes)
	return d, nil
}

// sameAs returns fault.NameTaken where the subscription of the draft's name is another one.
func (d Draft) sameAs(s Subscription) error {
	switch {
	case s.URL != d.URL:
		return fault.New(fault.NameTaken, "There is a webhook of this name with another URL.")
	case !slices.Equal(s.EventTypes, d.EventTypes):
		return fault.New(fault.NameTaken, "There is a webhook of this name with other event types.")
	}
	return nil
}

// room returns fault.LimitReached where no further subscription may become active. Several units at once may each find
// the last place: the limit keeps deliveries few, and a few more do no harm.
func room(ctx context.Context, db postgres.DBTX, tenant uuid.UUID) error {
	active, err := queries.CountActiveSubscriptions(ctx, db, tenant)
	if err != nil {
		return fmt.Errorf("count the active webhooks: %w", err)
	}
	if active >= MaxActive {
		return fault.New(fault.LimitReached, fmt.Sprintf("There are %d active webhooks, and no more may be.", active))
	}
	return nil
}

// Enable lets a subscription get events again, from those on that are dispatched next. An unknown one is
// fault.NotFound, one too many fault.LimitReached. changed says whether it was disabled.
func Enable(ctx context.Context, tx *postgres.Tx, tenant, id uuid.UUID) (s Subscription, changed bool, err error) {
	return change(ctx, tx, tenant, id, func(ctx context.Context, db postgres.DBTX, s Subscription) (int64, error) {
		if !s.Active {
			if err := room(ctx, db, tenant); err != nil {
				return 0, err
			}
		}
		return queries.EnableSubscription(ctx, db, webhooksdb.EnableSubscriptionParams{TenantID: tenant, ID: id})
	})
}

// Disable lets a subscription get no event any more; those that wait to be sent to it end as failed. An unknown one is
// fault.NotFound. changed says whether it was active.
func Disable(ctx context.Context, tx *postgres.Tx, tenant, id uuid.UUID, reason string) (s Subscription, changed bool, err error) {
	return change(ctx, tx, tenant, id, func(ctx context.Context, db postgres.DBTX, _ Subscription) (int64, error) {
		return queries.DisableSubscription(ctx, db, webhooksdb.DisableSubscriptionParams{TenantID: tenant, ID: id, Reason: reason})
	})
}

func change(
	ctx context.Context, tx *postgres.Tx, tenant, id uuid.UUID,
	write func(context.Context, postgres.DBTX, Subscription) (int64, error),
) (s Subscription, changed bool, err error) {
	db, err := tx.DB(ctx)
	if err != nil {
		return Subscription{}, false, err
	}
	row, err := queries.LockSubscription(ctx, db, webhooksdb.LockSubscriptionParams{TenantID: tenant, ID: id})
	if s, err = found(row, err); err != nil {
		return Subscription{}, false, err
	}
	rows, err := write(ctx, db, s)
	if fault.KindOf(err) == fault.LimitReached {
		return Subscription{}, false, err
	}
	if err != nil {
		return Subscription{}, false, fmt.Errorf("change webhook %s: %w", id, err)
	}
	s, err = Read(ctx, db, tenant, id)
	return s, rows > 0, err
}

// Find returns fault.NotFound where the tenant has no subscription of this name.
func Find(ctx context.Context, db postgres.DBTX, tenant uuid.UUID, name string) (Subscription, error) {
	row, err := queries.FindSubscription(ctx, db, webhooksdb.FindSubscriptionParams{TenantID: tenant, Name: name})
	return found(row, err)
}

// Read returns fault.NotFound where the tenant has no subscription of this id.
func Read(ctx context.Context, db postgres.DBTX, tenant, id uuid.UUID) (Subscription, error) {
	row, err := queries.ReadSubscription(ctx, db, webhooksdb.ReadSubscriptionParams{TenantID: tenant, ID: id})
	return found(row, err)
}

// List reads up to size of a tenant's subscriptions that are older than before, newest first, disabled ones too. more
// says whether there are others behind them. uuid.Max begins at the newest.
func List(ctx context.Context, db postgres.DBTX, tenant, before uuid.UUID, size int32) (page []Subscription, more bool, err error) {
	rows, err := queries.ListSubscriptions(ctx, db, webhooksdb.ListSubscriptionsParams{
		TenantID: tenant, Before: before, PageSize: size + 1,
	})
	if err != nil {
		return nil, false, fmt.Errorf("list webhooks: %w", err)
	}
	if more = len(rows) > int(size); more {
		rows = rows[:size]
	}
	page = make([]Subscription, len(rows))
	for i, row := range rows {
		page[i] = subscriptionOf(row)
	}
	return page, more, nil
}

func found(row webhooksdb.WebhookSubscription, err error) (Subscription, error) {
	if errors.Is(err, pgx.ErrNoRows) {
		return Subscription{}, fault.New(fault.NotFound, "There is no such webhook.")
	}
	if err != nil {
		return Subscription{}, fmt.Errorf("read a webhook: %w", err)
	}
	return subscriptionOf(row), nil
}

func subscriptionOf(row webhooksdb.WebhookSubscription) Subscription {
	return Subscription{
		ID: row.ID, Tenant: row.TenantID, Name: row.Name, URL: row.Url, EventTypes: row.EventTypes, Active: row.Active,
		DisabledReason: row.DisabledReason, FailingSince: row.FailingSince, CreatedAt: row.CreatedAt,
	}
}
