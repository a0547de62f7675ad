package mirror_test

import (
	"context"
	"errors"
	"fmt"
	"net"
	"os"
	"path/filepath"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/a2aproject/a2a-go/v2/a2a"
	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"
	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"github.com/cortex-orchestrator/cortex/agents"
	"github.com/cortex-orchestrator/cortex/cortex/conversation"
	"github.com/cortex-orchestrator/cortex/cortex/jetstore"
	"github.com/cortex-orchestrator/cortex/cortex/storage"
	"github.com/cortex-orchestrator/cortex/llm"
	"github.com/cortex-orchestrator/cortex/mirror"
	"github.com/cortex-orchestrator/cortex/mirror/mirrortest"
	"github.com/cortex-orchestrator/cortex/transport"
	"github.com/cortex-orchestrator/cortex/transport/memory"
)

// TestViews checks what the views show of turns, tasks, tokens and costs.
func TestViews(t *testing.T) {
	w := newWorld(t)
	if w == nil {
		return
	}
	w.say("", "talk", "hello")
	task := w.delegate("talk", "echo")
	turn := fmt.Sprintf("turn of m%d", 2)
	w.report("talk", "echo", turn, task, a2a.TaskStateWorking, nil)
	w.report("talk", "echo", turn, task, a2a.TaskStateCompleted, &llm.Decision{Kind: llm.KindRespond, Say: "done", Model: "m", Usage: llm.Usage{Input: 7, Output: 3, Cost: 0.25}})
	failed := w.delegate("talk", "echo")
	w.report("talk", "echo", "turn of m5", failed, a2a.TaskStateFailed, nil)
	w.append("", "talk", &conversation.Entry{Turn: "turn of m7", Cause: message("", "talk", "m7", "why?"), Failure: "no model", Usage: llm.Usage{Input: 5}})
	w.run(mirror.Options{})
	w.complete()
	for query, want := range map[string]string{
		"SELECT seq, event_type, decision, body->>'seq' FROM cortex.v_entries ORDER BY version": `[1,"message.received","respond","1"]
[2,"message.received","delegate","2"]
[3,"task.progress",null,"3"]
[4,"task.result","respond","4"]
[5,"message.received","delegate","5"]
[6,"task.result",null,"6"]
[7,"message.received","failure","7"]`,
		"SELECT turn_id, user_id, outcome, failed, steps, tasks, input_tokens, output_tokens, cached_tokens, cost, error, seconds FROM cortex.v_turns ORDER BY asked": `["turn of m1","user","respond",false,1,0,100,20,10,0.5,null,0]
["turn of m2","user","respond",false,2,1,7,3,0,0.25,null,2]
["turn of m5","user","open",false,1,1,0,0,0,0,null,null]
["turn of m7","user","failed",true,0,0,5,0,0,0,"no model",0]`,
		"SELECT turn_id, agent, skill, state, attempts, seconds, reason FROM cortex.v_tasks ORDER BY created": `["turn of m2","echo","s","TASK_STATE_COMPLETED",1,2,null]
["turn of m5","echo","s","TASK_STATE_FAILED",1,1,"so it is"]`,
		"SELECT day::text, model, calls, input_tokens, output_tokens, cached_tokens FROM cortex.v_tokens_daily ORDER BY model": `["2026-11-20","",1,5,0,0]
["2026-11-20","m",2,107,23,10]`,
		"SELECT day::text, model, purpose, cost FROM cortex.v_cost_daily WHERE cost > 0":             `["2026-11-20","m","decision",0.75]`,
		"SELECT agent, tasks, completed, failed, p50_seconds FROM cortex.v_agent_success":            `["echo",2,1,1,1.5]`,
		"SELECT context_id, owner, entries, turns, input_tokens, damage FROM cortex.v_conversations": `["talk","user",7,4,112,null]`,
		"SELECT event_type, count(*) FROM cortex.v_events WHERE event_type LIKE 'task.%' GROUP BY 1 ORDER BY 1": `["task.assigned",2]
["task.completed",1]
["task.created",2]
["task.failed",1]
["task.progress",1]
["task.result",2]`,
	} {
		if got := w.rows(query); got != want {
			t.Errorf("%s = \n%s\nwant\n%s", query, got, want)
		}
	}
}

// TestOnce runs three mirrors of one log at the same time, ends and begins them while it grows, and ends their connections: every entry is there once.
func TestOnce(t *testing.T) {
	w := newWorld(t)
	if w == nil {
		return
	}
	mirrors := []*running{w.run(mirror.Options{}), w.run(mirror.Options{}), w.run(mirror.Options{})}
	for i := range 30 {
		for j := range 20 {
			w.say("", fmt.Sprint("talk ", j), fmt.Sprint("text ", i))
		}
		switch i % 3 {
		case 0:
			mirrors[i/3%3].stop()
			mirrors[i/3%3] = w.run(mirror.Options{})
		case 1:
			w.one("SELECT count(pg_terminate_backend(pid)) FROM pg_stat_activity WHERE application_name = 'cortex mirror' AND datname = current_database()")
		}
	}
	if r := w.complete(); r.Entries != 600 || r.Mirrored != 600 {
		t.Errorf("the mirror has %d of %d entries, want 600", r.Mirrored, r.Entries)
	}
	if got := w.rows("SELECT entries, turns, input_tokens, damage, count(*) FROM cortex.conversations GROUP BY 1, 2, 3, 4"); got != "[30,30,3000,null,20]" {
		t.Errorf("the conversations are %s", got)
	}
	if got := w.rows("SELECT count(*), sum(input_tokens)::bigint FROM cortex.turns"); got != "[600,60000]" {
		t.Errorf("the turns are %s", got)
	}
}

