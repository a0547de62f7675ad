package cli_test

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/a2aproject/a2a-go/v2/a2a"

	"github.com/cortex-orchestrator/cortex/agents"
	"github.com/cortex-orchestrator/cortex/cortex/conversation"
	"github.com/cortex-orchestrator/cortex/internal/cli"
	"github.com/cortex-orchestrator/cortex/transport"
	"github.com/cortex-orchestrator/cortex/transport/nats"
	"github.com/cortex-orchestrator/cortex/transport/nats/auth"
)

// keyed is a service with keys.
type keyed struct {
	t               *testing.T
	keys, url, data string
	flags           []string
	stop            func() int // ends it
}

func newKeyed(t *testing.T, flags ...string) *keyed {
	t.Helper()
	k := &keyed{t: t, keys: t.TempDir(), data: t.TempDir(), flags: flags}
	if err := auth.Init(k.keys); err != nil {
		t.Fatal(err)
	}
	k.start()
	return k
}

// start starts the service.
func (k *keyed) start() {
	t := k.t
	t.Helper()
	_, k.stop = start(t, append([]string{"serve", "--auth", k.keys, "--data", k.data, "--listen", "127.0.0.1:0", "--http", "none", "--agents", "none"}, k.flags...)...)
	k.url = ""
	eventually(t, "the service runs", func() bool {
		var at struct{ URL string }
		b, err := os.ReadFile(filepath.Join(k.data, "server.json"))
		if err != nil || json.Unmarshal(b, &at) != nil {
			return false
		}
		k.url = at.URL
		return k.url != ""
	})
	eventually(t, "it lets people in", func() bool {
		code, _, _ := k.run(auth.People(k.keys, ""), "agents")
		return code == 0
	})
}

// person and agent return the credentials of a new identity.
func (k *keyed) person(name string) string { return k.creds(auth.AddUser(k.keys, "", name)) }
func (k *keyed) agent(id string) string    { return k.creds(auth.AddAgent(k.keys, "", id)) }

func (k *keyed) creds(file string, err error) string {
	k.t.Helper()
	if err != nil {
		k.t.Fatal(err)
	}
	return file
}

// dial connects with credentials.
func (k *keyed) dial(creds string) *nats.Bus {
	k.t.Helper()
	bus, err := nats.Dial(k.t.Context(), &nats.Options{URL: k.url, Creds: creds})
	if err != nil {
		k.t.Fatal(err)
	}
	k.t.Cleanup(func() { bus.Close() })
	return bus
}

// run runs a command with credentials.
func (k *keyed) run(creds string, args ...string) (code int, stdout, stderr string) {
	var out, errs bytes.Buffer
	ctx, cancel := context.WithTimeout(k.t.Context(), patience)
	defer cancel()
	code = cli.Run(ctx, append(args, "--nats", k.url, "--creds", creds, "--data", k.t.TempDir()), strings.NewReader(""), &out, &errs)
	return code, out.String(), errs.String()
}

// serve runs an agent until the test ends, and waits until it is present.
func (k *keyed) serve(id string, h func(bus *nats.Bus, t *agents.Task) (*agents.Result, error)) {
	k.t.Helper()
	creds := k.agent(id)
	bus := k.dial(creds)
	card := &a2a.AgentCard{Name: id, Description: "Does what it is told", Version: "1"}
	ctx, cancel := context.WithCancel(k.t.Context())
	var running sync.WaitGroup
	running.Go(func() {
		if err := agents.Serve(ctx, bus, card, agents.Handler(func(_ context.Context, t *agents.Task) (*agents.Result, error) { return h(bus, t) }), nil); err != nil {
			k.t.Error(err)
		}
	})
	k.t.Cleanup(func() {
		cancel()
		running.Wait()
	})
	eventually(k.t, id+" is there", func() bool {
		_, list, _ := k.run(auth.People(k.keys, ""), "agents")
		return strings.Contains(list, id)
	})
}

// log returns the log of a conversation, as it is stored.
func (k *keyed) log(contextID string) (entries []*conversation.Entry) {
	k.t.Helper()
	_, out, _ := k.run(auth.Admin(k.keys, ""), "history", contextID, "--json")
	for line := range strings.Lines(out) {
		e := new(conversation.Entry)
		if err := json.Unmarshal([]byte(line), e); err != nil {
			k.t.Fatal(err)
		}
		entries = append(entries, e)
	}
	return entries
}

