package transporttest

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/cortex-orchestrator/cortex/transport"
)

func keepsDead(_ Node, tr transport.Transport) bool {
	_, ok := tr.(transport.DeadLetters)
	return ok
}

// deadCases are about single dead letters; retryCases check that they are kept.
var deadCases = []testCase{
	{name: "dead letter by id", needs: keepsDead, run: func(e *env) {
		ctx, all := context.Background(), e.tr.(transport.DeadLetters)
		letters := e.bury(e.desk(e.dial(), worker, nil), worker, "c1", "first", "second")
		if letters[0].ID == letters[1].ID || letters[0].ID == "" {
			e.Fatalf("the ids of two dead letters are %q and %q, want them to differ", letters[0].ID, letters[1].ID)
		}
		for _, want := range letters {
			got, err := all.DeadLetter(ctx, "", want.ID)
			if err != nil {
				e.Fatalf("DeadLetter(%s) = %v, want nil", want.ID, err)
			}
			e.same(got.Event, want.Event)
			if got.ID != want.ID || got.Topic != want.Topic || got.Reason != want.Reason || !got.Time.Equal(want.Time) || got.Deliveries != want.Deliveries {
				e.Errorf("DeadLetter(%s) = %+v, want what is listed: %+v", want.ID, got, want)
			}
		}
		for _, strange := range []struct{ tenant, id string }{{"", "nothing"}, {"", ""}, {"", "18446744073709551616"}, {"acme", letters[0].ID}} {
			if l, err := all.DeadLetter(ctx, strange.tenant, strange.id); !errors.Is(err, transport.ErrNotFound) {
				e.Errorf("DeadLetter(%q, %q) = %v, %v, want ErrNotFound", strange.tenant, strange.id, l, err)
			}
			e.wantIs(all.ReplayDead(ctx, strange.tenant, strange.id), transport.ErrNotFound, "ReplayDead(%q, %q)", strange.tenant, strange.id)
			e.wantIs(all.RemoveDead(ctx, strange.tenant, strange.id), nil, "RemoveDead(%q, %q)", strange.tenant, strange.id)
		}
		if n := len(e.dead(e.tr, "")); n != 2 {
			e.Errorf("%d dead letters, want both still there", n)
		}
	}},
	{name: "dead letter replayed", needs: keepsDead, run: func(e *env) {
		ctx, all := context.Background(), e.tr.(transport.DeadLetters)
		d := e.desk(e.dial(), worker, nil)
		letter := e.bury(d, worker, "c1", "again")[0]
		if err := all.ReplayDead(ctx, "", letter.ID); err != nil {
			e.Fatalf("ReplayDead = %v, want nil", err)
		}
		v := d.expect("again")
		if v.Delivery != 1 {
			e.Errorf("Delivery = %d after a replay, want 1: it counts anew", v.Delivery)
		}
		e.same(v.Event, letter.Event)
		if n := len(e.dead(e.tr, "")); n != 0 {
			e.Errorf("%d dead letters after the replay, want none", n)
		}
		// It can be given up and replayed again. The transport still knows its id, so that publishing it once more changes nothing.
		v.done(transport.Permanent(errTry))
		e.eventually("it is a dead letter again", func() bool { return len(e.dead(e.tr, "")) == 1 })
		second := e.dead(e.tr, "")[0]
		if second.ID == letter.ID {
			e.Errorf("the id of another dead letter is %s as well", second.ID)
		}
		if err := all.ReplayDead(ctx, "", second.ID); err != nil {
			e.Fatalf("ReplayDead = %v, want nil", err)
		}
		d.take("again")
		e.publish(e.tr, worker, letter.Event)
		d.nothing("its id was published before")
		e.wantIs(all.ReplayDead(ctx, "", second.ID), transport.ErrNotFound, "ReplayDead for a second time")
	}},
	{name: "dead letter that waited for its time", needs: keepsDead, run: func(e *env) {
		d := e.desk(e.dial(), worker, nil)
		late := e.delayed(worker, "c1", "late", 50*time.Millisecond)
		e.publish(e.tr, worker, late)
		d.expect("late").done(transport.Permanent(errTry))
		e.eventually("it is a dead letter", func() bool { return len(e.dead(e.tr, "")) == 1 })
		if err := e.tr.(transport.DeadLetters).ReplayDead(context.Background(), "", e.dead(e.tr, "")[0].ID); err != nil {
			e.Fatalf("ReplayDead = %v, want nil", err)
		}
		e.same(d.take("late"), late)
	}},
	{name: "dead letter removed", needs: keepsDead, run: func(e *env) {
		ctx, all := context.Background(), e.tr.(transport.DeadLetters)
		d := e.desk(e.dial(), worker, nil)
		letters := e.bury(d, worker, "c1", "gone", "kept")
		for range 2 {
			e.wantIs(all.RemoveDead(ctx, "", letters[0].ID), nil, "RemoveDead")
		}
		left := e.dead(e.tr, "")
		if len(left) != 1 || left[0].ID != letters[1].ID {
			e.Errorf("%d dead letters, want the other one only", len(left))
		}
		e.wantIs(all.ReplayDead(ctx, "", letters[0].ID), transport.ErrNotFound, "ReplayDead of a removed one")
		d.nothing("it was removed")
	}},
	{name: "dead letter that cannot be read", needs: keepsDead, run: func(e *env) {
		ctx, all := context.Background(), e.tr.(transport.DeadLetters)
		d := e.desk(e.dial(), worker, nil)
		bad := e.message(worker, "c1", "")
		bad.Payload = &transport.Opaque{Kind: "message", Version: transport.PayloadVersion, Data: []byte("{no json")}
		e.publish(e.tr, worker, bad)
		e.eventually("a dead letter", func() bool { return len(e.dead(e.tr, "")) == 1 })
		id := e.dead(e.tr, "")[0].ID
		e.wantIs(all.ReplayDead(ctx, "", id), transport.ErrInvalid, "ReplayDead of what cannot be read")
		d.nothing("nobody can read it")
		if n := len(e.dead(e.tr, "")); n != 1 {
			e.Errorf("%d dead letters, want it to stay", n)
		}
	}},
}

// bury makes d give up an event for each text, and returns the dead letters.
func (e *env) bury(d *desk, t transport.Topic, contextID string, texts ...string) []*transport.DeadLetter {
	e.Helper()
	before := len(e.dead(e.tr, t.Tenant))
	for _, text := range texts {
		e.say(t, contextID, text)
		d.expect(text).done(errTry)
		d.expect(text).done(transport.Permanent(fmt.Errorf("cannot do %s", text)))
	}
	e.eventually("the dead letters", func() bool { return len(e.dead(e.tr, t.Tenant)) == before+len(texts) })
	return e.dead(e.tr, t.Tenant)[before:]
}
