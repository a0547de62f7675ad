package cortex

import (
	"testing"

	"github.com/cortex-orchestrator/cortex/transport"
)

// TestEventName holds that an event is named by what is known of it, without empty places.
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
