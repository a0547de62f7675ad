package transporttest

import (
	"strings"
	"time"

	"github.com/a2aproject/a2a-go/v2/a2a"

	"github.com/cortex-orchestrator/cortex/transport"
)

// allBytes returns every byte value, twice.
func allBytes() []byte {
	b := make([]byte, 512)
	for i := range b {
		b[i] = byte(i)
	}
	return b
}

const unicodeText = "naïve — 日本語 \U0001F9E0 é\x00\x01\x7f\u2028\u2029 \"quoted\" <b>&amp;</b> \r\n\t\\ \u202eend"

// payloads returns one payload of every kind, with all fields set.
func payloads() map[string]transport.Payload {
	at := time.Date(2026, 5, 6, 7, 8, 9, 123456789, time.UTC)
	meta := map[string]any{"n": 1.5, "list": []any{"a", true, nil}, "nested": map[string]any{"ключ": unicodeText}}
	parts := func() a2a.ContentParts {
		return a2a.ContentParts{
			a2a.NewTextPart(unicodeText),
			{Content: a2a.Raw(allBytes()), Filename: "x.bin", MediaType: "application/octet-stream", Metadata: meta},
			a2a.NewDataPart(map[string]any{"deep": []any{map[string]any{"x": 1.25}}}),
			a2a.NewFileURLPart("https://example.org/a?b=c&d=%20", "text/html"),
		}
	}
	message := func() *a2a.Message {
		return &a2a.Message{
			ID: "m1", ContextID: "c1", TaskID: "t1", Role: a2a.MessageRoleAgent, Parts: parts(), Metadata: meta,
			Extensions: []string{"urn:x"}, ReferenceTasks: []a2a.TaskID{"t0"},
		}
	}
	artifact := &a2a.Artifact{ID: "a1", Name: "näme", Description: unicodeText, Parts: parts(), Metadata: meta}
	return map[string]transport.Payload{
		"message": message(),
		"task": &a2a.Task{
			ID: "t1", ContextID: "c1", Metadata: meta, History: []*a2a.Message{message()}, Artifacts: []*a2a.Artifact{artifact},
			Status: a2a.TaskStatus{State: a2a.TaskStateCompleted, Message: message(), Timestamp: &at},
		},
		"status": &a2a.TaskStatusUpdateEvent{
			TaskID: "t1", ContextID: "c1", Metadata: meta,
			Status: a2a.TaskStatus{State: a2a.TaskStateWorking, Message: message(), Timestamp: &at},
		},
		"artifact": &a2a.TaskArtifactUpdateEvent{TaskID: "t1", ContextID: "c1", Append: true, LastChunk: true, Artifact: artifact, Metadata: meta},
		"deadline": &transport.Deadline{At: at},
		"cancel":   &transport.Cancel{TaskID: "t1", Turn: "m1", Reason: unicodeText},
		"share":    &transport.Share{With: []string{"user:jürgen"}, Revoke: []string{"worker"}},
		"delta":    &transport.Delta{Turn: "m1", Attempt: "2", Text: unicodeText},
		"post":     &transport.Post{Name: "plan", Text: unicodeText, TTL: time.Minute},
		"read":     &transport.ReadBoard{},
		"board":    &transport.Board{Read: "e-1", Posts: []transport.BoardPost{{Seq: 1, Agent: "a", Task: "t1", Name: "plan", Text: unicodeText, Time: at, Expires: at}}},
		"tender":   &transport.Tender{ID: "t-1", Skill: "say", Task: unicodeText, Until: at},
		"bid":      &transport.Bid{Tender: "t-1", Confidence: 0.25, Cost: 1.5, Seconds: 3, Declined: true},
		"opaque":   &transport.Opaque{Kind: "hologram", Version: "7", Data: allBytes()},
		"newer":    &transport.Opaque{Kind: "message", Version: "2", Data: []byte(`{"unknown":1}`)},
		"empty":    &transport.Opaque{Kind: "nothing", Version: "1"},
	}
}

