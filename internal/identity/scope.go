package identity

import (
	"fmt"
	"slices"
	"strings"

	"orderonce/internal/fault"
)

// The scopes that a key may hold, one for each kind of operation. Who imports may look at the tasks that come of it.
const (
	OrdersCreate  = "orders:create"
	OrdersRead    = "orders:read"
	OrdersCancel  = "orders:cancel"
	ImportsCreate = "imports:create"
	WebhooksRead  = "webhooks:read"
	// WebhooksWrite lets events be sent to an address that the caller names.
	WebhooksWrite = "webhooks:write"

	OpsRead  = "ops:read"
	OpsWrite = "ops:write"
)

// opsScope begins the scopes that reach every tenant. The queries of credentials say it once more.
const opsScope = "ops:"

// Scopes lists all scopes.
func Scopes() []string { return append(TenantScopes(), OpsRead, OpsWrite) }

// TenantScopes lists those that reach no further than the caller's own tenant: what any tenant's keys may hold.
func TenantScopes() []string {
	return []string{OrdersCreate, OrdersRead, OrdersCancel, ImportsCreate, WebhooksRead, WebhooksWrite}
}

// ForOperators says whether a scope reaches every tenant. Only principals of an operators' tenant may hold it, and what
// it allows is done with the rights of the Worker role.
func ForOperators(scope string) bool { return strings.HasPrefix(scope, opsScope) }

// grantable is the scopes in the one order in which they are stored, each once. It returns fault.ValidationFailed for a
// scope that nobody checks, and for one that the tenant may not give.
func grantable(tenant Tenant, scopes []string) ([]string, error) {
	for _, scope := range scopes {
		switch {
		case !slices.Contains(Scopes(), scope):
			return nil, fault.Invalid("/scopes", fmt.Sprintf("%q is none of %s", scope, strings.Join(Scopes(), ", ")))
		case ForOperators(scope) && !tenant.Operator:
			return nil, fault.Invalid("/scopes", scope+" is for principals of an operators' tenant")
		}
	}
	sorted := append([]string{}, scopes...) // never NULL
	slices.Sort(sorted)
	return slices.Compact(sorted), nil
}
