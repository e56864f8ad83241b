package telemetry

import (
	"crypto/hmac"
	"crypto/rand"
	"crypto/sha256"
	"encoding/hex"
	"hash"
	"sync"
)

// hasher makes of an idempotency key a word that only says whether two keys are the same. Whoever sees it and does not
// have the secret can neither learn the key nor try guesses.
type hasher struct {
	macs sync.Pool // of hash.Hash
}

// newHasher takes a random secret where it is given none: hashes of two processes, or of one before and after its
// restart, then tell nothing of each other.
func newHasher(secret string) *hasher {
	key := []byte(secret)
	if secret == "" {
		key = make([]byte, sha256.Size)
		_, _ = rand.Read(key) // never fails, says its documentation
	}
	return &hasher{macs: sync.Pool{New: func() any { return hmac.New(sha256.New, key) }}}
}

// hashLength is of what is shown: 64 bits tell apart as many keys as one person will ever look at.
const hashLength = 8

// sum hashes the key of a tenant. Two tenants' equal keys have nothing in common.
func (h *hasher) sum(tenant [16]byte, key string) string {
	mac, _ := h.macs.Get().(hash.Hash)
	defer h.macs.Put(mac)
	mac.Reset()
	_, _ = mac.Write(tenant[:]) // a hash takes everything
	_, _ = mac.Write([]byte(key))
	var sum [sha256.Size]byte
	return hex.EncodeToString(mac.Sum(sum[:0])[:hashLength])
}
