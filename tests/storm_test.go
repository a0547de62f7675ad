//go:build unix

package tests

import (
	"context"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	natsgo "github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"github.com/cortex-orchestrator/cortex/transport"
)

var (
	storms    = flag.Int("storms", 16, "how often TestStorm kills or freezes a process")
	stormSeed = flag.Uint64("storm-seed", 0, "which processes TestStorm hits, and when; 0 chooses")
)

// Parameters of TestStorm.
const (
	stormTalks  = 8
	stormCalm   = 90 * time.Second // until everything is answered after the last kill
	stormWindow = 3                // unanswered messages of a conversation at the same time
)

// TestStorm kills and freezes the processes that a reader of the README would start, and judges from outside: it sends messages over a plain NATS
// connection, as any client may, and reads the results as JSON from the stream of the logs. It shares no code with `cortex torture`, so that a
// mistake in that code's reading of the log is not repeated here.
func TestStorm(t *testing.T) {
	seed := *stormSeed
	if seed == 0 {
		seed = rand.Uint64N(1_000_000) + 1
	}
	t.Logf("again with: go test ./tests -run TestStorm -storms %d -storm-seed %d", *storms, seed)
	random := rand.New(rand.NewPCG(seed, 1))

	dir := t.TempDir()
	card, program := filepath.Join(dir, "shout.yaml"), filepath.Join(dir, "shout.sh")
	writeFile(t, card, "name: shout\ndescription: Shouts a word\nskills:\n  - id: shout\n    name: Shout\n    examples: [\"shout: hello\"]\n")
	writeFile(t, program, "read -r line\nsleep 0.0$(( $$ % 10 ))\necho \"done: ${line}\"\n")
	address := freeAddress(t)
	actors := []*actor{
		newActor(t, dir, "server", "serve", "--data", filepath.Join(dir, "one"), "--listen", address, "--http", "none"),
		newActor(t, dir, "replica", "serve", "--data", filepath.Join(dir, "two"), "--nats", "nats://"+address, "--http", "none"),
		newActor(t, dir, "first", "agent", "exec", "--card", card, "--nats", "nats://"+address, "--", "sh", program),
		newActor(t, dir, "second", "agent", "exec", "--card", card, "--nats", "nats://"+address, "--", "sh", program),
	}
	for _, a := range actors {
		a.start()
	}

	nc, err := natsgo.Connect("nats://"+address, natsgo.RetryOnFailedConnect(true), natsgo.MaxReconnects(-1), natsgo.ReconnectWait(50*time.Millisecond))
	if err != nil {
		t.Fatal(err)
	}
	defer nc.Close()
	awaitShout(t, nc)

	speaking, hush := context.WithCancel(t.Context())
	defer hush()
	var speakers sync.WaitGroup
	said := make([]*talk, stormTalks)
	for i := range said {
		said[i] = &talk{id: fmt.Sprintf("storm-%d", i), answered: make(chan struct{}, 1)}
		speakers.Go(func() { said[i].speak(speaking, t.Context(), nc) })
	}
	reading, stopReading := context.WithCancel(t.Context())
	var readers sync.WaitGroup
	readers.Go(func() { readLogs(reading, t, nc, said) })

	for range *storms {
		pause(t, 200*time.Millisecond+time.Duration(random.Int64N(int64(700*time.Millisecond))))
		a := actors[random.IntN(len(actors))]
		if random.IntN(3) == 0 {
			a.freeze(t, time.Second+time.Duration(random.Int64N(int64(5*time.Second))))
		} else {
			a.kill()
			pause(t, time.Duration(random.Int64N(int64(500*time.Millisecond))))
			a.start()
		}
	}
	last := time.Now()
	hush()
	speakers.Wait()
	poll := time.NewTicker(50 * time.Millisecond)
	defer poll.Stop()
	for time.Since(last) < stormCalm && slices.ContainsFunc(said, func(k *talk) bool { return k.open() > 0 }) {
		<-poll.C
	}
	t.Logf("everything was answered %v after the last blow", time.Since(last).Round(time.Millisecond))
	stopReading()
	readers.Wait()
	messages := 0
	for _, k := range said {
		messages += len(k.said)
		k.judge(t)
	}
	if messages < *storms {
		t.Errorf("only %d messages were spoken", messages)
	}
	t.Logf("%d messages", messages)
	for _, a := range actors {
		a.end()
	}
}

// pause waits between two disturbances, which should hit turns at any moment.
func pause(t *testing.T, d time.Duration) {
	select {
	case <-time.After(d):
	case <-t.Context().Done():
	}
}

