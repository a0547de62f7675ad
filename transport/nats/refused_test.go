package nats

import (
	"encoding/json"
	"fmt"
	"maps"
	"strings"
	"testing"

	"github.com/a2aproject/a2a-go/v2/a2a"
	"github.com/google/go-cmp/cmp"
	natsgo "github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"github.com/cortex-orchestrator/cortex/transport"
	"github.com/cortex-orchestrator/cortex/transport/nats/auth"
)

// says returns the answer to a caller's publish: code 0 when the message was stored.
func (in *intruder) says(t *testing.T, subject, kind, body string, headers ...string) (code int, why string) {
	t.Helper()
	m := event(kind, body, headers...)
	for k, v := range m.Header {
		if v[0] == "" {
			delete(m.Header, k)
		}
	}
	m.Subject = auth.Gateway(in.who) + subject
	got, err := in.RequestMsg(m, patience)
	if err != nil {
		t.Fatalf("%s %s is not answered: %v", kind, subject, err)
	}
	var ack struct {
		Error *jetstream.APIError `json:"error"`
		Seq   uint64              `json:"seq"`
	}
	if err := json.Unmarshal(got.Data, &ack); err != nil {
		t.Fatalf("%s %s is answered with %q: %v", kind, subject, got.Data, err)
	}
	if ack.Error != nil {
		return ack.Error.Code, ack.Error.Description
	}
	if ack.Seq == 0 {
		t.Fatalf("%s %s is answered with %q, want an acknowledgement or an error", kind, subject, got.Data)
	}
	return 0, ""
}

