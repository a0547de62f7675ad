package transporttest

import (
	"context"
	"errors"
	"fmt"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/a2aproject/a2a-go/v2/a2a"

	"github.com/cortex-orchestrator/cortex/transport"
)

// fullAt is the bound of the worlds in fullCases.
const fullAt = 300

var fullCases = []testCase{
	{name: "full inbox", run: func(e *env) {
		if e.h.Bounded == nil {
			return
		}
		tr := e.h.Bounded(e.T, fullAt).Dial(e.T)
		var accepted []*transport.Event
		var refusal error
		for i := 0; refusal == nil && i <= 2*fullAt; i++ {
			ev := e.message(orchestrator, fmt.Sprint("c", i%7), fmt.Sprint(i))
			if refusal = tr.Publish(context.Background(), orchestrator, ev); refusal == nil {
				accepted = append(accepted, ev)
			}
		}
		if !errors.Is(refusal, transport.ErrFull) || !errors.Is(refusal, transport.ErrUnavailable) {
			e.Fatalf("after %d events Publish = %v, want ErrFull, which is an ErrUnavailable", len(accepted), refusal)
		}
		if n := len(accepted); n < fullAt-10 || n > fullAt {
			e.Errorf("%d events were taken, want about %d", n, fullAt)
		}
		share := e.message(orchestrator, "c0", "")
		share.Payload = &transport.Share{With: []string{"user:bob"}}
		e.wantIs(tr.Publish(context.Background(), orchestrator, share), transport.ErrFull, "a share: Publish to a full inbox")
		// Events of work in progress are accepted.
		task := &a2a.Task{ID: "t1", ContextID: "c0", Status: a2a.TaskStatus{State: a2a.TaskStateCompleted}}
		agent := e.message(orchestrator, "c0", "")
		agent.Payload = &a2a.Message{ID: agent.ID, ContextID: "c0", Role: a2a.MessageRoleAgent, Parts: a2a.ContentParts{a2a.NewTextPart("agent")}}
		timer := e.delayed(orchestrator, "c0", "", time.Hour)
		timer.Payload = &transport.Deadline{}
		timer.From = transport.Cortex
		for what, payload := range map[string]transport.Payload{"a result": task, "a cancellation": &transport.Cancel{Reason: "enough"}} {
			ev := e.message(orchestrator, "c0", "")
			ev.Payload = payload
			e.wantIs(tr.Publish(context.Background(), orchestrator, ev), nil, "%s: Publish to a full inbox", what)
		}
		for what, ev := range map[string]*transport.Event{"an agent's message": agent, "a deadline": timer} {
			e.wantIs(tr.Publish(context.Background(), orchestrator, ev), nil, "%s: Publish to a full inbox", what)
		}
		e.wantIs(tr.Publish(context.Background(), worker, e.message(worker, "c0", "a task")), nil, "a task: Publish while the orchestrator's inbox is full")

		// There is room again when some of it is done.
		d := e.desk(tr, orchestrator, nil)
		for range len(accepted) + 3 {
			d.next().done(nil)
		}
		e.eventually("new work is taken again", func() bool {
			return tr.Publish(context.Background(), orchestrator, e.message(orchestrator, "c0", "anew")) == nil
		})
		d.take("anew")
	}},
	{name: "full inbox of an agent", run: func(e *env) {
		if e.h.Bounded == nil {
			return
		}
		const most, over = fullAt, fullAt / 16 // over: how many are accepted before the transport counts again
		tr := e.h.Bounded(e.T, 20*fullAt).Dial(e.T)
		taken, refusal := 0, error(nil)
		for ; refusal == nil && taken <= 2*most; taken++ {
			refusal = tr.Publish(context.Background(), worker, e.message(worker, fmt.Sprint("c", taken%7), fmt.Sprint(taken)))
		}
		taken--
		if !errors.Is(refusal, transport.ErrFull) || !strings.Contains(refusal.Error(), worker.ID) {
			e.Fatalf("after %d tasks Publish = %v, want ErrFull that names %s", taken, refusal, worker.ID)
		}
		if taken < most || taken > most+over {
			e.Errorf("%d tasks were taken, want about %d", taken, most)
		}
		// Other inboxes are not affected.
		other := transport.Inbox("", "other")
		for _, t := range []transport.Topic{other, orchestrator} {
			e.wantIs(tr.Publish(context.Background(), t, e.message(t, "c1", "now")), nil, "Publish to %s while the inbox of %s is full", t.ID, worker.ID)
		}

		// There is room again when some of it is done, and no accepted event is lost.
		d := e.desk(tr, worker, nil)
		for range taken {
			d.next().done(nil)
		}
		e.eventually("tasks are taken again", func() bool {
			return tr.Publish(context.Background(), worker, e.message(worker, "c0", "anew")) == nil
		})
		d.take("anew")
	}},
	{name: "flood", run: func(e *env) {
		if e.h.Bounded == nil {
			return
		}
		if n := Flood(e.T, e.h.Bounded(e.T, 10*fullAt), 4, 4*10*fullAt); n < 9*fullAt || n > 11*fullAt {
			e.Errorf("%d events were taken by four clients together, want about %d", n, 10*fullAt)
		}
	}},
}

