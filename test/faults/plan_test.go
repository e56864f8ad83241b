package faults

import (
	"strings"
	"testing"

	"orderonce/cmd/orderonce/orderoncetest"
	"orderonce/test/shop"
)

// A plan that is not understood stops the process: a test whose fault never happens would pass for nothing. A binary
// without fault points does not even look.
func TestPlanThatIsNotUnderstood(t *testing.T) {
	t.Parallel()
	version := func(binary, plan string) (int, string) {
		status, _, stderr := orderoncetest.Run(t, orderoncetest.Command{
			Binary: binary, Args: []string{"version"}, Env: []string{"ORDERONCE_FAULTS=" + plan},
		})
		return status, stderr
	}
	for _, wrong := range []string{
		"after_clam=kill", "after_claim", "after_claim=", "after_claim=kil", "after_claim=kill@0", "after_claim=kill@",
		"after_claim=kill@x", "after_claim=pause", "after_claim=pause:", "after_claim=kill,before_claim=kill",
	} {
		if status, stderr := version(shop.Binary(t), wrong); status == 0 || !strings.Contains(stderr, "ORDERONCE_FAULTS") {
			t.Errorf("%q is understood: %s", wrong, stderr)
		}
		if status, stderr := version(orderoncetest.Binary(t), wrong); status != 0 {
			t.Errorf("the shipped binary reads %q: %s", wrong, stderr)
		}
	}
	for _, right := range []string{"", "after_claim=kill@3;after_claim=pause:/there;before_claim=kill;"} {
		if status, stderr := version(shop.Binary(t), right); status != 0 {
			t.Errorf("%q is not understood: %s", right, stderr)
		}
	}
}