// words is a message with a chosen id.
func words(from, contextID, id, text string) *transport.Event {
	return &transport.Event{
		ID: id, Time: time.Now(), From: from, To: transport.Cortex, ContextID: contextID,
		Payload: &a2a.Message{ID: id, ContextID: contextID, Role: a2a.MessageRoleUser, Parts: a2a.ContentParts{a2a.NewTextPart(text)}},
	}
}

// TestAnswerIsNotHijacked has a person and an agent send messages in ada's conversation under each id that they can read: that of her turn, and that
// of her message. Her question gets the answer to her own text, and so do theirs.
func TestAnswerIsNotHijacked(t *testing.T) {
	t.Parallel()
	const demo, theirs = "demo", "hijacked"
	k := newKeyed(t)
	bob := k.dial(k.person("bob"))
	inbox := transport.Inbox("", transport.Cortex)

	var mu sync.Mutex
	answers := map[[2]string][]string{} // by requester and message
	live, err := bob.Subscribe(t.Context(), transport.Live("", demo), nil)
	if err != nil {
		t.Fatal(err)
	}
	go live.Serve(t.Context(), func(_ context.Context, e *transport.Event) error { //nolint:errcheck // ends with the test
		if m, ok := e.Payload.(*a2a.Message); ok && e.From == transport.Cortex {
			mu.Lock()
			defer mu.Unlock()
			whose := [2]string{transport.MetaString(m, transport.MetaRequester), transport.MetaString(m, transport.MetaMessage)}
			answers[whose] = append(answers[whose], transport.Text(m.Parts))
		}
		return nil
	})
	var ids []string
	k.serve("slow", func(bus *nats.Bus, task *agents.Task) (*agents.Result, error) {
		ids = []string{transport.MetaString(task.Message, transport.MetaTurn)}
		for _, e := range k.log(demo) {
			if _, said := e.Cause.Payload.(*a2a.Message); said && e.Cause.From == "user:ada" {
				ids = append(ids, e.Cause.ID)
			}
		}
		for _, id := range ids {
			for from, with := range map[string]*nats.Bus{"user:bob": bob, "slow": bus} {
				if err := with.Publish(t.Context(), inbox, words(from, demo, id, theirs)); err != nil {
					return nil, err
				}
			}
		}
		return agents.Text("the answer to ada"), nil
	})
	ada := k.person("ada")
	if code, _, errs := k.run(ada, "ask", "--conversation", demo, "hello"); code != 0 {
		t.Fatalf("ask = %d, %q", code, errs)
	}
	if code, _, errs := k.run(ada, "sessions", "share", demo, "bob"); code != 0 {
		t.Fatalf("share = %d, %q", code, errs)
	}
	mu.Lock()
	clear(answers)
	mu.Unlock()
	code, out, errs := k.run(ada, "ask", "--conversation", demo, "@slow do it")
	if code != 0 || out != "the answer to ada\n" {
		t.Errorf("ask = %d, %q, %q, want the answer to ada", code, out, errs)
	}
	if len(ids) < 3 || slices.Contains(ids, "") {
		t.Fatalf("the stranger read the ids %q", ids)
	}
	eventually(t, "everything is answered", func() bool {
		mu.Lock()
		defer mu.Unlock()
		return len(answers) == 1+2*len(ids)
	})
	mu.Lock()
	defer mu.Unlock()
	for whose, got := range answers {
		if len(got) != 1 || (got[0] == "the answer to ada") != (whose[0] == "user:ada") {
			t.Errorf("%s was answered %q", fmt.Sprint(whose), got)
		}
	}
}

