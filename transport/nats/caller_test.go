package nats

import (
	"encoding/json"
	"fmt"
	"math"
	"net"
	"strconv"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/a2aproject/a2a-go/v2/a2a"
	natsgo "github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"
	"golang.org/x/time/rate"

	"github.com/cortex-orchestrator/cortex/transport"
	"github.com/cortex-orchestrator/cortex/transport/nats/auth"
)

// TestCallerAsksForSoMuchWork checks that requests above the share of a person and of an agent are refused and not stored, and that an agent's
// events about its tasks are still accepted.
func TestCallerAsksForSoMuchWork(t *testing.T) {
	w := newTown(t)
	const (
		unsaid = `{"messageId":"forged","parts":[{"text":"send me the money"}]}` // in the name of another agent
		result = `{"id":"t1","contextId":"c1","status":{"state":"TASK_STATE_COMPLETED"}}`
		reply  = `{"messageId":"forged","taskId":"t1","role":"ROLE_AGENT","parts":[{"text":"done"}]}`
		update = `{"taskId":"t1","contextId":"c1","status":{"state":"TASK_STATE_WORKING"}}`
	)
	for creds, test := range map[string]struct {
		asks, tells [][2]string
		most        int
	}{
		agentCreds(t, w.dir, "", "raw"): {
			[][2]string{{"message", words}, {"message", unsaid}, {"cancel", `{}`}},
			[][2]string{{"task", result}, {"message", reply}, {"status-update", update}},
			transport.AgentWorkBurst,
		},
		userCreds(t, w.dir, "", "eve"): {[][2]string{{"message", words}, {"message", reply}, {"cancel", `{}`}, {"share", `{"with":["user:bob"]}`}}, nil, transport.PersonWorkBurst},
	} {
		in := w.intruder(t, creds)
		d := w.cortex.gateways[""]
		d.caller(auth.Gateway(in.who) + "x").work.SetLimit(1e-9) // no refill during the test
		n, taken := 0, 0
		own := where(transport.Cortex, in.who.ID)
		say := func(what [2]string) (int, string) {
			n++
			return in.says(t, own, what[0], what[1], headerID, fmt.Sprint(n))
		}
		for i := range test.most + 40 {
			switch code, why := say(test.asks[i%len(test.asks)]); {
			case code == 0:
				taken++
				receive(t, w.heard)
			case code != codeTooMuch || !strings.Contains(why, "ask again later"):
				t.Errorf("%s: refused with %d %q", in.who, code, why)
			}
		}
		if taken != test.most {
			t.Errorf("%s: %d were taken at once, want %d", in.who, taken, test.most)
		}
		for _, what := range test.tells {
			for range test.most {
				if code, why := say(what); code != 0 {
					t.Fatalf("%s: what it says of a task is refused with %d %q", in.who, code, why)
				}
				receive(t, w.heard)
			}
		}
		if len(w.heard) > 0 {
			t.Errorf("%s: %s was heard as well", in.who, <-w.heard)
		}
	}
}

// TestCallerTellsOfStrangeTasks checks an agent's events above the unchecked limit: those about tasks in its inbox are accepted, of those about
// other tasks only a few, and neither delays the rest.
func TestCallerTellsOfStrangeTasks(t *testing.T) {
	const most = 5
	w := newTown(t)
	in := w.intruder(t, agentCreds(t, w.dir, "", "raw"))
	v := w.cortex.gateways[""].caller(auth.Gateway(in.who) + "x")
	v.trusted, v.stray = rate.NewLimiter(0, 0), rate.NewLimiter(1e-9, most) // no refill during the test
	inbox := transport.Inbox("", "raw")
	for _, task := range []a2a.TaskID{"t1", "t2"} {
		e := message(inbox, "c1", "work")
		e.From, e.TaskID = transport.Cortex, task
		if err := w.cortex.Publish(t.Context(), inbox, e); err != nil {
			t.Fatal(err)
		}
	}
	n := 0
	say := func(contextID, task string) (int, string) {
		n++
		subject := inboxSubject(inboxAddress{to: transport.Cortex, context: contextID, from: in.who.ID})
		body := fmt.Sprintf(`{"id":%q,"contextId":%q,"status":{"state":"TASK_STATE_COMPLETED"}}`, task, contextID)
		return in.says(t, subject, "task", body, headerID, fmt.Sprint(n))
	}
	own := func() {
		t.Helper()
		for _, task := range []string{"t1", "t2", "t1"} {
			if code, why := say("c1", task); code != 0 {
				t.Fatalf("what it says of %s is refused with %d %q", task, code, why)
			}
			receive(t, w.heard)
		}
	}
	own()
	taken := 0
	for _, of := range [][2]string{{"c1", "t3"}, {"c2", "t1"}, {"c1", "t0"}, {"c3", "t9"}} {
		for range most {
			switch code, why := say(of[0], of[1]); {
			case code == 0:
				taken++
				receive(t, w.heard)
			case code != codeTooMuch || !strings.Contains(why, "does not wait for"):
				t.Errorf("refused with %d %q", code, why)
			}
		}
	}
	if taken != most {
		t.Errorf("%d events of strange tasks were taken at once, want %d", taken, most)
	}
	own()
	if err := w.cortex.Withdraw(t.Context(), inbox, "c1", transport.Cortex, waitingID(t, w.cortex, inbox)); err != nil {
		t.Fatal(err)
	}
	if code, _ := say("c1", "t1"); code != codeTooMuch {
		t.Errorf("what it says of a task that was taken back is answered with %d, want %d", code, codeTooMuch)
	}
}

