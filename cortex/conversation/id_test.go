package conversation_test

import (
	"fmt"
	"strings"
	"testing"

	"github.com/google/uuid"

	"github.com/cortex-orchestrator/cortex/cortex/conversation"
)

// TestDeriveID checks that an id is the version 5 UUID of its parts, however long they are.
func TestDeriveID(t *testing.T) {
	for _, contextID := range []string{"", "c1", "a \"b\"\n", strings.Repeat("é", 400)} {
		want := uuid.NewSHA1(conversation.IDSpace, fmt.Appendf(nil, `%q%q%q 7 2`, "acme", contextID, "task")).String()
		if got := conversation.DeriveID("acme", contextID, 7, "task", 2); got != want {
			t.Errorf("DeriveID of %.10q = %s, want %s", contextID, got, want)
		}
	}
}