func writeFile(t *testing.T, path, text string) {
	t.Helper()
	if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
}

// awaitShout returns when the cards of the agent and of an orchestrator are published.
func awaitShout(t *testing.T, nc *natsgo.Conn) {
	t.Helper()
	js, err := jetstream.New(nc)
	if err != nil {
		t.Fatal(err)
	}
	poll := time.NewTicker(50 * time.Millisecond)
	defer poll.Stop()
	for end := time.Now().Add(2 * patience); time.Now().Before(end); <-poll.C {
		kv, err := js.KeyValue(t.Context(), "CORTEX_AGENTS")
		if err != nil {
			continue
		}
		keys, err := kv.Keys(t.Context())
		if err != nil {
			continue
		}
		there := func(name string) bool {
			return slices.ContainsFunc(keys, func(key string) bool { return strings.Contains(key, "."+name+".") })
		}
		if there("shout") && there(transport.Cortex) {
			return
		}
	}
	t.Fatal("the processes do not start")
}

// actor is a process that is disturbed and restarted.
type actor struct {
	t    *testing.T
	name string
	args []string
	log  *os.File
	dir  string

	mu     sync.Mutex
	cmd    *exec.Cmd
	ended  chan struct{}
	wanted bool // whether it should run
}

func newActor(t *testing.T, dir, name string, args ...string) *actor {
	t.Helper()
	log, err := os.Create(filepath.Join(dir, name+".log"))
	if err != nil {
		t.Fatal(err)
	}
	a := &actor{t: t, name: name, args: args, log: log, dir: dir}
	t.Cleanup(func() {
		a.kill()
		log.Close()
	})
	return a
}

func (a *actor) start() {
	a.t.Helper()
	path := cortexPath(a.t)
	cmd := exec.Command(path, a.args...)
	cmd.Env = []string{"GORACE=" + os.Getenv("GORACE"), "PATH=" + os.Getenv("PATH"), "HOME=" + a.dir}
	cmd.Dir, cmd.Stdout, cmd.Stderr = a.dir, a.log, a.log
	if err := cmd.Start(); err != nil {
		a.t.Fatal(err)
	}
	ended := make(chan struct{})
	a.mu.Lock()
	a.cmd, a.ended, a.wanted = cmd, ended, true
	a.mu.Unlock()
	go func() {
		err := cmd.Wait()
		a.mu.Lock()
		if a.wanted && a.cmd == cmd {
			log, _ := os.ReadFile(a.log.Name())
			a.t.Errorf("%s ended by itself: %v; its last words:\n%s", a.name, err, log[max(0, len(log)-1500):])
		}
		a.mu.Unlock()
		close(ended)
	}()
}

// kill kills the process with SIGKILL.
func (a *actor) kill() { a.signal(syscall.SIGKILL) }

// end asks the process to end.
func (a *actor) end() { a.signal(syscall.SIGTERM) }

func (a *actor) signal(s syscall.Signal) {
	a.mu.Lock()
	cmd, ended := a.cmd, a.ended
	a.cmd, a.wanted = nil, false
	a.mu.Unlock()
	if cmd == nil {
		return
	}
	_ = cmd.Process.Signal(s) // it may have ended
	select {
	case <-ended:
	case <-time.After(patience):
		_ = cmd.Process.Kill() // an error is found below
		<-ended
		a.t.Errorf("%s does not end when it is told %v", a.name, s)
	}
}

// freeze stops the process for a while.
func (a *actor) freeze(t *testing.T, d time.Duration) {
	a.mu.Lock()
	cmd := a.cmd
	a.mu.Unlock()
	if cmd == nil {
		return
	}
	_ = cmd.Process.Signal(syscall.SIGSTOP) // it may have ended
	pause(t, d)
	_ = cmd.Process.Signal(syscall.SIGCONT)
}

// talk is a conversation: its messages, and what the log has of them.
type talk struct {
	id       string
	answered chan struct{} // has an element when an answer has arrived

	mu     sync.Mutex
	said   []string // ids of accepted messages, in order
	causes []string // ids of messages in the log
	turns  map[string]string
	says   map[string][]string // by message: the answers of its turn
}

