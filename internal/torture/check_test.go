package torture

import (
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/a2aproject/a2a-go/v2/a2a"
	"github.com/google/go-cmp/cmp"

	"github.com/cortex-orchestrator/cortex/cortex/conversation"
	"github.com/cortex-orchestrator/cortex/transport"
)

var plan = &Plan{URL: "nats://127.0.0.1:1", Agents: 3, Clients: 1, Conversations: 8, Long: 1}

var epoch = time.Date(2026, 11, 20, 12, 0, 0, 0, time.UTC)

// forged is an artificial history, which is correct until the test changes it.
type forged struct {
	*history
	disturbed []time.Time
}

// forge returns a conversation with n messages, a second apart, each answered half a second later.
func forge(t *testing.T, kind, n int) *forged {
	t.Helper()
	f := &forged{history: &history{talk: plan.talk(kind + kinds)}}
	for i := range n {
		at := epoch.Add(time.Duration(i) * time.Second)
		m := f.talk.message(i)
		text := f.right(i)
		f.said = append(f.said, said{
			message: m, intent: at, accepted: at.Add(time.Millisecond),
			answers: []record{{Time: at.Add(500 * time.Millisecond), Op: opAnswer, Context: f.talk.id, ID: m.id, Answer: "a-" + m.id, Text: text, Via: "live"}},
		})
		f.entry(t, m.id, "user:client-0", `{"kind":"delegate","delegations":[]}`, m.id)
		f.entry(t, "result of "+m.id, "worker0", fmt.Sprintf(`{"kind":"respond","say":%q}`, text), m.id)
	}
	return f
}

// right returns the answer that the agents of the plan would give.
func (f *forged) right(n int) string {
	agent, token := agentName((f.talk.n+n)%plan.Agents), f.talk.token(n)
	switch {
	case f.talk.kind() == twoAgents:
		second := agentName((f.talk.n + n + 1) % plan.Agents)
		return agent + ": " + sum(agent, token) + "\n" + second + ": " + sum(second, token)
	case f.talk.kind() == asksBack && n%2 == 0:
		return question(token, fmt.Sprint("task-", n))
	case f.talk.kind() == asksBack:
		return reply(agentName((f.talk.n+n-1)%plan.Agents), token, fmt.Sprint("task-", n-1))
	}
	return sum(agent, token)
}

// entry adds an entry to the log.
func (f *forged) entry(t *testing.T, id, from, decision, turn string) {
	t.Helper()
	m := &a2a.Message{ID: id, Role: a2a.MessageRoleUser, Parts: a2a.ContentParts{a2a.NewTextPart("x")}}
	if strings.HasPrefix(from, "worker") {
		m.Role = a2a.MessageRoleAgent
	}
	e := &conversation.Entry{Seq: uint64(len(f.log) + 1), Time: epoch, Turn: turn, Cause: &transport.Event{ID: id, From: from, Payload: m}}
	if err := json.Unmarshal([]byte(`{"decision":`+decision+`}`), e); err != nil {
		t.Fatal(err)
	}
	f.log = append(f.log, e)
}

// number renumbers the entries.
func (f *forged) number() {
	for i, e := range f.log {
		e.Seq = uint64(i + 1)
	}
}

