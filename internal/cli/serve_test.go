package cli_test

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/a2aproject/a2a-go/v2/a2a"
	natsgo "github.com/nats-io/nats.go"

	"github.com/cortex-orchestrator/cortex/internal/cli"
	"github.com/cortex-orchestrator/cortex/transport"
	"github.com/cortex-orchestrator/cortex/transport/nats"
	"github.com/cortex-orchestrator/cortex/transport/nats/auth"
)

// patience bounds how long a test waits for a condition.
const patience = time.Minute

// output is the output of a command in the background.
type output struct {
	mu sync.Mutex
	b  bytes.Buffer
}

func (o *output) Write(p []byte) (int, error) {
	o.mu.Lock()
	defer o.mu.Unlock()
	return o.b.Write(p)
}

func (o *output) String() string {
	o.mu.Lock()
	defer o.mu.Unlock()
	return o.b.String()
}

// start runs a command until the test ends, or stop is called, which returns its exit status.
func start(t *testing.T, args ...string) (stderr *output, stop func() int) {
	t.Helper()
	stderr = new(output)
	ctx, cancel := context.WithCancel(t.Context())
	code := make(chan int, 1)
	go func() { code <- cli.Run(ctx, args, strings.NewReader(""), io.Discard, stderr) }()
	stop = sync.OnceValue(func() int {
		cancel()
		return <-code
	})
	t.Cleanup(func() { stop() })
	return stderr, stop
}

// serveOn runs a service on a NATS server, and returns where it says whether it is ready.
func serveOn(t *testing.T, more ...string) (server *nats.Server, ready string, stderr *output, stop func() int) {
	t.Helper()
	server, err := nats.StartServer(t.Context(), &nats.ServerOptions{Dir: t.TempDir(), Listen: "127.0.0.1:0"})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(server.Shutdown)
	stderr, stop = start(t, append([]string{"serve", "--data", t.TempDir(), "--nats", server.URL(), "--http", "127.0.0.1:0"}, more...)...)
	eventually(t, "the service starts", func() bool { return readyURL.MatchString(stderr.String()) })
	return server, readyURL.FindString(stderr.String()), stderr, stop
}

func eventually(t *testing.T, what string, ok func() bool) {
	t.Helper()
	poll := time.NewTicker(10 * time.Millisecond)
	defer poll.Stop()
	for end := time.Now().Add(patience); !ok(); <-poll.C {
		if time.Now().After(end) {
			t.Fatalf("never came true: %s", what)
		}
	}
}

// status returns the status and the body of a health check.
func status(t *testing.T, url string) (int, string) {
	t.Helper()
	req, err := http.NewRequestWithContext(t.Context(), http.MethodGet, url, nil)
	if err != nil {
		t.Fatal(err)
	}
	res, err := http.DefaultClient.Do(req)
	if err != nil {
		t.Fatal(err)
	}
	defer res.Body.Close()
	body, err := io.ReadAll(res.Body)
	if err != nil {
		t.Fatal(err)
	}
	return res.StatusCode, string(body)
}

var readyURL = regexp.MustCompile(`http://[0-9.:]+/readyz`)

// TestReadyWhileTheServerIsThere stops the NATS server of a service and starts it again.
func TestReadyWhileTheServerIsThere(t *testing.T) {
	dir := t.TempDir()
	server, err := nats.StartServer(t.Context(), &nats.ServerOptions{Dir: dir, Listen: "127.0.0.1:0"})
	if err != nil {
		t.Fatal(err)
	}
	defer func() { server.Shutdown() }()
	url := server.URL()
	log, stop := start(t, "serve", "--data", t.TempDir(), "--nats", url, "--http", "127.0.0.1:0")
	eventually(t, "the service starts", func() bool { return readyURL.MatchString(log.String()) })
	ready := readyURL.FindString(log.String())
	eventually(t, "ready", func() bool { code, _ := status(t, ready); return code == http.StatusOK })

	server.Shutdown()
	eventually(t, "not ready without a server", func() bool {
		code, body := status(t, ready)
		return code == http.StatusServiceUnavailable && strings.HasPrefix(body, "transport unavailable: ") && strings.Count(body, "\n") == 1
	})
	if code, _ := status(t, strings.Replace(ready, "readyz", "healthz", 1)); code != http.StatusOK {
		t.Errorf("healthz without a server = %d, want 200: the process runs", code)
	}

	if server, err = nats.StartServer(t.Context(), &nats.ServerOptions{Dir: dir, Listen: strings.TrimPrefix(url, "nats://")}); err != nil {
		t.Fatal(err)
	}
	eventually(t, "ready again", func() bool { code, _ := status(t, ready); return code == http.StatusOK })
	if code := stop(); code != 0 {
		t.Errorf("exit status %d after a stop in good order, want 0; log:\n%s", code, log)
	}
}

