package effects

import (
	"time"

	"github.com/google/uuid"
)

// KeyOf lets tests make effects as the fan-out does.
func KeyOf(i Identity, tenant uuid.UUID) uuid.UUID { return i.key(tenant) }

// PauseOf is one draw of a pause.
func PauseOf(o Options, attempts int32, wish time.Duration) time.Duration {
	return o.pause(attempts, wish)
}

// Clean is what is kept of a destination's words.
func Clean(detail string) string { return clean(detail) }