// TestCheckFinds checks that violations are found, and none where there are none.
func TestCheckFinds(t *testing.T) {
	second := func(f *forged) string { return f.said[1].id }
	for _, c := range []struct {
		name string
		kind int
		do   func(t *testing.T, f *forged)
		want []string // kinds, for the message that second names
	}{
		{"nothing, one agent", oneAgent, func(*testing.T, *forged) {}, nil},
		{"nothing, two agents", twoAgents, func(*testing.T, *forged) {}, nil},
		{"nothing, questions", asksBack, func(*testing.T, *forged) {}, nil},
		{"nothing, slow", slowAgent, func(*testing.T, *forged) {}, nil},
		{"not in the log", oneAgent, func(_ *testing.T, f *forged) {
			f.log = slices.Delete(f.log, 2, 4)
			f.number()
		}, []string{Lost}},
		{"no answer in the log", oneAgent, func(_ *testing.T, f *forged) {
			f.log = slices.Delete(f.log, 3, 4)
			f.number()
		}, []string{Lost}},
		{"not told", oneAgent, func(_ *testing.T, f *forged) { f.said[1].answers = nil }, []string{Lost}},
		{"not accepted", oneAgent, func(_ *testing.T, f *forged) {
			f.said[1].accepted, f.said[1].answers = time.Time{}, nil
			f.log = slices.Delete(f.log, 2, 4)
			f.number()
		}, nil},
		{"in the log twice", oneAgent, func(t *testing.T, f *forged) {
			f.entry(t, second(f), "user:client-0", `{"kind":"delegate"}`, second(f))
		}, []string{Duplicate, OutOfOrder}},
		{"answered twice in the log", slowAgent, func(t *testing.T, f *forged) {
			f.entry(t, "another result", "worker0", fmt.Sprintf(`{"kind":"respond","say":%q}`, f.right(1)), second(f))
		}, []string{Duplicate}},
		{"shown two answers", oneAgent, func(_ *testing.T, f *forged) {
			other := f.said[1].answers[0]
			other.Answer = "another"
			f.said[1].answers = append(f.said[1].answers, other)
		}, []string{Duplicate}},
		{"shown one answer twice", oneAgent, func(_ *testing.T, f *forged) {
			f.said[1].answers = append(f.said[1].answers, f.said[1].answers[0])
		}, nil},
		{"wrong answer", twoAgents, func(_ *testing.T, f *forged) {
			f.log[3].Decision.Say = f.right(0)
			f.said[1].answers[0].Text = f.right(0)
		}, []string{Wrong}},
		{"failure", oneAgent, func(_ *testing.T, f *forged) {
			f.log[3].Decision, f.log[3].Failure = nil, "I could not decide"
			f.said[1].answers[0].Text = "I could not decide"
		}, []string{Wrong}},
		{"shown something else", oneAgent, func(_ *testing.T, f *forged) { f.said[1].answers[0].Text = "else" }, []string{Wrong}},
		{"reply to another task", asksBack, func(_ *testing.T, f *forged) {
			text := strings.Replace(f.right(1), "task-0", "task-7", 1)
			f.log[3].Decision.Say, f.said[1].answers[0].Text = text, text
		}, []string{Wrong}},
		{"nobody said it", oneAgent, func(t *testing.T, f *forged) {
			f.said = slices.Delete(f.said, 1, 2)
		}, []string{Wrong}},
		{"after a later one", oneAgent, func(_ *testing.T, f *forged) {
			f.log[2], f.log[4] = f.log[4], f.log[2]
			f.number()
		}, []string{OutOfOrder}},
		{"late", oneAgent, func(_ *testing.T, f *forged) {
			f.said[1].answers[0].Time = f.said[1].accepted.Add(Late + time.Millisecond)
		}, []string{LateAnswer}},
		{"just in time", oneAgent, func(_ *testing.T, f *forged) {
			f.said[1].answers[0].Time = f.said[1].accepted.Add(Late)
		}, nil},
		{"late, though something was killed", oneAgent, func(_ *testing.T, f *forged) {
			kill := f.said[1].accepted.Add(time.Second)
			f.disturbed = []time.Time{epoch, kill, kill.Add(time.Hour)}
			f.said[1].answers[0].Time = kill.Add(Late + time.Millisecond)
		}, []string{LateAnswer}},
		{"in time after a kill", oneAgent, func(_ *testing.T, f *forged) {
			kill := f.said[1].accepted.Add(time.Second)
			f.disturbed = []time.Time{epoch, kill, kill.Add(time.Hour)}
			f.said[1].answers[0].Time = kill.Add(Late)
		}, nil},
	} {
		t.Run(c.name, func(t *testing.T) {
			f := forge(t, c.kind, 4)
			id := second(f)
			c.do(t, f)
			var got []string
			for _, found := range f.check(f.disturbed, new(timing)) {
				if found.Message != id {
					t.Errorf("found of %q: %s: %s", found.Message, found.Kind, found.Text)
				}
				got = append(got, found.Kind)
			}
			if diff := cmp.Diff(c.want, got); diff != "" {
				t.Errorf("findings (-want +got):\n%s", diff)
			}
		})
	}
}

// TestGapInLog checks that a missing entry is found.
func TestGapInLog(t *testing.T) {
	f := forge(t, oneAgent, 2)
	f.log[3].Seq = 5
	found := f.check(nil, new(timing))
	if len(found) != 1 || found[0].Kind != Lost {
		t.Errorf("findings %+v, want one that an entry is lost", found)
	}
}

