package cli_test

import (
	"bytes"
	"context"
	"net/http"
	"strings"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/cortex-orchestrator/cortex/cortex/memstore"
	"github.com/cortex-orchestrator/cortex/cortex/storage"
	"github.com/cortex-orchestrator/cortex/internal/cli"
	"github.com/cortex-orchestrator/cortex/internal/home/nats"
	"github.com/cortex-orchestrator/cortex/transport"
	"github.com/cortex-orchestrator/cortex/transport/memory"
)

// These have none of the optional interfaces of transports and stores.
type (
	plainTransport struct{ transport.Transport }
	plainStore     struct{ storage.Store }
)

// proven is a transport with an authenticated sender.
type proven struct {
	transport.Transport
	tenant, from string
}

func (k proven) Sender() (tenant, from string) { return k.tenant, k.from }

// plugged is a program with its own transports and stores. Its processes are calls in this one.
type plugged struct {
	*cli.Program
	opened, closed atomic.Int32 // stores
}

// closing is a store that counts its closing.
type closing struct {
	*memstore.Store
	closed *atomic.Int32
}

func (c closing) Close() error {
	c.closed.Add(1)
	return nil
}

func newPlugged(t *testing.T) *plugged {
	p, world, kept := &plugged{}, memory.New(nil), memstore.New()
	t.Cleanup(func() { world.Close() })
	dial := func(wrap func(*memory.Bus, *cli.Target) transport.Transport) cli.Transport {
		return cli.Transport{Open: func(_ context.Context, at *cli.Target) (transport.Transport, error) {
			return wrap(world.Dial(), at), nil
		}}
	}
	p.Program = &cli.Program{
		Home: nats.Home{},
		Transports: map[string]cli.Transport{
			"loft":  dial(func(b *memory.Bus, _ *cli.Target) transport.Transport { return b }),
			"plain": dial(func(b *memory.Bus, _ *cli.Target) transport.Transport { return plainTransport{b} }),
			"keyed": dial(func(b *memory.Bus, at *cli.Target) transport.Transport {
				tenant, from, _ := strings.Cut(strings.TrimPrefix(at.URL, "keyed:"), "/")
				return proven{b, tenant, from}
			}),
			"cell": {Private: true, Open: func(context.Context, *cli.Target) (transport.Transport, error) { return memory.New(nil), nil }},
		},
		Stores: map[string]cli.Store{
			"shelf": {Open: func(context.Context, *cli.Target) (storage.Store, error) {
				p.opened.Add(1)
				return closing{kept, &p.closed}, nil
			}},
			"plain": {Open: func(context.Context, *cli.Target) (storage.Store, error) { return plainStore{kept}, nil }},
		},
	}
	return p
}

// run runs one command line, given as words separated by spaces.
func (p *plugged) run(t *testing.T, line string) (status int, says string) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()
	var out bytes.Buffer
	status = p.Run(ctx, strings.Fields(line), strings.NewReader(""), &out, &out)
	return status, out.String()
}

// start runs a command line until stop is called.
func (p *plugged) start(t *testing.T, line string) (says *output, stop func()) {
	t.Helper()
	says = new(output)
	ctx, cancel := context.WithCancel(t.Context())
	var running sync.WaitGroup
	running.Go(func() { p.Run(ctx, strings.Fields(line), strings.NewReader(""), says, says) })
	stop = func() {
		cancel()
		running.Wait()
	}
	t.Cleanup(stop)
	return says, stop
}

