package nats

import (
	"fmt"
	"strings"
	"testing"

	natsgo "github.com/nats-io/nats.go"
)

// TestLiveRoom has one handler of ten be fast: what waits for the others has a bound for all of them, and the fast one loses nothing.
func TestLiveRoom(t *testing.T) {
	r := newLiveRoom(1 << 20)
	fast := r.open()
	var slow []*liveQueue
	for range 9 {
		slow = append(slow, r.open())
	}
	text := strings.Repeat("x", 40<<10)
	lost := 0
	for i := range 200 {
		m := &natsgo.Msg{Data: fmt.Append(nil, i, text)}
		for _, q := range slow {
			if !q.put(m) {
				lost++
			}
		}
		if !fast.put(m) {
			lost++
		}
		if got := fast.take(); got != m {
			t.Fatalf("event %d is lost for who takes each at once", i)
		}
		if r.all > r.most {
			t.Fatalf("%d bytes wait", r.all)
		}
	}
	if lost == 0 {
		t.Error("nothing was said to be lost")
	}
	for _, q := range slow {
		before := -1
		for m := q.take(); m != nil; m = q.take() {
			var i int
			if _, err := fmt.Sscanf(string(m.Data), "%dx", &i); err != nil || i <= before {
				t.Fatalf("after event %d comes %.8q, %v", before, m.Data, err)
			}
			before = i
		}
		q.close()
		if !q.put(&natsgo.Msg{}) || q.take() != nil {
			t.Error("a closed queue takes an event")
		}
	}
	if r.all != 0 || len(r.of) != 1 {
		t.Errorf("%d bytes wait for nobody, of %d", r.all, len(r.of))
	}
}
