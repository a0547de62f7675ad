package tests

import (
	"context"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"log/slog"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/a2aproject/a2a-go/v2/a2a"
	"github.com/google/go-cmp/cmp"
	"github.com/rogpeppe/go-internal/txtar"

	"github.com/cortex-orchestrator/cortex/agents"
	"github.com/cortex-orchestrator/cortex/client"
	"github.com/cortex-orchestrator/cortex/cortex"
	"github.com/cortex-orchestrator/cortex/cortex/conversation"
	"github.com/cortex-orchestrator/cortex/cortex/jetstore"
	"github.com/cortex-orchestrator/cortex/cortex/memstore"
	"github.com/cortex-orchestrator/cortex/cortex/policy"
	"github.com/cortex-orchestrator/cortex/cortex/registry"
	"github.com/cortex-orchestrator/cortex/cortex/storage"
	"github.com/cortex-orchestrator/cortex/llm"
	"github.com/cortex-orchestrator/cortex/prompt"
	"github.com/cortex-orchestrator/cortex/transport"
	"github.com/cortex-orchestrator/cortex/transport/memory"
	"github.com/cortex-orchestrator/cortex/transport/nats"
)

var update = flag.Bool("update", false, "write what the scenarios really say")

// worlds are the transports and stores on which every scenario must have the same result.
var worlds = map[string]func(t *testing.T) (transport.Transport, storage.Store){
	"memory": func(t *testing.T) (transport.Transport, storage.Store) {
		return memory.New(nil), memstore.New()
	},
	"nats": func(t *testing.T) (transport.Transport, storage.Store) {
		server, err := nats.StartServer(t.Context(), &nats.ServerOptions{Dir: t.TempDir()})
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(server.Shutdown)
		bus, err := nats.Dial(t.Context(), &nats.Options{Server: server})
		if err != nil {
			t.Fatal(err)
		}
		store, err := jetstore.Open(t.Context(), bus.Conn(), nil)
		if err != nil {
			t.Fatal(err)
		}
		return bus, store
	},
}

// TestScenarios plays conversations between a user, the orchestrator with the fake decider, and agents. A scenario is a txtar file. Its comment says
// what it shows. "script" has one command per line; "NAME.agent" is an agent, whose first line describes it and whose other lines say what it does
// with a task that contains a word; "NAME.spec" is its card's extension; "crowd" has well-known agents for shortlists; "model" has the replies of a
// model that replaces the fake, one per line; "policy" has the rules; "timeout" is how long an agent may take for a task; "want" is the final state
// of the conversations.
//
//	agent NAME       start a built-in agent, or the one of that section, and wait until it is online
//	stop NAME        stop it, and wait until it is gone
//	say CTX TEXT     send a message and wait for the answer
//	send CTX TEXT    send a message
//	working NAME     wait until the agent has begun a task
//	cancel CTX       cancel what is open in the conversation
//	answered CTX     wait until all messages are answered
//	restart          end the orchestrator and start another
//	down             end the orchestrator
//	up               start another
//	overdue CTX      wait until an open task of the conversation is past its deadline
//	extended CTX     wait until an open task of the conversation has worked past its first deadline
//	release NAME     release the tasks that the agent holds
//	logged TEXT      wait until the orchestrator's log contains the text
func TestScenarios(t *testing.T) {
	files, err := filepath.Glob("tests/testdata/scenario/*.txtar")
	if err != nil || len(files) == 0 {
		t.Fatalf("no scenarios: %v", err)
	}
	for _, file := range files {
		for name, world := range worlds {
			t.Run(strings.TrimSuffix(filepath.Base(file), ".txtar")+"/"+name, func(t *testing.T) {
				t.Parallel()
				play(t, file, world)
			})
		}
	}
}

