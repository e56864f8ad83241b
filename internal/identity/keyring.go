// Package identity owns tenants, principals and their credentials, and says who is asking and what they may do. It
// knows no resource. The database of this moment is the truth: a credential remembered in memory says who asks, and
// counts only together with the row that confirms it (Principal.Confirm) in the transaction that acts.
package identity

import (
	"context"
	"crypto/subtle"
	"errors"
	"fmt"
	"slices"

	"github.com/google/uuid"
	lru "github.com/hashicorp/golang-lru/v2"
	"github.com/jackc/pgx/v5"

	"orderonce/internal/fault"
	"orderonce/internal/identity/internal/identitydb"
	"orderonce/internal/identity/oidc"
	"orderonce/internal/postgres"
)

// remembered bounds how many credentials are kept in memory: about 300 bytes each.
const remembered = 10_000

var queries = identitydb.New()

// Principal is who is asking: a machine client or a user of one tenant, with the scopes of the credential shown.
type Principal struct {
	Tenant uuid.UUID
	ID     uuid.UUID

	scopes     []string
	credential token       // of an API key
	signed     *oidc.Token // nil for an API key
}

// Authorise returns fault.Forbidden where the credential lacks the scope.
func (p Principal) Authorise(scope string) error {
	if !slices.Contains(p.scopes, scope) {
		return fault.New(fault.Forbidden, "The credential lacks the scope "+scope+".")
	}
	return nil
}

// Ended is the fault.Unauthenticated of a credential that gave access once: the secret is right, but the key was revoked
// or has expired, or its principal or tenant is not active any more.
type Ended struct {
	Principal Principal
	fault     *fault.Error
}

func (e *Ended) Error() string { return e.fault.Error() }
func (e *Ended) Unwrap() error { return e.fault }

// Credential is the kind of the row that confirms a remembered credential. Refused by it means: authenticate anew.
var Credential = &postgres.Kind{Name: "credential", Rank: postgres.RankCredential, Check: true, Busy: fault.Busy}

// Confirm is the row that lets a unit of work happen only where the credential still lives and still holds scope, by
// the database of that moment. It rides in the unit's first round trip and costs none of its own.
func (p Principal) Confirm(scope string) postgres.Staged {
	if p.signed != nil {
		return postgres.Staged{Kind: Credential, Row: standing{principal: p, scope: scope}}
	}
	return postgres.Staged{Kind: Credential, Row: confirmation{principal: p, scope: scope}}
}

type confirmation struct {
	principal Principal
	scope     string
}

func (c confirmation) Write(ctx context.Context, db postgres.DBTX) error {
	return queries.ConfirmCredential(ctx, db, identitydb.ConfirmCredentialParams{
		TenantID: c.principal.Tenant, ID: c.principal.credential.id,
		SecretHash: c.principal.credential.hash[:], Scope: c.scope,
	})
}

// LockOrder is all that the check looks at: equal ones are one.
func (c confirmation) LockOrder() string {
	return string(c.principal.credential.id[:]) + string(c.principal.credential.hash[:]) + c.scope
}

// Undo has nothing to take back.
func (confirmation) Undo(context.Context, postgres.DBTX) error { return nil }

// Keyring tells principals by their credentials: API keys, and the tokens of an issuer that it was told to trust. Safe
// for concurrent use.
type Keyring struct {
	db    *postgres.DB
	known *lru.Cache[uuid.UUID, Principal]
	trust *trust // nil where no issuer is trusted
	uses  uses
}

// NewKeyring reads keys from db, which must see every tenant: a credential arrives before its tenant is known.
func NewKeyring(db *postgres.DB) *Keyring {
	known, err := lru.New[uuid.UUID, Principal](remembered)
	if err != nil {
		panic(err) //nolint:forbidigo // a size that is not positive, in this very file
	}
	return &Keyring{db: db, known: known}
}

// Authenticate asks the database who shows this credential. It returns fault.Unauthenticated for each that gives no
// access now, and fault.Unavailable for a token that cannot be judged while its issuer's keys are not known.
func (k *Keyring) Authenticate(ctx context.Context, text string) (Principal, error) {
	if k.trusts(text) {
		return k.trust.authenticate(ctx, k.db, text)
	}
	shown, err := parseToken(text)
	if err != nil {
		return Principal{}, err
	}
	var row identitydb.FindCredentialRow
	err = k.db.Read(ctx, uuid.Nil, func(ctx context.Context, db postgres.DBTX) (err error) {
		row, err = queries.FindCredential(ctx, db, shown.id)
		return err
	})
	if err != nil && !errors.Is(err, pgx.ErrNoRows) {
		return Principal{}, fmt.Errorf("find a credential: %w", err)
	}
	matches := subtle.ConstantTimeCompare(row.SecretHash, shown.hash[:]) == 1
	p := Principal{Tenant: row.TenantID, ID: row.PrincipalID, scopes: row.Scopes, credential: shown}
	switch {
	case err != nil || !matches:
		// Who only knows the id of a key must not be able to make it forgotten.
		if remembered, ok := k.known.Peek(shown.id); ok && remembered.credential == shown {
			k.known.Remove(shown.id)
		}
		return Principal{}, unauthenticated()
	case !row.Live:
		k.known.Remove(shown.id)
		return Principal{}, &Ended{Principal: p, fault: unauthenticated()}
	}
	k.known.Add(shown.id, p)
	k.uses.note(p)
	return p, nil
}

// Recall tells from memory who showed this credential before. It proves nothing about now: whoever acts on it must
// let Principal.Confirm decide.
func (k *Keyring) Recall(text string) (Principal, bool) {
	if k.trusts(text) {
		return k.trust.recall(text)
	}
	shown, err := parseToken(text)
	if err != nil {
		return Principal{}, false
	}
	p, ok := k.known.Get(shown.id)
	if !ok || subtle.ConstantTimeCompare(p.credential.hash[:], shown.hash[:]) != 1 {
		return Principal{}, false
	}
	k.uses.note(p)
	return p, true
}