// TestPluggedTransport checks that commands work over a program's own transport and store as over NATS, and that those that need an optional
// interface report in one line what is missing.
func TestPluggedTransport(t *testing.T) {
	p := newPlugged(t)
	at := " --data " + t.TempDir() + " --transport loft --store shelf"
	if status, says := p.run(t, "replicas"+at); status != 0 || says != "no cortex runs at loft: start one with `cortex serve --transport loft --store shelf`\n" {
		t.Errorf("cortex replicas where none runs = %d, %q", status, says)
	}
	p.start(t, "serve --http none --agents echo,calc"+at)
	for _, c := range []struct{ line, want string }{
		{"ask --conversation demo 6*7", "42"},
		{"sessions", "demo"},
		{"history demo", "42"},
		{"tasks", "no agent is working on anything"},
		{"dead", "nothing was given up"},
		{"replicas", "4 of 4"},
		{"agents", "agent_calc"},
		{"prompt hello", "agent_calc"},
		{"sessions share demo bob", "everybody may speak in every conversation"},
		{"agents forget agent_calc", "agent_calc"},
		{"sessions delete demo --yes", "deleted conversation demo"},
	} {
		if status, says := p.run(t, c.line+at); status != 0 || !strings.Contains(says, c.want) {
			t.Errorf("cortex %s = %d, %q, want %q", c.line, status, says, c.want)
		}
	}
	before := p.opened.Load()
	says, stop := p.start(t, "agent clock"+at)
	eventually(t, "the agent joins", func() bool { return strings.Contains(says.String(), "joins loft") })
	stop()
	if n := p.opened.Load() - before; n != 0 {
		t.Errorf("an agent has opened the store of conversations %d times", n)
	}
	if opened, closed := p.opened.Load(), p.closed.Load(); closed != opened-1 { // the service has one open
		t.Errorf("the store was opened %d times and closed %d times, want all but once", opened, closed)
	}

	p.run(t, "ask --conversation demo 6*7"+at)
	at = " --data " + t.TempDir() + " --transport plain --store plain"
	for _, c := range []struct{ line, want string }{
		{"ask --conversation demo 7*7", "49"},
		{"history demo", "49"},
		{"dead", "cortex: this transport keeps no dead letters: `cortex serve` logs what is given up\n"},
		{"dead show 1", "cortex: this transport keeps no dead letters: `cortex serve` logs what is given up\n"},
		{"dead remove --all", "cortex: this transport keeps no dead letters: `cortex serve` logs what is given up\n"},
		{"replicas", "cortex: this transport does not tell who owns what\n"},
		{"sessions delete demo --yes", "cortex: this store cannot delete conversations\n"},
		{"sessions delete demo --yes | --store shelf", "cortex: this transport cannot delete conversations: what waits in them would begin them anew\n"},
		{"agents forget agent_calc", "cortex: this store keeps no notes, and so nothing is learned\n"},
		{"serve --http none --retain 1d", "cortex: --retain: this store cannot delete conversations\n"},
	} {
		words, more, _ := strings.Cut(c.line, " | ")
		status, says := p.run(t, words+at+" "+more)
		if refused := strings.HasPrefix(c.want, "cortex: "); (status != 0) != refused || !strings.Contains(says, c.want) {
			t.Errorf("cortex %s%s = %d, %q, want %q", c.line, at, status, says, c.want)
		}
	}
}

// TestPluggedPlain checks that a service runs on a transport and a store without optional interfaces.
func TestPluggedPlain(t *testing.T) {
	p := newPlugged(t)
	at := " --data " + t.TempDir() + " --transport plain --store plain"
	log, _ := p.start(t, "serve --http 127.0.0.1:0 --agents calc"+at)
	if status, says := p.run(t, "ask --conversation demo 6*7"+at); status != 0 || !strings.Contains(says, "42") {
		t.Errorf("cortex ask = %d, %q, want 42", status, says)
	}
	var ready string
	eventually(t, "it says where its health is", func() bool {
		ready = readyURL.FindString(log.String())
		return ready != ""
	})
	eventually(t, "it is ready", func() bool {
		code, _ := status(t, ready)
		return code == http.StatusOK
	})
}

// TestPluggedPrivate checks the uses of a transport that reaches no other process.
func TestPluggedPrivate(t *testing.T) {
	p := newPlugged(t)
	data := t.TempDir()
	at := " --data " + data + " --transport cell --store shelf"
	for range 2 {
		if status, says := p.run(t, "ask --conversation demo 6*7"+at); status != 0 || !strings.Contains(says, "42") {
			t.Errorf("cortex ask = %d, %q, want 42", status, says)
		}
	}
	const alone = "cortex: --transport cell reaches no other process: it is for `cortex chat`, `cortex ask` and `cortex serve`, and for agents that are built in\n"
	for _, line := range []string{"sessions", "agents", "dead", "agent echo"} {
		if status, says := p.run(t, line+at); status != 1 || says != alone {
			t.Errorf("cortex %s = %d, %q, want %q", line, status, says, alone)
		}
	}
	says, _ := p.start(t, "serve --http none"+at)
	eventually(t, "it is ready", func() bool { return strings.Contains(says.String(), "cortex is ready") })
	want := "cortex: another cortex runs on " + data + ", and --transport cell cannot reach it: end that one, or choose another folder with --data\n"
	for _, line := range []string{"ask hello", "serve --http none"} {
		if status, says := p.run(t, line+at); status != 1 || says != want {
			t.Errorf("cortex %s beside another = %d, %q, want %q", line, status, says, want)
		}
	}
}

