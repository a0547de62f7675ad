package a2a_test

import (
	"context"
	"fmt"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/cortex-orchestrator/cortex/agentcard"
	"github.com/cortex-orchestrator/cortex/agents"
	peers "github.com/cortex-orchestrator/cortex/agents/a2a"
)

// TestCardIsAnnounced checks what Cortex is told of a peer.
func TestCardIsAnnounced(t *testing.T) {
	p := newPeer(t, "JSONRPC 1.0", true)
	for name, test := range map[string]struct{ name, prefix, want string }{
		"as it is":         {"", "", "Weather_Bureau"},
		"with a prefix":    {"", "acme.", "acme.Weather_Bureau"},
		"by another name":  {"weather", "", "weather"},
		"by an older card": {"", "", "Weather_Bureau"},
	} {
		t.Run(name, func(t *testing.T) {
			a := open(t, t.TempDir(), &peers.Peer{URL: p.server.URL, Name: test.name, Prefix: test.prefix})
			card := a.Card()
			if a.ID() != test.want || card.Description != "Knows the weather" || card.Version != "2.0" || len(card.Skills) != 2 || card.SecuritySchemes != nil {
				t.Errorf("%s: %+v", a.ID(), card)
			}
			if diff := cmp.Diff([]string{"rain?"}, card.Skills[0].Examples); diff != "" {
				t.Errorf("examples (-want +got):\n%s", diff)
			}
			if !agentcard.SpecOf(card).Abilities["forecast"].Once {
				t.Error("a task that was sent may be given to another agent")
			}
		})
	}
}

// changes follows what an agent tells of itself.
func follow(t *testing.T, a *peers.Agent) <-chan agents.Change {
	t.Helper()
	ctx, stop := context.WithCancel(context.Background())
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		a.Run(ctx)
	}()
	t.Cleanup(func() {
		stop()
		<-ended
	})
	return a.Changes()
}

func next(t *testing.T, changes <-chan agents.Change) agents.Change {
	t.Helper()
	select {
	case c := <-changes:
		return c
	case <-time.After(time.Minute):
		t.Fatal("no change is told")
	}
	return agents.Change{}
}

// TestCardIsReadAgain changes, breaks and takes away a card. It is asked for by its ETag, and the last good one stays.
func TestCardIsReadAgain(t *testing.T) {
	p, dir := newPeer(t, "JSONRPC 1.0", true), t.TempDir()
	var state atomic.Value
	var same atomic.Int32
	state.Store("one")
	p.card = func(w http.ResponseWriter, r *http.Request) bool {
		switch s := state.Load().(string); s {
		case "away":
			w.WriteHeader(http.StatusServiceUnavailable)
		case "broken":
			fmt.Fprint(w, "{")
		default:
			w.Header().Set("ETag", `"`+s+`"`)
			if r.Header.Get("If-None-Match") == `"`+s+`"` {
				same.Add(1)
				w.WriteHeader(http.StatusNotModified)
				return true
			}
			w.Write(p.describe(map[string]any{"description": s, "name": "named " + s}))
		}
		return true
	}
	peer := &peers.Peer{URL: p.server.URL, Refresh: 5 * time.Millisecond}
	a := open(t, dir, peer)
	changes := follow(t, a)
	eventually(t, "it is asked for by its ETag", func() bool { return same.Load() > 2 })
	state.Store("two")
	if c := next(t, changes); c.Card == nil || c.Card.Description != "two" || c.Card.Name != "named_one" || c.Draining {
		t.Errorf("changed: %+v", c)
	}
	state.Store("broken")
	was := same.Load()
	time.AfterFunc(50*time.Millisecond, func() { state.Store("two") })
	eventually(t, "it is read again", func() bool { return same.Load() > was+2 })
	select {
	case c := <-changes:
		t.Errorf("a broken card is a change: %+v", c)
	default:
	}
	state.Store("away")
	if c := next(t, changes); !c.Draining {
		t.Errorf("away: %+v", c)
	}
	state.Store("two")
	if c := next(t, changes); c.Draining || c.Card == nil {
		t.Errorf("back: %+v", c)
	}
	state.Store("away")
	a.Close()

	again := open(t, dir, peer)
	if got := again.Card(); got.Description != "two" || got.Name != "named_two" {
		t.Errorf("the kept card is %+v", got)
	}
	if c := next(t, follow(t, again)); !c.Draining {
		t.Errorf("with the kept card: %+v", c)
	}
	if _, err := peers.Open(t.Context(), peer, &peers.Options{Dir: dir}); err == nil || !strings.Contains(err.Error(), "another process works with") {
		t.Errorf("twice in a folder: %v", err)
	}
	if _, err := peers.Open(t.Context(), peer, &peers.Options{Dir: t.TempDir()}); err == nil || !strings.Contains(err.Error(), "503") {
		t.Errorf("away, without a card: %v", err)
	}
}

