package a2a

import (
	"context"
	"net/http"
	"net/http/httptest"
	"strconv"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/a2aproject/a2a-go/v2/a2a"

	"github.com/cortex-orchestrator/cortex/client"
	"github.com/cortex-orchestrator/cortex/cortex/memstore"
	"github.com/cortex-orchestrator/cortex/cortex/storage"
	"github.com/cortex-orchestrator/cortex/transport"
	"github.com/cortex-orchestrator/cortex/transport/memory"
)

// TestAnswering checks that a user has a bounded number of bytes in answers at a time, waits for those before, and takes nothing from others; and that
// all users together are bounded.
func TestAnswering(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := New(Config{Client: &client.Client{}})
		take := func(user string, n int64) (ok bool, done func()) {
			ctx := s.With(t.Context(), user, "")
			c, err := callerOf(ctx)
			if err != nil {
				t.Fatal(err)
			}
			return s.take(ctx, c, n), func() { s.Done(ctx) }
		}
		_, first := take("user:ada", ownAnswered)
		if ok, _ := take("user:ada", 1); ok {
			t.Error("more than a user may have")
		}
		if ok, _ := take("user:bob", ownAnswered); !ok {
			t.Error("another user has nothing")
		}
		if ok, _ := take("user:cid", 1); ok {
			t.Error("more than all may have")
		}
		waits := make(chan bool)
		go func() {
			ok, _ := take("user:ada", 1)
			waits <- ok
		}()
		synctest.Wait()
		first()
		first() // again: nothing is given back twice
		if !<-waits {
			t.Error("nobody waits for the answer before")
		}
		ctx := s.With(t.Context(), "user:ada", "")
		c, _ := callerOf(ctx)
		gone, stop := context.WithCancel(ctx)
		stop()
		if s.take(gone, c, 1) {
			t.Error("something is reserved for a client that is gone")
		}
		s.Done(ctx)
		if s.take(ctx, c, 1) {
			t.Error("something is reserved for a call that is over")
		}
		if s.answering.all != ownAnswered+1 || len(s.answering.of) != 2 {
			t.Errorf("%d bytes are in answers: %v", s.answering.all, s.answering.of)
		}
	})
}

// TestDecoding checks that a user's large messages are decoded one after the other, which keeps nobody else and no small message waiting, and that a call which
// goes on lets the next be decoded.
func TestDecoding(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		bus := memory.New(nil)
		defer bus.Close()
		s := New(Config{Client: &client.Client{Transport: bus}, Store: memstore.New()})
		door := s.Handler(func(token string) (string, error) { return "user:" + token, nil })
		call := func(ctx context.Context, user, method, params string) <-chan string {
			r := httptest.NewRequestWithContext(ctx, http.MethodPost, "http://localhost/", strings.NewReader(`{"jsonrpc":"2.0","id":1,"method":"`+method+`","params":`+params+`}`))
			r.Header.Set("Content-Type", "application/json")
			r.Header.Set("A2A-Version", "1.0")
			r.Header.Set("Authorization", "Bearer "+user)
			w, over := httptest.NewRecorder(), make(chan string, 1)
			go func() {
				door.ServeHTTP(w, r)
				over <- w.Body.String()
			}()
			synctest.Wait()
			return over
		}
		isOver := func(what string, over <-chan string, want bool) {
			t.Helper()
			select {
			case said := <-over:
				if !want || !strings.Contains(said, "there is no task") {
					t.Errorf("%s is answered: %s", what, said)
				}
			default:
				if want {
					t.Errorf("%s is not answered", what)
				}
			}
		}
		large := strings.Repeat("x", 100_000)
		get := func(user, words string) <-chan string {
			return call(t.Context(), user, "GetTask", `{"id":"one","metadata":"`+words+`"}`)
		}
		if !s.decoding.Take(t.Context(), "user:ada", 1) {
			t.Fatal("nothing of hers is decoded, and there is no room")
		}
		waits := get("ada", large)
		isOver("a second large message", waits, false)
		isOver("a small one", get("ada", ""), true)
		isOver("somebody else's", get("bob", large), true)
		s.decoding.Give("user:ada", 1)
		synctest.Wait()
		isOver("the second one", waits, true)
		ctx, leave := context.WithCancel(t.Context())
		asks := call(ctx, "ada", "SendMessage", `{"message":{"messageId":"m","role":"ROLE_USER","parts":[{"text":"`+large+`"}]}}`)
		isOver("a message that nobody reads", asks, false)
		isOver("one while it waits", get("ada", large), true)
		leave()
		<-asks
	})
}

// heldBus is a bus that stores messages only when it is told to.
type heldBus struct {
	*memory.Bus
	came chan *transport.Event
	goOn chan struct{}
}

func (b *heldBus) Publish(ctx context.Context, topic transport.Topic, e *transport.Event) error {
	if topic.Kind == transport.KindInbox {
		b.came <- e
		select {
		case <-b.goOn:
		case <-ctx.Done():
			return ctx.Err()
		}
	}
	return b.Bus.Publish(ctx, topic, e)
}

