package faults

import (
	"strings"
	"testing"

	"orderonce/cmd/orderonce/orderoncetest"
	"orderonce/test/shop"
)

// A revocation counts from the next request on every server process, replays included: of the answer that each of them
// remembers, the caller of before is given no byte.
func TestRevokedKeyGetsNoReplayFromAnyProcess(t *testing.T) {
	t.Parallel()
	s := shop.Open(t)
	a, b := s.Serve(t, shop.Options{}), s.Serve(t, shop.Options{})
	key := orderoncetest.NewKey()
	first := a.Place(t, key, order(key))
	wantFirst(t, first)
	wantReplay(t, first, a.Place(t, key, order(key)))
	wantReplay(t, first, b.Place(t, key, order(key)))

	s.Operate(t, "keys", "revoke", "--tenant=acme", "--principal=shop", "--name=test")
	provoked(t, "credential revoked between request and retry", 2)
	for _, server := range []*shop.Server{a, b} {
		replay := server.Place(t, key, order(key))
		wantProblem(t, replay, 403, "replay_forbidden")
		if strings.Contains(replay.Body, first.OrderID()) || replay.Header.Get("Location") != "" {
			t.Errorf("the refusal shows the order: %v %s", replay.Header, replay.Body)
		}
		wantProblem(t, server.Place(t, orderoncetest.NewKey(), order(key)), 401, "unauthenticated")
	}
	s.WantAccount(t, shop.Balanced(1, 0))
}

// A rotated key is the same principal: the retry under the new one, at either process, gets the first answer.
func TestRotatedKeyGetsTheReplay(t *testing.T) {
	t.Parallel()
	s := shop.Open(t)
	a, b := s.Serve(t, shop.Options{}), s.Serve(t, shop.Options{})
	key := orderoncetest.NewKey()
	first := a.Place(t, key, order(key))
	wantFirst(t, first)

	rotated := s.Operate(t, "keys", "rotate", "--tenant=acme", "--principal=shop", "--name=test", "--new-name=next", "--overlap=0s")
	provoked(t, "credential rotated between request and retry", 2)
	for _, server := range []*shop.Server{a, b} {
		wantProblem(t, server.Place(t, orderoncetest.NewKey(), order(key)), 401, "unauthenticated")
		wantReplay(t, first, orderoncetest.NewClient(server.BaseURL, rotated).Place(t, key, order(key)))
	}
	s.WantAccount(t, shop.Balanced(1, 0))
}