// TestFence checks that a mirror whose position was moved by somebody else writes nothing twice: it reads the position again.
func TestFence(t *testing.T) {
	w := newWorld(t)
	if w == nil {
		return
	}
	w.say("", "a", "1")
	one := w.run(mirror.Options{})
	w.complete()
	// The lock of the mirror is lost, as when its connection is cut off unnoticed, and another one takes over.
	w.one("SELECT count(*) FROM cortex.logs")
	two := w.run(mirror.Options{})
	w.await("the second one stands by", func() bool { return strings.Contains(two.log.String(), "stands by") })
	tx, err := w.db.Begin(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	if _, err := tx.Exec(t.Context(), "SELECT FROM cortex.logs FOR UPDATE"); err != nil {
		t.Fatal(err)
	}
	v := w.say("", "a", "2") // the first one waits for the lock of the row
	w.await("the first one waits", func() bool {
		var n int
		err := tx.QueryRow(t.Context(), "SELECT count(*) FROM pg_stat_activity WHERE datname = current_database() AND wait_event_type = 'Lock'").Scan(&n)
		return err == nil && n > 0
	})
	if _, err := tx.Exec(t.Context(), "UPDATE cortex.logs SET position = $1", int64(v)); err != nil {
		t.Fatal(err)
	}
	if _, err := tx.Exec(t.Context(), "INSERT INTO cortex.entries (log, version, stored, tenant, context_id, event_type, size, sum) SELECT log, $1, now(), '', 'a', 'test', 0, 0 FROM cortex.logs", int64(v)); err != nil {
		t.Fatal(err)
	}
	if err := tx.Commit(t.Context()); err != nil {
		t.Fatal(err)
	}
	w.await("the first one begins again", func() bool { return strings.Contains(one.log.String(), "another mirror has written") })
	one.stop()
	two.stop()
	if got := w.one("SELECT count(*) FROM cortex.entries WHERE version = $1", int64(v)); got != int64(1) {
		t.Errorf("there are %v rows of the entry, want 1", got)
	}
}

// TestStrange mirrors entries with everything that PostgreSQL does not take.
func TestStrange(t *testing.T) {
	w := newWorld(t)
	if w == nil {
		return
	}
	w.say("", "a", "before")
	w.say("", "nul", "zero \x00 and \xff and \u2028")
	w.append("", "far", &conversation.Entry{Time: time.Date(9999, 12, 31, 23, 59, 59, 999999999, time.UTC), Cause: message("", "far", "m", "late"), Failure: "x"})
	w.append("", "early", &conversation.Entry{Time: time.Date(1, 1, 1, 0, 0, 0, 1, time.UTC), Cause: message("", "early", "m", "early"), Failure: "x"})
	w.append("", "rich", &conversation.Entry{
		Turn: "t", Cause: message("", "rich", "m", "tokens"),
		Decision: &llm.Decision{Kind: llm.KindRespond, Usage: llm.Usage{Input: 1 << 62, Output: -5, Cost: 1e300}},
	})
	huge := w.append("", "huge", &conversation.Entry{Turn: "t", Cause: message("", "huge", "m", "x"), Failure: strings.Repeat("x", 3<<20)})
	raw := func(subject, text string, header nats.Header) {
		t.Helper()
		if _, err := w.log2().PublishMsg(t.Context(), &nats.Msg{Subject: subject, Data: []byte(text), Header: header}); err != nil {
			t.Fatal(err)
		}
	}
	const whole = `{"seq":1,"time":"2026-11-20T18:00:01Z","cause":{"id":"m","time":"2026-11-20T18:00:00Z","from":"user","to":"cortex","contextId":"c","kind":"message","payload":{"kind":"message","messageId":"m","role":"ROLE_USER","parts":[{"text":%q}],"metadata":{"n":%s}}}}`
	raw("cortex.v1.log._.cut", `{"seq":1,"time":"2026`, nil)                             // the end is missing
	raw("cortex.v1.log._.altered", `{"seq":1}`, nats.Header{"Cortex-Sum": {"1"}})        // the checksum is another one
	raw("cortex.v1.log.neither", `{}`, nil)                                              // not of a conversation
	raw("cortex.v1.log._.empty", "", nil)                                                // nothing
	raw("cortex.v1.log._.number", fmt.Sprintf(whole, "big", "1e999999"), nil)            // jsonb has no such number
	raw("cortex.v1.log._.big", fmt.Sprintf(whole, "big", strings.Repeat("9", 400)), nil) // but this one
	raw("cortex.v1.log._.pairs", strings.Replace(fmt.Sprintf(whole, "Q", "1"), `"Q"`, `"\ud800 \udc00 \ud83d\ude00 \\u0000 \u0000"`, 1), nil)
	raw("cortex.v1.log._.deep", fmt.Sprintf(whole, "deep", strings.Repeat("[", 9000)+strings.Repeat("]", 9000)), nil)
	w.say("", "a", "after")
	m := w.run(mirror.Options{})
	r := w.complete()
	if r.Entries != 15 {
		t.Errorf("the log has %d entries, want 15", r.Entries)
	}
	if got := w.rows("SELECT entries, turns FROM cortex.conversations WHERE context_id = 'a'"); got != "[2,2]" {
		t.Errorf("a healthy conversation is %s", got)
	}
	if got := w.rows("SELECT context_id FROM cortex.v_quarantine WHERE raw IS NOT NULL ORDER BY version"); got != "[\"cut\"]\n[\"altered\"]\n[\"\"]\n[\"empty\"]\n[\"number\"]" {
		t.Errorf("in quarantine are %s\n%s", got, m.log)
	}
	if got := w.rows("SELECT body->'cause'->'payload'->'parts'->0->>'text' FROM cortex.entries WHERE context_id = 'pairs'"); got != `["\ufffd \ufffd 😀 \\u0000 \ufffd"]` && got != "[\"\uFFFD \uFFFD 😀 \\\\u0000 \uFFFD\"]" {
		t.Errorf("the text is %s", got)
	}
	if got := w.one("SELECT size FROM cortex.entries WHERE version = $1", int64(huge)); got.(int64) < 3<<20 {
		t.Errorf("the size is %v", got)
	}
	if got := w.rows("SELECT entry_time::text FROM cortex.entries WHERE context_id IN ('far', 'early') ORDER BY 1"); got != "[\"0001-01-01 00:00:00+00\"]\n[\"9999-12-31 23:59:59+00\"]" {
		t.Errorf("the times are %s", got)
	}
	if strings.Count(m.log.String(), "in quarantine") != 5 {
		t.Errorf("the log says:\n%s", m.log)
	}
}

// log2 returns the log's stream, for messages that Cortex does not write.
func (w *world) log2() jetstream.JetStream {
	w.t.Helper()
	js, err := jetstream.New(w.nc)
	if err != nil {
		w.t.Fatal(err)
	}
	return js
}

// TestErased erases conversations while the mirror runs, while it does not, and one that begins anew with the same id. A conversation that stays has what
// it had.
func TestErased(t *testing.T) {
	w := newWorld(t)
	if w == nil {
		return
	}
	for _, id := range []string{"while", "off", "anew", "stays"} {
		for range 3 {
			w.say("", id, "words of "+id)
		}
	}
	task := w.delegate("off", "echo")
	_ = task
	m := w.run(mirror.Options{})
	w.complete()
	gone := func(id string) func() bool {
		return func() bool {
			for _, table := range []string{"entries", "conversations", "turns", "tasks", "spending"} {
				if w.one("SELECT count(*) FROM cortex."+table+" WHERE context_id = $1", id) != int64(0) {
					return false
				}
			}
			return true
		}
	}
	if _, err := w.log2().Publish(t.Context(), "cortex.v1.log.erased", fmt.Append(nil, w.versions["/stays"])); err != nil { // said ahead, and then of another one
		t.Fatal(err)
	}
	w.erase("", "while")
	w.await("what was erased is deleted", gone("while"))
	m.stop()
	w.erase("", "off")
	w.erase("", "anew")
	w.say("", "anew", "other words")
	w.say("", "brief", "never seen")
	w.erase("", "brief")
	w.run(mirror.Options{})
	w.await("what was erased meanwhile is deleted", gone("off"))
	w.await("the earlier life is deleted", func() bool { return w.one("SELECT count(*) FROM cortex.entries WHERE context_id = 'anew'") == int64(1) })
	w.complete()
	if !gone("brief")() {
		t.Error("something is left of a conversation that was erased before it was mirrored")
	}
	if got := w.rows("SELECT context_id, entries, turns, input_tokens FROM cortex.conversations ORDER BY 1"); got != `["anew",1,1,100]
["stays",3,3,300]` {
		t.Errorf("the conversations are %s", got)
	}
	if got := w.rows("SELECT context_id, count(*) FROM cortex.spending GROUP BY 1 ORDER BY 1"); got != "[\"anew\",1]\n[\"stays\",3]" {
		t.Errorf("the spending is %s", got)
	}
	if got := w.rows("SELECT version FROM cortex.erasing"); got != fmt.Sprintf("[%d]", w.versions["/stays"]) {
		t.Errorf("%s is being erased, want what is still there", got)
	}
}

// interrupted calls a function before it reads records, each time that it is set.
type interrupted struct {
	*jetstore.Store
	before atomic.Pointer[func()]
}

func (i *interrupted) Records(ctx context.Context, after conversation.Version) ([]storage.Record, error) {
	if f := i.before.Swap(nil); f != nil {
		(*f)()
	}
	return i.Store.Records(ctx, after)
}

// TestAnew makes the log's stream anew just before the mirror reads on, with more entries than it had: it is mirrored from its beginning, beside what was
// mirrored before.
func TestAnew(t *testing.T) {
	w := newWorld(t)
	if w == nil {
		return
	}
	w.say("", "a", "1")
	w.say("", "a", "2")
	source := &interrupted{Store: w.log}
	w.read = source
	m := w.run(mirror.Options{})
	w.complete()
	done := make(chan error)
	again := func() {
		err := w.log2().DeleteStream(t.Context(), "CORTEX_LOG")
		if err == nil {
			_, err = jetstore.Open(t.Context(), w.nc, nil) // makes it
		}
		w.versions, w.seqs = map[string]conversation.Version{}, map[string]uint64{}
		for i := range 3 {
			w.say("", "a", fmt.Sprint(i))
		}
		done <- err
	}
	source.before.Store(&again)
	if err := <-done; err != nil {
		t.Fatal(err)
	}
	if r := w.complete(); r.Entries != 3 {
		t.Errorf("the log has %d entries, want 3", r.Entries)
	}
	if got := w.rows("SELECT count(*) FROM cortex.entries GROUP BY log ORDER BY log"); got != "[2]\n[3]" {
		t.Errorf("the entries of the logs are %s", got)
	}
	if !strings.Contains(m.log.String(), "the log is another one than before") {
		t.Errorf("nothing is said of it:\n%s", m.log)
	}
}

// TestLostEnd takes the end of the log away, as a power failure does, and lets it go on otherwise.
func TestLostEnd(t *testing.T) {
	w := newWorld(t)
	if w == nil {
		return
	}
	w.say("", "a", "1")
	before := w.versions["/a"]
	w.say("", "b", "1")
	m := w.run(mirror.Options{})
	w.complete()
	m.stop()
	// Rows that the log does not have: versions 3 and 4 were lost with it, and 2 was another entry.
	for _, query := range []string{
		"UPDATE cortex.entries SET sum = sum + 1 WHERE version = 2",
		"INSERT INTO cortex.entries (log, version, stored, tenant, context_id, event_type, size, sum) SELECT log, v, now(), '', 'b', 'test', 0, 0 FROM cortex.logs, generate_series(3, 400) v",
		"UPDATE cortex.logs SET position = 400",
	} {
		if _, err := w.db.Exec(t.Context(), query); err != nil {
			t.Fatal(err)
		}
	}
	r, err := mirror.Check(t.Context(), w.log, &mirror.Options{Postgres: w.url}, 0)
	if err != nil {
		t.Fatal(err)
	}
	if r.Complete() || r.Extra.Count != 398 || r.Different.Count != 1 || r.Extra.Some[0] != 3 || len(r.Extra.Some) != 100 {
		t.Errorf("Check = %+v", r)
	}
	m = w.run(mirror.Options{})
	w.await("it goes back", func() bool { return strings.Contains(m.log.String(), "mirrored again") })
	w.complete()
	w.say("", "b", "2")
	w.complete()
	if !strings.Contains(m.log.String(), fmt.Sprintf("mirrored again from there\" from=%d was=400", before)) {
		t.Errorf("the log says:\n%s", m.log)
	}
	if got := w.rows("SELECT context_id, entries FROM cortex.conversations ORDER BY 1"); got != "[\"a\",1]\n[\"b\",2]" {
		t.Errorf("the conversations are %s", got)
	}
}

// TestCheck has rows missing, and changed.
func TestCheck(t *testing.T) {
	w := newWorld(t)
	if w == nil {
		return
	}
	check := func() (*mirror.Report, error) {
		return mirror.Check(t.Context(), w.log, &mirror.Options{Postgres: w.url}, 0)
	}
	if _, err := check(); err == nil || !strings.Contains(err.Error(), "no mirror of this log") {
		t.Errorf("Check without a mirror = %v", err)
	}
	for i := range 10 { // more than is compared at once
		w.say("", fmt.Sprint(i), strings.Repeat("x", 600<<10))
	}
	m := w.run(mirror.Options{})
	w.complete()
	m.stop()
	w.say("", "0", "after")
	if _, err := w.db.Exec(t.Context(), "DELETE FROM cortex.entries WHERE version IN (3, 10)"); err != nil {
		t.Fatal(err)
	}
	r, err := check()
	if err != nil || r.Complete() || r.Behind != 1 || r.Missing.Count != 2 || fmt.Sprint(r.Missing.Some) != "[3 10]" || r.Entries != 10 || r.Mirrored != 8 {
		t.Errorf("Check = %+v, %v", r, err)
	}
	// The words of a row are others, though its checksum is that of the log; and another has none, as in a mirror without words.
	for _, query := range []string{
		`UPDATE cortex.entries SET body = jsonb_set(body, '{seq}', '7') WHERE version = 5`, "UPDATE cortex.entries SET body = NULL WHERE version = 6",
	} {
		if _, err := w.db.Exec(t.Context(), query); err != nil {
			t.Fatal(err)
		}
	}
	if r, err = check(); err != nil || r.Missing.Count != 2 || r.Different.Count != 1 || fmt.Sprint(r.Different.Some) != "[5]" {
		t.Errorf("Check = %+v, %v", r, err)
	}
}

// TestCheckDerived has rows of what follows from entries missing, and one that follows from none: the check names them.
func TestCheckDerived(t *testing.T) {
	w := newWorld(t)
	if w == nil {
		return
	}
	w.say("", "talk", "hello")
	task := w.delegate("talk", "echo")
	w.report("talk", "echo", "turn of m2", task, a2a.TaskStateCompleted, &llm.Decision{Kind: llm.KindRespond, Say: "done", Model: "m", Usage: llm.Usage{Input: 7, Output: 3, Cost: 0.25}})
	m := w.run(mirror.Options{})
	w.complete()
	m.stop()
	for _, table := range []string{"conversations", "turns", "tasks", "spending"} {
		n := w.one("WITH gone AS (DELETE FROM cortex." + table + " RETURNING 1) SELECT count(*) FROM gone").(int64)
		r, err := mirror.Check(t.Context(), w.log, &mirror.Options{Postgres: w.url}, 0)
		if err != nil {
			t.Fatal(err)
		}
		named := 0
		for _, row := range r.MissingRows.Some {
			if strings.HasPrefix(row, table+" ") {
				named++
			}
		}
		if n == 0 || r.Complete() || int64(named) != n {
			t.Errorf("without %d rows of %s the report is %+v", n, table, r)
		}
	}
	if _, err := w.db.Exec(t.Context(), `INSERT INTO cortex.spending SELECT log, 1, 'other', '', context_id, '', now(), '', 0, 0, 0, 1, false FROM cortex.entries LIMIT 1`); err != nil {
		t.Fatal(err)
	}
	if r, err := mirror.Check(t.Context(), w.log, &mirror.Options{Postgres: w.url}, 0); err != nil || r.ExtraRows.Count != 1 || !strings.HasPrefix(r.ExtraRows.Some[0], "spending ") {
		t.Errorf("with a row of no entry: %+v, %v", r, err)
	}
	if _, err := w.db.Exec(t.Context(), "UPDATE cortex.spending SET context_id = 'erased'"); err != nil {
		t.Fatal(err)
	}
	if r, err := mirror.Check(t.Context(), w.log, &mirror.Options{Postgres: w.url}, 0); err != nil || r.ExtraRows.Count != 1 || !strings.Contains(r.ExtraRows.Some[0], `"erased"`) {
		t.Errorf("with a row of a conversation without entries: %+v, %v", r, err)
	}
}

// TestPositionSetBack has somebody set the position back, while the mirror runs and while it does not: it says so, and goes on.
func TestPositionSetBack(t *testing.T) {
	w := newWorld(t)
	if w == nil {
		return
	}
	for i := range 3 {
		w.say("", "a", fmt.Sprint(i))
	}
	m := w.run(mirror.Options{})
	w.complete()
	for _, runs := range []bool{true, false} {
		if !runs {
			m.stop()
		}
		if _, err := w.db.Exec(t.Context(), "UPDATE cortex.logs SET position = 1"); err != nil {
			t.Fatal(err)
		}
		w.say("", "a", "more")
		if !runs {
			m = w.run(mirror.Options{})
		}
		w.await("it says so", func() bool { return strings.Contains(m.log.String(), "was set back") })
		w.complete()
	}
}

// TestNoContent checks that no words are in any table.
func TestNoContent(t *testing.T) {
	const secret = "xyzzy"
	w := newWorld(t)
	if w == nil {
		return
	}
	w.say("", "a", secret)
	w.append("", "b", &conversation.Entry{Turn: "t", Cause: message("", "b", "m", "x"), Failure: secret})
	if _, err := w.log2().Publish(t.Context(), "cortex.v1.log._.c", []byte(secret)); err != nil {
		t.Fatal(err)
	}
	w.run(mirror.Options{NoContent: true})
	w.complete()
	for _, table := range []string{"entries", "turns", "tasks", "conversations", "spending", "quarantine"} {
		if n := w.one("SELECT count(*) FROM cortex."+table+" x WHERE x::text LIKE '%' || $1 || '%'", secret); n != int64(0) {
			t.Errorf("%s has words", table)
		}
	}
	if got := w.rows("SELECT count(*), count(raw) FROM cortex.quarantine"); got != "[1,0]" {
		t.Errorf("in quarantine are %s", got)
	}
	if got := w.rows("SELECT outcome, failed FROM cortex.v_turns ORDER BY context_id"); got != "[\"respond\",false]\n[\"failed\",true]" {
		t.Errorf("the turns are %s", got)
	}
}

// TestReaders checks that readers see their tenants only, and that nothing else is theirs.
func TestReaders(t *testing.T) {
	w := newWorld(t)
	if w == nil {
		return
	}
	w.say("", "a", "default")
	w.say("acme", "b", "acme")
	w.say("other", "c", "other")
	w.run(mirror.Options{})
	w.complete()
	for _, query := range []string{
		`DROP ROLE IF EXISTS "read one"`, "DROP ROLE IF EXISTS readgroup", "DROP ROLE IF EXISTS readall", "DROP ROLE IF EXISTS readnone",
		`CREATE ROLE "read one" LOGIN`, "CREATE ROLE readgroup", "CREATE ROLE readall LOGIN", "CREATE ROLE readnone LOGIN",
		`SELECT cortex.allow('read one', 'acme')`, "SELECT cortex.allow('readgroup', '')", `GRANT readgroup TO "read one"`, "SELECT cortex.allow('readall', '*')",
		"GRANT cortex_read TO readnone", "INSERT INTO cortex.readers VALUES ('no such role', '*')",
	} {
		if _, err := w.db.Exec(t.Context(), query); err != nil {
			t.Fatalf("%s: %v", query, err)
		}
	}
	as := func(role string) *pgx.Conn {
		t.Helper()
		c, err := pgx.ParseConfig(w.url)
		if err != nil {
			t.Fatal(err)
		}
		c.User = role
		conn, err := pgx.ConnectConfig(t.Context(), c)
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { conn.Close(context.Background()) })
		return conn
	}
	for role, want := range map[string]string{"read one": ",acme", "readall": ",acme,other", "readnone": "-"} {
		conn := as(role)
		for _, view := range []string{"v_entries", "v_turns", "v_conversations", "v_spending", "v_tokens_daily", "v_cost_daily", "v_events", "entries", "turns"} {
			var got string
			if err := conn.QueryRow(t.Context(), "SELECT coalesce(string_agg(DISTINCT tenant, ',' ORDER BY tenant), '-') FROM cortex."+view).Scan(&got); err != nil || got != want {
				t.Errorf("%s sees tenants %q in %s, %v, want %q", role, got, view, err, want)
			}
		}
		for _, query := range []string{
			"DELETE FROM cortex.entries", "UPDATE cortex.turns SET cost = 0", "INSERT INTO cortex.readers VALUES ('readnone', '*')", "SELECT cortex.allow('readnone', '*')",
			"SELECT * FROM cortex.readers", "SELECT * FROM cortex.logs", "SELECT * FROM cortex.entries_default", "CREATE TABLE cortex.mine ()",
		} {
			if _, err := conn.Exec(t.Context(), query); err == nil || !strings.Contains(err.Error(), "permission denied") {
				t.Errorf("%s: %s = %v, want no permission", role, query, err)
			}
		}
	}
	if _, err := w.db.Exec(t.Context(), "SELECT cortex.disallow('readall', '*')"); err != nil {
		t.Fatal(err)
	}
	var n int
	if err := as("readall").QueryRow(t.Context(), "SELECT count(*) FROM cortex.v_entries").Scan(&n); err != nil || n != 0 {
		t.Errorf("after disallow it sees %d entries, %v", n, err)
	}
}

