package rtfs

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"strings"
	"sync"
	"testing"
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

// TestCallsUnderWayAreBounded has many machines take all calls that they may: another one can still be called, and the number of all is bounded.
func TestCallsUnderWayAreBounded(t *testing.T) {
	w := newWorld(t)
	w.serve()
	agent := newAgent(t, says(`{"success":true,"output":"done"}`))
	w.register(pdf("pdf", agent.URL+"/rtfs"), agent.URL, 60)
	w.Knows("pdf")
	posts := &w.b.poster.posts
	for again := true; again; {
		again = false
		for i := range 8 {
			again = posts.begin(fmt.Sprint("10.0.0.", i), fmt.Sprint("user:", i)) || again
		}
	}
	if got := w.Ask("pdf", "pdf.split", "split", ""); got != "done" {
		t.Errorf("the answer = %q", got)
	}
	own := machine(strings.TrimPrefix(agent.URL, "http://"))
	for posts.begin(own, "") {
	}
	if got := w.Ask("pdf", "pdf.split", "split", ""); !strings.Contains(got, "too many calls to agents are under way") {
		t.Errorf("the answer = %q", got)
	}
	if agent.called() != 1 {
		t.Errorf("the agent was called %d times", agent.called())
	}
	posts.end(own, "")
	if got := w.Ask("pdf", "pdf.split", "split", ""); got != "done" {
		t.Errorf("the answer = %q", got)
	}
}

// TestCallsOfRegistrants has one machine register agents at endpoints that look like those of many: their calls are those of one.
func TestCallsOfRegistrants(t *testing.T) {
	posts := &underWay{most: 16, of: map[string]int{}}
	n := 0
	for ; n < posts.most && posts.begin((&lease{Endpoint: fmt.Sprintf("http://%d.example.com:%d/", n, 8000+n), From: "192.0.2.1"}).machine(), fmt.Sprint("user:", n)); n++ {
	}
	if n == 0 || n == posts.most {
		t.Errorf("%d calls are under way", n)
	}
	for _, l := range []*lease{{From: "192.0.2.2"}, {Endpoint: "http://127.0.0.1:10/"}} {
		if !posts.begin(l.machine(), "user:ada") {
			t.Errorf("%v has no call", l)
		}
	}
}

// TestCallsOfRequesters has one person make all calls that they may, to one machine and to many: another one can call agents of each.
func TestCallsOfRequesters(t *testing.T) {
	for _, machines := range []int{1, 64} {
		posts := &underWay{most: 64, of: map[string]int{}}
		n := 0
		for again := true; again; {
			again = false
			for i := range machines {
				if posts.begin(fmt.Sprint("10.0.0.", i), "user:eve") {
					n, again = n+1, true
				}
			}
		}
		if n == 0 || n == posts.most {
			t.Errorf("%d calls to %d machines are under way", n, machines)
		}
		for i := range min(machines, 8) {
			if !posts.begin(fmt.Sprint("10.0.0.", i), "user:bob") {
				t.Errorf("of %d machines, another one has no call to number %d", machines, i)
			}
		}
	}
}
