package cortex_test

import (
	"context"
	"encoding/json"
	"fmt"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/a2aproject/a2a-go/v2/a2a"
	"github.com/google/go-cmp/cmp"

	"github.com/cortex-orchestrator/cortex/cortex"
	"github.com/cortex-orchestrator/cortex/cortex/conversation"
	"github.com/cortex-orchestrator/cortex/cortex/memstore"
	"github.com/cortex-orchestrator/cortex/cortex/storage"
	"github.com/cortex-orchestrator/cortex/llm"
	"github.com/cortex-orchestrator/cortex/prompt"
	"github.com/cortex-orchestrator/cortex/transport"
	"github.com/cortex-orchestrator/cortex/transport/memory"
)

// world is an orchestrator between a user and agents, in memory. Use it in a synctest bubble.
type world struct {
	t     *testing.T
	bus   transport.Transport
	store storage.Store
	orch  *cortex.Orchestrator
	stop  func()

	mu    sync.Mutex
	turns []*llm.Turn                   // what the decider was asked
	live  []*transport.Event            // live events
	work  map[string][]*transport.Event // inbox events of each agent
	ctl   []*transport.Event            // events of the agents' control topics

	diligent bool // the agents do their tasks, and do not only receive them
	heed     func(agent string, e *transport.Event)
}

// decideFunc is a decider that is a function of what it is asked.
type decideFunc func(ctx context.Context, t *llm.Turn, stream func(string)) (*llm.Decision, error)

func (f decideFunc) Decide(ctx context.Context, t *llm.Turn, stream func(string)) (*llm.Decision, error) {
	return f(ctx, t, stream)
}

// simple makes a decider of a function that needs neither context nor stream.
func simple(f func(t *llm.Turn) *llm.Decision) decideFunc {
	return func(_ context.Context, t *llm.Turn, stream func(string)) (*llm.Decision, error) {
		d := f(t)
		if stream != nil && d.Kind != llm.KindDelegate {
			stream(d.Say)
		}
		return d, nil
	}
}

func respond(say string) *llm.Decision { return &llm.Decision{Kind: llm.KindRespond, Say: say} }

func delegate(ds ...llm.Delegation) *llm.Decision {
	return &llm.Decision{Kind: llm.KindDelegate, Delegations: ds, Reason: "it fits"}
}

const theContext = "c1"

// agentIDs are the agents that every world offers.
var agentIDs = []string{"alpha", "beta", "gamma"}

func offered(string) []prompt.Agent {
	var list []prompt.Agent
	for _, id := range agentIDs {
		list = append(list, prompt.Agent{ID: id, Seen: true, Card: &a2a.AgentCard{Name: id, Skills: []a2a.AgentSkill{{ID: "skill", Name: "Skill"}}}})
	}
	return list
}

func newWorld(t *testing.T, d llm.Decider) *world {
	w := newWorldOf(t, agentIDs)
	w.start(cortex.Config{Decider: d})
	return w
}

// newWorldOf returns a world without an orchestrator, which records the tasks of these agents.
func newWorldOf(t *testing.T, ids []string) *world {
	w := &world{t: t, bus: memory.New(nil), store: memstore.New(), work: map[string][]*transport.Event{}}
	t.Cleanup(func() { w.bus.Close() })
	w.listen(transport.Live("", theContext), func(e *transport.Event) { w.live = append(w.live, e) })
	for _, id := range ids {
		w.listen(transport.Inbox("", id), func(e *transport.Event) {
			w.work[id] = append(w.work[id], e)
			if w.diligent {
				w.do(id, e)
			}
			if w.heed != nil {
				w.heed(id, e)
			}
		})
		w.listen(transport.Control("", id), func(e *transport.Event) { w.ctl = append(w.ctl, e) })
	}
	return w
}

// pass lets time pass on the bubble's clock, and waits until everything is idle.
func pass(d time.Duration) {
	<-time.After(d)
	synctest.Wait()
}

// listen records the events of a topic.
func (w *world) listen(topic transport.Topic, record func(*transport.Event)) {
	sub, err := w.bus.Subscribe(w.t.Context(), topic, nil)
	if err != nil {
		w.t.Fatal(err)
	}
	go sub.Serve(w.t.Context(), func(_ context.Context, e *transport.Event) error {
		w.mu.Lock()
		defer w.mu.Unlock()
		record(e)
		return nil
	})
}