// TestReadyTellsOfTooManyAgents announces more instances of an agent than are accepted.
func TestReadyTellsOfTooManyAgents(t *testing.T) {
	t.Parallel()
	server, ready, _, _ := serveOn(t)
	bus, err := nats.Dial(t.Context(), &nats.Options{URL: server.URL()})
	if err != nil {
		t.Fatal(err)
	}
	defer bus.Close()
	card := &a2a.AgentCard{Name: "many", Description: "d", Version: "1"}
	for i := range 1005 {
		e := &transport.Event{ID: fmt.Sprint(i), Time: time.Now(), From: "many", Payload: &transport.Card{AgentID: "many", Instance: fmt.Sprint(i), Card: card, TTL: time.Hour}}
		if err := bus.Publish(t.Context(), transport.Cards(""), e); err != nil {
			t.Fatal(err)
		}
	}
	eventually(t, "it is told", func() bool {
		code, body := status(t, ready)
		return code == http.StatusOK && strings.Contains(body, `too many agents: 5 cards were ignored, the last one of "many"`)
	})
}

// TestReadyTellsTrouble checks that a service with a dead letter is ready, and reports it.
func TestReadyTellsTrouble(t *testing.T) {
	t.Parallel()
	server, ready, _, _ := serveOn(t)
	eventually(t, "ready", func() bool {
		code, body := status(t, ready)
		return code == http.StatusOK && !strings.Contains(body, "event")
	})
	bus, err := nats.Dial(t.Context(), &nats.Options{Server: server})
	if err != nil {
		t.Fatal(err)
	}
	defer bus.Close()
	err = bus.Publish(t.Context(), transport.Inbox("", transport.Cortex), &transport.Event{
		ID: "m1", From: "user", ContextID: "c1", To: transport.Cortex, Payload: &transport.Opaque{Kind: "hologram", Version: "7"},
	})
	if err != nil {
		t.Fatal(err)
	}
	eventually(t, "it is told", func() bool {
		code, body := status(t, ready)
		return code == http.StatusOK && strings.Contains(body, "events given up since the start: 1, see cortex dead; the last one, event m1 of user in conversation c1: unknown kind")
	})
}

