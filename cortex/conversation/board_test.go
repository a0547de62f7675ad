package conversation_test

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/a2aproject/a2a-go/v2/a2a"
	"github.com/google/go-cmp/cmp"

	"github.com/cortex-orchestrator/cortex/cortex/conversation"
	"github.com/cortex-orchestrator/cortex/llm"
	"github.com/cortex-orchestrator/cortex/transport"
)

// boardScript is a conversation in which ann's request and bob's are each worked on by two agents that use a board, and by one that does not.
type boardScript struct {
	t     *testing.T
	conv  *conversation.Conversation
	now   time.Time
	tasks map[string]a2a.TaskID // by sender and agent
}

func newBoardScript(t *testing.T) *boardScript {
	s := &boardScript{t, conversation.NewConversation("", "c1"), t0, map[string]a2a.TaskID{}}
	for _, from := range []string{"user:ann", "user:bob"} {
		e := s.entry(says(from, "m-"+from, "please"))
		e.Decision, e.Terms = &llm.Decision{Kind: llm.KindDelegate}, map[string]conversation.Terms{"alpha": {Board: true}, "beta": {Board: true}}
		for _, agent := range []string{"alpha", "beta", "gamma"} {
			e.Decision.Delegations = append(e.Decision.Delegations, llm.Delegation{ID: agent, Agent: agent, Task: "work"})
		}
		if err := s.conv.Apply(e); err != nil {
			t.Fatal(err)
		}
		for _, task := range s.conv.TasksOf(s.conv.Turn(e.Turn)) {
			s.tasks[from+" "+task.Agent] = task.ID
		}
	}
	return s
}

func (s *boardScript) entry(cause *transport.Event) *conversation.Entry {
	seq := s.conv.Seq + 1
	cause.ContextID = "c1"
	return &conversation.Entry{
		Version: conversation.Version(seq), Seq: seq, Time: s.now, Cause: cause, Turn: s.conv.Plan(cause, s.now, false).Turn, Deadline: s.now.Add(time.Hour),
	}
}

// post has an agent post, and returns why nothing came of it, and to whose tasks it was told.
func (s *boardScript) post(agent string, task a2a.TaskID, p *transport.Post) (why string, told []a2a.TaskID) {
	s.t.Helper()
	cause := &transport.Event{ID: fmt.Sprint("p", s.conv.Seq), From: agent, ContextID: "c1", TaskID: task, Payload: p}
	plan := s.conv.Plan(cause, s.now, false)
	if plan.Do != conversation.Work {
		return plan.Why, nil
	}
	e := s.entry(cause)
	if err := s.conv.Apply(e); err != nil {
		s.t.Fatal(err)
	}
	for _, out := range s.conv.Effects(e.Seq) {
		b, ok := out.Event.Payload.(*transport.Board)
		if !ok || b.Read != "" || len(b.Posts) != 1 || b.Posts[0].Text != p.Text || out.Topic != transport.Control("", s.conv.Tasks[out.Event.TaskID].Agent) {
			s.t.Errorf("the post has the effect %+v", out)
		}
		told = append(told, out.Event.TaskID)
	}
	return "", told
}

// read returns what an agent reads: "agent name text" of each post.
func (s *boardScript) read(agent string, task a2a.TaskID) (posts []string, ok bool) {
	s.t.Helper()
	e := &transport.Event{ID: "r", From: agent, ContextID: "c1", TaskID: task, Payload: &transport.ReadBoard{}}
	if plan := s.conv.Plan(e, s.now, false); plan.Do != conversation.Ignore {
		s.t.Errorf("to read changes something: %+v", plan)
	}
	out, ok := s.conv.Board(e, s.now)
	if !ok {
		return nil, false
	}
	if b := out.Event.Payload.(*transport.Board); out.Topic != transport.Control("", agent) || b.Read != e.ID {
		s.t.Errorf("the answer is %+v", out)
	}
	for _, p := range out.Event.Payload.(*transport.Board).Posts {
		posts = append(posts, p.Agent+" "+p.Name+" "+p.Text)
	}
	return posts, true
}

func TestBoard(t *testing.T) {
	s := newBoardScript(t)
	annAlpha, annBeta, bobBeta := s.tasks["user:ann alpha"], s.tasks["user:ann beta"], s.tasks["user:bob beta"]
	const stranger = "a board is for those who work on a task of it"
	for _, test := range []struct {
		name, agent string
		task        a2a.TaskID
		why         string
		told        []a2a.TaskID
	}{
		{"one", "alpha", annAlpha, "", []a2a.TaskID{annBeta}},
		{"other", "beta", annBeta, "", []a2a.TaskID{annAlpha}},
		{"bobs", "beta", bobBeta, "", []a2a.TaskID{s.tasks["user:bob alpha"]}},
		{"x", "beta", annAlpha, stranger, nil}, // another's task
		{"x", "alpha", "no-task", stranger, nil},
		{"x", "user:ann", annAlpha, stranger, nil},
		{"x", "gamma", s.tasks["user:ann gamma"], "its card does not say that it uses a board, or a rule forbids it", nil},
	} {
		why, told := s.post(test.agent, test.task, &transport.Post{Name: test.name, Text: "of " + test.agent})
		if d := cmp.Diff(test.told, told); why != test.why || d != "" {
			t.Errorf("%s posts for %s: %q, want %q; told (-want +got):\n%s", test.agent, test.task, why, test.why, d)
		}
	}
	for _, test := range []struct {
		agent string
		task  a2a.TaskID
		ok    bool
		want  []string
	}{
		{"alpha", annAlpha, true, []string{"alpha one of alpha", "beta other of beta"}},
		{"beta", bobBeta, true, []string{"beta bobs of beta"}},
		{"beta", annAlpha, false, nil},
		{"gamma", s.tasks["user:ann gamma"], false, nil},
		{"cortex", annAlpha, false, nil},
	} {
		got, ok := s.read(test.agent, test.task)
		if d := cmp.Diff(test.want, got); ok != test.ok || d != "" {
			t.Errorf("%s reads for %s: %v, want %v (-want +got):\n%s", test.agent, test.task, ok, test.ok, d)
		}
	}
	if err := s.conv.Apply(s.entry(reports("alpha", "r1", annAlpha, a2a.TaskStateCompleted, "done"))); err != nil {
		t.Fatal(err)
	}
	if _, ok := s.read("alpha", annAlpha); ok {
		t.Error("who has ended the task still reads")
	}
	if why, _ := s.post("alpha", annAlpha, &transport.Post{Name: "late", Text: "x"}); why != stranger {
		t.Errorf("who has ended the task posts: %q", why)
	}
	if got, _ := s.read("beta", annBeta); len(got) != 2 {
		t.Errorf("the board has %q after the end of one task, want what was on it", got)
	}
}

