package conversation_test

import (
	"bytes"
	"encoding/binary"
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/a2aproject/a2a-go/v2/a2a"

	"github.com/cortex-orchestrator/cortex/cortex/conversation"
	"github.com/cortex-orchestrator/cortex/llm"
	"github.com/cortex-orchestrator/cortex/transport"
)

// FuzzConversation sends events to a conversation, chosen by the fuzzer's bytes: late, repeated, in any order, from any sender, with a clock
// that steps back. These always hold:
//
//   - Every turn is answered once.
//   - No effect has the id of another that says something else.
//   - When nobody sends anything more, the deadlines end all that is open.
//   - Reading the log again gives the same effects and the same conversation, byte by byte.
func FuzzConversation(f *testing.F) {
	for seed := range uint64(96) {
		f.Add(randomBytes(seed, 300+300*int(seed%4)))
	}
	f.Fuzz(func(t *testing.T, data []byte) { runModel(t, data) })
}

// randomBytes returns n bytes that follow from seed.
func randomBytes(seed uint64, n int) []byte {
	b := make([]byte, 0, n+8)
	for x := seed*0x9e3779b97f4a7c15 + 1; len(b) < n; {
		x ^= x << 13
		x ^= x >> 7
		x ^= x << 17
		b = binary.LittleEndian.AppendUint64(b, x)
	}
	return b[:n]
}

// model is a conversation and what is known about its events and effects.
type model struct {
	t       *testing.T
	data    []byte
	conv    *conversation.Conversation
	log     []*conversation.Entry
	now     time.Time
	events  []*transport.Event // sent so far
	effects map[string]string  // by id
	said    map[string]string  // texts of messages, by id
	answers map[string]int     // by turn
	made    [][]string         // effects, by entry
	large   int                // messages with a large file, each of which costs a run about 10 ms
}

func runModel(t *testing.T, data []byte) {
	if len(data) > 4096 {
		data = data[:4096]
	}
	m := &model{
		t: t, data: data, conv: conversation.NewConversation("", "c1"), now: t0, effects: map[string]string{}, said: map[string]string{}, answers: map[string]int{},
	}
	for len(m.data) > 0 {
		m.deliver(m.event())
	}
	m.silence()
	m.replay()
}

// pick returns a number below n.
func (m *model) pick(n int) int {
	if len(m.data) == 0 {
		return 0
	}
	b := m.data[0]
	m.data = m.data[1:]
	return int(b) % n
}

var people, helpers = []string{"user", "user:ada", "user:bob"}, []string{"alpha", "beta", "gamma"}

// event returns the next event, after time has moved forward or back.
func (m *model) event() *transport.Event {
	m.now = m.now.Add(time.Duration(m.pick(256)-64) * time.Second)
	id := fmt.Sprint("e", len(m.events))
	e := &transport.Event{ID: id, ContextID: "c1", Time: m.now}
	task := m.anyTask()
	switch m.pick(13) {
	case 0, 1, 2:
		e.From = people[m.pick(len(people))]
		said := m.words(id, []string{"do it", "yes", "no", "thanks"}[m.pick(4)])
		if m.pick(4) == 0 {
			m.address(said)
		}
		e.Payload = said
	case 3:
		e.From = helpers[m.pick(len(helpers))]
		e.Payload = m.words(id, "help me")
	case 4, 5, 6, 7:
		e.From = helpers[m.pick(len(helpers))]
		if t := m.conv.Tasks[task]; t != nil && m.pick(8) > 0 {
			e.From = t.Agent
		}
		states := []a2a.TaskState{
			a2a.TaskStateCompleted, a2a.TaskStateFailed, a2a.TaskStateInputRequired, a2a.TaskStateWorking, a2a.TaskStateRejected, a2a.TaskStateAuthRequired,
		}
		return m.remember(brings(reports(e.From, id, task, states[m.pick(len(states))], "result "+id), &a2a.Part{Content: a2a.Raw("of " + id)}))
	case 8:
		e.From, e.Payload = transport.Cortex, &transport.Deadline{At: m.now.Add(time.Duration(m.pick(120)-60) * time.Second)}
	case 9:
		e.From = slices.Concat(people, helpers)[m.pick(6)]
		c := &transport.Cancel{}
		if m.pick(2) == 0 {
			c.TaskID = task
		} else if n := len(m.conv.Turns); n > 0 && m.pick(3) > 0 {
			c.Turn = m.conv.Turns[m.pick(n)].ID
		}
		e.Payload = c
	case 10:
		e.From, e.Payload = transport.Cortex, &transport.AgentEvent{Kind: transport.AgentGone, AgentID: helpers[m.pick(len(helpers))], Time: m.now}
	case 12:
		e.From, e.TaskID, e.Payload = helpers[m.pick(len(helpers))], task, &transport.ReadBoard{}
		if t := m.conv.Tasks[task]; t != nil && m.pick(8) > 0 {
			e.From = t.Agent
		}
		if m.pick(4) > 0 {
			e.Payload = &transport.Post{Name: fmt.Sprint("n", m.pick(20)), Text: strings.Repeat(id, 1+m.pick(256)), TTL: time.Duration(m.pick(3)) * time.Minute}
		}
	case 11:
		if len(m.events) > 0 { // a repeated event
			return m.events[m.pick(len(m.events))]
		}
		e.From, e.Payload = "user", m.words(id, "do it")
	}
	return m.remember(e)
}