// TestRetain drops a month that is too old, and takes rows out of the default partition. Of conversations that go on, what is of that month is gone as well, also
// where it changed later, as by a late result or in a turn that is still open: nothing of it is missing.
func TestRetain(t *testing.T) {
	w := newWorld(t)
	if w == nil {
		return
	}
	now := time.Now().UTC()
	old := now.AddDate(0, -5, 0)
	month := time.Date(old.Year(), old.Month(), 1, 0, 0, 0, 0, time.UTC)
	w.at = month
	w.say("", "a", "1")
	late := w.delegate("late", "echo")
	w.report("late", "echo", "turn of m1", late, a2a.TaskStateCompleted, &llm.Decision{Kind: llm.KindRespond, Say: "done", Model: "m", Usage: llm.Usage{Input: 7, Output: 3, Cost: 0.25}})
	open := w.delegate("open", "echo")
	w.at = now
	w.report("late", "echo", "turn of m1", late, a2a.TaskStateCompleted, nil)
	w.report("open", "echo", "turn of m1", open, a2a.TaskStateWorking, nil)
	w.say("", "b", "1")
	w.append("", "before", &conversation.Entry{ // stored after the month has ended, and decided before
		Turn: "turn of m1", Cause: message("", "before", "m1", "1"), Time: month,
		Decision: &llm.Decision{Kind: llm.KindRespond, Say: "yes", Model: "m", Usage: llm.Usage{Input: 7, Output: 3, Cost: 0.25}},
	})
	m := w.run(mirror.Options{})
	w.complete()
	m.stop()
	for _, query := range []string{
		fmt.Sprintf("CREATE TABLE cortex.entries_%s PARTITION OF cortex.entries FOR VALUES FROM ('%s') TO ('%s')", month.Format("2006_01"), month.Format(time.RFC3339), month.AddDate(0, 1, 0).Format(time.RFC3339)),
		"UPDATE cortex.entries SET stored = entry_time WHERE context_id <> 'before'",
	} {
		if _, err := w.db.Exec(t.Context(), query); err != nil {
			t.Fatalf("%s: %v", query, err)
		}
	}
	ahead := mirror.Options{Retain: 365 * 24 * time.Hour}
	ahead.At(func() time.Time { return time.Now().Add(400 * 24 * time.Hour) })
	m = w.run(ahead)
	w.await("it is told that the clocks differ", func() bool { return strings.Contains(m.log.String(), "clocks differ") })
	w.complete()
	m.stop()
	if strings.Contains(m.log.String(), "dropped what is too old") {
		t.Errorf("a clock that is wrong has rows dropped:\n%s", m.log)
	}
	m = w.run(mirror.Options{Retain: 90 * 24 * time.Hour})
	w.await("the month is dropped", func() bool { return strings.Contains(m.log.String(), "dropped what is too old") })
	if got := w.rows("SELECT context_id FROM cortex.turns"); got != `["b"]` {
		t.Errorf("the turns are those of %s", got)
	}
	r := w.complete()
	if r.Retired != 4 || r.Entries != 4 {
		t.Errorf("Check = %+v, want four entries, and four retired", r)
	}
	if got := w.rows("SELECT count(*) FROM cortex.entries_default"); got != "[0]" {
		t.Errorf("%s rows are in the default partition", got)
	}
	m.stop()
	if _, err := w.db.Exec(t.Context(), "DELETE FROM cortex.spending"); err != nil {
		t.Fatal(err)
	}
	if r, err := mirror.Check(t.Context(), w.log, &mirror.Options{Postgres: w.url}, 0); err != nil || r.MissingRows.Count != 1 || !strings.Contains(fmt.Sprint(r.MissingRows.Some), `"b"`) {
		t.Errorf("without what has been spent since: %+v, %v", r, err)
	}
}

