package storetest

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"unicode/utf8"

	"github.com/a2aproject/a2a-go/v2/a2a"

	"github.com/cortex-orchestrator/cortex/cortex/storage"
	"github.com/cortex-orchestrator/cortex/transport"
)

func contexts(t *testing.T, s storage.Store, tenant string) []storage.ContextInfo {
	t.Helper()
	var all []storage.ContextInfo
	for info, err := range s.Contexts(t.Context(), tenant) {
		if err != nil {
			t.Fatalf("Contexts(%q): %v", tenant, err)
		}
		all = append(all, info)
	}
	return all
}

func testContexts(t *testing.T, s storage.Store) {
	a := fill(t, s, "", "a", 3)
	b := fill(t, s, "", "b", 2)
	c := fill(t, s, "", "c", 1)
	last := add(t, s, "", "a", a[2], entry(4, "again"))
	want := []storage.ContextInfo{
		{ContextID: "a", Title: "a 1", Entries: 4, Updated: entry(4, "").Time, Version: last},
		{ContextID: "c", Title: "c 1", Entries: 1, Updated: entry(1, "").Time, Version: c[0]},
		{ContextID: "b", Title: "b 1", Entries: 2, Updated: entry(2, "").Time, Version: b[1]},
	}
	if d := diff(want, contexts(t, s, "")); d != "" {
		t.Errorf("conversations, most recent first, differ (-want +got):\n%s", d)
	}
}

func testContextsOfTenant(t *testing.T, s storage.Store) {
	ids := oddIDs()
	for _, tenant := range []string{"", "t", "a.b", "*"} {
		for _, id := range ids {
			add(t, s, tenant, id, 0, entry(1, tenant+id))
		}
	}
	slices.Reverse(ids)
	for _, tenant := range []string{"", "t", "a.b", "*", "nobody"} {
		want := ids
		if tenant == "nobody" {
			want = nil
		}
		var got []string
		for _, info := range contexts(t, s, tenant) {
			got = append(got, info.ContextID)
		}
		if d := diff(want, got); d != "" {
			t.Errorf("conversations of tenant %q differ (-want +got):\n%s", tenant, d)
		}
	}
}

func testManyContexts(t *testing.T, s storage.Store) {
	const n = 400
	for i := range n {
		fill(t, s, "", fmt.Sprintf("c-%d", i), 1+i%3)
	}
	got := contexts(t, s, "")
	if len(got) != n {
		t.Fatalf("Contexts yields %d conversations, want %d", len(got), n)
	}
	for i, info := range got {
		k := n - 1 - i
		if id := fmt.Sprintf("c-%d", k); info.ContextID != id || info.Entries != 1+k%3 || info.Title != id+" 1" {
			t.Fatalf("conversation %d is %+v, want %s with %d entries", i, info, id, 1+k%3)
		}
	}
}

func testTitles(t *testing.T, s storage.Store) {
	tests := []struct{ id, said, want string }{
		{"plain", "What time is it?", "What time is it?"},
		{"lines", "  first\n\n\tsecond \r\n third  ", "first second third"},
		{"controls", "a\x1b[31mred\x1b[0m\x00\x7f\u0085b", "ared b"},
		{"directions", "abc\u202edef\u200bghi", "abcdefghi"},
		{"exactly", strings.Repeat("x", 80), strings.Repeat("x", 80)},
		{"long", strings.Repeat("x", 81), strings.Repeat("x", 80)},
		{"rune-border", strings.Repeat("x", 79) + "é", strings.Repeat("x", 79)},
		{"space-at-the-border", strings.Repeat("x", 79) + " y", strings.Repeat("x", 79)},
		{"wide", strings.Repeat("日", 40), strings.Repeat("日", 26)},
		{"only-space", " \n ", ""},
	}
	for _, tt := range tests {
		add(t, s, "", tt.id, 0, entry(1, tt.said))
	}
	titles := map[string]string{}
	for _, info := range contexts(t, s, "") {
		titles[info.ContextID] = info.Title
	}
	for _, tt := range tests {
		got := titles[tt.id]
		if got != tt.want || len(got) > 80 || !utf8.ValidString(got) {
			t.Errorf("title of a conversation that begins with %q = %q, want %q", tt.said, got, tt.want)
		}
	}

	// The title is the user's, even if the first entry is not.
	early := entry(1, "")
	early.Cause.Payload = &transport.Cancel{Reason: "mistake"}
	v := add(t, s, "titles", "late", 0, early)
	agent := entry(2, "I am an agent")
	agent.Cause.Payload.(*a2a.Message).Role = a2a.MessageRoleAgent
	v = add(t, s, "titles", "late", v, agent)
	v = add(t, s, "titles", "late", v, entry(3, "the user"))
	add(t, s, "titles", "late", v, entry(4, "the user again"))
	if got := contexts(t, s, "titles")[0].Title; got != "the user" {
		t.Errorf("title of a conversation that does not begin with the user = %q, want %q", got, "the user")
	}
}
