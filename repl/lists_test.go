package repl

import (
	"strings"
	"testing"
	"time"
)

// TestConversationsThatLookAlike checks that a conversation whose id may be mistaken for another one's, or has letters of several alphabets, is marked, and
// no other one, also where the title has no room.
func TestConversationsThatLookAlike(t *testing.T) {
	list := []ConversationInfo{
		{ContextID: "planning", Title: "the trip"}, {ContextID: "p1anning"}, {ContextID: "p\u0430y", Title: "rent"}, {ContextID: "other", Title: "weather"},
	}
	for _, width := range []int{0, 40} {
		text := ConversationTable(list, "planning", time.Now()).Render(width, nil)
		for _, want := range []string{"looks like p1anning", "looks like planning", "has letters of several alphabets"} {
			if strings.Count(text, want) != 1 {
				t.Errorf("%d columns: want %q once:\n%s", width, want, text)
			}
		}
		if width == 0 && (!strings.Contains(text, "looks like p1anning · (this one) the trip\n") || !strings.Contains(text, " weather\n")) {
			t.Errorf("the titles are missing:\n%s", text)
		}
	}
}