// TestAway begins without a database that answers, and loses it: it is said once, and the mirror goes on.
func TestAway(t *testing.T) {
	w := newWorld(t)
	if w == nil {
		return
	}
	real, dir := strings.TrimSuffix(w.url[strings.Index(w.url, "host=")+len("host="):], "&user=test"), t.TempDir()
	socket := filepath.Join(dir, ".s.PGSQL.5432")
	l, err := new(net.ListenConfig).Listen(t.Context(), "unix", socket)
	if err != nil {
		t.Fatal(err)
	}
	w.say("", "a", "1")
	var waits atomic.Pointer[error]
	m := w.run(mirror.Options{Postgres: strings.Replace(w.url, real, dir, 1), Waits: func(why error) { waits.Store(&why) }})
	for range 6 { // more than one attempt, as each may connect twice
		c, err := l.Accept()
		if err != nil {
			t.Fatal(err)
		}
		c.Close()
	}
	if why := waits.Load(); why == nil || *why == nil || !strings.Contains((*why).Error(), "PostgreSQL") {
		t.Error("it does not tell that it waits for PostgreSQL")
	}
	l.Close() // removes the socket
	if err := os.Symlink(filepath.Join(real, ".s.PGSQL.5432"), socket); err != nil {
		t.Fatal(err)
	}
	w.complete()
	w.await("it goes on", func() bool { return strings.Contains(m.log.String(), "the mirror goes on") })
	if n := strings.Count(m.log.String(), "the mirror waits"); n != 1 {
		t.Errorf("it is said %d times:\n%s", n, m.log)
	}
	if why := *waits.Load(); why != nil {
		t.Errorf("it goes on, and tells that it waits: %v", why)
	}
}

