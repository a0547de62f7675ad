package mirror_test

import (
	"context"
	"fmt"
	"testing"
	"time"

	"github.com/a2aproject/a2a-go/v2/a2a"
	"github.com/jackc/pgx/v5"

	"github.com/cortex-orchestrator/cortex/cortex/conversation"
	"github.com/cortex-orchestrator/cortex/llm"
	"github.com/cortex-orchestrator/cortex/mirror"
	"github.com/cortex-orchestrator/cortex/mirror/mirrortest"
)

// BenchmarkMirror mirrors a log of turns with a task each, two entries a turn, into a PostgreSQL that flushes to the disk of TMPDIR. It begins with an
// empty database.
func BenchmarkMirror(b *testing.B) {
	if !here {
		b.Skip("there is no PostgreSQL, which TestMain has told")
	}
	s, err := mirrortest.New(true)
	if err != nil {
		b.Fatal(err)
	}
	defer s.Close()
	w := newWorld(b)
	const talks, turns = 500, 20
	for range turns {
		for i := range talks {
			talk := fmt.Sprint("talk ", i)
			n := w.seqs["/"+talk] + 1
			id := fmt.Sprintf("m%d", n)
			w.append("", talk, &conversation.Entry{
				Turn: "turn of " + id, Cause: message("", talk, id, "how many words are in this sentence, and which of them is the longest one?"), Deadline: epoch.Add(time.Hour),
				Decision: &llm.Decision{
					Kind: llm.KindDelegate, Say: "I ask.", Reason: "it counts words", Model: "m", Usage: llm.Usage{Input: 900, Output: 50, Cost: 0.001},
					Delegations: []llm.Delegation{{ID: "1", Agent: "wordcount", Skill: "count", Task: "count the words of: how many words are in this sentence"}},
				},
			})
			c := conversation.NewConversation("", talk)
			c.Life = "life of " + talk
			task := a2a.TaskID(c.ID(n, "task", 0))
			w.report(talk, "wordcount", "turn of "+id, task, a2a.TaskStateCompleted, &llm.Decision{Kind: llm.KindRespond, Say: "There are 14.", Model: "m", Usage: llm.Usage{Input: 1000, Output: 20, Cost: 0.001}})
		}
	}
	for b.Loop() {
		b.StopTimer()
		url, err := s.Database(b.Context())
		if err != nil {
			b.Fatal(err)
		}
		w.url = url
		conn, err := pgx.Connect(b.Context(), url)
		if err != nil {
			b.Fatal(err)
		}
		m, err := mirror.New(w.log, &mirror.Options{Postgres: url})
		if err != nil {
			b.Fatal(err)
		}
		ctx, cancel := context.WithCancel(b.Context())
		ended := make(chan error, 1)
		b.StartTimer()
		began := time.Now()
		go func() { ended <- m.Run(ctx) }()
		for position := int64(0); position < 2*talks*turns; <-time.After(5 * time.Millisecond) {
			_ = conn.QueryRow(ctx, "SELECT position FROM cortex.logs").Scan(&position) // there is no such table at first
		}
		took := time.Since(began)
		b.StopTimer()
		cancel()
		<-ended
		if r := w.complete(); r.Mirrored != 2*talks*turns {
			b.Errorf("the mirror has %d entries", r.Mirrored)
		}
		var done int
		if err := conn.QueryRow(b.Context(), "SELECT count(*) FROM cortex.v_tasks WHERE state = 'TASK_STATE_COMPLETED'").Scan(&done); err != nil || done != talks*turns {
			b.Errorf("%d tasks are completed, %v", done, err)
		}
		conn.Close(b.Context()) //nolint:errcheck // it has no more use
		b.ReportMetric(2*talks*turns/took.Seconds(), "entries/s")
		b.StartTimer()
	}
}
