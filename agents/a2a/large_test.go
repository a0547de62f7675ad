package a2a

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/a2aproject/a2a-go/v2/a2a"

	"github.com/cortex-orchestrator/cortex/agents"
	"github.com/cortex-orchestrator/cortex/internal/httpserver"
)

// stuck is the body of an answer that goes no further until it is closed.
type stuck struct {
	io.Reader
	closed chan struct{}
	once   sync.Once
}

func (s *stuck) Read(p []byte) (int, error) {
	n, err := s.Reader.Read(p)
	if n > 0 || !errors.Is(err, io.EOF) {
		return n, err
	}
	<-s.closed
	return 0, errors.New("it is closed")
}

func (s *stuck) Close() error {
	s.once.Do(func() { close(s.closed) })
	return nil
}

// TestLargeAnswersHaveRoom has the peers at the ports of a host begin many answers, or events, that are large, or would be when they are decoded, which they do
// not end: few of them are read at the same time, and none for ever, and those of other peers have room meanwhile.
func TestLargeAnswersHaveRoom(t *testing.T) {
	for _, of := range []struct{ kind, large string }{
		{"application/json", strings.Repeat("x", 2*freeAnswer)},
		{"text/event-stream", "data: " + strings.Repeat("x", 2*freeAnswer)},
		{"application/json", "[" + strings.Repeat("{},", freeAnswer/60)},
		{"text/event-stream", "data: [" + strings.Repeat("{},", freeAnswer/60)},
	} {
		kind, large := of.kind, of.large
		synctest.Test(t, func(t *testing.T) {
			defer func(was *httpserver.Room) { larges = was }(larges)
			larges = httpserver.NewRoom(mostLarge, ownLarge) // of the bubble
			ask := func(host string, said io.ReadCloser) error {
				x := &exchange{&Agent{peer: &Peer{}, home: &url.URL{Scheme: "http", Host: host}}, answering(func(r *http.Request) *http.Response {
					return &http.Response{StatusCode: http.StatusOK, Header: http.Header{"Content-Type": {kind}}, Body: said, Request: r}
				})}
				ctx, end := context.WithCancel(t.Context())
				defer end()
				r, err := http.NewRequestWithContext(ctx, http.MethodPost, "http://"+host+"/rpc", nil)
				if err != nil {
					return err
				}
				resp, err := x.RoundTrip(r)
				if err != nil {
					return err
				}
				defer resp.Body.Close()
				_, err = io.Copy(io.Discard, resp.Body)
				return err
			}
			over, end := context.WithCancel(t.Context())
			end()
			has := func(n int64) bool { // room
				if !larges.Take(over, "hog.test", n) {
					return false
				}
				larges.Give("hog.test", n)
				return true
			}
			began := time.Now()
			var hogs sync.WaitGroup
			for i := range 3 * ownLarge / maxBody {
				hogs.Go(func() {
					if err := ask(fmt.Sprint("Hog.test:", 8000+i), &stuck{Reader: strings.NewReader(large), closed: make(chan struct{})}); !errors.Is(err, errLate) {
						t.Errorf("%s: one that does not end = %v, want %v", kind, err, errLate)
					}
				})
			}
			<-time.After(largeTime / 2) // by the clock of the bubble
			if has(1) {
				t.Errorf("%s: more may be read", kind)
			}
			if err := ask("good.test", io.NopCloser(strings.NewReader(large+"\n\n"))); err != nil {
				t.Errorf("%s: another peer's = %v", kind, err)
			}
			hogs.Wait()
			if took := time.Since(began).Round(time.Minute); took != 3*largeTime {
				t.Errorf("%s: they took %v, want %v", kind, took, 3*largeTime)
			}
			if synctest.Wait(); !has(ownLarge) {
				t.Errorf("%s: their room is not given back", kind)
			}
		})
	}
}