// TestLocked begins a mirror while somebody has locked a table: that is told although nothing fails, and ends.
func TestLocked(t *testing.T) {
	w := newWorld(t)
	if w == nil {
		return
	}
	w.say("", "a", "1")
	before := w.run(mirror.Options{})
	w.complete()
	before.stop()
	w.say("", "a", "2")
	tx, err := w.db.Begin(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	if _, err := tx.Exec(t.Context(), "LOCK TABLE cortex.logs"); err != nil {
		t.Fatal(err)
	}
	o := mirror.Options{Waits: func(error) {}}
	o.Impatient()
	m := w.run(o)
	w.await("it waits", func() bool { return strings.Contains(m.log.String(), "PostgreSQL does not answer") })
	if err := tx.Rollback(t.Context()); err != nil {
		t.Fatal(err)
	}
	w.complete()
	w.await("it goes on", func() bool { return strings.Contains(m.log.String(), "the mirror goes on") })
}

// TestNewerSchema refuses the schema of a newer program, for good.
func TestNewerSchema(t *testing.T) {
	w := newWorld(t)
	if w == nil {
		return
	}
	m := w.run(mirror.Options{})
	w.complete()
	m.stop()
	if _, err := w.db.Exec(t.Context(), "INSERT INTO cortex.schema_version VALUES (99, 'newer')"); err != nil {
		t.Fatal(err)
	}
	n, err := mirror.New(w.log, &mirror.Options{Postgres: w.url})
	if err != nil {
		t.Fatal(err)
	}
	if err := n.Run(t.Context()); !transport.IsPermanent(err) || !strings.Contains(err.Error(), "newer Cortex: it has version 99") {
		t.Errorf("Run = %v", err)
	}
}

// TestModestOwner mirrors as somebody who owns a database and nothing else. It is told of each thing that keeps it from that, and an administrator lets others read.
func TestModestOwner(t *testing.T) {
	w := newWorld(t)
	if w == nil {
		return
	}
	s, err := mirrortest.New(false) // where no other test has made cortex_read
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(s.Close)
	admin, err := pgx.Connect(t.Context(), s.URL("postgres"))
	if err != nil {
		t.Fatal(err)
	}
	defer admin.Close(context.Background())
	do := func(conn *pgx.Conn, query string) {
		t.Helper()
		if _, err := conn.Exec(t.Context(), query); err != nil {
			t.Fatalf("%s: %v", query, err)
		}
	}
	do(admin, "CREATE ROLE modest LOGIN CONNECTION LIMIT 1") // the log needs one, and the agents another one
	do(admin, "CREATE ROLE reader LOGIN")
	as := func(user string) string { return strings.Replace(s.URL("audit"), "user=test", "user="+user, 1) }
	w.say("", "a", "1")
	bus := memory.New(nil)
	defer bus.Close()
	w.url = as("test") // for the checks
	m := w.run(mirror.Options{Postgres: as("modest"), Transport: bus})
	w.await("it is said that the database is not there", func() bool { return strings.Contains(m.log.String(), "3D000") })
	do(admin, "CREATE DATABASE audit")
	w.await("it is said that it may not make the schema", func() bool { return strings.Contains(m.log.String(), "42501") })
	do(admin, "ALTER DATABASE audit OWNER TO modest")
	w.complete()
	if n := strings.Count(m.log.String(), "the mirror waits"); n != 2 {
		t.Errorf("it is said %d times:\n%s", n, m.log)
	}
	w.await("it is said that agents are left out", func() bool { return strings.Contains(m.log.String(), "agents are not mirrored now") })
	w.say("", "b", "2")
	w.complete()
	do(admin, "ALTER ROLE modest CONNECTION LIMIT -1")
	allow := func(user string) (*pgx.Conn, error) {
		t.Helper()
		conn, err := pgx.Connect(t.Context(), as(user))
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { conn.Close(context.Background()) })
		_, err = conn.Exec(t.Context(), "SELECT cortex.allow('reader', '')")
		return conn, err
	}
	_, err = allow("modest")
	if pg, ok := errors.AsType[*pgconn.PgError](err); !ok || !strings.Contains(pg.Hint, "SELECT cortex.allow('reader', '')") {
		t.Errorf("allow = %v, want advice", err)
	}
	test, err := allow("test")
	if err != nil {
		t.Error(err)
	}
	card, handler, _ := agents.Lookup("echo")
	go agents.Serve(t.Context(), bus, card, handler, nil) //nolint:errcheck // it ends with the test
	w.await("agents are mirrored", func() bool {
		var n int
		return test.QueryRow(t.Context(), "SELECT count(*) FROM cortex.v_agents").Scan(&n) == nil && n == 1
	})
	conn, _ := allow("reader")
	var n int
	if err := conn.QueryRow(t.Context(), "SELECT count(*) FROM cortex.v_turns").Scan(&n); err != nil || n != 2 {
		t.Errorf("the reader sees %d turns, %v", n, err)
	}
}

