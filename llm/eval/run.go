package eval

import (
	"cmp"
	"context"
	"errors"
	"slices"
	"sync"
	"time"

	"github.com/cortex-orchestrator/cortex/llm"
)

// Options configures Run. The zero value is valid.
type Options struct {
	Parallel int           // decisions at a time; 0 is 1
	Timeout  time.Duration // of a decision; 0 is 60 s
	// Done, unless nil, is called after each case, with how many are done. It is not called concurrently.
	Done func(n int)
}

// Outcome is what came of a case.
type Outcome struct {
	Case     string        `json:"case"`
	Language string        `json:"language"`
	About    string        `json:"about"`
	Verdict  Verdict       `json:"verdict"`
	Error    string        `json:"error,omitempty"` // why there is no decision
	Decision *llm.Decision `json:"decision,omitempty"`
	Usage    llm.Usage     `json:"usage,omitzero"` // also of a decision that failed
	Repairs  int           `json:"repairs"`        // how often the model was corrected, also in vain
	Seconds  float64       `json:"seconds"`        // until the decision was there
}

// fatal are the errors after which no other case can succeed.
var fatal = []error{llm.ErrAuth, llm.ErrNoModel, llm.ErrQuota}

// Run decides all cases, and returns what came of them in their order. A case without a decision is wrong in all its parts. It returns an error, and what
// is there so far, when ctx ends, or when the endpoint accepts nothing (see [llm.ErrAuth], [llm.ErrNoModel], [llm.ErrQuota]).
func Run(ctx context.Context, d llm.Decider, cases []Case, o *Options) ([]Outcome, error) {
	o = cmp.Or(o, &Options{})
	ctx, stop := context.WithCancelCause(ctx)
	defer stop(nil)
	all, jobs := make([]Outcome, len(cases)), make(chan int)
	var work sync.WaitGroup
	var mu sync.Mutex
	done := 0
	for range max(1, o.Parallel) {
		work.Go(func() {
			for i := range jobs {
				out, err := decide(ctx, d, &cases[i], cmp.Or(o.Timeout, time.Minute))
				if ctx.Err() != nil {
					continue // it did not end by itself
				}
				if slices.ContainsFunc(fatal, func(kind error) bool { return errors.Is(err, kind) }) {
					stop(err)
				}
				mu.Lock()
				all[i] = out
				if done++; o.Done != nil {
					o.Done(done)
				}
				mu.Unlock()
			}
		})
	}
	for i := range cases {
		select {
		case jobs <- i:
		case <-ctx.Done():
		}
	}
	close(jobs)
	work.Wait()
	return slices.DeleteFunc(all, func(o Outcome) bool { return o.Case == "" }), context.Cause(ctx)
}

// decide returns what comes of one case, and the decider's error.
func decide(ctx context.Context, d llm.Decider, c *Case, limit time.Duration) (Outcome, error) {
	ctx, stop := context.WithTimeout(ctx, limit)
	defer stop()
	out := Outcome{Case: c.ID, Language: c.Language, About: c.About}
	began := time.Now()
	decision, err := d.Decide(ctx, c.turn(), nil)
	out.Seconds = time.Since(began).Seconds()
	if err != nil {
		out.Error, out.Usage, out.Repairs = err.Error(), llm.UsageOf(err), llm.RepairsOf(err)
		out.Verdict.Wrong = []string{"no decision: " + out.Error}
		return out, err
	}
	out.Decision, out.Usage, out.Repairs, out.Verdict = decision, decision.Usage, decision.Repairs, judge(c, decision)
	return out, nil
}