func (m *model) remember(e *transport.Event) *transport.Event {
	m.events = append(m.events, e)
	return e
}

func (m *model) words(id, text string) *a2a.Message {
	file := id
	if m.pick(16) == 0 && m.large < 6 { // large enough that files of other turns are dropped
		m.large++
		file = strings.Repeat(id, 1<<17)
	}
	parts := a2a.ContentParts{a2a.NewTextPart(text), {Content: a2a.Raw(file), Filename: id}}
	return &a2a.Message{ID: id, Role: a2a.MessageRoleUser, Parts: parts}
}

// address makes a message a direct request.
func (m *model) address(said *a2a.Message) {
	to := transport.Direct{Agent: helpers[m.pick(len(helpers))]}
	if m.pick(2) == 0 {
		to.Skill, to.Input = "skill", json.RawMessage(`{"of":"`+said.ID+`"}`)
	}
	if err := to.Address(said); err != nil {
		m.t.Fatal(err)
	}
}

func (m *model) anyTask() a2a.TaskID {
	tasks := m.conv.TaskList()
	if len(tasks) == 0 {
		return "none"
	}
	return tasks[m.pick(len(tasks))].ID
}

// deliver takes an event through the steps of a turn, as an orchestrator does.
func (m *model) deliver(e *transport.Event) {
	p := m.conv.Plan(e, m.now, m.conv.Seq%7 == 6)
	switch p.Do {
	case conversation.Repeat:
		m.send(p.Seq)
		return
	case conversation.Work:
	default:
		m.read(e)
		if p.Why == "" {
			m.t.Fatalf("%s is not handled, and nothing says why", e.ID)
		}
		return
	}
	seq := m.conv.Seq + 1
	entry := &conversation.Entry{
		Version: conversation.Version(seq), Seq: seq, Time: m.now, Sent: m.now, Cause: e, Turn: p.Turn,
		Deadline: m.now.Add(time.Minute), ReplyBy: m.now.Add(time.Hour),
	}
	if seq == 1 {
		entry.Life = "life"
	}
	for _, t := range m.conv.Lapsing(entry) {
		if t.Attempt < 4 && m.pick(2) == 0 {
			if entry.Retries == nil {
				entry.Retries = map[a2a.TaskID]conversation.Retry{}
			}
			entry.Retries[t.ID] = conversation.Retry{Agent: helpers[m.pick(len(helpers))], Why: "it was silent"}
		}
	}
	if err := m.conv.Begin(entry); err != nil {
		m.t.Fatal(err)
	}
	if turn := m.conv.Turn(entry.Turn); turn != nil && turn.Open() && !m.conv.Outstanding(turn) {
		m.decide(entry, turn)
	}
	m.conv.Finish(entry)
	m.conv.Version = entry.Version
	m.log = append(m.log, entry)
	m.made = append(m.made, m.send(seq))
}