// TestFull has a database that takes no more rows, as when a disk is full: that is said once, also after many attempts, and that the mirror goes on when it does.
func TestFull(t *testing.T) {
	w := newWorld(t)
	if w == nil {
		return
	}
	m := w.run(mirror.Options{})
	w.say("", "a", "1")
	w.complete()
	if _, err := w.db.Exec(t.Context(), `CREATE SEQUENCE tries;
		CREATE FUNCTION full_disk() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN PERFORM nextval('public.tries'); RAISE EXCEPTION 'no space' USING ERRCODE = 'disk_full'; END $$;
		CREATE TRIGGER full_disk BEFORE INSERT ON cortex.entries FOR EACH ROW EXECUTE FUNCTION full_disk()`); err != nil {
		t.Fatal(err)
	}
	w.say("", "a", "2")
	w.await("it was tried again", func() bool { return w.one("SELECT last_value FROM tries").(int64) >= 4 })
	if log := m.log.String(); strings.Count(log, "the mirror waits") != 1 || strings.Contains(log, "goes on\"") || strings.Count(log, "mirroring the log") != 1 {
		t.Errorf("it is said\n%s", log)
	}
	if _, err := w.db.Exec(t.Context(), "DROP TRIGGER full_disk ON cortex.entries"); err != nil {
		t.Fatal(err)
	}
	w.complete()
	w.await("it goes on", func() bool { return strings.Contains(m.log.String(), "msg=\"the mirror goes on\"") })
}
