package mirror_test

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/a2aproject/a2a-go/v2/a2a"
	"github.com/jackc/pgx/v5"
	"github.com/nats-io/nats-server/v2/server"
	"github.com/nats-io/nats.go"

	"github.com/cortex-orchestrator/cortex/cortex/conversation"
	"github.com/cortex-orchestrator/cortex/cortex/jetstore"
	"github.com/cortex-orchestrator/cortex/llm"
	"github.com/cortex-orchestrator/cortex/mirror"
	"github.com/cortex-orchestrator/cortex/mirror/mirrortest"
	"github.com/cortex-orchestrator/cortex/transport"
)

// here reports whether there is a PostgreSQL for the tests.
var here bool

func TestMain(m *testing.M) {
	var err error
	if here, err = mirrortest.Here(os.Stderr, "the tests of package mirror with a database"); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
	status := m.Run()
	mirrortest.CloseShared()
	os.Exit(status)
}

// world is a log and an empty database.
type world struct {
	t    testing.TB
	log  *jetstore.Store
	nc   *nats.Conn
	dir  string
	url  string
	db   *pgx.Conn
	stop func()       // ends the server of the log
	read mirror.Store // what mirrors read; nil: log
	at   time.Time    // of the next entries; zero: seconds after epoch

	versions map[string]conversation.Version
	seqs     map[string]uint64
}

// newWorld returns nil when there is no PostgreSQL, which TestMain has told.
func newWorld(t testing.TB) *world {
	t.Helper()
	if !here {
		return nil
	}
	s, err := mirrortest.Shared()
	if err != nil {
		t.Fatal(err)
	}
	w := &world{t: t, dir: t.TempDir(), versions: map[string]conversation.Version{}, seqs: map[string]uint64{}}
	if w.url, err = s.Database(t.Context()); err != nil {
		t.Fatal(err)
	}
	if w.db, err = pgx.Connect(t.Context(), w.url); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { w.db.Close(context.Background()) })
	w.begin()
	return w
}

// begin starts the server of the log.
func (w *world) begin() {
	w.t.Helper()
	srv, err := server.NewServer(&server.Options{JetStream: true, StoreDir: w.dir, MaxPayload: 8 << 20, DontListen: true, NoLog: true, NoSigs: true})
	if err != nil {
		w.t.Fatal(err)
	}
	srv.Start()
	if w.nc, err = nats.Connect("", nats.InProcessServer(srv)); err != nil {
		w.t.Fatal(err)
	}
	nc := w.nc
	w.stop = func() {
		nc.Close()
		srv.Shutdown()
		srv.WaitForShutdown()
	}
	w.t.Cleanup(w.stop)
	if w.log, err = jetstore.Open(w.t.Context(), w.nc, nil); err != nil {
		w.t.Fatal(err)
	}
}

var epoch = time.Date(2026, 11, 20, 18, 0, 0, 123456000, time.UTC)

// append appends an entry to a conversation of a tenant.
func (w *world) append(tenant, contextID string, e *conversation.Entry) conversation.Version {
	w.t.Helper()
	key := tenant + "/" + contextID
	e.Seq = w.seqs[key] + 1
	if e.Time.IsZero() {
		e.Time = w.at
	}
	if e.Time.IsZero() {
		e.Time = epoch.Add(time.Duration(e.Seq) * time.Second)
	}
	if e.Seq == 1 && e.Life == "" {
		e.Life = "life of " + contextID
	}
	v, err := w.log.Append(w.t.Context(), tenant, contextID, w.versions[key], e)
	if err != nil {
		w.t.Fatal(err)
	}
	w.versions[key], w.seqs[key] = v, e.Seq
	return v
}

// say appends a message that is answered.
func (w *world) say(tenant, contextID, text string) conversation.Version {
	w.t.Helper()
	id := fmt.Sprintf("m%d", w.seqs[tenant+"/"+contextID]+1)
	return w.append(tenant, contextID, &conversation.Entry{
		Turn:  "turn of " + id,
		Cause: message(tenant, contextID, id, text),
		Decision: &llm.Decision{
			Kind: llm.KindRespond, Say: "yes", Model: "m", Usage: llm.Usage{Input: 100, Cached: 10, Output: 20, Cost: 0.5},
		},
	})
}

func message(tenant, contextID, id, text string) *transport.Event {
	return &transport.Event{
		ID: id, Time: epoch, From: "user", To: transport.Cortex, Tenant: tenant, ContextID: contextID,
		Payload: &a2a.Message{ID: id, ContextID: contextID, Role: a2a.MessageRoleUser, Parts: a2a.ContentParts{a2a.NewTextPart(text)}},
	}
}

