package console_test

import (
	"net/http"
	"net/http/httptest"
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
			r := httptest.NewRequestWithContext(t.Context(), http.MethodGet, w.url+"c/x?all", nil)
			r.RemoteAddr = "127.0.0.1:1"
			for _, c := range b.Jar.Cookies(r.URL) {
				r.AddCookie(c)
			}
			page := httptest.NewRecorder() // the server closes a connection after 30 s, which a busy machine takes for a page
			w.pages.ServeHTTP(page, r)
			for page.Code == http.StatusTooManyRequests && page.Header().Get("Retry-After") != "" && t.Context().Err() == nil {
				page = httptest.NewRecorder()
				w.pages.ServeHTTP(page, r)
			}
			if n := strings.Count(page.Body.String(), `class="turn"`); page.Code != http.StatusOK || n < turns {
				t.Errorf("the page is %d, with %d turns", page.Code, n)
			}
		})
	}
	pages.Wait()
	if code, page := status(t, b, http.MethodGet, w.url+"c/x/t/"+first, ""); code != http.StatusOK || !strings.Contains(page, "hello, the first") {
		t.Errorf("the page of the first turn is %d:\n%.300s", code, page)
	}
}
