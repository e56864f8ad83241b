package effects

import "github.com/google/uuid"

// KeyOf lets tests make effects as the fan-out does.
func KeyOf(i Identity, tenant uuid.UUID) uuid.UUID { return i.key(tenant) }