// TestPeerIsAwayForAMoment has a peer that is started again, after or before its agent. The agent is not draining: then Cortex would refuse what is asked of
// it, which can wait.
func TestPeerIsAwayForAMoment(t *testing.T) {
	for _, name := range []string{"while its agent runs", "when its agent begins"} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			p, dir := newPeer(t, "JSONRPC 1.0", true), t.TempDir()
			var away atomic.Bool
			var asked atomic.Int32
			p.card = func(w http.ResponseWriter, _ *http.Request) bool {
				if away.Load() {
					asked.Add(1)
					w.WriteHeader(http.StatusServiceUnavailable)
				}
				return away.Load()
			}
			patient := func() *peers.Agent {
				a, err := peers.Open(t.Context(), &peers.Peer{URL: p.server.URL, Refresh: 5 * time.Millisecond}, &peers.Options{Dir: dir, Patience: time.Hour})
				if err != nil {
					t.Fatal(err)
				}
				t.Cleanup(func() { a.Close() })
				return a
			}
			a := patient()
			if name == "when its agent begins" {
				a.Close()
				away.Store(true)
				a = patient()
			}
			changes := follow(t, a)
			away.Store(true)
			eventually(t, "it is asked for again", func() bool { return asked.Load() >= 2 })
			away.Store(false)
			if c := next(t, changes); c.Draining || c.Card == nil {
				t.Errorf("%+v", c)
			}
		})
	}
}

// TestCredentials gives credentials to the origin that they are for, and to no other.
func TestCredentials(t *testing.T) {
	p := newPeer(t, "JSONRPC 1.0", true)
	var other http.Header
	stranger := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		other = r.Header.Clone()
		http.Error(w, "who?", http.StatusTeapot)
	}))
	defer stranger.Close()
	path := filepath.Join(t.TempDir(), "keys.yaml")
	if err := os.WriteFile(path, []byte(p.server.URL+":\n  Authorization: Bearer s3cret-token\n  X-Key: k\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	keys, err := peers.ReadCredentials(t.Context(), path)
	if err != nil {
		t.Fatal(err)
	}
	a := open(t, t.TempDir(), &peers.Peer{URL: p.server.URL, Credentials: keys})
	if got := give(t.Context(), a, given{id: "1", message: "m", text: "say sun"}); got != done("sun") {
		t.Errorf("got %+v", got)
	}
	for _, h := range p.headers {
		if h.Get("Authorization") != "Bearer s3cret-token" || h.Get("X-Key") != "k" || h.Get("A2A-Version") != "1.0" {
			t.Errorf("headers %v", h)
		}
	}
	p.card = func(w http.ResponseWriter, _ *http.Request) bool {
		w.Write(p.describe(at(stranger.URL, "JSONRPC"))) // another port is another server
		return true
	}
	a = open(t, t.TempDir(), &peers.Peer{URL: p.server.URL, Credentials: keys})
	if got := give(t.Context(), a, given{id: "1", message: "m", text: "say sun"}); !strings.Contains(got.text, "418") || other == nil || other.Get("Authorization") != "" || other.Get("X-Key") != "" {
		t.Errorf("the stranger gets %v: %+v", other, got)
	}
	p.card = func(w http.ResponseWriter, r *http.Request) bool {
		http.Error(w, "not with "+r.Header.Get("Authorization"), http.StatusBadRequest)
		return true
	}
	if _, err := peers.Open(t.Context(), &peers.Peer{URL: p.server.URL, Credentials: keys}, &peers.Options{Dir: t.TempDir()}); err == nil || strings.Contains(err.Error(), "s3cret") {
		t.Errorf("an error tells the token: %v", err)
	}
	for text, want := range map[string]string{
		"":                                    "want origins",
		"- a":                                 "want origins",
		"example.com:\n  A: b":                "want an origin such as https://example.com",
		"http://example.com:\n  A: b":         "credentials are not sent without TLS",
		"https://example.com:\n  A b: c":      "is no name of a header",
		"https://example.com:\n  A: \"b\\n\"": "is no name of a header with a value",
	} {
		if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		if _, err := peers.ReadCredentials(t.Context(), path); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%q: %v, want %q", text, err, want)
		}
	}
}

