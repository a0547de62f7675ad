package cortex

import (
	"testing"

	"github.com/cortex-orchestrator/cortex/transport"
)

// TestEventName checks that an event is described by what is known about it, without gaps.
func TestEventName(t *testing.T) {
	for want, f := range map[string]transport.Failure{
		"event m1 of user in conversation c1": {ID: "m1", From: "user", ContextID: "c1"},
		"an event of user":                    {From: "user"},
		"an event":                            {},
	} {
		if got := eventName(&f); got != want {
			t.Errorf("eventName(%+v) = %q, want %q", f, got, want)
		}
	}
}
