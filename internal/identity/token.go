package identity

import (
	"crypto/rand"
	"crypto/sha256"
	"encoding/base32"
	"encoding/binary"
	"hash/crc32"
	"strings"

	"github.com/google/uuid"

	"orderonce/internal/fault"
)

// An API key reads oo_live_<id>_<secret>_<checksum>, each part in lower-case base32: the key's own id, 256 random
// bits, and a CRC-32 of all that stands before it, so that a mistyped key, or a scanner's false find, is told apart
// without a look into the database.
const prefix = "oo_live_"

var base = base32.NewEncoding("abcdefghijklmnopqrstuvwxyz234567").WithPadding(base32.NoPadding)

// token is a parsed API key. The secret itself is not kept.
type token struct {
	id   uuid.UUID
	hash [sha256.Size]byte // of the secret
}

// mintToken makes a new API key; its text is shown once and never stored.
func mintToken() (text string, t token, err error) {
	if t.id, err = uuid.NewV7(); err != nil {
		return "", token{}, err
	}
	var secret [32]byte
	if _, err := rand.Read(secret[:]); err != nil {
		return "", token{}, err
	}
	t.hash = sha256.Sum256(secret[:])
	text = prefix + base.EncodeToString(t.id[:]) + "_" + base.EncodeToString(secret[:])
	return text + "_" + checksum(text), t, nil
}

// parseToken reads an API key without judging it. Every fault is the same fault.Unauthenticated: what was wrong with
// a credential helps only those who guess.
func parseToken(text string) (token, error) {
	body, sum, ok := cutLast(text)
	if !ok || sum != checksum(body) {
		return token{}, unauthenticated()
	}
	parts := strings.Split(strings.TrimPrefix(body, prefix), "_")
	if !strings.HasPrefix(body, prefix) || len(parts) != 2 {
		return token{}, unauthenticated()
	}
	id, isID := decode(parts[0], len(uuid.UUID{}))
	secret, isSecret := decode(parts[1], sha256.Size)
	if !isID || !isSecret {
		return token{}, unauthenticated()
	}
	return token{id: uuid.UUID(id), hash: sha256.Sum256(secret)}, nil
}

// decode takes the one spelling of a part. The decoder alone would overlook line ends, and bits that say nothing.
func decode(part string, length int) (b []byte, ok bool) {
	b, err := base.DecodeString(part)
	return b, err == nil && len(b) == length && base.EncodeToString(b) == part
}

func cutLast(text string) (before, after string, ok bool) {
	i := strings.LastIndexByte(text, '_')
	if i < 0 {
		return "", "", false
	}
	return text[:i], text[i+1:], true
}

func checksum(text string) string {
	return base.EncodeToString(binary.BigEndian.AppendUint32(nil, crc32.ChecksumIEEE([]byte(text))))
}

func unauthenticated() *fault.Error {
	return fault.New(fault.Unauthenticated, "The credential is missing, malformed, unknown, expired or revoked.")
}