// speak sends one message after the other until ctx ends. It repeats each until it is accepted, or alive ends.
func (k *talk) speak(ctx, alive context.Context, nc *natsgo.Conn) {
	for n := 0; ctx.Err() == nil; n++ {
		id := k.id + "-" + strconv.Itoa(n)
		for alive.Err() == nil && !k.say(nc, id) {
			select {
			case <-time.After(100 * time.Millisecond):
			case <-alive.Done():
			}
		}
		k.mu.Lock()
		k.said = append(k.said, id)
		k.mu.Unlock()
		for ctx.Err() == nil && k.open() >= stormWindow {
			select {
			case <-k.answered:
			case <-ctx.Done():
			}
		}
	}
}

// say publishes a message as the documentation of the subjects describes, and reports whether the stream has acknowledged it.
func (k *talk) say(nc *natsgo.Conn, id string) bool {
	user := "user:" + k.id
	m := natsgo.NewMsg("cortex.v1.inbox._.cortex." + strconv.Itoa(transport.Partition("", k.id)) + "." + k.id + "." + transport.Escape(user))
	m.Header = natsgo.Header{
		"Nats-Msg-Id": {"storm." + id}, "Cortex-Id": {id}, "Cortex-Kind": {"message"}, "Cortex-Version": {"1"},
		"Cortex-Time": {time.Now().UTC().Format(time.RFC3339Nano)},
	}
	m.Data = fmt.Appendf(nil, `{"messageId":%q,"contextId":%q,"role":"ROLE_USER","parts":[{"text":"@shout %s"}]}`, id, k.id, id)
	reply, err := nc.RequestMsg(m, time.Second)
	return err == nil && strings.Contains(string(reply.Data), `"stream":"CORTEX_INBOX"`) && !strings.Contains(string(reply.Data), `"error"`)
}

// open returns the number of unanswered messages.
func (k *talk) open() int {
	k.mu.Lock()
	defer k.mu.Unlock()
	n := 0
	for _, id := range k.said {
		if len(k.says[id]) == 0 {
			n++
		}
	}
	return n
}

// entry has the fields of an entry that a reader of the stream needs.
type entry struct {
	Seq   int
	Turn  string
	Cause struct {
		ID, From string
		Kind     string
	}
	Decision *struct{ Kind, Say string }
	Failure  string
}

// readLogs follows the stream of the logs until ctx ends.
func readLogs(ctx context.Context, t *testing.T, nc *natsgo.Conn, talks []*talk) {
	js, err := jetstream.New(nc)
	if err != nil {
		t.Error(err)
		return
	}
	for next := uint64(1); ctx.Err() == nil; {
		stream, err := js.Stream(ctx, "CORTEX_LOG")
		if err != nil {
			pause(t, 50*time.Millisecond)
			continue
		}
		m, err := stream.GetMsg(ctx, next, jetstream.WithGetMsgSubject("cortex.v1.log.>"))
		if errors.Is(err, jetstream.ErrMsgNotFound) || err != nil {
			pause(t, 20*time.Millisecond)
			continue
		}
		next = m.Sequence + 1
		tokens := strings.Split(m.Subject, ".")
		for _, k := range talks {
			if k.id == tokens[len(tokens)-1] {
				if err := k.read(m.Data); err != nil {
					t.Errorf("%s: %v", m.Subject, err)
				}
			}
		}
	}
}

func (k *talk) read(b []byte) error {
	var e entry
	if err := json.Unmarshal(b, &e); err != nil {
		return err
	}
	k.mu.Lock()
	defer k.mu.Unlock()
	if k.turns == nil {
		k.turns, k.says = map[string]string{}, map[string][]string{}
	}
	if strings.HasPrefix(e.Cause.From, "user:") {
		k.causes = append(k.causes, e.Cause.ID)
		k.turns[e.Turn] = e.Cause.ID
	}
	answer := e.Failure
	if e.Decision != nil && e.Decision.Kind != "delegate" {
		answer = e.Decision.Say
	}
	if id := k.turns[e.Turn]; answer != "" && id != "" {
		k.says[id] = append(k.says[id], answer)
		select {
		case k.answered <- struct{}{}:
		default:
		}
	}
	return nil
}

// judge checks that every accepted message is in the log once, in order, with one answer, the right one.
func (k *talk) judge(t *testing.T) {
	if !slices.Equal(k.said, k.causes) {
		t.Errorf("%s: the log has the messages\n%v\nwant, as they were accepted,\n%v", k.id, k.causes, k.said)
	}
	for _, id := range k.said {
		if got := k.says[id]; len(got) != 1 || got[0] != "done: "+id {
			t.Errorf("%s: answers %q, want one: %q", id, got, "done: "+id)
		}
	}
}