// TestPluggedStore checks that a program's store works with NATS, and that a process that joins reads the service's store.
func TestPluggedStore(t *testing.T) {
	p := newPlugged(t)
	at := " --data " + t.TempDir()
	says, _ := p.start(t, "serve --http 127.0.0.1:0 --agents calc --store shelf"+at)
	eventually(t, "it is ready", func() bool { return strings.Contains(says.String(), "cortex is ready") })
	for _, c := range []struct{ line, want string }{
		{"ask --conversation demo 6*7", "42"},
		{"sessions", "demo"},
		{"sessions --store shelf", "demo"},
		{"history demo --store plain", "cortex: --store: the cortex that runs on " + strings.TrimPrefix(at, " --data ") + " keeps its conversations elsewhere: leave it out\n"},
		{"doctor", "no conversations are kept in it"},
		{"sessions delete demo --yes", "deleted conversation demo"},
	} {
		status, says := p.run(t, c.line+at)
		if refused := strings.HasPrefix(c.want, "cortex: "); (status != 0) != refused || !strings.Contains(says, c.want) {
			t.Errorf("cortex %s = %d, %q, want %q", c.line, status, says, c.want)
		}
	}
	before := p.opened.Load()
	joins, stop := p.start(t, "agent clock --store shelf"+at)
	eventually(t, "the agent joins", func() bool { return strings.Contains(joins.String(), "joins nats") })
	stop()
	if n := p.opened.Load() - before; n != 0 {
		t.Errorf("an agent has opened the store of conversations %d times", n)
	}
	p.Stores = nil
	if status, says := p.run(t, "sessions"+at); status != 1 || !strings.Contains(says, "in a store that this program does not have: shelf\n") {
		t.Errorf("cortex conversations of another program = %d, %q", status, says)
	}
}

// TestPluggedSender checks that the sender that a transport reports is used.
func TestPluggedSender(t *testing.T) {
	p := newPlugged(t)
	at := " --data " + t.TempDir() + " --store shelf --transport keyed:"
	p.start(t, "serve --http none --agents calc"+at+"/cortex")
	for _, c := range []struct{ line, as, want string }{
		{"ask --conversation demo 6*7", "/user:ada", "42"},
		{"sessions", "/user:ada", "user:ada"},
		{"ask --conversation demo 7*7", "/user:bob", "belongs to user:ada"},
		{"sessions", "acme/user:ada", `cortex: not allowed: what this process shows at keyed is for tenant "acme", not for the default tenant` + "\n"},
		{"sessions", "/agent_clock", `cortex: not allowed: what this process shows at keyed is for the agent "agent_clock"` + "\n"},
		{"serve --http none", "/user:ada", `cortex: not allowed: what this process shows at keyed is for "user:ada", and not for the orchestrator of the default tenant` + "\n"},
	} {
		if _, says := p.run(t, c.line+at+c.as); !strings.Contains(says, c.want) {
			t.Errorf("cortex %s as %s says %q, want %q", c.line, c.as, says, c.want)
		}
	}
}

// TestPlugsAreChecked checks the errors for flags that name no transport or store, or do not go together.
func TestPlugsAreChecked(t *testing.T) {
	p := newPlugged(t)
	for _, c := range []struct{ line, want string }{
		{"sessions --transport bus", `--transport: there is no "bus": it is one of cell, keyed, loft, plain`},
		{"sessions --store cellar://me:secret@host", `--store: there is no "cellar": it is one of plain, shelf`},
		{"sessions --transport loft", "--transport loft: Cortex's own store lies on a NATS server: name another one with --store"},
		{"sessions --transport loft --store shelf --nats nats://host", "--nats is for NATS, and --transport names another transport: give one of them"},
		{"serve --transport loft --store shelf --auth DATA", "--auth is for the NATS server that cortex starts, and --transport names another transport: give one of them"},
		{"doctor --transport loft", "--transport: what Cortex itself keeps in its --data is looked at, and loft has tools of its own"},
	} {
		data := t.TempDir()
		status, says := p.run(t, strings.Replace(c.line, "DATA", data, 1)+" --data "+data)
		if status != 2 || says != "cortex: "+c.want+"\n" {
			t.Errorf("cortex %s = %d, %q, want %q", c.line, status, says, c.want)
		}
	}
	var out bytes.Buffer
	if status := cli.Run(t.Context(), []string{"sessions", "--transport", "loft"}, strings.NewReader(""), &out, &out); status != 2 || !strings.Contains(out.String(), "unknown flag") {
		t.Errorf("cortex itself has a choice of transports: %d, %q", status, out.String())
	}
}