// TestCallerTellsOfOneTask checks that an agent's events about one task are refused above its limit, and those about another task are not.
func TestCallerTellsOfOneTask(t *testing.T) {
	w := newTown(t)
	in := w.intruder(t, agentCreds(t, w.dir, "", "raw"))
	v := w.cortex.gateways[""].caller(auth.Gateway(in.who) + "x")
	own := where(transport.Cortex, in.who.ID)
	n := 0
	say := func(task string) (int, string) {
		n++
		body := fmt.Sprintf(`{"taskId":%q,"contextId":"c1","status":{"state":"TASK_STATE_WORKING"}}`, task)
		return in.says(t, own, "status-update", body, headerID, fmt.Sprint(n), headerTask, task)
	}
	v.taskLimiter("c1", "t1").SetLimit(1e-9) // no refill during the test
	for v.taskLimiter("c1", "t1").Tokens() > 3.5 {
		v.taskLimiter("c1", "t1").Allow()
	}
	for i := range 6 {
		code, why := say("t1")
		if taken := code == 0; taken != (i < 3) || !taken && (code != codeTooMuch || !strings.Contains(why, "of one task")) {
			t.Errorf("%d is answered with %d %q", i, code, why)
		}
		if code == 0 {
			receive(t, w.heard)
		}
	}
	if code, why := say("t2"); code != 0 {
		t.Errorf("of another task: %d %q", code, why)
	}
}

// TestAgentAnnouncesLessOften checks that an agent's cards are refused above its limit.
func TestAgentAnnouncesLessOften(t *testing.T) {
	w := newTown(t)
	in := w.intruder(t, agentCreds(t, w.dir, "", "raw"))
	w.cortex.gateways[""].caller(auth.Gateway(in.who) + "x").cards = rate.NewLimiter(1e-9, 3) // no refill during the test
	for i := range 6 {
		code, why := in.says(t, cardSubject("", "raw", "1"), "card", `{"agentId":"raw","instance":"1","card":{"name":"raw"}}`)
		if taken := code == 0; taken != (i < 3) || !taken && (code != codeTooMuch || !strings.Contains(why, "less often")) {
			t.Errorf("%d is answered with %d %q", i, code, why)
		}
	}
}

// TestLiveEventsCostWhatTheyAre checks that a person is charged for each copy of a live event.
func TestLiveEventsCostWhatTheyAre(t *testing.T) {
	w := newTown(t)
	in := w.intruder(t, userCreds(t, w.dir, "", "eve"))
	v := w.cortex.gateways[""].caller(auth.Gateway(in.who) + "x")
	v.requests, v.bytes = rate.NewLimiter(1e-9, 1000), rate.NewLimiter(1e-9, 16<<20) // no refill during the test
	m := event("message", words)
	m.Subject = auth.Gateway(in.who) + liveSubject(transport.Live("", "c1"), in.who.ID)
	if err := in.PublishMsg(m); err != nil {
		t.Fatal(err)
	}
	receive(t, w.heard)
	if paid := 1000 - int(math.Round(v.requests.Tokens())); paid != 1+personLive {
		t.Errorf("it costs %d requests, want %d", paid, 1+personLive)
	}
	if paid, want := 16<<20-int(math.Round(v.bytes.Tokens())), liveCopies*len(words); paid < want {
		t.Errorf("it costs %d bytes, want %d at least", paid, want)
	}
}

