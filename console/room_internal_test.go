package console

import (
	"context"
	"errors"
	"fmt"
	"iter"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"
	"unicode/utf8"

	"github.com/a2aproject/a2a-go/v2/a2a"

	"github.com/cortex-orchestrator/cortex/client"
	"github.com/cortex-orchestrator/cortex/cortex/conversation"
	"github.com/cortex-orchestrator/cortex/cortex/memstore"
	"github.com/cortex-orchestrator/cortex/cortex/registry"
	"github.com/cortex-orchestrator/cortex/prompt"
	"github.com/cortex-orchestrator/cortex/transport"
	"github.com/cortex-orchestrator/cortex/transport/memory"
)

// TestPagesHaveRoom asks for pages that read a whole conversation while their person has as many as a person may have, and while somebody else has.
func TestPagesHaveRoom(t *testing.T) {
	render := func(*prompt.Input) (*prompt.Prompt, error) { return &prompt.Prompt{}, nil }
	c := New(Config{Client: &client.Client{Transport: memory.New(nil)}, Store: memstore.New(), Prompt: render, Agents: registry.New(registry.Config{}).Snapshot})
	ada, bob := Person{User: "user:ada", Operator: true}, Person{User: "user:bob", Operator: true}
	leave, err := c.enterPage(t.Context(), httptest.NewRecorder(), ada, ownPages)
	if err != nil {
		t.Fatal(err)
	}
	defer leave()
	impatient, cancel := context.WithCancel(t.Context())
	cancel()
	for name, page := range map[string]func(http.ResponseWriter, *http.Request, Person) error{
		"chat": c.chat, "log": c.chat, "turn": c.turnPage, "prompt": c.promptPage, "file": c.file, "tasks": c.tasks, "dead": c.dead, "activity": c.activity,
		"agents": c.agents, "cost": c.cost, "conversations": c.conversations, "search": c.conversations, "new search": c.newChat,
	} {
		r := httptest.NewRequestWithContext(impatient, http.MethodGet, "/", nil)
		if strings.HasSuffix(name, "search") {
			r.URL.RawQuery = "q=tea"
		}
		r.SetPathValue("context", "x")
		r.SetPathValue("entry", "1")
		if name == "log" || name == "agents" || name == "conversations" {
			r.Header.Set("Accept", "application/json")
		}
		refused := func(who Person) bool {
			e, ok := errors.AsType[wrong](page(httptest.NewRecorder(), r, who))
			return ok && e.code == http.StatusTooManyRequests
		}
		if !refused(ada) || refused(bob) {
			t.Errorf("the page %s is refused to who has no room: %t, and to somebody else: %t", name, refused(ada), refused(bob))
		}
	}
}

// TestPastHasRoom has a stream begin so far back that the store is read for it: it waits while its person reads as much as a person may.
func TestPastHasRoom(t *testing.T) {
	c := New(Config{Client: &client.Client{Transport: memory.New(nil)}, Store: memstore.New(), Agents: registry.New(registry.Config{}).Snapshot})
	c.feed.from, c.feed.to, c.feed.changed = 10, 10, make(chan struct{})
	s := &stream{c: c, who: Person{User: "user:ada"}}
	leave, err := c.enterPage(t.Context(), httptest.NewRecorder(), s.who, ownPages)
	if err != nil {
		t.Fatal(err)
	}
	impatient, cancel := context.WithCancel(t.Context())
	cancel()
	none := errors.New("no room")
	read := func(context.Context) (func(), error) {
		leave, err := s.read(impatient)
		if err == nil {
			leave()
			return func() {}, nil
		}
		return nil, none
	}
	if _, _, _, err := c.feed.after(t.Context(), 1, read); !errors.Is(err, none) {
		t.Errorf("without room the past is read: %v", err)
	}
	leave()
	for v, name := range map[conversation.Version]string{1: "past", 10: "present"} {
		if _, _, _, err := c.feed.after(t.Context(), v, s.read); err != nil {
			t.Errorf("the %s: %v", name, err)
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

// TestAnswerList has lists, which are written as a whole list is, and one that ends with an error, which is not taken for all.
func TestAnswerList(t *testing.T) {
	type one struct {
		Name string `json:"name"`
		Tags []int  `json:"tags"`
	}
	for _, all := range [][]one{{}, {{"a", nil}}, {{"a<\u202e", []int{1, 2}}, {"b", []int{}}}} {
		whole, parts := httptest.NewRecorder(), &unhurried{ResponseRecorder: httptest.NewRecorder()}
		err := errors.Join(answerJSON(whole, all), answerList(parts, func(yield func(one, error) bool) {
			for _, v := range all {
				if !yield(v, nil) {
					return
				}
			}
		}))
		if err != nil || parts.Body.String() != whole.Body.String() || parts.extended != len(all) {
			t.Errorf("%d values are, with %v and more time %d times,\n%s\nwant\n%s", len(all), err, parts.extended, parts.Body, whole.Body)
		}
	}
	torn := errors.New("torn")
	if err := answerList(httptest.NewRecorder(), func(yield func(one, error) bool) { yield(one{}, torn) }); !errors.Is(err, torn) {
		t.Errorf("a list that cannot be read = %v", err)
	}
	defer func() {
		if err, _ := recover().(error); !errors.Is(err, http.ErrAbortHandler) {
			t.Errorf("%v ends a list that was begun", err)
		}
	}()
	err := answerList(httptest.NewRecorder(), func(yield func(one, error) bool) { _ = yield(one{}, nil) && yield(one{}, torn) })
	t.Errorf("a list that was begun = %v", err)
}

// TestHappeningsAreShort has an entry with a long text, of which what happened has the beginning, and many entries, of which the latest are kept.
func TestHappeningsAreShort(t *testing.T) {
	store := memstore.New()
	c := New(Config{Client: &client.Client{}, Store: store})
	const many = 3 * maxActivity
	for i := range uint64(many) {
		m := a2a.NewMessage(a2a.MessageRoleUser, a2a.NewTextPart(strings.Repeat("ü", maxHappened)))
		e := &conversation.Entry{Seq: i + 1, Time: time.Now(), Cause: &transport.Event{ID: fmt.Sprint(i), From: "user", ContextID: "x", Payload: m}}
		if _, err := store.Append(t.Context(), "", "x", conversation.Version(i), e); err != nil {
			t.Fatal(err)
		}
	}
	rows, err := c.happenings(t.Context(), &activityData{Now: time.Now()}, many)
	if err != nil || len(rows) != maxActivity || rows[0].Seq != many || cap(rows) > 4*maxActivity {
		t.Fatalf("%d happenings in room for %d, from entry %d, %v", len(rows), cap(rows), rows[0].Seq, err)
	}
	if n := len(rows[0].Text); n > maxHappened+len("…") || !utf8.ValidString(rows[0].Text) {
		t.Errorf("the text has %d bytes", n)
	}
}

// TestNoCause has an entry without a cause: nothing is known of what has happened.
func TestNoCause(t *testing.T) {
	e := &conversation.Entry{Seq: 1, Time: time.Now()}
	if all := happeningsOf("x", e); len(all) > 0 {
		t.Errorf("there happened %+v", all)
	}
}
