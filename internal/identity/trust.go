package identity

import (
	"context"
	"crypto/sha256"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/google/uuid"
	lru "github.com/hashicorp/golang-lru/v2"
	"github.com/jackc/pgx/v5"

	"orderonce/internal/identity/internal/identitydb"
	"orderonce/internal/identity/oidc"
	"orderonce/internal/postgres"
)

// trust tells principals by the tokens of one issuer. A token names the tenant and the subject, and the two name the
// principal: the next token of the same subject is the same principal, and its idempotency keys keep their meaning.
type trust struct {
	issuer *oidc.Issuer
	known  *lru.Cache[[sha256.Size]byte, Principal] // by the hash of the token's text
}

// Trust lets the tokens of issuer count beside API keys. Call it before the first use.
func (k *Keyring) Trust(issuer *oidc.Issuer) {
	known, err := lru.New[[sha256.Size]byte, Principal](remembered)
	if err != nil {
		panic(err) //nolint:forbidigo // as in NewKeyring
	}
	k.trust = &trust{issuer: issuer, known: known}
}

// trusts says whether a credential is for the issuer to judge: all that has not the form of an API key.
func (k *Keyring) trusts(text string) bool { return k.trust != nil && !strings.HasPrefix(text, prefix) }

// recall judges the time and the key of a remembered token anew: neither memory nor the database knows them.
func (t *trust) recall(text string) (Principal, bool) {
	hash := sha256.Sum256([]byte(text))
	p, ok := t.known.Get(hash)
	if !ok {
		return Principal{}, false
	}
	if !t.issuer.Stands(*p.signed) {
		t.known.Remove(hash)
		return Principal{}, false
	}
	return p, true
}

func (t *trust) authenticate(ctx context.Context, db *postgres.DB, text string) (Principal, error) {
	signed, err := t.issuer.Verify(ctx, text)
	if errors.Is(err, oidc.ErrRefused) {
		return Principal{}, unauthenticated()
	}
	if err != nil {
		return Principal{}, err
	}
	row, err := t.find(ctx, db, signed)
	if err == nil && row.TenantActive && !row.PrincipalID.Valid {
		if err = t.put(ctx, db, row.TenantID, signed); err == nil {
			row, err = t.find(ctx, db, signed)
		}
	}
	if err != nil && !errors.Is(err, pgx.ErrNoRows) {
		return Principal{}, fmt.Errorf("find the principal of a token: %w", err)
	}
	if err != nil || !row.PrincipalID.Valid {
		return Principal{}, unauthenticated()
	}
	p := Principal{
		Tenant: row.TenantID, ID: row.PrincipalID.UUID, scopes: counting(signed.Scopes, row.Operator), signed: &signed,
	}
	hash := sha256.Sum256([]byte(text))
	if !row.TenantActive || !*row.PrincipalActive {
		t.known.Remove(hash)
		return Principal{}, &Ended{Principal: p, fault: unauthenticated()}
	}
	t.known.Add(hash, p)
	return p, nil
}

func (t *trust) find(ctx context.Context, db *postgres.DB, signed oidc.Token) (row identitydb.FindSubjectRow, err error) {
	err = db.Read(ctx, uuid.Nil, func(ctx context.Context, db postgres.DBTX) (err error) {
		row, err = queries.FindSubject(ctx, db, identitydb.FindSubjectParams{
			Issuer: signed.Issuer, Subject: signed.Subject, TenantName: signed.Tenant,
		})
		return err
	})
	return row, err
}

// firstSight bounds the wait for another first request of the same subject.
const firstSight = 2 * time.Second

// put makes the principal of a subject that was never seen, unless another request is faster.
func (t *trust) put(ctx context.Context, db *postgres.DB, tenant uuid.UUID, signed oidc.Token) error {
	id, err := uuid.NewV7()
	if err != nil {
		return err
	}
	return db.Run(ctx, postgres.Unit{LockTimeout: firstSight}, func(ctx context.Context, tx *postgres.Tx) error {
		db, err := tx.DB(ctx)
		if err != nil {
			return err
		}
		return queries.PutSubject(ctx, db, identitydb.PutSubjectParams{
			TenantID: tenant, ID: id, Issuer: signed.Issuer, Subject: signed.Subject, CreatedAt: time.Now(),
		})
	})
}

// counting are the scopes of a token that count: those of this service, and those of operators only where the tenant
// is one, whatever the issuer says.
func counting(claimed []string, operator bool) []string {
	var scopes []string
	for _, scope := range Scopes() {
		if slices.Contains(claimed, scope) && (operator || !ForOperators(scope)) {
			scopes = append(scopes, scope)
		}
	}
	return scopes
}

// standing is the check of a principal that showed a token.
type standing struct {
	principal Principal
	scope     string
}

func (s standing) granted() bool { return slices.Contains(s.principal.scopes, s.scope) }

func (s standing) Write(ctx context.Context, db postgres.DBTX) error {
	return queries.ConfirmSubject(ctx, db, identitydb.ConfirmSubjectParams{
		TenantID: s.principal.Tenant, ID: s.principal.ID,
		Granted: s.granted(), Operators: ForOperators(s.scope),
	})
}

// LockOrder is all that the check looks at: the tokens of one principal make one check.
func (s standing) LockOrder() string {
	return fmt.Sprint("token ", s.principal.ID, s.granted(), s.scope)
}

// Undo has nothing to take back.
func (standing) Undo(context.Context, postgres.DBTX) error { return nil }