// delegate appends a message that is delegated to an agent, and returns the task.
func (w *world) delegate(contextID, agent string) a2a.TaskID {
	w.t.Helper()
	id := fmt.Sprintf("m%d", w.seqs["/"+contextID]+1)
	e := &conversation.Entry{
		Turn: "turn of " + id, Cause: message("", contextID, id, "work"), Deadline: epoch.Add(time.Hour),
		Decision: &llm.Decision{Kind: llm.KindDelegate, Delegations: []llm.Delegation{{ID: "1", Agent: agent, Skill: "s", Task: "do"}}},
	}
	w.append("", contextID, e)
	c := w.fold("", contextID)
	for id, t := range c.Tasks {
		if t.SentSeq == e.Seq {
			return id
		}
	}
	w.t.Fatal("no task")
	return ""
}

// report appends what an agent reports about a task.
func (w *world) report(contextID, agent, turn string, task a2a.TaskID, state a2a.TaskState, d *llm.Decision) {
	w.t.Helper()
	w.append("", contextID, &conversation.Entry{
		Turn: turn, Decision: d,
		Cause: &transport.Event{
			ID: fmt.Sprintf("r%d", w.seqs["/"+contextID]), Time: epoch, From: agent, To: transport.Cortex, ContextID: contextID,
			Payload: &a2a.Task{ID: task, ContextID: contextID, Status: a2a.TaskStatus{State: state, Message: a2a.NewMessage(a2a.MessageRoleAgent, a2a.NewTextPart("so it is"))}},
		},
	})
}

// fold folds a conversation by the log alone.
func (w *world) fold(tenant, contextID string) *conversation.Conversation {
	w.t.Helper()
	c := conversation.NewConversation(tenant, contextID)
	for e, err := range w.log.Load(w.t.Context(), tenant, contextID, 0) {
		if err == nil {
			err = c.Apply(e)
		}
		if err != nil {
			w.t.Fatal(err)
		}
	}
	return c
}

// erase erases a conversation.
func (w *world) erase(tenant, contextID string) {
	w.t.Helper()
	if err := w.log.Erase(w.t.Context(), tenant, contextID); err != nil {
		w.t.Fatal(err)
	}
	delete(w.versions, tenant+"/"+contextID)
	delete(w.seqs, tenant+"/"+contextID)
}

// running is a mirror that runs.
type running struct {
	stop func()
	log  *logs
}

// run runs a mirror until stop, or the end of the test.
func (w *world) run(o mirror.Options) *running {
	w.t.Helper()
	r := &running{log: &logs{}}
	o.Postgres = cmp.Or(o.Postgres, w.url)
	o.Logger = slog.New(slog.NewTextHandler(r.log, nil))
	if w.read == nil {
		w.read = w.log
	}
	m, err := mirror.New(w.read, &o)
	if err != nil {
		w.t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(context.Background())
	ended := make(chan error, 1)
	go func() { ended <- m.Run(ctx) }()
	r.stop = sync.OnceFunc(func() {
		cancel()
		if err := <-ended; err != nil {
			w.t.Errorf("Run = %v", err)
		}
	})
	w.t.Cleanup(r.stop)
	return r
}

// logs collects lines.
type logs struct {
	mu   sync.Mutex
	text strings.Builder
}

func (l *logs) Write(b []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.text.Write(b)
}

func (l *logs) String() string {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.text.String()
}

// patience bounds the wait for a condition.
const patience = 60 * time.Second

// await waits until f is true.
func (w *world) await(what string, f func() bool) {
	w.t.Helper()
	for end := time.Now().Add(patience); !f(); <-time.After(10 * time.Millisecond) {
		if time.Now().After(end) {
			w.t.Fatalf("%s: not in time", what)
		}
	}
}

// complete waits until the mirror has everything, and checks that.
func (w *world) complete() *mirror.Report {
	w.t.Helper()
	r, err := mirror.Check(w.t.Context(), w.log, &mirror.Options{Postgres: w.url}, patience)
	if err != nil {
		w.t.Fatal(err)
	}
	if !r.Complete() {
		w.t.Fatalf("the mirror is not complete: %+v", r)
	}
	return r
}

// one returns the single value of a query.
func (w *world) one(query string, args ...any) any {
	w.t.Helper()
	var v any
	if err := w.db.QueryRow(w.t.Context(), query, args...).Scan(&v); err != nil && !errors.Is(err, pgx.ErrNoRows) {
		w.t.Fatalf("%s: %v", query, err)
	}
	return v
}

// rows returns the rows of a query as JSON, one in a line.
func (w *world) rows(query string, args ...any) string {
	w.t.Helper()
	rows, err := w.db.Query(w.t.Context(), query, args...)
	if err != nil {
		w.t.Fatalf("%s: %v", query, err)
	}
	all, err := pgx.CollectRows(rows, func(row pgx.CollectableRow) (string, error) {
		v, err := row.Values()
		b, _ := json.Marshal(v)
		return string(b), err
	})
	if err != nil {
		w.t.Fatalf("%s: %v", query, err)
	}
	return strings.Join(all, "\n")
}
