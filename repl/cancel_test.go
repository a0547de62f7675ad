package repl

import (
	"errors"
	"strings"
	"testing"

	"github.com/cortex-orchestrator/cortex/client"
	"github.com/cortex-orchestrator/cortex/transport/memory"
)

// TestCancelIsShownFirst cancels: what comes of it can be shown as soon as it is sent, and stands behind the line that says so.
func TestCancelIsShownFirst(t *testing.T) {
	for _, sent := range []error{nil, errors.New("not admitted")} {
		var shown strings.Builder
		c := &chat{ui: &ui{screen: screen{w: &shown}}, contextID: "ctx"}
		bus := memory.New(nil)
		before := ""
		c.Client = &client.Client{Transport: bus, Admit: func(string, int) error {
			before = shown.String()
			return sent
		}}
		if err := c.cancel(t.Context(), "t1"); !errors.Is(err, sent) {
			t.Errorf("cancel = %v, want %v", err, sent)
		}
		if !strings.Contains(before, "asking cortex to cancel task t1") {
			t.Errorf("before it is sent, the chat shows %q", before)
		}
		if err := bus.Close(); err != nil {
			t.Error(err)
		}
	}
}
