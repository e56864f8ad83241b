package postgres

import (
	"bytes"
	"slices"
	"strings"

	"github.com/google/uuid"
)

// Role is a database role of the schema, which the URL's user must be a member of. A session takes it up when it
// begins, so that it has neither the owner's rights nor a superuser's, whoever logged in.
type Role string

const (
	// Request sees and writes only rows of the tenants that its transaction names, and only what requests need.
	Request Role = "orderonce_request"
	// Worker sees every tenant: for authentication, operators and work in the background.
	Worker Role = "orderonce_worker"
)

// named is the statement that tells row level security whose rows the transaction is about; without a tenant, nobody's.
// It is a literal for the reason that lockTimeout is one. The policies look for a tenant in this text, so it holds
// canonical UUIDs and nothing else.
func named(tenants ...uuid.UUID) string {
	var list strings.Builder
	for _, tenant := range tenants {
		if tenant == uuid.Nil {
			continue
		}
		if list.Len() > 0 {
			list.WriteByte(',')
		}
		list.WriteString(tenant.String())
	}
	return "SET LOCAL orderonce.tenants = '" + list.String() + "'"
}

// tenantsOf is each tenant of a batch once.
func tenantsOf(batch []*sharer) []uuid.UUID {
	tenants := make([]uuid.UUID, len(batch))
	for i, m := range batch {
		tenants[i] = m.tenant
	}
	slices.SortFunc(tenants, func(a, b uuid.UUID) int { return bytes.Compare(a[:], b[:]) })
	return slices.Compact(tenants)
}
