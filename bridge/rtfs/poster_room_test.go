package rtfs

import (
	"context"
	"errors"
	"io"
	"net/http"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"
)

// TestLongAnswersHaveRoom has agents of one machine begin many long answers that they do not end: few of them are read at the same time, those of another
// machine have room meanwhile, and one that has room and does not arrive is given up.
func TestLongAnswersHaveRoom(t *testing.T) {
	w := newWorld(t)
	hog := newAgent(t, func(w http.ResponseWriter, _ int, r *http.Request) {
		_, _ = io.WriteString(w, strings.Repeat("x", 2*freeAnswer))
		_ = http.NewResponseController(w).Flush()
		<-r.Context().Done()
	})
	good := newAgent(t, says(strings.Repeat("x", 2*freeAnswer)))
	p := newPoster(true, nil)
	p.patience = time.Hour
	from := strings.TrimPrefix(hog.URL, "http://")
	over, end := context.WithCancel(context.Background())
	end()
	has := func(n int64) bool { // room
		if !p.room.Take(over, from, n) {
			return false
		}
		p.room.Give(from, n)
		return true
	}
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	const most = ownAnswers / maxAnswer
	var calls sync.WaitGroup
	for range 3 * most {
		calls.Go(func() {
			if _, _, err := p.post(ctx, hog.URL, http.Header{}, nil); !errors.Is(err, context.Canceled) {
				t.Errorf("an answer that does not end = %v, want %v", err, context.Canceled)
			}
		})
	}
	w.Until("as many long answers are read as may be", func() bool { return hog.called() == 3*most && !has(1) })
	r, _, err := p.post(t.Context(), good.URL, http.Header{}, nil)
	if err != nil || len(r.body) != 2*freeAnswer {
		t.Fatalf("the answer of another machine: %v", err)
	}
	r.over()
	cancel()
	calls.Wait()
	if !has(ownAnswers) {
		t.Error("the room of answers that were given up is not given back")
	}
	p.patience = time.Millisecond
	if _, _, err := p.post(t.Context(), hog.URL, http.Header{}, nil); !errors.Is(err, errSlow) {
		t.Errorf("an answer that does not arrive = %v, want %v", err, errSlow)
	}
	if !has(ownAnswers) {
		t.Error("the room of an answer that has not arrived is not given back")
	}
}

// TestPostsAreBounded has one machine take all calls that it may: the next one to it fails, and nothing was sent; one to another machine is made.
func TestPostsAreBounded(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := newPoster(true, nil)
		n := 0
		gone, cancel := context.WithCancel(t.Context())
		cancel()
		for n < mostPosts && p.posts.Take(gone, "127.0.0.1:9", 1) {
			n++
		}
		if n == 0 || n == mostPosts {
			t.Errorf("%d calls are under way", n)
		}
		if _, perhaps, err := p.post(t.Context(), "http://127.0.0.1:9/", http.Header{}, nil); perhaps || !errors.Is(err, errBusy) {
			t.Errorf("sent %v, %v", perhaps, err)
		}
		if !p.posts.Take(gone, "127.0.0.1:10", 1) {
			t.Error("another machine finds no room")
		}
	})
}