func play(t *testing.T, file string, world func(*testing.T) (transport.Transport, storage.Store)) {
	archive, err := txtar.ParseFile(file)
	if err != nil {
		t.Fatal(err)
	}
	s := &stage{t: t, sections: map[string]string{}, agents: map[string]func(){}, begun: map[string]chan struct{}{}, held: map[string]chan struct{}{}, sent: map[string][]string{}, over: make(chan struct{})}
	for _, f := range archive.Files {
		s.sections[f.Name] = string(f.Data)
	}
	if text, ok := s.sections["policy"]; ok {
		if s.policy, err = policy.Parse(file, []byte(text)); err != nil {
			t.Fatal(err)
		}
	}
	s.bus, s.store = world(t)
	t.Cleanup(func() { s.bus.Close() })
	s.start()
	defer func() { s.stop() }()
	defer close(s.over)
	for line := range strings.Lines(s.sections["script"]) {
		if line = strings.TrimSpace(line); line != "" && !strings.HasPrefix(line, "#") {
			s.do(line)
		}
	}
	got := s.transcript()
	if *update {
		for i := range archive.Files {
			if archive.Files[i].Name == "want" {
				archive.Files[i].Data = []byte(got)
			}
		}
		if err := os.WriteFile(file, txtar.Format(archive), 0o644); err != nil {
			t.Fatal(err)
		}
		return
	}
	if diff := cmp.Diff(s.sections["want"], got); diff != "" {
		t.Errorf("%s (-want +got):\n%s", file, diff)
	}
}

// stage is the environment of a scenario.
type stage struct {
	t        *testing.T
	sections map[string]string
	bus      transport.Transport
	store    storage.Store
	registry *registry.Registry
	policy   *policy.Policy
	model    llm.Decider
	stop     func() // ends the orchestrator
	agents   map[string]func()
	begun    map[string]chan struct{} // by agent: an element for each task begun
	held     map[string]chan struct{} // by agent: closed to release its tasks
	log      logged
	contexts []string
	sent     map[string][]string // ids of messages, by conversation
	over     chan struct{}       // closed at the end
}

// start runs an orchestrator.
func (s *stage) start() {
	wellKnown, index, follow := s.crowd()
	s.registry = registry.New(registry.Config{WellKnown: wellKnown, OnEvent: follow})
	orch, err := cortex.New(cortex.Config{
		Transport: s.bus, Store: s.store, Decider: s.decider(), Router: index,
		Policy: func() *policy.Policy { return s.policy }, TaskTimeout: s.timeout(), Logger: slog.New(slog.NewTextHandler(&s.log, nil)),
		Agents: func(string) []prompt.Agent {
			var list []prompt.Agent
			for _, r := range s.registry.Snapshot().Routable() {
				list = append(list, prompt.Agent{ID: r.ID, Card: r.Card, Seen: true})
			}
			return list
		},
	})
	if err != nil {
		s.t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(s.t.Context())
	var wg sync.WaitGroup
	wg.Go(func() { s.check(s.registry.Run(ctx, s.bus)) })
	wg.Go(func() { s.check(orch.Run(ctx)) })
	s.stop = sync.OnceFunc(func() {
		for _, stop := range s.agents {
			stop()
		}
		cancel()
		wg.Wait()
	})
	<-s.registry.Synced()
}

func (s *stage) check(err error) {
	if err != nil && !errors.Is(err, context.Canceled) {
		s.t.Error(err)
	}
}

func (s *stage) do(line string) {
	verb, rest, _ := strings.Cut(line, " ")
	name, text, _ := strings.Cut(rest, " ")
	switch verb {
	case "agent":
		s.startAgent(name)
	case "stop":
		s.agents[name]()
		delete(s.agents, name)
		s.wait(line, func() bool { _, ok := s.registry.Snapshot().Get(name); return !ok })
	case "say":
		s.send(name, text)
		s.answered(line, name)
	case "send":
		s.send(name, text)
	case "answered":
		s.answered(line, name)
	case "working":
		select {
		case <-s.begun[name]:
		case <-time.After(patience):
			s.t.Fatalf("%s: nothing was begun", line)
		}
	case "cancel":
		user := &client.Client{Transport: s.bus}
		s.check(user.Cancel(s.t.Context(), name, transport.Cancel{}))
	case "restart":
		s.down()
		s.up(line)
	case "down":
		s.down()
	case "up":
		s.up(line)
	case "overdue":
		s.wait(line, func() bool {
			for _, t := range s.load(name).Running() {
				if t.Deadline.Before(time.Now()) {
					return true
				}
			}
			return false
		})
	case "extended":
		s.wait(line, func() bool {
			for _, t := range s.load(name).Running() {
				if first := t.Sent.Add(t.Timeout); t.State() == a2a.TaskStateWorking && time.Now().After(first) && t.Deadline.After(first) {
					return true
				}
			}
			return false
		})
	case "release":
		close(s.held[name])
	case "logged":
		s.wait(line, func() bool { return s.log.has(rest) })
	default:
		s.t.Fatalf("unknown command %q", line)
	}
}

// down ends the orchestrator, and up starts another.
func (s *stage) down() {
	running := s.agents
	s.agents = map[string]func(){}
	s.stop()
	s.agents = running
}

func (s *stage) up(line string) {
	s.start()
	for id := range s.agents {
		s.wait(line, func() bool { _, ok := s.registry.Snapshot().Get(id); return ok })
	}
}

func (s *stage) timeout() time.Duration {
	text := strings.TrimSpace(s.sections["timeout"])
	if text == "" {
		return 0
	}
	d, err := time.ParseDuration(text)
	s.check(err)
	return d
}

func (s *stage) load(contextID string) *conversation.Conversation {
	conv, err := storage.Load(s.t.Context(), s.store, "", contextID)
	if err != nil {
		s.t.Fatal(err)
	}
	return conv
}

// logged is the log of the orchestrators.
type logged struct {
	mu   sync.Mutex
	text strings.Builder
}

func (l *logged) Write(b []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.text.Write(b)
}

func (l *logged) has(text string) bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	return strings.Contains(l.text.String(), text)
}