// TestAnswersKeepTheirRoom checks that a large answer has its room until who asked for it is done with it: the SDK closes its body before it decodes it.
func TestAnswersKeepTheirRoom(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		empty(t)
		defer func(was *httpserver.Room) { larges = was }(larges)
		larges = httpserver.NewRoom(ownLarge, ownLarge) // of the bubble
		free := func() bool {
			over, end := context.WithCancel(t.Context())
			end()
			ok := larges.Take(over, "peer.test", ownLarge)
			if ok {
				larges.Give("peer.test", ownLarge)
			}
			return ok
		}
		a := calling(t, io.Discard, func(r *http.Request) *http.Response {
			body := `{"jsonrpc":"2.0","id":"1","result":{"id":"t","status":{"state":"TASK_STATE_WORKING"},"artifacts":[{"artifactId":"a","parts":[{"text":"` + strings.Repeat("x", 2*freeAnswer) + `"}]}]}}`
			return &http.Response{StatusCode: http.StatusOK, Header: http.Header{"Content-Type": {"application/json"}}, Body: io.NopCloser(strings.NewReader(body)), Request: r}
		})
		ctx, end := context.WithCancel(t.Context())
		if _, err := a.conn.GetTask(ctx, &a2a.GetTaskRequest{ID: "t"}); err != nil {
			t.Fatal(err)
		}
		if synctest.Wait(); free() {
			t.Error("an answer that is not used yet has no room")
		}
		end()
		if synctest.Wait(); !free() {
			t.Error("its room is not given back")
		}
		a.card = &a2a.AgentCard{Name: "peer"}
		w := &work{a: a, t: &agents.Task{}, r: &record{Task: "t"}, out: outputs{host: a.host()}, pace: newPace()}
		if err := w.look(t.Context()); err != nil {
			t.Error(err)
		}
		w.out.drop()
		if synctest.Wait(); !free() {
			t.Error("the room of a task that was looked for is not given back")
		}
		if _, err := w.post(t.Context(), &a2a.Message{ID: "m"}); err == nil {
			t.Error("a task without its kind is an answer")
		}
		if synctest.Wait(); !free() {
			t.Error("the room of an answer is not given back")
		}
	})
}

// TestEventsKeepTheirRoom checks that a large event has its room until the next one is asked for, since it is decoded before that, and that its length counts as
// held until its stream ends, since the buffers of the SDK stay so large; and that no event is read for which there is no room.
func TestEventsKeepTheirRoom(t *testing.T) {
	empty(t)
	defer func(was *httpserver.Room) { larges = was }(larges)
	larges = httpserver.NewRoom(ownLarge, ownLarge)
	open := func() io.ReadCloser {
		all := "data: " + strings.Repeat("x", 2*freeAnswer) + "\n\n"
		x := &exchange{&Agent{peer: &Peer{}, home: &url.URL{Scheme: "http", Host: "peer.test"}}, answering(func(r *http.Request) *http.Response {
			body := io.NopCloser(io.MultiReader(strings.NewReader(all), strings.NewReader("data: short\n\n")))
			return &http.Response{StatusCode: http.StatusOK, Header: http.Header{"Content-Type": {"text/event-stream"}}, Body: body, Request: r}
		})}
		r, err := http.NewRequestWithContext(t.Context(), http.MethodPost, "http://peer.test/rpc", nil)
		if err != nil {
			t.Fatal(err)
		}
		resp, err := x.RoundTrip(r)
		if err != nil {
			t.Fatal(err)
		}
		return resp.Body
	}
	over, end := context.WithCancel(t.Context())
	end()
	free := func() bool {
		ok := larges.Take(over, "peer.test", ownLarge)
		if ok {
			larges.Give("peer.test", ownLarge)
		}
		return ok
	}
	body := open()
	if _, err := io.ReadFull(body, make([]byte, 2*freeAnswer+len("data: \n\n"))); err != nil {
		t.Fatal(err)
	}
	if free() {
		t.Error("an event that is not decoded yet has no room")
	}
	if _, err := body.Read(make([]byte, 100)); err != nil || !free() {
		t.Errorf("an event has room behind it: %v", err)
	}
	if n := held.of["peer.test"]; n < 2*freeAnswer {
		t.Errorf("%d bytes are held of a stream with an event of %d", n, 2*freeAnswer)
	}
	body.Close()
	if held.all != 0 {
		t.Errorf("%d bytes are held behind the stream", held.all)
	}
	defer Fill(freeAnswer)()
	body = open()
	defer body.Close()
	if n, err := io.Copy(io.Discard, body); !errors.Is(err, errTooMuch) || n > freeAnswer+32<<10 {
		t.Errorf("of an event for which there is no room, %d bytes were read: %v", n, err)
	}
}