// TestReadyTellsOfAnUnreadableSum has others write what is no sum over that of the day, which has a budget: turns go on, and it is told.
func TestReadyTellsOfAnUnreadableSum(t *testing.T) {
	t.Parallel()
	config := filepath.Join(t.TempDir(), "cortex.yaml")
	if err := os.WriteFile(config, []byte("budget:\n  day: {tokens: 1000}\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	server, ready, _, _ := serveOn(t, "--config", config)
	eventually(t, "ready", func() bool { code, _ := status(t, ready); return code == http.StatusOK })
	nc, err := natsgo.Connect(server.URL())
	if err != nil {
		t.Fatal(err)
	}
	defer nc.Close()
	for _, day := range []time.Time{time.Now(), time.Now().AddDate(0, 0, 1)} { // it may be midnight
		if _, err := nc.RequestWithContext(t.Context(), "$KV.CORTEX_SPENT._."+day.UTC().Format(time.DateOnly), []byte("lots")); err != nil {
			t.Fatal(err)
		}
	}
	if r := run(t, "ask", "--nats", server.URL(), "what is 2+3?"); r.code != 0 || !strings.Contains(r.stdout, "5") {
		t.Errorf("ask = %+v, want an answer", r)
	}
	if code, body := status(t, ready); code != http.StatusOK || !strings.Contains(body, "spend log: what was spent on ") {
		t.Errorf("readyz = %d, %q, want a line about it", code, body)
	}
}

// TestReadyWhileSomebodyOwns gives the leases of all partitions to a process that is alive and does not serve, and takes them back.
func TestReadyWhileSomebodyOwns(t *testing.T) {
	t.Parallel()
	server, ready, log, stop := serveOn(t)
	eventually(t, "ready", func() bool { code, _ := status(t, ready); return code == http.StatusOK })

	nc, err := natsgo.Connect(server.URL())
	if err != nil {
		t.Fatal(err)
	}
	defer nc.Close()
	if _, err := nc.Subscribe("cortex.v1.peer._.cortex.ghost", func(m *natsgo.Msg) { _ = m.Respond(nil) }); err != nil {
		t.Fatal(err)
	}
	write := func(header natsgo.Header, value string) {
		t.Helper()
		for g := range 4 {
			m := &natsgo.Msg{Subject: fmt.Sprintf("$KV.CORTEX_LEASE._.cortex.partition.%d", g), Header: header, Data: []byte(value)}
			if _, err := nc.RequestMsgWithContext(t.Context(), m); err != nil {
				t.Fatal(err)
			}
		}
	}
	write(nil, `{"owner":"ghost","epoch":9000000000000000000}`)
	eventually(t, "not ready without an owner", func() bool {
		code, body := status(t, ready)
		return code == http.StatusServiceUnavailable && body == "no process takes the conversations of 4 of 4 partitions: 0-3\n"
	})
	write(natsgo.Header{"KV-Operation": {"DEL"}}, "")
	eventually(t, "ready again", func() bool {
		code, body := status(t, ready)
		return code == http.StatusOK && strings.Contains(body, "owns 4 of 4 partitions: 0-3")
	})
	if code := stop(); code != 0 {
		t.Errorf("exit status %d, want 0; log:\n%s", code, log)
	}
}

// TestReadyNamesTheServerItWaitsFor checks the readiness of a service that has not found its server yet.
func TestReadyNamesTheServerItWaitsFor(t *testing.T) {
	var free [2]string // without a listener
	for i := range free {
		l, err := net.Listen("tcp", "127.0.0.1:0")
		if err != nil {
			t.Fatal(err)
		}
		free[i] = l.Addr().String()
		l.Close()
	}
	log, stop := start(t, "serve", "--data", t.TempDir(), "--nats", "nats://"+free[0], "--http", free[1])
	eventually(t, "it waits", func() bool { return strings.Contains(log.String(), "waiting for the NATS server") })
	code, body := status(t, "http://"+free[1]+"/readyz")
	if code != http.StatusServiceUnavailable || !strings.HasPrefix(body, "it is starting, and waits for the NATS server: ") ||
		!strings.Contains(body, "nats://"+free[0]) || strings.Count(body, "\n") != 1 {
		t.Errorf("readyz = %d, %q, want one line that names %s", code, body, free[0])
	}
	if code := stop(); code != 0 {
		t.Errorf("exit status %d of a service that is stopped while it waits for its server, want 0; log:\n%s", code, log)
	}
}

// TestStopWhileTheFolderIsTaken stops a service that waits for a data folder that another process holds.
func TestStopWhileTheFolderIsTaken(t *testing.T) {
	t.Parallel()
	data := t.TempDir()
	chat, _, ended := startChat(t, "--data", data, "--agents", "none")
	defer func() { chat.Close(); <-ended }()
	eventually(t, "the chat has the folder", func() bool { _, err := os.Stat(filepath.Join(data, "server.json")); return err == nil })
	log, stop := start(t, "serve", "--data", data, "--http", "none")
	eventually(t, "it waits", func() bool { return strings.Contains(log.String(), "waiting for the data folder") })
	if code := stop(); code != 0 {
		t.Errorf("exit status %d, want 0; log:\n%s", code, log)
	}
}

// TestServeBesideAChat starts a service while a chat has the folder and its console the service's port: it waits for the chat, and does not speak of
// another program; neither does the doctor.
func TestServeBesideAChat(t *testing.T) {
	t.Parallel()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	taken := l.Addr().String() // by this process, as a chat on a terminal would
	data := t.TempDir()
	chat, _, ended := startChat(t, "--data", data, "--agents", "none")
	eventually(t, "the chat has the folder", func() bool { _, err := os.Stat(filepath.Join(data, "server.json")); return err == nil })
	door := fmt.Sprintf(`{"url": "http://%s/", "pid": %d}`, taken, os.Getpid())
	if err := os.WriteFile(filepath.Join(data, "console.json"), []byte(door), 0o600); err != nil {
		t.Fatal(err)
	}
	var stdout bytes.Buffer
	cli.Run(t.Context(), []string{"doctor", "--data", data, "--http", taken}, strings.NewReader(""), &stdout, io.Discard)
	if got := stdout.String(); !strings.Contains(got, taken+" has the console of the chat") {
		t.Errorf("doctor prints %q, want whose the port is", got)
	}
	log, stop := start(t, "serve", "--data", data, "--agents", "none", "--http", taken)
	eventually(t, "it waits", func() bool { return strings.Contains(log.String(), "this service begins when that ends") })
	chat.Close()
	<-ended
	l.Close()
	eventually(t, "it runs", func() bool {
		c, err := net.Dial("tcp", taken)
		if err == nil {
			c.Close()
		}
		return err == nil
	})
	if code := stop(); code != 0 {
		t.Errorf("exit status %d, want 0; log:\n%s", code, log)
	}
}

// TestConsoleOfAnother has another program at the port of a service that was killed: it gets no bearer token.
func TestConsoleOfAnother(t *testing.T) {
	t.Parallel()
	var got atomic.Value
	stranger := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if a := r.Header.Get("Authorization"); a != "" {
			got.Store(a)
		}
		_, _ = io.WriteString(w, "link")
	}))
	defer stranger.Close()
	keys, data := t.TempDir(), t.TempDir()
	if err := auth.Init(keys); err != nil {
		t.Fatal(err)
	}
	creds, err := auth.AddUser(keys, "", "ada")
	if err != nil {
		t.Fatal(err)
	}
	door := fmt.Sprintf(`{"url": "%s/", "key": "AAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAA=", "pid": %d}`, stranger.URL, os.Getpid())
	if err := os.WriteFile(filepath.Join(data, "console.json"), []byte(door), 0o600); err != nil {
		t.Fatal(err)
	}
	var stdout, stderr bytes.Buffer
	code := cli.Run(t.Context(), []string{"console", "--data", data, "--creds", creds}, strings.NewReader(""), &stdout, &stderr)
	if code == 0 || stdout.Len() > 0 || !strings.Contains(stderr.String(), "no console is open on this data folder") {
		t.Errorf("exit status %d: %s%s", code, stdout.String(), stderr.String())
	}
	if got.Load() != nil {
		t.Error("the other program got the bearer token")
	}
}