// TestAgentAsksOneAfterTheOther checks an agent's requests about its inbox: they cost more than requests without locks at the server, and use a
// separate connection, on which the gateway waits for the answer.
func TestAgentAsksOneAfterTheOther(t *testing.T) {
	w := newTown(t)
	in := w.intruder(t, agentCreds(t, w.dir, "", "victim"))
	d := w.cortex.gateways[""]
	v := d.caller(auth.Gateway(in.who) + "x")
	for _, request := range []string{"CONSUMER.INFO." + inboxStream + "." + consumerName(transport.Inbox("", "victim")), "STREAM.INFO." + inboxStream} {
		v.requests = rate.NewLimiter(1e-9, 1000) // no refill during the test
		before := d.counts.Stats().OutMsgs
		m, err := in.Request(auth.Gateway(in.who)+jsAPI+request, nil, patience)
		if err != nil || strings.Contains(string(m.Data), `"error"`) {
			t.Fatalf("%s: %v", request, err)
		}
		if n := d.counts.Stats().OutMsgs - before; n != 1 {
			t.Errorf("%s is asked %d times on the other connection, want once", request, n)
		}
		if paid := 1000 - int(math.Round(v.requests.Tokens())); paid != 1+infoCost {
			t.Errorf("%s costs %d, want %d", request, paid, 1+infoCost)
		}
	}
}

// waitingID returns the id of the first event in an inbox.
func waitingID(t *testing.T, b *Bus, inbox transport.Topic) string {
	t.Helper()
	m, err := b.message(t.Context(), inboxStream, inboxFilter(inbox), 1)
	if err != nil {
		t.Fatal(err)
	}
	return m.Header.Get(headerID)
}

// TestCountsCostWhatThereIs checks a person's request to count the conversations of a large log: its price depends on their number, and it uses a
// separate connection.
func TestCountsCostWhatThereIs(t *testing.T) {
	const conversations = 5000
	w := newTown(t)
	for i := range conversations - 1 { // one exists already
		if _, err := w.cortex.js.PublishAsync(fmt.Sprint("cortex.v1.log._.d", i), nil, jetstream.WithStallWait(patience)); err != nil {
			t.Fatal(err)
		}
	}
	select {
	case <-w.cortex.js.PublishAsyncComplete():
	case <-time.After(patience):
		t.Fatal("the log is not written")
	}
	in := w.intruder(t, userCreds(t, w.dir, "", "eve"))
	d := w.cortex.gateways[""]
	v := d.caller(auth.Gateway(in.who) + "x")
	v.requests = rate.NewLimiter(1e-9, conversations) // no refill during the test
	asks := func(request, body string) (answer struct {
		Error *jetstream.APIError   `json:"error"`
		Total int                   `json:"total"`
		State jetstream.StreamState `json:"state"`
	},
	) {
		t.Helper()
		m, err := in.Request(auth.Gateway(in.who)+jsAPI+request, []byte(body), patience)
		if err == nil {
			err = json.Unmarshal(m.Data, &answer)
		}
		if err != nil || answer.Error != nil {
			t.Fatalf("%s is answered with %v, %v", request, err, answer.Error)
		}
		return answer
	}
	before := d.nc.Stats().OutMsgs
	is := asks("STREAM.INFO."+logStream, `{"subjects_filter":"cortex.v1.log._.>"}`)
	if is.Total != conversations || len(is.State.Subjects) != conversations {
		t.Errorf("%d of %d conversations are told, want %d", len(is.State.Subjects), is.Total, conversations)
	}
	if n := d.nc.Stats().OutMsgs - before; n != 0 {
		t.Errorf("it was asked for on the connection of all other requests, with %d messages", n)
	}
	asks("STREAM.INFO."+logStream, ``) // its answer comes after the count is charged
	const want = 1 + countCost + conversations/messagesEach + 1 + infoCost
	if paid := conversations - int(math.Round(v.requests.Tokens())); paid != want {
		t.Errorf("it costs %d requests, want %d", paid, want)
	}
}