// read asks for a board, as an orchestrator does for an event that changes nothing: it has what is of its chain alone, and no more than it may hold.
func (m *model) read(e *transport.Event) {
	out, ok := m.conv.Board(e, m.now)
	if !ok {
		return
	}
	size, posts := 0, out.Event.Payload.(*transport.Board).Posts
	for _, p := range posts {
		size += len(p.Text)
		if !p.Expires.After(m.now) {
			m.t.Fatalf("the board has a post that expired at %v, at %v", p.Expires, m.now)
		}
		if of, its := m.conv.Tasks[p.Task], m.conv.Tasks[e.TaskID]; of != nil && m.conv.Turn(of.Turn) != nil && m.conv.Turn(of.Turn).Root != m.conv.Turn(its.Turn).Root {
			m.t.Fatalf("task %s reads what was posted for task %s of another chain", e.TaskID, p.Task)
		}
	}
	if len(posts) > 64 || size > 128<<10 {
		m.t.Fatalf("a board of %d posts with %d bytes", len(posts), size)
	}
}

// decide completes an entry as a decider might.
func (m *model) decide(entry *conversation.Entry, turn *conversation.Turn) {
	if s := m.conv.Swarm(turn); s != nil && s.End == "" && (len(s.Done) < 2 || s.Round >= s.Rounds || s.Spent >= s.Tokens) {
		m.t.Fatalf("a swarm goes on with %+v", s)
	}
	choice := m.pick(8)
	switch last := turn.Decisions+1 >= conversation.MaxSteps; {
	case choice == 0:
		entry.Failure = "nothing could be decided"
	case choice < 4 || last:
		entry.Decision = &llm.Decision{Kind: []llm.Kind{llm.KindRespond, llm.KindClarify}[m.pick(2)], Say: "said"}
	default:
		d := &llm.Decision{Kind: llm.KindDelegate, Say: "on it"}
		for i := range 1 + m.pick(3) {
			del := llm.Delegation{ID: fmt.Sprint(i), Agent: helpers[m.pick(len(helpers))], Task: "part " + fmt.Sprint(i)}
			if i > 0 && m.pick(2) == 0 {
				del.DependsOn = []string{fmt.Sprint(i - 1)}
			}
			if there := conversation.Keys(m.conv.Files(turn, 0)); m.pick(3) == 0 {
				del.Files = append([]string{}, there[max(0, len(there)-m.pick(4)):]...)
			}
			d.Delegations = append(d.Delegations, del)
			if m.pick(2) == 0 {
				if entry.Terms == nil {
					entry.Terms = map[string]conversation.Terms{}
				}
				entry.Terms[del.ID] = conversation.Terms{Board: true, Market: m.pick(2) == 0}
			}
		}
		if waiting := m.conv.Asking(); len(waiting) > 0 && m.pick(2) == 0 {
			w := waiting[m.pick(len(waiting))]
			d.Delegations = []llm.Delegation{{ID: string(w.ID), Agent: w.Agent, Task: "the reply"}}
		}
		if turn.Reply != nil && turn.Reply.Yes && turn.Decisions == 0 {
			d.Delegations = nil
			for _, id := range turn.Reply.Tasks {
				t := m.conv.Tasks[id]
				d.Delegations = append(d.Delegations, llm.Delegation{ID: string(id), Agent: t.Agent, Task: t.Text, Files: conversation.Keys(t.Along)})
			}
		} else if to := turn.Direct; to != nil { // it may be a reply, or a task of its own
			del := llm.Delegation{ID: "1", Agent: to.Agent, Skill: to.Skill, Task: to.Text, Input: to.Input}
			for _, w := range m.conv.Asking() {
				if w.Agent == to.Agent && len(to.Input) == 0 {
					del.ID, del.Skill = string(w.ID), w.Skill
				}
			}
			d.Delegations = []llm.Delegation{del}
		}
		if m.pick(4) == 0 && !(turn.Reply != nil && turn.Reply.Yes) {
			entry.Consent, entry.Asked = "Do it?", m.now
		}
		if m.pick(3) == 0 {
			entry.Patterns = &conversation.Patterns{Swarm: &conversation.Swarm{Round: 1 + m.pick(3), Rounds: 3, Tokens: 1000, Task: "part"}}
		}
		entry.Decision = d
	}
}