// TestAgentWaitsForCortex starts an agent, which reaches its server only through a gateway, before Cortex.
func TestAgentWaitsForCortex(t *testing.T) {
	keys := t.TempDir()
	if err := auth.Init(keys); err != nil {
		t.Fatal(err)
	}
	creds, err := auth.AddAgent(keys, "", "agent_echo")
	if err != nil {
		t.Fatal(err)
	}
	server, err := nats.StartServer(t.Context(), &nats.ServerOptions{Dir: t.TempDir(), Listen: "127.0.0.1:0", Auth: keys})
	if err != nil {
		t.Fatal(err)
	}
	defer server.Shutdown()
	url := server.URL()
	log, stop := start(t, "agent", "echo", "--nats", url, "--creds", creds, "--data", t.TempDir())
	eventually(t, "it says that it waits", func() bool { return strings.Contains(log.String(), "agent_echo waits: no Cortex runs") })
	_, stopServe := start(t, "serve", "--nats", url, "--creds", auth.Admin(keys, ""), "--data", t.TempDir(), "--http", "none", "--agents", "none")
	eventually(t, "it goes on", func() bool { return strings.Contains(log.String(), "agent_echo goes on\n") })
	stop()
	stopServe()
	if lines := strings.Split(log.String(), "\n"); len(lines) != 5 || lines[3] != "agent_echo has left" {
		t.Errorf("the agent said:\n%s\nwant that it joins, waits, goes on and leaves, once each", log)
	}
}

