package console_test

import (
	"net/http"
	"strings"
	"sync"
	"testing"

	"github.com/cortex-orchestrator/cortex/internal/view"
)

// TestLongConversation reads a conversation of long texts: of those that do not fit, the first turns are left out, and the others are cut. Each turn has a
// page still.
func TestLongConversation(t *testing.T) {
	w := newWorld(t)
	b := w.browser()
	first := w.ask("x", "hello, the first")
	const turns = 12
	for range turns {
		w.ask("x", "hello "+strings.Repeat("x", 100_000))
	}
	keeps := func(k view.Keep) *view.Turns {
		all := view.NewTurns("", "x", k)
		for e, err := range w.store.Load(t.Context(), "", "x", 0) {
			must(t, err)
			_, err = all.Add(e)
			must(t, err)
		}
		return all
	}
	texts := func(all *view.Turns) (n int) {
		for _, t := range all.List {
			n += len(t.Text) + len(t.Answer.Text)
			for _, s := range t.Steps {
				n += len(s.Decision.Say)
			}
		}
		return n
	}
	if all := keeps(view.Keep{}); len(all.List) != turns+1 || all.Earlier > 0 || texts(all) < turns*100_000 {
		t.Errorf("without bounds %d turns of %d bytes are kept, and %d are left out", len(all.List), texts(all), all.Earlier)
	}
	if some := keeps(view.Keep{Text: 1000, All: 20_000}); len(some.List) < 2 || len(some.List)+some.Earlier != turns+1 || texts(some) > 20_000 {
		t.Errorf("of 20,000 bytes %d turns of %d bytes are kept, and %d are left out", len(some.List), texts(some), some.Earlier)
	}
	if one := keeps(view.Keep{Only: first}); len(one.List) != 1 || one.List[0].Text != "hello, the first" {
		t.Errorf("of one turn %+v are kept", one.List)
	}
	var pages sync.WaitGroup
	for range 6 { // more than there is room for at the same time
		pages.Go(func() {
			if code, page := status(t, b, http.MethodGet, w.url+"c/x?all", ""); code != http.StatusOK || strings.Count(page, `class="turn"`) < turns {
				t.Errorf("the page is %d, with %d turns", code, strings.Count(page, `class="turn"`))
			}
		})
	}
	pages.Wait()
	if code, page := status(t, b, http.MethodGet, w.url+"c/x/t/"+first, ""); code != http.StatusOK || !strings.Contains(page, "hello, the first") {
		t.Errorf("the page of the first turn is %d:\n%.300s", code, page)
	}
}