// TestHostsAreAllowed lets a card name another host.
func TestHostsAreAllowed(t *testing.T) {
	p := newPeer(t, "JSONRPC 1.0", true)
	p.card = func(w http.ResponseWriter, _ *http.Request) bool {
		w.Write(p.describe(at(strings.Replace(p.server.URL, "127.0.0.1", "localhost", 1)+"/rpc", "JSONRPC")))
		return true
	}
	if _, err := peers.Open(t.Context(), &peers.Peer{URL: p.server.URL}, &peers.Options{Dir: t.TempDir()}); err == nil || !strings.Contains(err.Error(), "allow it with --allow-host") {
		t.Errorf("not allowed: %v", err)
	}
	a := open(t, t.TempDir(), &peers.Peer{URL: p.server.URL, Hosts: []string{"localhost"}})
	if got := give(t.Context(), a, given{id: "1", message: "m", text: "say sun"}); got != done("sun") {
		t.Errorf("allowed: %+v", got)
	}
	_, err := peers.Open(t.Context(), &peers.Peer{URL: p.server.URL, Public: true}, &peers.Options{Dir: t.TempDir()})
	if err == nil || !strings.Contains(err.Error(), "is an address of this network") {
		t.Errorf("a private address from elsewhere: %v", err)
	}
}

// TestDirectory reads lists of agents. What cannot be used does not stop the others.
func TestDirectory(t *testing.T) {
	lines := "# ours\nhttps://a.example.com # the first\n- https://b.example.com/card.json\nftp://c\n\nhttps://a.example.com\n"
	list := `["https://a.example.com", {"url": "https://b.example.com/card.json", "more": 1}, 7, {}]`
	served := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Path != "/list" {
			http.NotFound(w, r)
			return
		}
		fmt.Fprint(w, lines)
	}))
	defer served.Close()
	file := func(text string) string {
		path := filepath.Join(t.TempDir(), "list")
		if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		return path
	}
	byLine := []string{
		"line 2 https://a.example.com", "line 3 https://b.example.com/card.json", `line 4 ftp://c: "ftp://c": want a URL such as https://example.com`,
		"line 6 https://a.example.com: it is there twice",
	}
	for name, test := range map[string]struct {
		where string
		want  []string
		err   string
	}{
		"lines":       {file(lines), byLine, ""},
		"from a URL":  {served.URL + "/list", byLine, ""},
		"JSON":        {file(list), []string{"entry 1 https://a.example.com", "entry 2 https://b.example.com/card.json", `entry 3 : "": want a URL such as https://example.com`, `entry 4 : "": want a URL such as https://example.com`}, ""},
		"bad JSON":    {file("[1,"), nil, "it is no list in JSON"},
		"empty":       {file("# nothing"), nil, "it lists no agent"},
		"no file":     {filepath.Join(t.TempDir(), "none"), nil, "no such file"},
		"none there":  {served.URL, nil, "there is no list of agents: 404"},
		"too long":    {file(strings.Repeat("https://a.example.com\n", 1001)), nil, "at most 1000 agents"},
		"a long line": {file(strings.Repeat("x", 2<<20)), nil, "too large"},
	} {
		t.Run(name, func(t *testing.T) {
			d, err := peers.ReadDirectory(t.Context(), test.where)
			if test.err != "" {
				if err == nil || !strings.Contains(err.Error(), test.err) {
					t.Errorf("error %v, want %q", err, test.err)
				}
				return
			}
			if err != nil {
				t.Fatal(err)
			}
			var got []string
			for _, e := range d.Entries {
				text := e.At + " " + e.URL
				if e.Err != nil {
					text += ": " + e.Err.Error()
				}
				got = append(got, text)
			}
			if diff := cmp.Diff(test.want, got); diff != "" || d.Public {
				t.Errorf("public %v, (-want +got):\n%s", d.Public, diff)
			}
		})
	}
}