func TestPostsExpire(t *testing.T) {
	s := newBoardScript(t)
	id := s.tasks["user:ann alpha"]
	s.post("alpha", id, &transport.Post{Name: "short", Text: "x", TTL: time.Minute})
	s.post("alpha", id, &transport.Post{Name: "long", Text: "x"})
	for _, step := range []struct {
		pass time.Duration
		want int
	}{{59 * time.Second, 2}, {time.Second, 1}, {58 * time.Minute, 1}, {time.Minute, 0}} {
		s.now = s.now.Add(step.pass)
		if got, _ := s.read("alpha", id); len(got) != step.want {
			t.Errorf("at %v the board has %q, want %d posts", s.now.Sub(t0), got, step.want)
		}
	}
	s.post("alpha", id, &transport.Post{Name: "new", Text: "x"})
	if chain := s.conv.Chain(s.conv.Turn(s.conv.Tasks[id].Turn)); len(chain.Board) != 1 {
		t.Errorf("the fold keeps %d posts, want those that have not expired", len(chain.Board))
	}
}

func TestBoardIsBounded(t *testing.T) {
	s := newBoardScript(t)
	alpha, beta := s.tasks["user:ann alpha"], s.tasks["user:ann beta"]
	s.post("beta", beta, &transport.Post{Name: "mine", Text: "x"})
	for range 3 {
		s.post("alpha", alpha, &transport.Post{Name: "again", Text: "x"})
	}
	if got, _ := s.read("beta", beta); len(got) != 2 {
		t.Errorf("the board has %q, want one post of that name", got)
	}
	for i := range 20 {
		s.post("alpha", alpha, &transport.Post{Name: fmt.Sprint(i), Text: "x"})
	}
	got, _ := s.read("beta", beta)
	if len(got) != 17 || got[0] != "beta mine x" || got[16] != "alpha 19 x" {
		t.Errorf("the board has %q, want beta's post and the 16 newest of alpha", got)
	}
	whys := map[string]int{}
	for i := range 40 {
		agent, id := "alpha", alpha
		if i%2 == 1 {
			agent, id = "beta", beta
		}
		why, _ := s.post(agent, id, &transport.Post{Name: fmt.Sprint(i), Text: strings.Repeat("x", transport.MaxPost)})
		whys[why]++
	}
	if whys["the board is full"] == 0 {
		t.Errorf("large posts end as %v, want some refused", whys)
	}
	for range 300 {
		why, _ := s.post("alpha", alpha, &transport.Post{Name: "again", Text: "x"})
		whys[why]++
	}
	if n := whys["the board has taken as many posts as it takes for one request"]; n < 44 || s.conv.Seq > 2+256 {
		t.Errorf("%d posts were too many, and the log has %d entries", n, s.conv.Seq)
	}
}

// TestRejectedPostsAreBounded has an agent post without end what evaluators reject: each is an entry of the log, and on no board.
func TestRejectedPostsAreBounded(t *testing.T) {
	s := newBoardScript(t)
	alpha := s.tasks["user:ann alpha"]
	for i := range 300 {
		cause := &transport.Event{ID: fmt.Sprint("p", i), From: "alpha", ContextID: "c1", TaskID: alpha, Payload: &transport.Post{Name: "x", Text: "x"}}
		if s.conv.Plan(cause, s.now, false).Do != conversation.Work {
			break
		}
		e := s.entry(cause)
		e.Rejected = "no"
		if err := s.conv.Apply(e); err != nil {
			t.Fatal(err)
		}
		if out := s.conv.Effects(e.Seq); len(out) > 0 {
			t.Fatalf("a rejected post has the effects %+v", out)
		}
	}
	if s.conv.Seq != 2+256 {
		t.Errorf("the log has %d entries, want those of two messages and 256 posts", s.conv.Seq)
	}
	if got, _ := s.read("alpha", alpha); len(got) > 0 {
		t.Errorf("the board has %q", got)
	}
}

// TestBoardEndsWithItsRequest answers a request, and has its agents work on another one: the board is empty.
func TestBoardEndsWithItsRequest(t *testing.T) {
	s := newBoardScript(t)
	s.post("alpha", s.tasks["user:ann alpha"], &transport.Post{Name: "one", Text: "x"})
	stop := says("user:ann", "x1", "")
	stop.Payload = &transport.Cancel{Turn: s.conv.Tasks[s.tasks["user:ann alpha"]].Turn}
	if err := s.conv.Apply(s.entry(stop)); err != nil {
		t.Fatal(err)
	}
	for root, chain := range s.conv.Chains {
		if len(chain.Board) > 0 {
			t.Errorf("chain %s still has the board %+v", root, chain.Board)
		}
	}
}
