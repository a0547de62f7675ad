package a2a

import (
	"context"
	"errors"
	"io"
	"net/http"
	"net/url"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

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

// TestLargeAnswersHaveRoom has the peers at an address begin many large answers, or events, which they do not end: few of them are read at the same time, and
// none for ever, and those of other peers have room meanwhile.
func TestLargeAnswersHaveRoom(t *testing.T) {
	for _, kind := range []string{"application/json", "text/event-stream"} {
		synctest.Test(t, func(t *testing.T) {
			defer func(was *httpserver.Room) { larges = was }(larges)
			larges = httpserver.NewRoom(mostLarge, ownLarge) // of the bubble
			ask := func(host string, said io.ReadCloser) error {
				x := &exchange{&Agent{peer: &Peer{}, home: &url.URL{Scheme: "http", Host: host}}, answering(func(r *http.Request) *http.Response {
					return &http.Response{StatusCode: http.StatusOK, Header: http.Header{"Content-Type": {kind}}, Body: said, Request: r}
				})}
				r, err := http.NewRequestWithContext(t.Context(), http.MethodPost, "http://"+host+"/rpc", nil)
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
			large := "data: " + strings.Repeat("x", 2*freeAnswer)
			began := time.Now()
			var hogs sync.WaitGroup
			for range 3 * ownLarge / maxBody {
				hogs.Go(func() {
					if err := ask("hog.test", &stuck{Reader: strings.NewReader(large), closed: make(chan struct{})}); !errors.Is(err, errLate) {
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
			if !has(ownLarge) {
				t.Errorf("%s: their room is not given back", kind)
			}
		})
	}
}