// Flood makes several clients publish n events of new work in all, as fast as they can, while nobody handles any, and then handles them. Each
// accepted event must come exactly once and in the order of its conversation; each refusal must be ErrFull. It returns the number of accepted
// events.
func Flood(t *testing.T, node Node, clients, n int) int {
	t.Helper()
	var mu sync.Mutex
	accepted := map[string]bool{} // by id; true: it was handled
	text := func(client, i int) string { return fmt.Sprintf("%d-%d", client, i) }
	var all sync.WaitGroup
	for c := range clients {
		tr := node.Dial(t)
		all.Go(func() {
			for i := range n / clients {
				id := text(c, i)
				err := tr.Publish(context.Background(), orchestrator, &transport.Event{
					ID: id, From: fmt.Sprint("user:", c), To: transport.Cortex, ContextID: fmt.Sprint("c", c, "-", i%100),
					Payload: &a2a.Message{ID: id, Role: a2a.MessageRoleUser, Parts: a2a.ContentParts{a2a.NewTextPart(id)}},
				})
				switch {
				case err == nil:
					mu.Lock()
					accepted[id] = false
					mu.Unlock()
				case !errors.Is(err, transport.ErrFull):
					t.Errorf("Publish(%s) = %v, want nil or ErrFull", id, err)
				}
			}
		})
	}
	all.Wait()
	if len(accepted) == n {
		t.Errorf("all %d events were accepted, want some to be refused", n)
	}

	ctx, cancel := context.WithCancel(context.Background())
	defer cancel()
	sub, err := node.Dial(t).Subscribe(ctx, orchestrator, nil)
	if err != nil {
		t.Fatalf("Subscribe = %v, want nil", err)
	}
	left, last := len(accepted), map[string]int{}
	done, served := make(chan struct{}), make(chan error, 1)
	go func() {
		served <- sub.Serve(ctx, func(_ context.Context, e *transport.Event) error {
			mu.Lock()
			defer mu.Unlock()
			switch handled, ok := accepted[e.ID]; {
			case !ok:
				t.Errorf("%s was delivered, which was refused", e.ID)
			case handled && e.Delivery == 1:
				t.Errorf("%s was delivered twice", e.ID)
			case !handled:
				accepted[e.ID] = true
				if i, _ := strconv.Atoi(e.ID[strings.IndexByte(e.ID, '-')+1:]); i < last[e.ContextID] {
					t.Errorf("%s was delivered after number %d of its conversation", e.ID, last[e.ContextID])
				} else {
					last[e.ContextID] = i
				}
				if left--; left == 0 {
					close(done)
				}
			}
			return nil
		})
	}()
	select {
	case <-done:
	case err := <-served:
		t.Fatalf("Serve = %v", err)
	case <-time.After(10 * patience):
		t.Fatalf("%d of %d accepted events have not come after %v", left, len(accepted), 10*patience)
	}
	cancel()
	<-served
	return len(accepted)
}