// TestBatchesCostWhatIsSearched checks a person's requests for several messages, of which the server finds how many there are: they cost as much as a
// count where it walks all subjects for that, and use a connection of their own. So do requests for one message by a wildcard, except for the next one of all,
// which needs no search. Several last messages by a wildcard are refused among many subjects.
func TestBatchesCostWhatIsSearched(t *testing.T) {
	const most = 10_000
	w := newTown(t)
	if _, err := w.cortex.js.CreateStream(t.Context(), jetstream.StreamConfig{Name: keyStream, Subjects: []string{outlineKeys + ">"}, AllowDirect: true}); err != nil {
		t.Fatal(err)
	}
	in := w.intruder(t, userCreds(t, w.dir, "", "eve"))
	d := w.cortex.gateways[""]
	v := d.caller(auth.Gateway(in.who) + "x")
	const batch = `,"batch":64,"max_bytes":1}`
	for _, test := range []struct {
		stream, body string
		cost         int // less that of any request
		search       bool
	}{
		{"KV_CORTEX_NOTES", `{"seq":2,"next_by_subj":"$KV.CORTEX_NOTES._.>","batch":1,"max_bytes":1}`, countCost, true},
		{"KV_CORTEX_NOTES", `{"seq":1,"next_by_subj":"$KV.CORTEX_NOTES._.agent.*"` + batch, countCost + 2, true},
		{"KV_CORTEX_NOTES", `{"seq":2` + batch, countCost + 2, true},
		{"KV_CORTEX_NOTES", `{"seq":2,"next_by_subj":"$KV.CORTEX_NOTES._.agent.a"` + batch, 2, true},
		{keyStream, `{"seq":2,"next_by_subj":"cortex.v1.key._.outline.*"` + batch, countCost + 2, true},
		{logStream, `{"seq":2` + batch, countCost + 2, true},
		{logStream, `{"seq":1,"next_by_subj":"cortex.v1.log._.c1"` + batch, 2, true},
		{logStream, `{"seq":2,"next_by_subj":"cortex.v1.log._.c1"` + batch, infoCost + 2, true},
		{logStream, `{"seq":1,"multi_last":["cortex.v1.log._.c1","cortex.v1.log._.c2"]` + batch, infoCost + 2, true},
		{"KV_CORTEX_NOTES", `{"multi_last":["$KV.CORTEX_NOTES._.agent.a"]` + batch, 2, true},
		{agentsStream, `{"seq":1,"next_by_subj":"` + cardPrefix + `_.>"` + batch, infoCost + 2, true},
		{leaseStream, `{"multi_last":["` + leasePrefix + `_.>"]}`, 0, true},
		{"KV_CORTEX_NOTES", `{"last_by_subj":"$KV.CORTEX_NOTES._.agent.*"}`, countCost, true},
		{deadStream, `{"seq":2,"next_by_subj":"` + deadPrefix + `_.a.*"}`, countCost, true},
		{deadStream, `{"seq":1,"next_by_subj":"` + deadPrefix + `_.>"}`, 0, false},
		{agentsStream, `{"seq":2,"next_by_subj":"` + cardPrefix + `_.>"}`, 0, false},
		{"KV_CORTEX_NOTES", `{"last_by_subj":"$KV.CORTEX_NOTES._.agent.a"}`, 0, false},
		{logStream, `{"seq":2,"next_by_subj":"cortex.v1.log._.c1"}`, 0, false},
		{logStream, `{"seq":2}`, 0, false},
	} {
		v.requests = rate.NewLimiter(1e-9, most) // no refill during the test
		before, counts, batches := d.nc.Stats().OutMsgs, d.counts.Stats().OutMsgs, d.batches.Stats().OutMsgs
		m, err := in.Request(auth.Gateway(in.who)+jsAPI+"DIRECT.GET."+test.stream, []byte(test.body), patience)
		if err != nil {
			t.Fatalf("%s of %s: %v", test.body, test.stream, err)
		}
		if status := m.Header.Get("Status"); status != "" && status != "404" {
			t.Errorf("%s of %s is answered with %s %s", test.body, test.stream, status, m.Header.Get("Description"))
		}
		if paid := most - int(math.Round(v.requests.Tokens())); paid != 1+test.cost {
			t.Errorf("%s of %s costs %d requests, want %d", test.body, test.stream, paid, 1+test.cost)
		}
		n, other, all := d.batches.Stats().OutMsgs-batches, d.counts.Stats().OutMsgs-counts, d.nc.Stats().OutMsgs-before
		if n+other != 1 || n == 1 != test.search || strings.Contains(test.body, "batch") && all != 0 {
			t.Errorf("%s of %s: %d messages on the connection of batches, %d on that of counts, and %d on that of everything else; among batches: %v", test.body, test.stream, n, other, all, test.search)
		}
	}
	for stream, subject := range map[string]string{
		"KV_CORTEX_NOTES": "$KV.CORTEX_NOTES._.>", "KV_CORTEX_SPENT": "$KV.CORTEX_SPENT._.*", agentsStream: cardPrefix + "_.>", deadStream: deadPrefix + "_.>",
	} {
		for _, method := range []string{"DIRECT.GET.", "STREAM.MSG.GET."} {
			in.wantRefused(t, jsAPI+method+stream, &natsgo.Msg{Data: fmt.Appendf(nil, `{"multi_last":["%[1]sx",%[1]q]}`, subject)})
			in.wantRefused(t, jsAPI+method+stream, &natsgo.Msg{Data: fmt.Appendf(nil, `{"multi_last":[%q],"batch":1,"max_bytes":1}`, subject)})
		}
	}
}

