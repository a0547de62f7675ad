package console

import (
	"context"
	"errors"
	"net/http"
	"net/http/httptest"
	"testing"

	"github.com/cortex-orchestrator/cortex/client"
	"github.com/cortex-orchestrator/cortex/cortex/memstore"
)

// TestPagesHaveRoom asks for pages that read a whole conversation while their person has as many as a person may have, and while somebody else has.
func TestPagesHaveRoom(t *testing.T) {
	c := New(Config{Client: &client.Client{}, Store: memstore.New()})
	ada, bob := Person{User: "user:ada"}, Person{User: "user:bob"}
	leave, err := c.enterPage(t.Context(), httptest.NewRecorder(), ada, ownPages)
	if err != nil {
		t.Fatal(err)
	}
	defer leave()
	impatient, cancel := context.WithCancel(t.Context())
	cancel()
	for name, page := range map[string]func(http.ResponseWriter, *http.Request, Person) error{"chat": c.chat, "turn": c.turnPage, "file": c.file} {
		r := httptest.NewRequestWithContext(impatient, http.MethodGet, "/", nil)
		r.SetPathValue("context", "x")
		refused := func(who Person) bool {
			e, ok := errors.AsType[wrong](page(httptest.NewRecorder(), r, who))
			return ok && e.code == http.StatusTooManyRequests
		}
		if !refused(ada) || refused(bob) {
			t.Errorf("the page of a %s is refused to who has no room: %t, and to somebody else: %t", name, refused(ada), refused(bob))
		}
	}
}