// TestRefusedWhenItComes publishes, with foreign clients, messages that nobody could handle: each answer says why, nothing is stored, and there are
// no dead letters.
func TestRefusedWhenItComes(t *testing.T) {
	w := newTown(t)
	before := w.state(t)
	const task = `{"id":"t1","contextId":"c1","status":{"state":"TASK_STATE_COMPLETED"}%s}`
	text := func(n int) string {
		return fmt.Sprintf(`{"messageId":"m","role":"ROLE_USER","parts":[{"text":%q}]}`, strings.Repeat("x", n))
	}
	type attempt struct {
		what, kind, body string
		headers          []string
		code             int
		why              string
	}
	both := []attempt{
		{"no JSON", "message", `hello`, nil, codeInvalid, "invalid character"},
		{"nothing", "message", ``, nil, codeInvalid, ""},
		{"half of it", "message", words[:len(words)-4], nil, codeInvalid, ""},
		{"NaN", "message", `{"messageId":"m","role":"ROLE_USER","parts":[{"data":{"x":NaN}}]}`, nil, codeInvalid, "invalid character"},
		{"a null part", "message", `{"messageId":"m","role":"ROLE_USER","parts":[null]}`, nil, codeInvalid, ""},
		{"no part", "message", `{"messageId":"m","role":"ROLE_USER","parts":[]}`, nil, codeInvalid, ""},
		{"deep", "message", `{"messageId":"m","role":"ROLE_USER","parts":[{"data":{"x":` + strings.Repeat("[", 20_000) + strings.Repeat("]", 20_000) + `}}]}`, nil, codeInvalid, "nested deeper"},
		{"too much text", "message", text(transport.MaxText + 1), nil, codeTooLarge, "bytes"},
		{"too large", "message", text(transport.MaxPayload), nil, codeTooLarge, "bytes"},
		{"another version", "message", words, []string{headerVersion, "99"}, codeInvalid, "version"},
		{"no id", "message", words, []string{headerID, ""}, codeInvalid, headerID},
		{"a bad id", "message", words, []string{headerID, "a\x01b"}, codeInvalid, headerID},
		{"a long id", "message", words, []string{headerID, strings.Repeat("x", 1000)}, codeInvalid, headerID},
		{"a bad task", "message", words, []string{headerTask, "a\x01b"}, codeInvalid, headerTask},
		{"a bad time", "message", words, []string{headerTime, "yesterday"}, codeInvalid, "RFC 3339"},
		{"a deadline", "deadline", `{}`, nil, codeForbidden, "deadline"},
		{"unknown", "unheard-of", `{}`, nil, codeForbidden, "unheard-of"},
		{"no kind", "", words, nil, codeForbidden, "send"},
	}
	agent := append([]attempt{
		{"a task that is none", "task", `[]`, nil, codeInvalid, ""},
		{"a result with a null part", "task", fmt.Sprintf(task, `,"artifacts":[{"artifactId":"a","parts":[null]}]`), nil, codeInvalid, ""},
		{"a result over 4 MB", "task", fmt.Sprintf(task, `,"artifacts":[{"artifactId":"a","parts":[{"text":"`+strings.Repeat("x", transport.MaxPayload)+`"}]}]`), nil, codeTooLarge, "bytes"},
	}, both...)
	for creds, attempts := range map[string][]attempt{userCreds(t, w.dir, "", "eve"): both, agentCreds(t, w.dir, "", "raw"): agent} {
		in := w.intruder(t, creds)
		t.Run(string(in.who.Role), func(t *testing.T) {
			own := where(transport.Cortex, in.who.ID)
			for _, a := range attempts {
				for _, subject := range []string{own, liveSubject(transport.Live("", "c1"), in.who.ID)} {
					if code, why := in.says(t, subject, a.kind, a.body, a.headers...); code != a.code || !strings.Contains(why, a.why) {
						t.Errorf("%s is answered with %d %q, want %d with %q", a.what, code, why, a.code, a.why)
					}
				}
			}
			for _, a := range []attempt{
				{"a result without a task", "message", strings.Replace(words, "ROLE_USER", "ROLE_AGENT", 1), nil, codeInvalid, "without a taskID"},
				{"a state of no task", "status-update", `{"contextId":"c1","status":{"state":"TASK_STATE_WORKING"}}`, nil, codeInvalid, "without a taskID"},
				{"an artifact", "artifact-update", `{"taskId":"t1","contextId":"c1","artifact":{"artifactId":"a","parts":[{"text":"x"}]}}`, nil, codeInvalid, "nothing for the orchestrator's inbox"},
			} {
				if in.who.Role == auth.Person && a.kind != "message" {
					a.code, a.why = codeForbidden, "send"
				}
				if code, why := in.says(t, own, a.kind, a.body, a.headers...); code != a.code || !strings.Contains(why, a.why) {
					t.Errorf("%s is answered with %d %q, want %d with %q", a.what, code, why, a.code, a.why)
				}
			}
			kept := inboxAddress{to: transport.Cortex, context: "agent.x", from: in.who.ID}
			kept.context = strings.TrimSuffix(transport.Control("", "x").ID, "x") + "x"
			if code, why := in.says(t, inboxSubject(kept), "message", words); code != codeInvalid || !strings.Contains(why, "kept for agents") {
				t.Errorf("a conversation with the name of a control topic is answered with %d %q", code, why)
			}
		})
	}
	t.Run("card", func(t *testing.T) {
		in := w.intruder(t, agentCreds(t, w.dir, "", "raw"))
		for body, why := range map[string]string{
			`no card`: "", `{"agentId":"victim","instance":"1","card":{"name":"victim"}}`: "another agent", `{"agentId":"raw","instance":"1"}`: "missing",
			`{"agentId":"raw","instance":"1","ttl":5,"card":{"name":"raw"}}`: "under one second", ``: "",
		} {
			if code, got := in.says(t, cardSubject("", "raw", "1"), "card", body); code != codeInvalid || !strings.Contains(got, why) {
				t.Errorf("card %s is answered with %d %q, want %q", body, code, got, why)
			}
		}
		// There is no such task.
		was := where("raw", transport.Cortex)
		code, why := in.says(t, deadSubject(transport.Inbox("", "raw"), was), "message", words, headerSubject, was, "Nats-Msg-Id", "1.1")
		if code != codeNotFound || !strings.Contains(why, "no event 1") {
			t.Errorf("a dead letter of nothing is answered with %d %q", code, why)
		}
	})
	if diff := cmp.Diff(before, w.state(t)); diff != "" {
		t.Errorf("what is stored has changed (-before +after):\n%s", diff)
	}
	if len(w.heard) > 0 {
		t.Errorf("somebody heard: %s", <-w.heard)
	}
	in := w.intruder(t, userCreds(t, w.dir, "", "ada"))
	if code, why := in.says(t, where(transport.Cortex, in.who.ID), "message", words); code != 0 {
		t.Errorf("a message is refused: %d %s", code, why)
	}
	receive(t, w.heard)
}