// startAgent starts a built-in agent, or one that a section describes.
func (s *stage) startAgent(name string) {
	card, handler, ok := agents.Lookup(name)
	if name == "clock" {
		handler = agents.Clock(func() time.Time { return time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC) })
	}
	if !ok {
		description, rules, _ := strings.Cut(s.sections[name+".agent"], "\n")
		card = &a2a.AgentCard{Name: name, Description: description, Version: "1.0.0", Skills: []a2a.AgentSkill{{ID: "do", Name: description, Description: description}}}
		card = s.specified(name, card)
		s.begun[name] = make(chan struct{}, 100)
		if s.held[name] == nil {
			s.held[name] = make(chan struct{})
		}
		handler = s.scripted(name, rules)
	}
	ctx, cancel := context.WithCancel(s.t.Context())
	done := make(chan error, 1)
	go func() { done <- agents.Serve(ctx, s.bus, card, handler, &agents.Options{Grace: time.Millisecond}) }()
	s.agents[card.Name] = sync.OnceFunc(func() {
		cancel()
		s.check(<-done)
	})
	s.wait("agent "+name, func() bool { _, ok := s.registry.Snapshot().Get(card.Name); return ok })
}

// scripted returns a handler that follows the first rule that matches a task: "WORD: reply TEXT", or data (reply with a JSON text as data), given
// (reply with the input), fail, ask, wait (forever), deaf (wait, ignoring the context), hold (like deaf, and reply when released), busy (send
// progress, and reply when released), again (fail the first attempt, then reply), or later (reply only to a redelivery).
func (s *stage) scripted(name, rules string) agents.Handler {
	return func(ctx context.Context, task *agents.Task) (*agents.Result, error) {
		s.begun[name] <- struct{}{}
		for rule := range strings.Lines(rules) {
			word, action, _ := strings.Cut(strings.TrimSpace(rule), ": ")
			if word == "" || (word != "*" && !strings.Contains(task.Text(), word)) {
				continue
			}
			verb, text, _ := strings.Cut(action, " ")
			switch verb {
			case "reply":
				return agents.Text(text), nil
			case "data":
				return dataResult(json.RawMessage(text)), nil
			case "given":
				return given(task), nil
			case "fail":
				return nil, errors.New(text)
			case "again":
				if n, _ := task.Message.Metadata[transport.MetaAttempt].(float64); n < 2 {
					return nil, errors.New("not in the mood")
				}
				return agents.Text(text), nil
			case "ask":
				return agents.InputRequired(text), nil
			case "deaf":
				<-s.over
				return nil, ctx.Err()
			case "busy":
				tick := time.NewTicker(10 * time.Millisecond)
				defer tick.Stop()
				for n := 0; ; n++ {
					select {
					case <-tick.C:
						task.Progress(fmt.Sprint("step ", n))
					case <-s.held[name]:
						return agents.Text(text), nil
					case <-ctx.Done():
						return nil, ctx.Err()
					}
				}
			case "hold":
				select {
				case <-s.held[name]:
				case <-s.over:
				}
				return agents.Text(text), nil
			case "later":
				if task.Delivery > 1 {
					return agents.Text(text), nil
				}
				fallthrough
			case "wait":
				<-ctx.Done()
				return nil, ctx.Err()
			}
		}
		return nil, fmt.Errorf("no rule for %q", task.Text())
	}
}