// TestSending checks that a user's large messages are stored one after the other, whether their answers are awaited or not, which keeps nobody else and no small message
// waiting.
func TestSending(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		bus := &heldBus{memory.New(nil), make(chan *transport.Event, 10), make(chan struct{})}
		defer bus.Close()
		s := New(Config{Client: &client.Client{Transport: bus}, Store: memstore.New()})
		ctx, leave := context.WithCancel(t.Context())
		var calls sync.WaitGroup
		send := func(user string, size int, returns bool) {
			calls.Go(func() {
				ctx := s.With(ctx, user, "")
				defer s.Done(ctx)
				m := a2a.NewMessage(a2a.MessageRoleUser, a2a.NewTextPart(strings.Repeat("x", size)))
				if !s.Hold(ctx, size) {
					t.Error("there is no room for a message")
				}
				_, _ = s.SendMessage(ctx, &a2a.SendMessageRequest{Message: m, Config: &a2a.SendMessageConfig{ReturnImmediately: returns}}) // nobody answers it
			})
			synctest.Wait()
		}
		check := func(what string, want int) {
			t.Helper()
			synctest.Wait()
			if n := len(bus.came); n != want {
				t.Errorf("%s: %d messages are on their way to the store or there, want %d", what, n, want)
			}
		}
		for _, returns := range []bool{false, true, false, true} {
			send("user:ada", 100_000, returns)
		}
		check("four large ones of a user", 1)
		send("user:ada", 100, true)
		send("user:bob", 100_000, false)
		check("with a small one, and somebody else's", 3)
		close(bus.goOn)
		check("when nothing is held", 6)
		leave()
		calls.Wait()
	})
}

// TestAsking checks that the messages of a user's calls are bounded until they are answered, and take nothing from others.
func TestAsking(t *testing.T) {
	s := New(Config{Client: &client.Client{}})
	ada, bob := s.With(t.Context(), "user:ada", ""), s.With(t.Context(), "user:bob", "")
	if !s.Hold(ada, ownAsked-1) || s.Hold(ada, 2) || !s.Hold(bob, ownAsked) {
		t.Error("a user may have no more, and no less, than their own")
	}
	s.Done(ada)
	s.Done(ada) // again: nothing is given back twice
	if !s.Hold(ada, ownAsked) || s.asking.all != 2*ownAsked {
		t.Errorf("%d bytes are asked: %v", s.asking.all, s.asking.of)
	}
	post := func(own int64) int {
		s := New(Config{Client: &client.Client{}})
		s.asking.own = own
		r := httptest.NewRequest(http.MethodPost, "http://localhost/tasks/none:cancel", strings.NewReader("{}"))
		r.RemoteAddr = "127.0.0.1:1"
		r.Header.Set("Content-Type", "application/json")
		r.Header.Set("A2A-Version", "1.0")
		w := httptest.NewRecorder()
		s.Handler(nil).ServeHTTP(w, r)
		if s.asking.all != 0 {
			t.Errorf("%d bytes are kept of a call that is over", s.asking.all)
		}
		return w.Code
	}
	if got := post(10); got != http.StatusTooManyRequests {
		t.Errorf("a message for which there is no room: %d, want %d", got, http.StatusTooManyRequests)
	}
	if got := post(ownAsked); got != http.StatusNotFound {
		t.Errorf("a message for which there is room: %d, want %d", got, http.StatusNotFound)
	}
}

// endless is a body that never ends, and says when a MiB of it was read.
type endless struct {
	read int
	much chan<- struct{}
	goOn <-chan struct{}
}

func (e *endless) Read(b []byte) (int, error) {
	if e.read < 1<<20 && e.read+len(b) >= 1<<20 {
		e.much <- struct{}{}
		<-e.goOn
	}
	e.read += len(b)
	return len(b), nil
}

// TestArriving checks that the bodies of a user's requests are not read while too many of them arrive, and that those of others are.
func TestArriving(t *testing.T) {
	s := New(Config{Client: &client.Client{}})
	h := s.Handler(func(token string) (string, error) { return "user:" + token, nil })
	gone, cancel := context.WithCancel(t.Context()) // nobody waits for room
	cancel()
	much, goOn := make(chan struct{}), make(chan struct{})
	read := func(token string) bool {
		over := make(chan struct{})
		r := httptest.NewRequestWithContext(gone, http.MethodPost, "http://localhost/message:send", &endless{much: much, goOn: goOn})
		r.RemoteAddr = "127.0.0.1:1"
		r.Header.Set("Authorization", "Bearer "+token)
		go func() {
			defer close(over)
			h.ServeHTTP(httptest.NewRecorder(), r)
		}()
		select {
		case <-much:
			return true
		case <-over:
			return false
		}
	}
	for range ownArriving / MaxBody {
		if !read("ada") {
			t.Fatal("a user's body is not read though there is room")
		}
	}
	if read("ada") {
		t.Error("a body is read for which there is no room")
	}
	if !read("bob") {
		t.Error("the body of another user is not read")
	}
	close(goOn)
}