// full returns an event with every field of the envelope set.
func full(e *env, t transport.Topic, p transport.Payload) *transport.Event {
	ev := e.message(t, "ctx-1", "")
	ev.From, ev.TaskID, ev.Payload = "user:jürgen", "task-1", p
	ev.Traceparent, ev.Tracestate = traceparent, tracestate
	return ev
}

const (
	traceparent = "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01"
	tracestate  = "rojo=00f067aa0ba902b7, congo@t=ucfJifl5GOE"
)

var dataCases = []testCase{
	{name: "data trace context", run: func(e *env) {
		live := transport.Live("", "ctx-1")
		di, dl := e.desk(e.dial(), worker, nil), e.desk(e.dial(), live, nil)
		for _, c := range []struct{ parent, state, wantParent, wantState string }{
			{traceparent, tracestate, traceparent, tracestate},
			{traceparent, "", traceparent, ""},
			{traceparent, "a=1\r\nX: y", traceparent, ""},
			{traceparent, "a=" + strings.Repeat("x", 256) + ",b=" + strings.Repeat("x", 256), traceparent, ""},
			{"", tracestate, "", ""},
			{"00-a\r\nX: y", tracestate, "", ""},
			{strings.Replace(traceparent, "0af7", "0AF7", 1), tracestate, "", ""},
			{strings.Repeat("x", 1<<20), strings.Repeat("x", 1<<20), "", ""},
		} {
			for _, x := range []struct {
				t transport.Topic
				d *desk
			}{{worker, di}, {live, dl}} {
				ev := e.message(x.t, "ctx-1", "x")
				ev.Traceparent, ev.Tracestate = c.parent, c.state
				e.publish(e.tr, x.t, ev)
				if got := x.d.take("x"); got.Traceparent != c.wantParent || got.Tracestate != c.wantState {
					e.Errorf("%.80q, %.80q on %v came as %q, %q, want %q, %q",
						c.parent, c.state, x.t, got.Traceparent, got.Tracestate, c.wantParent, c.wantState)
				}
			}
		}
	}},
	{name: "data of every kind unchanged", run: func(e *env) {
		live := transport.Live("acme", "ctx-1")
		inbox := transport.Inbox("acme", "worker")
		di, dl := e.desk(e.dial(), inbox, nil), e.desk(e.dial(), live, nil)
		for name, p := range payloads() {
			for _, x := range []struct {
				t transport.Topic
				d *desk
			}{{inbox, di}, {live, dl}} {
				want := full(e, x.t, p)
				e.publish(e.tr, x.t, want)
				v := x.d.next()
				v.done(nil)
				e.same(v.Event, want)
				if e.Failed() {
					e.Fatalf("the payload was %s, the topic %v", name, x.t)
				}
			}
		}
	}},
	{name: "data times to the nanosecond", run: func(e *env) {
		d := e.desk(e.dial(), worker, nil)
		for _, at := range []time.Time{
			time.Now(), // with a monotonic clock reading and a zone
			time.Date(2026, 3, 29, 2, 30, 0, 1, time.FixedZone("", 5*3600+45*60)),
			time.Date(1999, 12, 31, 23, 59, 59, 999999999, time.UTC),
			{},
		} {
			ev := e.message(worker, "c1", "x")
			ev.Time = at
			e.publish(e.tr, worker, ev)
			if got := d.take("x"); !got.Time.Equal(at) {
				e.Errorf("Time = %v, want %v", got.Time, at)
			}
		}
	}},
	{name: "data large", run: func(e *env) {
		d := e.desk(e.dial(), worker, nil)
		text := strings.Repeat("日本語 text. ", transport.MaxText/16)
		text += strings.Repeat("x", transport.MaxText-len(text))
		e.same(d.takeAny(e.say(worker, "c1", text)))
		for _, size := range []int{0, 1, 100 << 10, transport.MaxPayload} {
			ev := e.message(worker, "c1", "")
			data := make([]byte, size)
			for i := range data {
				data[i] = byte(i * 7)
			}
			ev.Payload = &transport.Opaque{Kind: "blob", Version: "1", Data: data}
			e.publish(e.tr, worker, ev)
			e.same(d.takeAny(ev))
		}
	}},
	{name: "data not shared", run: func(e *env) {
		live := transport.Live("", "c1")
		inbox, a, b := e.desk(e.tr, worker, nil), e.desk(e.tr, live, nil), e.desk(e.tr, live, nil)
		spoil := func(ev *transport.Event) {
			m := ev.Payload.(*a2a.Message)
			m.Metadata["k"].(map[string]any)["deep"] = "spoiled"
			m.Parts[0].Content = a2a.Text("spoiled")
			m.Parts[1].Content.(a2a.Raw)[0] = 'S'
			m.ID, ev.ID, ev.ContextID = "spoiled", "spoiled", "spoiled"
		}
		fresh := func(t transport.Topic, id string) *transport.Event {
			ev := e.message(t, "c1", "")
			ev.ID = id
			ev.Payload = &a2a.Message{
				ID: "m", Role: a2a.MessageRoleUser, Parts: a2a.ContentParts{a2a.NewTextPart("clean"), a2a.NewRawPart([]byte("clean"))},
				Metadata: map[string]any{"k": map[string]any{"deep": "clean"}},
			}
			return ev
		}
		for _, t := range []transport.Topic{worker, live} {
			ev := fresh(t, "ev-x")
			e.publish(e.tr, t, ev)
			spoil(ev) // the publisher may reuse it
		}
		v := inbox.next()
		e.same(v.Event, fresh(worker, "ev-x"))
		spoil(v.Event) // the handler owns it
		v.done(errTry)
		v = inbox.next()
		e.same(v.Event, fresh(worker, "ev-x"))
		v.done(nil)
		va := a.next()
		e.same(va.Event, fresh(live, "ev-x"))
		*va.Event = transport.Event{ID: "spoiled", Payload: &transport.Opaque{}} // but the payload is of both
		vb := b.next()
		e.same(vb.Event, fresh(live, "ev-x"))
		va.done(nil)
		vb.done(nil)

		data := []byte("clean")
		blob := e.message(worker, "c2", "")
		blob.Payload = &transport.Opaque{Kind: "blob", Version: "1", Data: data}
		e.publish(e.tr, worker, blob)
		data[0] = 'S'
		for _, err := range []error{errTry, nil} {
			v := inbox.next()
			o := v.Payload.(*transport.Opaque)
			if string(o.Data) != "clean" {
				e.Errorf("delivery %d has data %q, want %q", v.Delivery, o.Data, "clean")
			}
			o.Data[0] = 'S'
			v.done(err)
		}

		cards := transport.Cards("")
		d := e.desk(e.tr, cards, nil)
		d.retained()
		card := e.announce("", "a", "1", 0)
		card.Payload.(*transport.Card).Card.Skills[0].ID = "spoiled"
		for range 2 {
			got := d.e.desk(e.tr, cards, nil).retained("a/1")[0].Payload.(*transport.Card).Card
			if got.Skills[0].ID != "thing" {
				e.Errorf("the retained card's skill is %q, want %q", got.Skills[0].ID, "thing")
			}
			got.Skills[0].ID = "spoiled"
		}
	}},
	{name: "data Delivery is the transport's", run: func(e *env) {
		d := e.desk(e.dial(), worker, nil)
		ev := e.message(worker, "c1", "x")
		ev.Delivery = 7
		e.publish(e.tr, worker, ev)
		if got := d.take("x"); got.Delivery != 1 {
			e.Errorf("Delivery = %d, want 1", got.Delivery)
		}
		if ev.Delivery != 7 {
			e.Errorf("Publish changed the event: Delivery = %d, want 7", ev.Delivery)
		}
	}},
}

// takeAny acknowledges the next event, and returns it with the event that was wanted.
func (d *desk) takeAny(want *transport.Event) (got, wanted *transport.Event) {
	d.e.Helper()
	v := d.next()
	v.done(nil)
	if v.ID != want.ID {
		d.e.Fatalf("event %s came, want %s", v.ID, want.ID)
	}
	return v.Event, want
}