// TestAgentWaitsForServer starts an agent when there is nothing to join: in the data folder, at a server, and while a Cortex is starting that has not
// left its address yet.
func TestAgentWaitsForServer(t *testing.T) {
	t.Parallel()
	free, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	at := free.Addr().String()
	free.Close()
	data := t.TempDir()
	for name, test := range map[string]struct {
		agent, serve []string
		waits        string
	}{
		"the data folder": {[]string{"--data", data}, []string{"--data", data, "--listen", "127.0.0.1:0"}, "no cortex runs on " + data},
		"a server":        {[]string{"--nats", "nats://" + at, "--data", t.TempDir()}, []string{"--data", t.TempDir(), "--listen", at}, "nats://" + at},
	} {
		t.Run(name, func(t *testing.T) {
			log, stop := start(t, append([]string{"agent", "echo"}, test.agent...)...)
			eventually(t, "it says that it waits", func() bool { return strings.Contains(log.String(), "agent_echo waits: ") })
			_, stopServe := start(t, append([]string{"serve", "--http", "none", "--agents", "none"}, test.serve...)...)
			eventually(t, "it joins", func() bool { return strings.Contains(log.String(), "agent_echo joins nats://") })
			if code := stop(); code != 0 {
				t.Errorf("exit status %d, want 0", code)
			}
			stopServe()
			if lines := strings.Split(log.String(), "\n"); len(lines) != 4 || !strings.Contains(lines[0], test.waits) || lines[2] != "agent_echo has left" {
				t.Errorf("the agent said:\n%s\nwant that it waits for %s, joins and leaves, once each", log, test.waits)
			}
		})
	}
	log, stop := start(t, "agent", "echo", "--data", t.TempDir())
	eventually(t, "it says that it waits", func() bool { return strings.Contains(log.String(), "agent_echo waits: ") })
	if code := stop(); code != 0 || strings.Count(log.String(), "\n") != 1 {
		t.Errorf("exit status %d of one that waits, want 0; it said:\n%s", code, log)
	}
}

// TestFoundElsewhere restarts a service on another port: an agent that has joined it through the data folder finds it.
func TestFoundElsewhere(t *testing.T) {
	t.Parallel()
	data := t.TempDir()
	serve := []string{"serve", "--data", data, "--http", "none", "--agents", "none"}
	first, stopFirst := start(t, serve...)
	serverURL := regexp.MustCompile(`url=nats://(127\.0\.0\.1:[0-9]+)`)
	eventually(t, "the service starts", func() bool { return serverURL.MatchString(first.String()) })
	log, stop := start(t, "agent", "echo", "--data", data)
	eventually(t, "the agent joins", func() bool { return strings.Contains(log.String(), "agent_echo joins") })
	stopFirst()
	was := serverURL.FindStringSubmatch(first.String())[1]
	stranger, err := nats.StartServer(t.Context(), &nats.ServerOptions{Dir: t.TempDir(), Listen: was})
	if err != nil {
		t.Fatal(err)
	}
	defer stranger.Shutdown()
	second, stopSecond := start(t, serve...)
	eventually(t, "the service starts again", func() bool { return serverURL.MatchString(second.String()) })
	if is := serverURL.FindStringSubmatch(second.String())[1]; is == was {
		t.Fatalf("it listens on %s again", is)
	}
	eventually(t, "the agent is back", func() bool { return strings.Contains(log.String(), "agent_echo is connected again") })
	var out, errout output
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()
	if code := cli.Run(ctx, []string{"ask", "--data", data, "echo the house"}, strings.NewReader(""), &out, &errout); code != 0 || out.String() != "Echo: the house\n" {
		t.Errorf("ask = %d, %q, %q; want the answer of the agent", code, &out, &errout)
	}
	stop()
	stopSecond()
}

// TestPortInUse starts services with one or the other port taken.
func TestPortInUse(t *testing.T) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	taken := l.Addr().String()
	for _, test := range []struct{ flag, other string }{{"--http", "--listen"}, {"--listen", "--http"}} {
		var stderr bytes.Buffer
		code := cli.Run(t.Context(), []string{"serve", "--data", t.TempDir(), test.flag, taken, test.other, "127.0.0.1:0"}, strings.NewReader(""), io.Discard, &stderr)
		got := stderr.String()
		if code != 1 || !strings.Contains(got, taken) || !strings.Contains(got, "in use") || !strings.Contains(got, test.flag) || strings.Count(got, "\n") != 1 {
			t.Errorf("serve %s %s = %d, %q; want one line that names the address and the flag", test.flag, taken, code, got)
		}
	}
}

// TestTwoAtOnce starts chats on one empty data folder at the same time: one starts everything, the others join it.
func TestTwoAtOnce(t *testing.T) {
	data := t.TempDir()
	var wg sync.WaitGroup
	for range 4 {
		wg.Go(func() {
			var stdout, stderr bytes.Buffer
			code := cli.Run(t.Context(), []string{"chat", "--data", data}, strings.NewReader("Echo this!"), &stdout, &stderr)
			if code != 0 || stdout.String() != "Echo: Echo this!\n" {
				t.Errorf("chat = %d, %q, %q", code, &stdout, &stderr)
			}
		})
	}
	wg.Wait()
}