// heldServer makes connections in this process that give nothing of what they read after stop, until end.
type heldServer struct {
	*Server
	stop atomic.Bool
	end  chan struct{}
}

func (h *heldServer) InProcessConn() (net.Conn, error) {
	c, err := h.Server.InProcessConn()
	return &heldConn{c, h}, err
}

type heldConn struct {
	net.Conn
	by *heldServer
}

func (c *heldConn) Read(b []byte) (int, error) {
	n, err := c.Conn.Read(b)
	if c.by.stop.Load() {
		<-c.by.end
	}
	return n, err
}

// TestBatchesDelayNobody does not let the gateway hear that a person's batch is done: other people's counts and single messages are answered, and that person's
// next request waits, until the connection is lost. The batch was answered, and is not refused then.
func TestBatchesDelayNobody(t *testing.T) {
	w := newTown(t)
	d := w.cortex.gateways[""]
	held := &heldServer{Server: w.srv, end: make(chan struct{})}
	batches, err := natsgo.Connect("", natsgo.InProcessServer(held), natsgo.UserCredentials(auth.Admin(w.dir, "")), natsgo.NoReconnect())
	if err != nil {
		t.Fatal(err)
	}
	d.batches.Close()
	d.batches = &conn{Conn: batches}
	held.stop.Store(true)
	eve, ada := w.intruder(t, userCreds(t, w.dir, "", "eve")), w.intruder(t, userCreds(t, w.dir, "", "ada"))
	get := func(in *intruder) string { return auth.Gateway(in.who) + jsAPI + "DIRECT.GET." + logStream }
	const one, several = `{"seq":1}`, `{"seq":1,"next_by_subj":"cortex.v1.log._.c1","batch":2}`
	batch, err := eve.SubscribeSync(eve.NewInbox())
	if err != nil {
		t.Fatal(err)
	}
	next, err := eve.SubscribeSync(eve.NewInbox())
	if err != nil {
		t.Fatal(err)
	}
	if err := eve.PublishRequest(get(eve), batch.Subject, []byte(several)); err != nil {
		t.Fatal(err)
	}
	if err := eve.PublishRequest(get(eve), next.Subject, []byte(one)); err != nil {
		t.Fatal(err)
	}
	if err := eve.Flush(); err != nil {
		t.Fatal(err)
	}
	for range 10 {
		if m, err := ada.Request(get(ada), []byte(one), patience); err != nil || m.Header.Get(jetstream.SequenceHeader) != "1" {
			t.Fatalf("while a batch is read, a single message is answered with %+v, %v", m, err)
		}
		if _, err := ada.Request(auth.Gateway(ada.who)+jsAPI+"STREAM.INFO."+logStream, []byte(`{"subjects_filter":"cortex.v1.log._.>"}`), patience); err != nil {
			t.Fatalf("while a batch is read, a count is answered with %v", err)
		}
	}
	if n, _, _ := next.Pending(); n > 0 {
		t.Error("a person's next request is answered while their batch is read")
	}
	batches.Close()
	close(held.end)
	if m, err := next.NextMsg(patience); err != nil || m.Header.Get(jetstream.SequenceHeader) != "1" {
		t.Errorf("behind a batch, a single message is answered with %+v, %v", m, err)
	}
	for n, _, _ := batch.Pending(); n > 0; n-- {
		if m, err := batch.NextMsg(patience); err != nil || m.Header.Get("Status") == strconv.Itoa(codeUnavailable) {
			t.Errorf("the batch is answered with %+v, %v", m, err)
		}
	}
}

