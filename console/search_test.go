package console_test

import (
	"context"
	"fmt"
	"iter"
	"strings"
	"testing"

	"github.com/cortex-orchestrator/cortex/console"
	"github.com/cortex-orchestrator/cortex/cortex/conversation"
	"github.com/cortex-orchestrator/cortex/cortex/storage"
)

// counted counts the conversations that are read.
type counted struct {
	storage.Store
	loads int
}

func (c *counted) Load(ctx context.Context, tenant, contextID string, after conversation.Version) iter.Seq2[*conversation.Entry, error] {
	c.loads++
	return c.Store.Load(ctx, tenant, contextID, after)
}

// TestSearch searches for what people said, in titles and in later messages. A conversation is read once for many searches, and again when it has changed.
func TestSearch(t *testing.T) {
	var store *counted
	w := newWorld(t, func(c *console.Config) {
		store = &counted{Store: c.Store}
		c.Store = store
	})
	b := w.browser()
	w.ask("trip", "Plan a trip")
	w.ask("trip", "It goes to HAMBURG, by the night train\nand back by plane")
	w.ask("roses", "water the roses")
	for i := range 3 {
		w.ask(fmt.Sprint("other", i), "nothing of it")
	}
	find := func(query string) string {
		t.Helper()
		code, text := status(t, b, "GET", w.url+"conversations?q="+strings.ReplaceAll(query, " ", "+"), "", "Accept", "text/html")
		if code != 200 {
			t.Fatalf("a search answers %d", code)
		}
		return text
	}
	for query, want := range map[string]string{
		"hamburg": "to HAMBURG, by", "plan hamburg": "Plan a trip", "night plane": "by the night train", "roses": "water the roses", "other1": "nothing of it",
	} {
		if text := find(query); strings.Count(text, "<li>") != 1 || !strings.Contains(text, want) {
			t.Errorf("a search for %s finds\n%s\nwant only %q", query, text, want)
		}
	}
	for _, query := range []string{"zebra", "hamburg roses", "done"} { // what agents said is no word of a person
		if text := find(query); strings.Contains(text, "<li>") || !strings.Contains(text, "Nobody said") {
			t.Errorf("a search for %s finds\n%s", query, text)
		}
	}
	before := store.loads
	find("hamburg zebra")
	if store.loads != before {
		t.Errorf("%d conversations were read again", store.loads-before)
	}
	w.ask("roses", "and the zebra plant")
	if text := find("zebra"); !strings.Contains(text, "water the roses") || store.loads != before+1 {
		t.Errorf("%d conversations were read again; found is\n%s", store.loads-before, text)
	}
	must(t, w.store.Erase(t.Context(), "", "roses"))
	w.ask("roses", "tulips")
	if text := find("zebra"); strings.Contains(text, "<li>") {
		t.Errorf("what was erased is found:\n%s", text)
	}
}
