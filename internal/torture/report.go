package torture

import (
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"
)

// Report is the result of a run. Times are in milliseconds.
type Report struct {
	Topology string         `json:"topology"`
	Seed     uint64         `json:"seed"`
	Wanted   int            `json:"wanted"` // kills
	Killed   int            `json:"killed"`
	Kills    map[string]int `json:"kills"` // by kind
	Frozen   int            `json:"frozen"`
	Turns    int            `json:"turns"` // accepted messages
	Longest  int            `json:"longest"`

	Lost       int `json:"lost"`
	Duplicate  int `json:"duplicate"`
	Wrong      int `json:"wrong"`
	OutOfOrder int `json:"out_of_order"`
	Late       int `json:"late"`
	TwoOwners  int `json:"two_owners"` // times that two replicas owned the same partition for too long

	Tasks        int `json:"tasks"`
	TasksTwice   int `json:"tasks_twice"` // begun more than once, which is permitted
	Decisions    int `json:"decisions"`
	DecidedTwice int `json:"decided_twice"` // and discarded because of another decision or a kill, which is permitted

	Wait     Quantiles `json:"wait_ms"`     // from accepted to answered
	Recovery Quantiles `json:"recovery_ms"` // from the last kill in a turn to its answer
	Calm     Quantiles `json:"calm_ms"`     // from the last kill of a round until everything that was accepted before is answered
	AfterAll int64     `json:"after_last_kill_ms"`

	Ended    int       `json:"ended"`               // times that a process ended by itself, and needed its supervisor
	EndedHow []string  `json:"ended_how,omitempty"` // the last of them
	Forced   []string  `json:"forced,omitempty"`    // processes that did not end when asked
	Seconds  float64   `json:"seconds"`
	Findings []Finding `json:"findings,omitempty"`
	Owners   []string  `json:"owners,omitempty"`
}

// Bounds of the details in a report; the counts are complete.
const (
	maxFindings = 50
	maxEnded    = 20
)

// Quantiles of a duration, in milliseconds.
type Quantiles struct {
	P50 int64 `json:"p50"`
	P99 int64 `json:"p99"`
	Max int64 `json:"max"`
}

func quantiles(d []time.Duration) Quantiles {
	if len(d) == 0 {
		return Quantiles{}
	}
	slices.Sort(d)
	at := func(q float64) int64 { return d[int(q*float64(len(d)-1))].Milliseconds() }
	return Quantiles{at(0.5), at(0.99), at(1)}
}

// Verdict returns what is wrong, in one line, or "". A run with fewer kills than wanted proves nothing.
func (r *Report) Verdict() string {
	switch {
	case r.Lost+r.Duplicate+r.Wrong+r.OutOfOrder+r.Late+r.TwoOwners > 0:
		return "the promise was not kept"
	case r.Turns == 0:
		return "no message was accepted"
	case r.Killed < r.Wanted:
		return fmt.Sprintf("only %d of %d were killed in time: give it more with --time-limit", r.Killed, r.Wanted)
	}
	return ""
}

// report begins a report with the kills.
func (k *killer) report() *Report {
	n := k.total()
	k.mu.Lock()
	defer k.mu.Unlock()
	return &Report{Killed: n, Kills: k.kills, Frozen: k.frozen, Owners: k.owners, TwoOwners: len(k.owners), Calm: quantiles(k.calms)}
}

// ended adds how a process ended by itself.
func (r *Report) ended(name string, how []string) {
	r.Ended += len(how)
	for _, h := range how {
		r.EndedHow = append(r.EndedHow, name+": "+h)
	}
	r.EndedHow = r.EndedHow[max(0, len(r.EndedHow)-maxEnded):]
}