func (s *stage) send(contextID, text string) {
	if s.sent[contextID] == nil {
		s.contexts = append(s.contexts, contextID)
	}
	id := fmt.Sprintf("%s-%d", contextID, len(s.sent[contextID])+1)
	s.sent[contextID] = append(s.sent[contextID], id)
	s.check(s.bus.Publish(s.t.Context(), transport.Inbox("", transport.Cortex), &transport.Event{
		ID: id, Time: time.Now(), From: "user", ContextID: contextID,
		Payload: &a2a.Message{ID: id, ContextID: contextID, Role: a2a.MessageRoleUser, Parts: a2a.ContentParts{a2a.NewTextPart(text)}},
	}))
}

func (s *stage) answered(line, contextID string) {
	s.wait(line, func() bool {
		conv := s.load(contextID)
		for _, id := range s.sent[contextID] {
			if _, ok := conv.AnswerOf("user", id); !ok {
				return false
			}
		}
		for _, task := range conv.Held() { // the question must have been delivered, or the consent may be for another one
			for _, turn := range conv.Turns {
				if turn.ID == task.Turn && !turn.Delivered {
					return false
				}
			}
		}
		return true
	})
}

func (s *stage) wait(what string, ok func() bool) {
	poll := time.NewTicker(2 * time.Millisecond)
	defer poll.Stop()
	for end := time.Now().Add(patience); !ok(); <-poll.C {
		if time.Now().After(end) {
			s.t.Fatalf("%s: still not so; the conversations are:\n%s", what, s.transcript())
		}
	}
}

// transcript describes the conversations: each turn with its tasks, in order, and its answer.
func (s *stage) transcript() string {
	var b strings.Builder
	for _, id := range s.contexts {
		conv := s.load(id)
		fmt.Fprintf(&b, "== %s\n", id)
		for _, turn := range conv.Turns {
			fmt.Fprintf(&b, "user: %s\n", turn.User)
			if turn.Past == nil {
				fmt.Fprintln(&b, "  (open)")
				continue
			}
			for _, step := range turn.Past.Steps {
				for _, task := range step.Tasks {
					state := strings.ToLower(strings.TrimPrefix(string(task.State), "TASK_STATE_"))
					fmt.Fprintf(&b, "  %s: %s\n    %s: %s\n", task.Agent, task.Text, state, indent(task.Result, "      "))
				}
			}
			fmt.Fprintf(&b, "cortex: %s\n", indent(turn.Answer, "  "))
		}
	}
	return b.String()
}

func indent(s, by string) string { return strings.ReplaceAll(s, "\n", "\n"+by) }
