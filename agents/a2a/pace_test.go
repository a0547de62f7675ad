package a2a

import (
	"context"
	"errors"
	"io"
	"iter"
	"net/http"
	"net/url"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/a2aproject/a2a-go/v2/a2a"
	"google.golang.org/grpc"
	"google.golang.org/protobuf/types/known/wrapperspb"
)

// TestPace has a peer stream without a pause: what comes is read at a pace.
func TestPace(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		const events, seconds = eventsAtOnce + 60*eventsPerSecond, 60
		open := func(context.Context) iter.Seq2[a2a.Event, error] {
			return func(yield func(a2a.Event, error) bool) {
				for range events {
					if !yield(&a2a.TaskStatusUpdateEvent{TaskID: "another"}, nil) {
						return
					}
				}
			}
		}
		began := time.Now()
		w := &work{r: &record{Task: "t1"}, pace: newPace()}
		if settled, err := w.listen(t.Context(), open); settled || err != nil {
			t.Fatalf("listen = %v, %v", settled, err)
		}
		if took := time.Since(began).Round(time.Second); w.events != events || took != seconds*time.Second {
			t.Errorf("%d events were read in %v, want %d in %d s", w.events, took, events, seconds)
		}
	})
}

// answering answers every request.
type answering func(*http.Request) *http.Response

func (f answering) RoundTrip(r *http.Request) (*http.Response, error) { return f(r), nil }

// TestCommentsArePaced has a peer stream comments, which are no events, without a pause.
func TestCommentsArePaced(t *testing.T) {
	said := strings.Repeat(": "+strings.Repeat("x", 6000)+"\n"+"\n", 100<<20/6000)
	synctest.Test(t, func(t *testing.T) {
		x := &exchange{&Agent{peer: &Peer{}, home: &url.URL{Scheme: "http", Host: "peer.test"}}, answering(func(r *http.Request) *http.Response {
			return &http.Response{StatusCode: http.StatusOK, Header: http.Header{"Content-Type": {"text/event-stream"}}, Body: io.NopCloser(strings.NewReader(said)), Request: r}
		})}
		r, err := http.NewRequestWithContext(t.Context(), http.MethodPost, "http://peer.test/rpc", nil)
		if err != nil {
			t.Fatal(err)
		}
		resp, err := x.RoundTrip(r)
		if err != nil {
			t.Fatal(err)
		}
		defer resp.Body.Close()
		began := time.Now()
		if n, err := io.Copy(io.Discard, resp.Body); err != nil || n != int64(len(said)) || time.Since(began) == 0 {
			t.Errorf("%d of %d bytes in %v, %v, want all of them, with pauses", n, len(said), time.Since(began), err)
		}
	})
}

// endless is a stream of gRPC that goes on without a pause.
type endless struct {
	grpc.ClientStream
	ctx context.Context //nolint:containedctx // as that of the stream
}

func (s endless) Context() context.Context { return s.ctx }

func (s endless) RecvMsg(m any) error {
	m.(*wrapperspb.StringValue).Value = said8
	return nil
}

var said8 = strings.Repeat("x", 8<<20)

// TestCallsArePaced has a peer stream large messages by gRPC without a pause: they are read at the pace of all answers, up to the bound of a stream.
func TestCallsArePaced(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := &rpcStream{ClientStream: endless{ctx: t.Context()}}
		began, n, err := time.Now(), 0, error(nil)
		for ; err == nil && n <= maxStream; n += len(said8) {
			err = s.RecvMsg(&wrapperspb.StringValue{})
		}
		if !errors.Is(err, errTooMuch) || n != maxStream {
			t.Errorf("a stream ends after %d bytes: %v, want %d", n, err, maxStream)
		}
		if time.Since(began) == 0 {
			t.Error("a stream is read without a pause")
		}
	})
}