// send records the effects of an entry, and returns them.
func (m *model) send(seq uint64) []string {
	var all []string
	for _, out := range m.conv.Effects(seq) {
		said := effectText(m.t, out)
		all = append(all, said)
		key := fmt.Sprint(out.Topic, " ", out.Event.ID)
		before, again := m.effects[key]
		if again && before != said {
			m.t.Fatalf("effect %s said\n%s\nand says now\n%s", key, before, said)
		}
		m.effects[key] = said
		m.wantOneMeaning(out)
		answer, ok := out.Event.Payload.(*a2a.Message)
		if again || !ok || out.Topic != transport.Live(m.conv.Tenant, m.conv.ContextID) { // what an agent gets in its inbox is a copy
			continue
		}
		if turn := transport.MetaString(answer, transport.MetaTurn); turn != "" {
			if m.answers[turn]++; m.answers[turn] > 1 {
				m.t.Fatalf("turn %s is answered twice", turn)
			}
		}
	}
	return all
}

// wantOneMeaning checks that no two messages have the same id and different texts.
func (m *model) wantOneMeaning(out conversation.Effect) {
	var msg *a2a.Message
	switch p := out.Event.Payload.(type) {
	case *a2a.Message:
		msg = p
	case *a2a.TaskStatusUpdateEvent:
		msg = p.Status.Message
	}
	if msg == nil {
		return
	}
	said := fmt.Sprint(msg.TaskID, " ", transport.Text(msg.Parts))
	if before, ok := m.said[msg.ID]; ok && before != said {
		m.t.Fatalf("message %s said %q, and says now %q", msg.ID, before, said)
	}
	m.said[msg.ID] = said
}

func effectText(t *testing.T, out conversation.Effect) string {
	t.Helper()
	e := *out.Event
	if m, ok := e.Payload.(*a2a.Message); ok && m.Metadata[transport.MetaDecision] != nil { // an old answer has its files without their bytes
		answer := *m
		answer.Parts = nil
		for _, p := range m.Parts {
			answer.Parts = append(answer.Parts, transport.ForgottenFile(p))
		}
		e.Payload = &answer
	}
	b, err := e.MarshalJSON()
	if err != nil {
		t.Fatal(err)
	}
	return fmt.Sprint(out.Topic, " ", string(b))
}

// silence delivers only the deadlines that were requested.
func (m *model) silence() {
	for n := 0; ; n++ {
		at := m.conv.NextDeadline()
		if at.IsZero() {
			break
		}
		if n > 1000 {
			m.t.Fatalf("a deadline at %v comes again and again", at)
		}
		if m.now.Before(at) {
			m.now = at
		}
		m.deliver(&transport.Event{ID: fmt.Sprint("deadline", n), From: transport.Cortex, ContextID: "c1", Payload: &transport.Deadline{At: at}})
	}
	for _, turn := range m.conv.Turns {
		if turn.Open() {
			m.t.Fatalf("turn %s stays open for ever", turn.ID)
		}
		if m.answers[turn.ID] != 1 {
			m.t.Fatalf("turn %s was answered %d times", turn.ID, m.answers[turn.ID])
		}
	}
	for _, t := range m.conv.TaskList() {
		if !t.Phase.Over() {
			m.t.Fatalf("task %s stays %s for ever", t.ID, t.State())
		}
	}
}

// replay reads the log again, as it is stored.
func (m *model) replay() {
	again := conversation.NewConversation("", "c1")
	for i, entry := range m.log {
		b, err := entry.MarshalJSON()
		if err != nil {
			m.t.Fatal(err)
		}
		read := &conversation.Entry{Version: entry.Version}
		if err := json.Unmarshal(b, read); err != nil {
			m.t.Fatal(err)
		}
		if err := again.Apply(read); err != nil {
			m.t.Fatal(err)
		}
		var made []string
		for _, out := range again.Effects(entry.Seq) {
			made = append(made, effectText(m.t, out))
		}
		if !slices.Equal(made, m.made[i]) {
			m.t.Fatalf("entry %d had the effects\n%q\nread again it has\n%q", entry.Seq, m.made[i], made)
		}
	}
	want, err := m.conv.Snapshot()
	if err != nil {
		m.t.Fatal(err)
	}
	got, err := again.Snapshot()
	if err != nil {
		m.t.Fatal(err)
	}
	if !bytes.Equal(got, want) {
		m.t.Fatalf("the log gives\n%s\nwant\n%s", got, want)
	}
}
