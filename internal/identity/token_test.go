package identity

import (
	"crypto/sha256"
	"regexp"
	"strings"
	"testing"

	"orderonce/internal/fault"
)

func mint(tb testing.TB) (text string, minted token) {
	tb.Helper()
	text, minted, err := mintToken()
	if err != nil {
		tb.Fatal(err)
	}
	return text, minted
}

func TestMintedTokenIsReadBack(t *testing.T) {
	t.Parallel()
	seen := map[string]bool{}
	for range 100 {
		text, minted := mint(t)
		parsed, err := parseToken(text)
		if err != nil || parsed != minted {
			t.Fatalf("%s: %v, %v; minted was %v", text, parsed, err, minted)
		}
		if !strings.HasPrefix(text, "oo_live_") || len(text) != len("oo_live_")+26+1+52+1+7 || seen[text] {
			t.Fatalf("minted %s", text)
		}
		seen[text] = true
		// What is stored does not give the text back: it is the hash of a secret of 256 bits.
		secret, err := base.DecodeString(strings.Split(text, "_")[3])
		if err != nil || len(secret) != 32 || sha256.Sum256(secret) != minted.hash {
			t.Fatalf("%s: the hash is not its secret's, %v", text, err)
		}
	}
}

// The form is written in scanners that look for leaked keys, and in clients' stores: it must be read for ever.
func TestFormOfTheTokenIsStable(t *testing.T) {
	t.Parallel()
	body := "oo_live_" + base.EncodeToString(make([]byte, 16)) + "_" + base.EncodeToString(make([]byte, 32))
	const want = "oo_live_aaaaaaaaaaaaaaaaaaaaaaaaaa_aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa_"
	if body+"_" != want {
		t.Fatalf("the form is now %s", body)
	}
	parsed, err := parseToken(want + "j5rfhky")
	if err != nil || parsed != (token{hash: sha256.Sum256(make([]byte, 32))}) {
		t.Errorf("%v, %v", parsed, err)
	}
}

// A mistyped key is told apart without a look into the database, wherever the slip is.
func TestEverySingleCharacterChangeIsRefused(t *testing.T) {
	t.Parallel()
	text, _ := mint(t)
	const others = "abcdefghijklmnopqrstuvwxyz234567_ABCZ0189-=. \x00\n\xff"
	refused := func(what, changed string) {
		t.Helper()
		if parsed, err := parseToken(changed); fault.KindOf(err) != fault.Unauthenticated || parsed != (token{}) {
			t.Fatalf("%s gives %q, which is read as %v, %v", what, changed, parsed, err)
		}
	}
	for i := range len(text) {
		for _, other := range []byte(others) {
			if text[i] != other {
				refused("replacing", text[:i]+string([]byte{other})+text[i+1:])
			}
			refused("inserting", text[:i]+string([]byte{other})+text[i:])
		}
		refused("leaving out", text[:i]+text[i+1:])
		if i > 0 && text[i] != text[i-1] {
			refused("swapping", text[:i-1]+text[i:i+1]+text[i-1:i]+text[i+1:])
		}
	}
	for _, other := range []byte(others) {
		refused("adding", text+string([]byte{other}))
	}
}

// signed has the right checksum, so that the parser's other rules are what refuses it.
func signed(body string) string { return body + "_" + checksum(body) }

func TestOnlyTheOneFormIsAToken(t *testing.T) {
	t.Parallel()
	text, minted := mint(t)
	parts := strings.Split(text, "_")
	id, secret := parts[2], parts[3]
	if parsed, err := parseToken(signed("oo_live_" + id + "_" + secret)); err != nil || parsed != minted {
		t.Fatalf("the good one: %v, %v", parsed, err)
	}
	for name, bad := range map[string]string{
		"nothing":              "",
		"one underscore":       "_",
		"checksum alone":       signed(""),
		"another prefix":       signed("sk_live_" + id + "_" + secret),
		"test mode":            signed("oo_test_" + id + "_" + secret),
		"no prefix":            signed(id + "_" + secret),
		"upper-case prefix":    signed("OO_LIVE_" + id + "_" + secret),
		"prefix twice":         signed("oo_live_oo_live_" + id + "_" + secret),
		"no secret":            signed("oo_live_" + id),
		"empty secret":         signed("oo_live_" + id + "_"),
		"empty id":             signed("oo_live__" + secret),
		"a part more":          signed("oo_live_" + id + "_" + secret + "_" + secret),
		"upper case":           signed("oo_live_" + strings.ToUpper(id) + "_" + secret),
		"short id":             signed("oo_live_" + id[:24] + "_" + secret),
		"long id":              signed("oo_live_" + id + "aa_" + secret),
		"short secret":         signed("oo_live_" + id + "_" + secret[:50]),
		"long secret":          signed("oo_live_" + id + "_" + secret + "aaaaaaaa"),
		"padding":              signed("oo_live_" + id + "======_" + secret),
		"a blank before":       " " + text,
		"its scheme before":    "Bearer " + text,
		"checksum of another":  text[:len(text)-7] + signed("x")[2:],
		"upper-case checksum":  text[:len(text)-7] + strings.ToUpper(text[len(text)-7:]),
		"line end within":      signed("oo_live_" + id[:9] + "\n" + id[9:] + "_" + secret),
		"bits past the id":     signed("oo_live_" + id[:25] + "b_" + secret), // a whole id ends in 2 bits of nothing
		"checksum without all": text[:len(text)-1],
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			parsed, err := parseToken(bad)
			if fault.KindOf(err) != fault.Unauthenticated || parsed != (token{}) {
				t.Errorf("%q is read as %v, %v", bad, parsed, err)
			}
		})
	}
}

// FuzzParseToken also puts the right checksum behind what the fuzzer finds, or it would never get past that.
func FuzzParseToken(f *testing.F) {
	text, _ := mint(f)
	f.Add(text)
	f.Add(text[:len(text)-8])
	f.Add("oo_live_")
	f.Add("oo_live_aaaaaaaaaaaaaaaaaaaaaaaaaa_" + strings.Repeat("a", 52))
	f.Add("oo_live_aaaaaaaaaaaaaaaaaaaaaaaaa\n_" + strings.Repeat("7", 52))
	form := regexp.MustCompile(`^oo_live_([a-z2-7]{26})_([a-z2-7]{52})_([a-z2-7]{7})$`)
	f.Fuzz(func(t *testing.T, text string) {
		for _, text := range []string{text, signed(text)} {
			parsed, err := parseToken(text)
			if err != nil {
				if err.Error() != unauthenticated().Error() || parsed != (token{}) {
					t.Errorf("%q: %v, %v", text, parsed, err)
				}
				continue
			}
			parts := form.FindStringSubmatch(text)
			if parts == nil || base.EncodeToString(parsed.id[:]) != parts[1] || checksum(text[:len(text)-8]) != parts[3] {
				t.Errorf("%q is read as %v", text, parsed)
			}
		}
	})
}
