package effects_test

import (
	"testing"

	"github.com/google/uuid"

	"orderonce/cmd/orderonce/orderoncetest"
	"orderonce/internal/effects"
	"orderonce/internal/faultpoint"
	"orderonce/internal/orders"
	"orderonce/internal/sandbox"
)

var capabilities = []effects.Capability{effects.Idempotent, effects.Queryable, effects.None}

// Workers are killed between each two steps of a call, and another one goes on. By the services' own count nothing is
// done twice, whatever they can do; where only a person can find out, a person is asked, and finds what is there.
func TestWorkerKilledBetweenEachTwoSteps(t *testing.T) {
	t.Parallel()
	for _, capability := range capabilities {
		t.Run(string(capability), func(t *testing.T) {
			t.Parallel()
			s := setupStage(t, [3]effects.Capability{capability, capability, capability})
			placed := map[faultpoint.Point]uuid.UUID{}
			for _, point := range []faultpoint.Point{
				faultpoint.BeforeDispatched, faultpoint.AfterDispatched, faultpoint.BeforeSend, faultpoint.AfterAnswer,
				faultpoint.BeforeFinish, faultpoint.AfterFinish,
			} {
				placed[point] = s.place()
				<-s.work(string(point) + "=kill").Ended()
			}
			s.goOn(capability)
			for point, order := range placed {
				if status := s.status(order); status != orders.Confirmed {
					t.Errorf("%s: the order is %s", point, status)
				}
			}
		})
	}
}

// The same while an answer is on its way, or will never come: the worker is killed when the requests have arrived, one of
// which the service has done and the other not.
func TestWorkerKilledWhileItWaitsForAnswers(t *testing.T) {
	t.Parallel()
	for _, capability := range capabilities {
		t.Run(string(capability), func(t *testing.T) {
			t.Parallel()
			s := setupStage(t, [3]effects.Capability{capability, capability, capability})
			placed := map[sandbox.FaultKind]uuid.UUID{}
			for _, kind := range []sandbox.FaultKind{sandbox.TimeoutBeforeWork, sandbox.TimeoutAfterWork} {
				placed[kind] = s.place()
				s.services.fault(sandbox.Fault{Kind: kind, OrderID: placed[kind].String(), Service: "payment", Operation: "authorize", Count: 1})
			}
			killed := s.work()
			for kind, order := range placed {
				orderoncetest.Poll(t, "the request to arrive", func() bool { return s.services.count(order, "payment authorize").requests == 1 })
				if done := s.services.count(order, "payment authorize").executions == 1; done != (kind == sandbox.TimeoutAfterWork) {
					t.Errorf("%s: done is %v", kind, done)
				}
			}
			killed.Kill()
			s.goOn(capability)
			for kind, order := range placed {
				if status := s.status(order); status != orders.Confirmed {
					t.Errorf("%s: the order is %s", kind, status)
				}
			}
		})
	}
}

// goOn lets a worker that nothing happens to do the rest, and a person what it cannot, and checks the whole account.
func (s *stage) goOn(capability effects.Capability) {
	s.t.Helper()
	s.work()
	s.settle()
	asked := s.decide()
	s.settle()
	if (asked > 0) != (capability == effects.None) {
		s.t.Errorf("a person was asked %d times", asked)
	}
	s.wantAllEnded(s.t)
}