// count adds the findings of a conversation.
func (r *Report) count(h *history, found []Finding) {
	for _, s := range h.said {
		if !s.accepted.IsZero() {
			r.Turns++
		}
	}
	r.Longest = max(r.Longest, len(h.log))
	for _, e := range h.log {
		if e.Decision != nil && (e.Cause == nil || e.Cause.From != seedUser) {
			r.Decisions++
		}
	}
	for _, f := range found {
		switch f.Kind {
		case Lost:
			r.Lost++
		case Duplicate:
			r.Duplicate++
		case Wrong:
			r.Wrong++
		case OutOfOrder:
			r.OutOfOrder++
		case LateAnswer:
			r.Late++
		}
	}
	r.Findings = append(r.Findings, found[:min(len(found), maxFindings-len(r.Findings))]...)
}

func (r *Report) time(t *timing) {
	r.Wait, r.Recovery, r.AfterAll = quantiles(t.waits), quantiles(t.recoveries), t.afterAll.Milliseconds()
}

// decisionsMade counts the decisions in the replicas' logs, stored or not.
func decisionsMade(folder string) (int, error) {
	files, err := fs.Glob(os.DirFS(folder), "replica-*.log") // a pattern within the folder, whose name may have special characters
	if err != nil {
		return 0, err
	}
	n := 0
	for _, name := range files {
		b, err := os.ReadFile(filepath.Join(folder, name))
		if err != nil {
			return 0, err
		}
		n += bytes.Count(b, []byte(`"msg":"decided"`))
	}
	return n, nil
}

// WriteJSON writes the report as one line.
func (r *Report) WriteJSON(w io.Writer) error { return json.NewEncoder(w).Encode(r) }

// Write writes the report for people.
func (r *Report) Write(w io.Writer) error {
	var b strings.Builder
	row := func(name, format string, args ...any) {
		fmt.Fprintf(&b, "%-16s%s\n", name, fmt.Sprintf(format, args...))
	}
	var kills []string
	for _, kind := range []string{kindServer, kindLeader, kindReplica, kindAgent, kindClient} {
		if n := r.Kills[kind]; n > 0 {
			kills = append(kills, fmt.Sprintf("%d %s", n, kind))
		}
	}
	row("topology", "%s, seed %d", r.Topology, r.Seed)
	row("killed", "%d of %d (%s)", r.Killed, r.Wanted, strings.Join(kills, ", "))
	row("frozen", "%d replicas, for 4 to 6 s", r.Frozen)
	row("turns", "%d; the longest conversation has %d entries", r.Turns, r.Longest)
	row("lost", "%d", r.Lost)
	row("duplicate", "%d", r.Duplicate)
	row("wrong", "%d", r.Wrong)
	row("out of order", "%d", r.OutOfOrder)
	row("late", "%d, of answers more than %v after the last kill before them", r.Late, Late)
	row("two owners", "%d", r.TwoOwners)
	row("done twice", "%d of %d tasks, %d of %d decisions (allowed)", r.TasksTwice, r.Tasks, r.DecidedTwice, r.Decisions)
	row("answered", "p50 %d ms, p99 %d ms, max %d ms after it was accepted", r.Wait.P50, r.Wait.P99, r.Wait.Max)
	row("recovered", "p50 %d ms, p99 %d ms, max %d ms after the last kill before it", r.Recovery.P50, r.Recovery.P99, r.Recovery.Max)
	row("calm again", "p50 %d ms, max %d ms after the last kill of a round; %d ms after the last of all", r.Calm.P50, r.Calm.Max, r.AfterAll)
	if r.Ended > 0 {
		row("ended", "%d times a process by itself, and was started again; the last: %.200s", r.Ended, r.EndedHow[len(r.EndedHow)-1])
	}
	if len(r.Forced) > 0 {
		row("forced", "%s did not end when asked to", strings.Join(r.Forced, ", "))
	}
	row("duration", "%.0f s", r.Seconds)
	for _, o := range r.Owners {
		fmt.Fprintf(&b, "\n%s\n", o)
	}
	for _, f := range r.Findings {
		fmt.Fprintf(&b, "\n%s: message %s of %s: %s\n", f.Kind, f.Message, f.Context, f.Text)
		for _, line := range f.History {
			fmt.Fprintf(&b, "  %s\n", line)
		}
	}
	_, err := io.WriteString(w, b.String())
	return err
}