// TestPendingBytes checks that the messages of tasks that are not in a log yet are bounded in number and in bytes.
func TestPendingBytes(t *testing.T) {
	for _, size := range []int64{1, 1 << 20} {
		var p pending
		for i := range 2 * mostPending {
			p.put(&record{id: a2a.TaskID(strconv.Itoa(i))}, size)
		}
		if want := min(mostPending, pendingBytes/int(size)); p.of.Len() != want {
			t.Errorf("with %d bytes each, %d tasks are kept, want %d", size, p.of.Len(), want)
		}
	}
}

// TestExtendedCardHasRoom asks for Cortex's extended card, with more skills than it has room for, while the caller's other answers leave room and while they do not.
func TestExtendedCardHasRoom(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var all []*a2a.AgentCard
		for i := range 100 {
			all = append(all, &a2a.AgentCard{Name: "agent-" + strconv.Itoa(i), Skills: []a2a.AgentSkill{{ID: "s", Name: "s", Examples: []string{strings.Repeat("x", 60<<10)}}}})
		}
		s := New(Config{Client: &client.Client{}, Agents: func(context.Context) ([]*a2a.AgentCard, error) { return all, nil }})
		ctx := s.With(t.Context(), "user:ada", "")
		card, err := s.GetExtendedAgentCard(ctx, nil)
		if err != nil || len(card.Skills) < 40 || len(card.Skills) > 60 || !strings.Contains(card.Description, "left out") {
			t.Errorf("the card has %d skills, %v", len(card.Skills), err)
		}
		other := s.With(t.Context(), "user:ada", "")
		if c, _ := callerOf(other); !s.take(other, c, ownAnswered-maxShown) {
			t.Fatal("there is no room")
		}
		if _, err := s.GetExtendedAgentCard(s.With(t.Context(), "user:ada", ""), nil); err == nil || !strings.Contains(err.Error(), "too many answers") {
			t.Errorf("without room: %v", err)
		}
		if _, err := s.GetExtendedAgentCard(s.With(t.Context(), "user:bob", ""), nil); err != nil {
			t.Errorf("somebody else's: %v", err)
		}
		s.Done(ctx)
		if _, err := s.GetExtendedAgentCard(s.With(t.Context(), "user:ada", ""), nil); err != nil {
			t.Errorf("after the first: %v", err)
		}
	})
}

// TestCallWaitsOnce has a call whose answer takes several things for which there is no room: it waits for all of them together.
func TestCallWaitsOnce(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := New(Config{Client: &client.Client{}})
		other := s.With(t.Context(), "user:ada", "")
		if c, _ := callerOf(other); !s.take(other, c, ownAnswered) {
			t.Fatal("there is no room")
		}
		ctx := s.With(t.Context(), "user:ada", "")
		c, _ := callerOf(ctx)
		began := time.Now()
		for range 100 {
			if s.take(ctx, c, 1) {
				t.Fatal("more than a user may have")
			}
		}
		if took := time.Since(began); took != answerTime {
			t.Errorf("the call waited for %v, want %v", took, answerTime)
		}
		s.Done(other)
		if !s.take(ctx, c, 1) {
			t.Error("there is room, and it is not given")
		}
	})
}

// TestHistoryHasRoom shows long histories while the caller's other answers leave room and while they do not.
func TestHistoryHasRoom(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := New(Config{Client: &client.Client{}})
		long := []*a2a.Message{{Parts: a2a.ContentParts{a2a.NewTextPart(strings.Repeat("x", 1<<20)), a2a.NewDataPart(strings.Repeat("x", 1<<20))}}}
		short := []*a2a.Message{{Parts: a2a.ContentParts{a2a.NewTextPart("x"), nil}}}
		newest := func(user string, all []*a2a.Message) int {
			ctx := s.With(t.Context(), user, "")
			c, err := callerOf(ctx)
			if err != nil {
				t.Fatal(err)
			}
			return len(s.newest(ctx, c, all))
		}
		for range ownAnswered / (2<<20 + 2) {
			if newest("user:ada", long) != 1 {
				t.Fatal("a history for which there is room is not shown")
			}
		}
		if newest("user:ada", long) != 0 {
			t.Error("a history is shown for which there is no room")
		}
		if newest("user:ada", short) != 1 || newest("user:bob", long) != 1 {
			t.Error("a short history, or that of another user, is not shown")
		}
		other := s.With(t.Context(), "user:cid", "")
		if c, _ := callerOf(other); !s.take(other, c, ownAnswered-maxPage+1) {
			t.Fatal("there is no room")
		}
		if _, err := s.ListTasks(s.With(t.Context(), "user:cid", ""), &a2a.ListTasksRequest{}); err == nil || !strings.Contains(err.Error(), "too many answers") {
			t.Errorf("a list without room: %v", err)
		}
	})
}

// TestReadsAreSomebodys checks that a call reads for the user who makes it: a store serves those who read by turns.
func TestReadsAreSomebodys(t *testing.T) {
	s := New(Config{Client: &client.Client{User: "user:cortex"}})
	for user, want := range map[string]string{"user:ada": "user:ada", "": "user:cortex"} {
		if got := storage.Requester(s.With(t.Context(), user, "")); got != want {
			t.Errorf("a call of %q reads for %q, want %q", user, got, want)
		}
	}
}