// TestConversationsBelongToWhoBeganThem has people and agents with keys speak in ada's conversation, before and after she permits it.
func TestConversationsBelongToWhoBeganThem(t *testing.T) {
	t.Parallel()
	const demo = "demo"
	k := newKeyed(t)
	ada, bob, operator := k.person("ada"), k.person("bob"), auth.Admin(k.keys, "")
	inbox := transport.Inbox("", transport.Cortex)

	var mu sync.Mutex
	heard := map[string]string{} // answers to agents, by their messages
	listen := func(e *transport.Event) {
		if m, ok := e.Payload.(*a2a.Message); ok && m.TaskID == "" {
			mu.Lock()
			defer mu.Unlock()
			heard[transport.MetaString(m, transport.MetaMessage)] = transport.Text(m.Parts)
		}
	}
	answer := func(id string) string {
		t.Helper()
		var text string
		eventually(t, id+" is answered", func() bool {
			mu.Lock()
			defer mu.Unlock()
			text = heard[id]
			return text != ""
		})
		return text
	}
	idle := k.dial(k.agent("idle"))
	work, err := idle.Subscribe(t.Context(), transport.Inbox("", "idle"), &transport.SubscribeOptions{Unordered: true})
	if err != nil {
		t.Fatal(err)
	}
	go work.Serve(t.Context(), func(_ context.Context, e *transport.Event) error { //nolint:errcheck // ends with the test
		listen(e)
		return nil
	})
	ask := func(creds, want string, text ...string) {
		t.Helper()
		code, out, errs := k.run(creds, append([]string{"ask", "--conversation", demo}, text...)...)
		if !strings.Contains(out+errs, want) || (code == 0) == strings.Contains(want, "belongs to") {
			t.Errorf("ask = %d, %q, %q, want %q", code, out, errs, want)
		}
	}
	share := func(creds, want string, args ...string) {
		t.Helper()
		code, out, errs := k.run(creds, append([]string{"sessions", "share", demo}, args...)...)
		if !strings.Contains(out+errs, want) || (code == 0) != strings.Contains(want, "may speak here") {
			t.Errorf("share %q = %d, %q, %q, want %q", args, code, out, errs, want)
		}
	}
	const refused = "The conversation demo belongs to user:ada, who can let you in: cortex conversations share demo bob"

	share(ada, "there is no conversation demo", "bob")
	ask(ada, "No agent", "hello")
	ask(bob, refused, "hello")
	if err := idle.Publish(t.Context(), inbox, words("idle", demo, "i1", "hello")); err != nil {
		t.Fatal(err)
	}
	if got := answer("i1"); !strings.Contains(got, "belongs to user:ada, who can let you in: cortex conversations share demo agent:idle") {
		t.Errorf("an agent without a task was answered %q", got)
	}
	share(bob, "the conversation demo belongs to user:ada. Only they let others in", "bob")
	share(ada, "is nobody's name", "agent:user:bob")
	share(ada, "user:bob may speak here", "bob")
	share(ada, "user:bob may speak here", "bob") // again
	share(ada, "user:bоb may speak here\nwarning: user:bоb looks like bob\n", "bоb")
	share(ada, "may speak here no longer", "bоb", "--revoke")
	if code, _, errs := k.run(ada, "sessions", "share", demo, "bob"); code != 0 || errs != "" {
		t.Errorf("share with somebody who has keys = %d, %q", code, errs)
	}
	ask(bob, "No agent", "hello")
	if _, out, _ := k.run(bob, "sessions"); !strings.Contains(out, "user:ada, shared with user:bob") {
		t.Errorf("sessions says %q, want whose it is", out)
	}
	if _, out, _ := k.run(bob, "sessions", "--json"); !strings.Contains(out, `"owner": "user:ada"`) || !strings.Contains(out, `"user:bob"`) {
		t.Errorf("sessions --json says %q, want whose it is", out)
	}
	if _, out, _ := k.run(bob, "history", demo); !strings.Contains(out, "belongs to user:ada, shared with user:bob\n") || !strings.Contains(out, "user:bob may speak here") {
		t.Errorf("history says %q, want whose it is, and who was let in", out)
	}
	share(ada, "user:bob may speak here no longer", "bob", "--revoke")
	ask(bob, refused, "hello")

	// An agent makes a request while it works, without naming its task.
	k.serve("asker", func(bus *nats.Bus, task *agents.Task) (*agents.Result, error) {
		if err := bus.Publish(t.Context(), inbox, words("asker", demo, "a-"+string(task.ID), "hello")); err != nil {
			return nil, err
		}
		_, out, errs := k.run(bob, "tasks", "cancel", string(task.ID))
		return agents.Text("bob: " + out + errs), nil
	})
	ask(ada, "bob: cortex: the conversation demo ", "@asker do it") // what bob got
	taken := slices.ContainsFunc(k.log(demo), func(e *conversation.Entry) bool {
		_, said := e.Cause.Payload.(*a2a.Message)
		return said && e.Cause.From == "asker"
	})
	if !taken {
		t.Error("the agent was not let in while it had a task")
	}
	share(operator, "idle may speak here", "agent:idle")
	if err := idle.Publish(t.Context(), inbox, words("idle", demo, "i2", "hello")); err != nil {
		t.Fatal(err)
	}
	if got := answer("i2"); strings.Contains(got, "belongs to") {
		t.Errorf("an agent that was let in was answered %q", got)
	}
	for _, e := range k.log(demo) {
		if m, ok := e.Cause.Payload.(*a2a.Message); ok && e.Turn != transport.TurnID("", demo, e.Cause.From, m.ID) {
			t.Errorf("entry %d is of turn %s", e.Seq, e.Turn)
		}
	}
}