// TestUnreadableOfATask makes an agent send unreadable events about its own task and about another's: Cortex learns, once, that its own has failed.
func TestUnreadableOfATask(t *testing.T) {
	w := newTown(t)
	in := w.intruder(t, agentCreds(t, w.dir, "", "raw"))
	inbox := transport.Inbox("", "raw")
	e := message(inbox, "c1", "work")
	e.From, e.TaskID = transport.Cortex, "t1"
	if err := w.cortex.Publish(t.Context(), inbox, e); err != nil {
		t.Fatal(err)
	}
	own := where(transport.Cortex, in.who.ID)
	told := make(chan *transport.Event, 10)
	_, err := w.cortex.nc.Subscribe(own, func(m *natsgo.Msg) {
		if e, err := decodeInbox(m, own); err == nil {
			told <- e
		}
	})
	if err == nil {
		err = w.cortex.nc.Flush()
	}
	if err != nil {
		t.Fatal(err)
	}
	part := `{"taskId":"t1","contextId":"c1","artifact":{"artifactId":"a","parts":[{"text":"x"}]}}`
	if code, why := in.says(t, own, "artifact-update", part, headerTask, "t1"); code != codeInvalid { // readable, but not valid for Cortex
		t.Errorf("an artifact is answered with %d %q, want %d", code, why, codeInvalid)
	}
	if len(told) > 0 {
		t.Error("with that the task ends")
	}
	for _, task := range []string{"t9", "t1", "t1"} {
		body := fmt.Sprintf(`{"id":%q,"contextId":"c1","status":{"state":"TASK_STATE_COMPLETED"},"metadata":{"x":NaN}}`, task)
		if code, why := in.says(t, own, "task", body, headerTask, task, headerID, "r-"+task); code != codeInvalid {
			t.Fatalf("it is answered with %d %q, want %d", code, why, codeInvalid)
		}
	}
	is := receive(t, told)
	s, ok := is.Payload.(*a2a.TaskStatusUpdateEvent)
	if !ok || is.TaskID != "t1" || is.From != "raw" || s.Status.State != a2a.TaskStateFailed || !strings.Contains(s.Status.Message.Parts[0].Text(), "cannot be read") {
		t.Errorf("Cortex hears %+v", is)
	}
	receive(t, w.heard)
	if len(w.heard) > 0 {
		t.Errorf("Cortex handles %s as well", <-w.heard)
	}
}

// TestSameRefusals checks that Publish and the gateway refuse the same events.
func TestSameRefusals(t *testing.T) {
	w := newTown(t)
	in := w.intruder(t, userCreds(t, w.dir, "", "eve"))
	person := w.dial(t, &Options{Creds: in.who.File})
	inbox := transport.Inbox("", transport.Cortex)
	good := func() *transport.Event {
		e := message(inbox, "c1", "hello")
		e.From = in.who.ID
		return e
	}
	for what, change := range map[string]func(e *transport.Event){
		"good":     func(*transport.Event) {},
		"bad id":   func(e *transport.Event) { e.ID = "a\x01b" },
		"bad task": func(e *transport.Event) { e.TaskID = "a\x01b" },
		"other form": func(e *transport.Event) {
			e.Payload = &transport.Opaque{Kind: "message", Version: "1", Data: []byte(`{"messageId":"m"}`)}
		},
	} {
		e := good()
		change(e)
		published := person.Publish(t.Context(), inbox, e)
		e = good()
		change(e)
		m, err := encode(inboxSubject(inboxAddress{to: transport.Cortex, context: "c1", from: in.who.ID}), e, true)
		if err != nil {
			t.Fatal(err)
		}
		header := map[string][]string{}
		maps.Copy(header, m.Header)
		var headers []string
		for k, v := range header {
			headers = append(headers, k, v[0])
		}
		code, why := in.says(t, m.Subject, m.Header.Get(headerKind), string(m.Data), headers...)
		if (published == nil) != (code == 0) {
			t.Errorf("%s: Publish says %v, the gateway %d %s", what, published, code, why)
		}
	}
}

// TestFullInboxAtTheGateway makes a foreign client publish more than the inboxes hold.
func TestFullInboxAtTheGateway(t *testing.T) {
	dir := keys(t)
	n := newNode(t, ServerOptions{Auth: dir})
	cortex := n.dial(t, &Options{MaxInbox: 50})
	if _, err := cortex.Subscribe(t.Context(), transport.Inbox("", transport.Cortex), nil); err != nil {
		t.Fatal(err)
	}
	in := (&town{node: n, dir: dir}).intruder(t, userCreds(t, dir, "", "eve"))
	body := strings.Replace(words, `"ROLE_USER"`, `"ROLE_AGENT","taskId":"t1"`, 1) // whatever kind of message a person claims it to be
	for i := range 200 {
		code, why := in.says(t, where(transport.Cortex, "user:eve"), "message", body, headerID, fmt.Sprint(i))
		if code == codeFull && strings.Contains(why, "try again later") {
			return
		}
		if code != 0 {
			t.Fatalf("%d %s, want that the inbox is full", code, why)
		}
	}
	t.Error("200 messages are taken where 50 have room")
}