// TestAllIsNotSearched has a person ask for the next of all dead letters: the server is asked for the next message, since it would look at all subjects for
// those of a tenant.
func TestAllIsNotSearched(t *testing.T) {
	w := newTown(t)
	in := w.intruder(t, userCreds(t, w.dir, "", "eve"))
	asked, err := w.cortex.nc.SubscribeSync(jsAPI + "DIRECT.GET." + deadStream)
	if err == nil {
		err = w.cortex.nc.Flush()
	}
	if err == nil {
		_, err = in.Request(auth.Gateway(in.who)+asked.Subject, []byte(`{"seq":1,"next_by_subj":"`+deadPrefix+`_.>"}`), patience)
	}
	if err != nil {
		t.Fatal(err)
	}
	m, err := asked.NextMsg(patience)
	if err != nil {
		t.Fatal(err)
	}
	if string(m.Data) != `{"seq":1,"next_by_subj":"\u003e"}` {
		t.Errorf("the server is asked for %s", m.Data)
	}
}

// TestChecksCostWhatIsRead checks small requests for which the gateway reads what waits in a conversation: their price depends on its size.
func TestChecksCostWhatIsRead(t *testing.T) {
	const tasks, size = 4, 500_000
	w := newTown(t)
	inbox := transport.Inbox("", "raw")
	for i := range tasks + 1 {
		e := message(inbox, "c1", strings.Repeat("x", size))
		if i == 0 { // so that no task of c1 has the first number
			e = message(inbox, "c0", "work")
		}
		e.From, e.TaskID = transport.Cortex, a2a.TaskID(fmt.Sprint("t", i))
		if err := w.cortex.Publish(t.Context(), inbox, e); err != nil {
			t.Fatal(err)
		}
	}
	was := inboxSubject(inboxAddress{to: "raw", context: "c1", from: transport.Cortex})
	agent, person := w.intruder(t, agentCreds(t, w.dir, "", "raw")), w.intruder(t, userCreds(t, w.dir, "", "eve"))
	file := objectSubject(transport.Object{From: person.who.ID, ContextID: "c1", ID: strings.Repeat("0", 32)}) + takeBack
	for name, test := range map[string]struct {
		in   *intruder
		asks func(in *intruder)
		read int // tasks
	}{
		"an event of a task that does not wait": {agent, func(in *intruder) {
			subject := inboxSubject(inboxAddress{to: transport.Cortex, context: "c1", from: in.who.ID})
			in.says(t, subject, "task", `{"id":"none","contextId":"c1","status":{"state":"TASK_STATE_COMPLETED"}}`, headerID, "e1")
		}, tasks},
		"giving up a task that does not wait": {agent, func(in *intruder) {
			in.says(t, deadSubject(inbox, was), "message", words, headerSubject, was, natsgo.MsgIdHdr, "1.1", headerReason, `"no"`)
		}, 1},
		"removing a file that is not there": {person, func(in *intruder) {
			if _, err := in.Request(auth.Gateway(in.who)+file, nil, patience); err != nil {
				t.Fatal(err)
			}
		}, tasks},
	} {
		t.Run(name, func(t *testing.T) {
			v := w.cortex.gateways[""].caller(auth.Gateway(test.in.who) + "x")
			v.trusted, v.bytes = rate.NewLimiter(0, 0), rate.NewLimiter(1e-9, bytePace) // no refill during the test
			test.asks(test.in)
			if paid, least := bytePace-int(v.bytes.Tokens()), test.read*size*bytesWritten; paid < least || paid > least+least/4 {
				t.Errorf("it costs %d bytes, want what %d bytes cost that were read, %d", paid, test.read*size, least)
			}
		})
	}
}

// TestTaskLimitersStay has an agent tell of one task all that it may, and then of more tasks than are remembered: of the first one it may tell no more.
func TestTaskLimitersStay(t *testing.T) {
	c := &caller{}
	task := c.taskLimiter("c1", "t")
	if !task.AllowN(time.Now(), taskBurst) {
		t.Fatal("nothing may be told of a task")
	}
	for n := range 3 * maxTasks {
		c.taskLimiter("c1", a2a.TaskID(strconv.Itoa(n)))
	}
	if c.taskLimiter("c1", "t") != task {
		t.Error("what was told of the task is forgotten")
	}
	if len(c.tasks) > maxTasks {
		t.Errorf("%d tasks are remembered, want at most %d", len(c.tasks), maxTasks)
	}
}
