package transporttest

import (
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/a2aproject/a2a-go/v2/a2a"

	"github.com/cortex-orchestrator/cortex/transport"
)

// oddIDs are valid ids that a transport may have to escape. A careless escaping would make some of them equal.
var oddIDs = []string{
	"a", "A", "a.b", "a.b.c", "a_b", "a-b", "a=2eb", "a%2Eb", "a%b", "*", ">", "a.*", "a.>", "_", "-", "=", "$SYS", "$JS.API", ".", "..", ".a", "a.",
	"agents:a", "default", "_default", "a/b", `a\b`, "\"q\"", "日本語", "é", "e\u0301", "\U0001F9E0", "a,b;c:d|e{f}g[h]", "DQ", "RFE", "AQ==",
	strings.Repeat("x", transport.MaxID), strings.Repeat("x", transport.MaxID-1) + "y", strings.Repeat("é", transport.MaxID/2),
}

var idCases = []testCase{
	{name: "ids of agents", run: func(e *env) {
		var desks []*desk
		tr := e.dial()
		for _, id := range oddIDs {
			desks = append(desks, e.desk(tr, transport.Inbox("", id), nil))
		}
		for _, id := range oddIDs {
			e.say(transport.Inbox("", id), "c1", "for "+id)
		}
		for i, d := range desks {
			v := d.next()
			v.done(nil)
			if words(v.Event) != "for "+oddIDs[i] || v.To != oddIDs[i] {
				e.Errorf("inbox %q got %q", oddIDs[i], words(v.Event))
			}
		}
		e.nobody("one event per inbox was published", desks...)
	}},
	{name: "ids of conversations", run: func(e *env) {
		// Each id is a separate conversation: while all are handled, none waits for another.
		d := e.desk(e.dial(), worker, nil)
		for _, id := range oddIDs {
			ev := e.message(worker, id, "x")
			ev.ID, ev.From, ev.TaskID = "id-"+id[:min(len(id), 4)]+fmt.Sprint(e.seq.Add(1)), id, a2a.TaskID(id)
			if transport.CheckID(ev.ID) != nil { // truncated inside a character
				ev.ID = fmt.Sprint("id-", e.seq.Add(1))
			}
			e.publish(e.tr, worker, ev)
		}
		seen := map[string]bool{}
		var held []*delivery
		for range oddIDs {
			v := d.next()
			seen[v.ContextID] = true
			if v.From != v.ContextID || string(v.TaskID) != v.ContextID {
				e.Errorf("from %q, task %q, context %q, want them equal", v.From, v.TaskID, v.ContextID)
			}
			held = append(held, v)
		}
		for _, id := range oddIDs {
			if !seen[id] {
				e.Errorf("no event of conversation %q", id)
			}
		}
		for _, v := range held {
			v.done(nil)
		}
	}},
	{name: "ids of events", run: func(e *env) {
		d := e.desk(e.dial(), worker, nil)
		for _, id := range oddIDs {
			ev := e.message(worker, "c1", "x")
			ev.ID = id
			e.publish(e.tr, worker, ev)
			e.publish(e.tr, worker, ev)
			if got := d.take("x"); got.ID != id {
				e.Errorf("ID = %q, want %q", got.ID, id)
			}
		}
		d.nothing("each id is stored once")
	}},
	{name: "ids of tenants", run: func(e *env) {
		tr := e.dial()
		tenants := append([]string{""}, oddIDs...)
		var inboxes, lives, cards []*desk
		for _, tenant := range tenants {
			inboxes = append(inboxes, e.desk(tr, transport.Inbox(tenant, "worker"), nil))
			lives = append(lives, e.desk(tr, transport.Live(tenant, "c1"), nil))
			d := e.desk(tr, transport.Cards(tenant), nil)
			d.retained()
			cards = append(cards, d)
		}
		for _, tenant := range tenants {
			e.say(transport.Inbox(tenant, "worker"), "c1", "for "+tenant)
			e.say(transport.Live(tenant, "c1"), "c1", "for "+tenant)
			e.announce(tenant, "a", "1", 0)
		}
		for i, tenant := range tenants {
			inboxes[i].take("for " + tenant)
			lives[i].take("for " + tenant)
			if got := cards[i].change("a/1"); got.Tenant != tenant {
				e.Errorf("a card of tenant %q came to %q", got.Tenant, tenant)
			}
		}
		e.nobody("one event per tenant and topic was published", slices.Concat(inboxes, lives, cards)...)
	}},
	{name: "ids of live topics", run: func(e *env) {
		tr := e.dial()
		var desks []*desk
		for _, id := range oddIDs {
			desks = append(desks, e.desk(tr, transport.Live("", id), nil))
		}
		for _, id := range oddIDs {
			e.say(transport.Live("", id), id, "for "+id)
		}
		for i, d := range desks {
			d.take("for " + oddIDs[i])
		}
		e.nobody("one event per topic was published", desks...)
	}},
	{name: "ids of cards", run: func(e *env) {
		cards := transport.Cards("")
		var want []string
		for i, id := range oddIDs {
			e.announce("", id, oddIDs[len(oddIDs)-1-i], 0)
			want = append(want, id+"/"+oddIDs[len(oddIDs)-1-i])
		}
		d := e.desk(e.dial(), cards, nil)
		d.retained(want...)
		for i, id := range oddIDs {
			if i%2 == 0 {
				e.publish(e.tr, cards, e.left("", id, oddIDs[len(oddIDs)-1-i]))
				d.change(id + "/" + oddIDs[len(oddIDs)-1-i] + " left")
			}
		}
	}},
	{name: "ids of delayed conversations", run: func(e *env) {
		// No timer replaces another.
		d := e.desk(e.dial(), worker, nil)
		for _, id := range oddIDs {
			e.publish(e.tr, worker, e.delayed(worker, id, "due", 200*time.Millisecond))
		}
		seen := map[string]bool{}
		for range oddIDs {
			seen[d.take("due").ContextID] = true
		}
		if len(seen) != len(oddIDs) {
			e.Errorf("%d conversations were due, want %d", len(seen), len(oddIDs))
		}
	}},
}