// start runs an orchestrator until w.stop or the end of the test; the world fills in what cfg leaves out.
func (w *world) start(cfg cortex.Config) {
	w.t.Helper()
	if cfg.Transport == nil {
		cfg.Transport = w.bus
	}
	if cfg.Store == nil {
		cfg.Store = w.store
	}
	cfg.Decider = w.recorded(cfg.Decider)
	if cfg.Agents == nil {
		cfg.Agents = offered
	}
	orch, err := cortex.New(cfg)
	if err != nil {
		w.t.Fatal(err)
	}
	w.orch = orch
	ctx, cancel := context.WithCancel(w.t.Context())
	done := make(chan error, 1)
	go func() { done <- orch.Run(ctx) }()
	w.stop = sync.OnceFunc(func() {
		cancel()
		if err := <-done; err != nil {
			w.t.Errorf("Run() = %v, want nil", err)
		}
	})
	w.t.Cleanup(func() { w.stop() })
}

// recorded returns d, recording what it is asked.
func (w *world) recorded(d llm.Decider) llm.Decider {
	decide := decideFunc(func(ctx context.Context, t *llm.Turn, stream func(string)) (*llm.Decision, error) {
		w.mu.Lock()
		w.turns = append(w.turns, t)
		w.mu.Unlock()
		return d.Decide(ctx, t, stream)
	})
	if c, ok := d.(llm.Compactor); ok {
		return compacting{decide, c.Compact}
	}
	if j, ok := d.(judging); ok {
		j.decideFunc = decide
		return j
	}
	if c, ok := d.(llm.Computing); ok && c.Computes() {
		return computing{decide}
	}
	return decide
}

// compacting is a decider whose model has a window.
type compacting struct {
	decideFunc
	compact func(ctx context.Context, t *llm.Turn, force bool) (*llm.Summary, error)
}

func (c compacting) Compact(ctx context.Context, t *llm.Turn, force bool) (*llm.Summary, error) {
	return c.compact(ctx, t, force)
}

// wantFold checks that the fold in the orchestrator's cache equals the fold of the log, byte by byte.
func (w *world) wantFold() {
	w.t.Helper()
	live, err := w.orch.Fold(theContext)
	if err != nil || live == nil {
		w.t.Fatalf("the fold in the cache is %q, %v", live, err)
	}
	conv, err := storage.Load(w.t.Context(), noSnapshots{w.store}, "", theContext)
	if err != nil {
		w.t.Fatal(err)
	}
	logged, err := conv.Snapshot()
	if err != nil {
		w.t.Fatal(err)
	}
	if string(live) != string(logged) {
		w.t.Errorf("the fold of the log is not the live one (-live +log):\n%s", cmp.Diff(jsonOf(w.t, live), jsonOf(w.t, logged)))
	}
}

func jsonOf(t *testing.T, b []byte) (v any) {
	t.Helper()
	if err := json.Unmarshal(b, &v); err != nil {
		t.Fatal(err)
	}
	return v
}

// say publishes a user's message with this id, and waits until everything is idle.
func (w *world) say(id, text string) {
	w.t.Helper()
	w.publish(userEvent(id, text))
}

// turnOf returns the id of the turn that the user's message with this id begins.
func turnOf(id string) string { return transport.TurnID("", theContext, "user", id) }

func userEvent(id, text string) *transport.Event {
	return &transport.Event{
		ID: id, Time: time.Now(), From: "user", ContextID: theContext,
		Payload: &a2a.Message{ID: id, ContextID: theContext, Role: a2a.MessageRoleUser, Parts: a2a.ContentParts{a2a.NewTextPart(text)}},
	}
}

func (w *world) publish(e *transport.Event) {
	w.t.Helper()
	if err := w.bus.Publish(w.t.Context(), transport.Inbox("", transport.Cortex), e); err != nil {
		w.t.Fatal(err)
	}
	synctest.Wait()
}

