package console

import (
	"context"
	"errors"
	"iter"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"github.com/cortex-orchestrator/cortex/client"
	"github.com/cortex-orchestrator/cortex/cortex/conversation"
	"github.com/cortex-orchestrator/cortex/cortex/memstore"
	"github.com/cortex-orchestrator/cortex/prompt"
	"github.com/cortex-orchestrator/cortex/transport"
)

// TestPagesHaveRoom asks for pages that read a whole conversation while their person has as many as a person may have, and while somebody else has.
func TestPagesHaveRoom(t *testing.T) {
	render := func(*prompt.Input) (*prompt.Prompt, error) { return &prompt.Prompt{}, nil }
	c := New(Config{Client: &client.Client{}, Store: memstore.New(), Prompt: render})
	ada, bob := Person{User: "user:ada"}, Person{User: "user:bob"}
	leave, err := c.enterPage(t.Context(), httptest.NewRecorder(), ada, ownPages)
	if err != nil {
		t.Fatal(err)
	}
	defer leave()
	impatient, cancel := context.WithCancel(t.Context())
	cancel()
	for name, page := range map[string]func(http.ResponseWriter, *http.Request, Person) error{
		"chat": c.chat, "log": c.chat, "turn": c.turnPage, "prompt": c.promptPage, "file": c.file,
	} {
		r := httptest.NewRequestWithContext(impatient, http.MethodGet, "/", nil)
		r.SetPathValue("context", "x")
		r.SetPathValue("entry", "1")
		if name == "log" {
			r.Header.Set("Accept", "application/json")
		}
		refused := func(who Person) bool {
			e, ok := errors.AsType[wrong](page(httptest.NewRecorder(), r, who))
			return ok && e.code == http.StatusTooManyRequests
		}
		if !refused(ada) || refused(bob) {
			t.Errorf("the page of a %s is refused to who has no room: %t, and to somebody else: %t", name, refused(ada), refused(bob))
		}
	}
}

// torn is a store of which the second entry cannot be read.
type torn struct{ *memstore.Store }

func (torn) Load(context.Context, string, string, conversation.Version) iter.Seq2[*conversation.Entry, error] {
	return func(yield func(*conversation.Entry, error) bool) {
		_ = yield(&conversation.Entry{Seq: 1, Cause: &transport.Event{Payload: &transport.Deadline{}}}, nil) && yield(nil, errors.New("torn"))
	}
}

// unhurried is a connection that counts how often its time was extended.
type unhurried struct {
	*httptest.ResponseRecorder
	extended int
}

func (u *unhurried) SetWriteDeadline(time.Time) error {
	u.extended++
	return nil
}

// TestLogOfAnyLength has a log that cannot be read to its end: what was sent of it is not taken for all, and had time for itself.
func TestLogOfAnyLength(t *testing.T) {
	c := New(Config{Client: &client.Client{}, Store: torn{memstore.New()}})
	r := httptest.NewRequestWithContext(t.Context(), http.MethodGet, "/", nil)
	r.SetPathValue("context", "x")
	r.Header.Set("Accept", "application/json")
	w := &unhurried{ResponseRecorder: httptest.NewRecorder()}
	defer func() {
		if err, _ := recover().(error); !errors.Is(err, http.ErrAbortHandler) || !strings.HasPrefix(w.Body.String(), `{"seq":1`) || w.extended != 1 {
			t.Errorf("%v ends the answer, which was extended %d times, after %.200s", err, w.extended, w.Body)
		}
	}()
	err := c.chat(w, r, Person{User: "user:ada"})
	t.Errorf("chat = %v", err)
}