// TestSeededEntries checks that entries from lengthen count as nobody's messages.
func TestSeededEntries(t *testing.T) {
	f := forge(t, oneAgent, 1)
	said := f.log
	f.log = nil
	f.entry(t, "seed-1", seedUser, `{"kind":"respond","say":"x"}`, "seed-1")
	f.log = append(f.log, said...)
	f.number()
	if found := f.check(nil, new(timing)); len(found) != 0 {
		t.Errorf("findings %+v, want none", found)
	}
	var r Report
	r.count(f.history, nil)
	if r.Turns != 1 || r.Decisions != 2 || r.Longest != 3 {
		t.Errorf("counted %d turns, %d decisions, %d entries, want 1, 2, 3", r.Turns, r.Decisions, r.Longest)
	}
}

// TestTiming checks from when the times are measured.
func TestTiming(t *testing.T) {
	at := func(ms int) time.Time { return epoch.Add(time.Duration(ms) * time.Millisecond) }
	kills := []time.Time{at(100), at(200), at(1000)}
	times := new(timing)
	for _, c := range []struct {
		name               string
		accepted, answered int
		want               time.Duration
	}{
		{"before any kill", 0, 50, 50 * time.Millisecond},
		{"over one kill", 50, 150, 50 * time.Millisecond},
		{"over two", 50, 800, 600 * time.Millisecond},
		{"between", 210, 300, 90 * time.Millisecond},
		{"over the last", 900, 1400, 400 * time.Millisecond},
		{"after the last", 1500, 1510, 10 * time.Millisecond},
	} {
		if got, _ := times.add(at(c.accepted), at(c.answered), kills); got != c.want {
			t.Errorf("%s: %v, want %v", c.name, got, c.want)
		}
	}
	if times.afterAll != 400*time.Millisecond || len(times.waits) != 6 || len(times.recoveries) != 3 {
		t.Errorf("after the last kill %v, %d waits, %d recoveries, want 400ms, 6, 3", times.afterAll, len(times.waits), len(times.recoveries))
	}
	want := Quantiles{P50: 2, P99: 3, Max: 4}
	if got := quantiles([]time.Duration{4 * time.Millisecond, 3 * time.Millisecond, 2 * time.Millisecond, time.Millisecond}); got != want {
		t.Errorf("quantiles %v, want %v", got, want)
	}
}

// TestVerdict checks that every kind of finding fails a run, and so do too few kills and missing turns.
func TestVerdict(t *testing.T) {
	good := Report{Wanted: 3, Killed: 3, Turns: 1, TasksTwice: 5, DecidedTwice: 5}
	if good.Verdict() != "" {
		t.Error("a good report has something wrong")
	}
	for name, spoil := range map[string]func(*Report){
		"killed": func(r *Report) { r.Killed = 2 }, "turns": func(r *Report) { r.Turns = 0 }, "owners": func(r *Report) { r.TwoOwners = 1 },
	} {
		r := good
		if spoil(&r); r.Verdict() == "" {
			t.Errorf("%s: nothing is wrong, want something", name)
		}
	}
	for _, kind := range []string{Lost, Duplicate, Wrong, OutOfOrder, LateAnswer} {
		r := good
		r.count(&history{}, []Finding{{Kind: kind}})
		if r.Verdict() == "" {
			t.Errorf("%s: nothing is wrong, want something", kind)
		}
		var b strings.Builder
		if err := r.Write(&b); err != nil || !strings.Contains(b.String(), kind+": message") {
			t.Errorf("%s is not in the report (%v):\n%s", kind, err, &b)
		}
	}
}

// TestReportIsBounded checks that the report of a run with very many findings is readable.
func TestReportIsBounded(t *testing.T) {
	var r Report
	for range 3 {
		r.count(&history{}, make([]Finding, 40))
	}
	r.count(&history{}, []Finding{{Kind: Lost}, {Kind: Lost}})
	if len(r.Findings) != maxFindings || r.Lost != 2 {
		t.Errorf("%d findings, %d lost, want %d and 2", len(r.Findings), r.Lost, maxFindings)
	}
	for i := range 3 {
		r.ended(fmt.Sprint(i), slices.Repeat([]string{"how"}, maxEnded))
	}
	if r.Ended != 3*maxEnded || len(r.EndedHow) != maxEnded || r.EndedHow[0] != "2: how" {
		t.Errorf("%d times %q, want %d times, and the last %d", r.Ended, r.EndedHow, 3*maxEnded, maxEnded)
	}
}