// resultEvent is an agent's report about a task.
func resultEvent(id, agent string, task a2a.TaskID, state a2a.TaskState, text string) *transport.Event {
	return &transport.Event{
		ID: id, Time: time.Now(), From: agent, ContextID: theContext, TaskID: task,
		Payload: &a2a.Task{ID: task, ContextID: theContext, Status: a2a.TaskStatus{
			State:   state,
			Message: &a2a.Message{ID: id + "-m", Role: a2a.MessageRoleAgent, Parts: a2a.ContentParts{a2a.NewTextPart(text)}},
		}},
	}
}

func (w *world) finish(agent string, task a2a.TaskID, text string) {
	w.t.Helper()
	w.publish(resultEvent("r-"+string(task), agent, task, a2a.TaskStateCompleted, text))
}

// tasksOf returns the tasks that an agent got, in order.
func (w *world) tasksOf(agent string) []*transport.Event {
	w.mu.Lock()
	defer w.mu.Unlock()
	return append([]*transport.Event(nil), w.work[agent]...)
}

// onlyTask returns the id of the one task that an agent got.
func (w *world) onlyTask(agent string) a2a.TaskID {
	w.t.Helper()
	tasks := w.tasksOf(agent)
	if len(tasks) != 1 {
		w.t.Fatalf("%s got %d tasks, want 1", agent, len(tasks))
	}
	return tasks[0].TaskID
}

// answers returns the answers in the log, by the id of the message they answer.
func (w *world) answers() map[string]string {
	w.t.Helper()
	return answersOf(w.t, entries(w.t, w.store))
}

// answersOf returns the answers in a log, by the id of the message they answer, and fails if one is answered twice.
func answersOf(t *testing.T, log []*conversation.Entry) map[string]string {
	t.Helper()
	conv := conversation.NewConversation("", theContext)
	answers := map[string]string{}
	for _, e := range log {
		if err := conv.Apply(e); err != nil {
			t.Fatal(err)
		}
		for _, turn := range conv.Turns {
			if turn.AnswerSeq == e.Seq {
				if a, twice := answers[turn.Message]; twice {
					t.Errorf("message %s answered twice: %q, then %q", turn.Message, a, turn.Answer)
				}
				answers[turn.Message] = turn.Answer
			}
		}
	}
	return answers
}

func (w *world) wantAnswer(turn, want string) {
	w.t.Helper()
	if got := w.answers()[turn]; got != want {
		w.t.Errorf("answer to %s = %q, want %q", turn, got, want)
	}
}

// liveAnswers returns the texts of the live answers.
func (w *world) liveAnswers() []string {
	var texts []string
	for _, e := range w.watched() {
		if m, ok := e.Payload.(*a2a.Message); ok {
			texts = append(texts, transport.Text(m.Parts))
		}
	}
	return texts
}

// watched returns what was published on the conversation's live topic.
func (w *world) watched() []*transport.Event {
	w.mu.Lock()
	defer w.mu.Unlock()
	return append([]*transport.Event(nil), w.live...)
}

// stopped returns the tasks whose agents were told to stop.
func (w *world) stopped() []a2a.TaskID {
	w.mu.Lock()
	defer w.mu.Unlock()
	var ids []a2a.TaskID
	for _, e := range w.ctl {
		if c, ok := e.Payload.(*transport.Cancel); ok {
			ids = append(ids, c.TaskID)
		}
	}
	return ids
}

func (w *world) decisions() []*llm.Turn {
	w.mu.Lock()
	defer w.mu.Unlock()
	return append([]*llm.Turn(nil), w.turns...)
}

func entries(t *testing.T, s storage.Store) []*conversation.Entry {
	t.Helper()
	list, err := readLog(t.Context(), s)
	if err != nil {
		t.Fatal(err)
	}
	return list
}

func readLog(ctx context.Context, s storage.Store) (list []*conversation.Entry, err error) {
	for e, err := range s.Load(ctx, "", theContext, 0) {
		if err != nil {
			return nil, err
		}
		list = append(list, e)
	}
	return list, nil
}

// results describes the results of the last step: "alpha COMPLETED text; …".
func results(t *llm.Turn) string {
	if len(t.Steps) == 0 {
		return ""
	}
	out := ""
	for _, task := range t.Steps[len(t.Steps)-1].Tasks {
		out += fmt.Sprintf("%s %s %s; ", task.Agent, string(task.State)[len("TASK_STATE_"):], task.Result)
	}
	return out
}
