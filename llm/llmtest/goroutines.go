package llmtest

import (
	"context"
	"runtime/pprof"
	"strconv"
	"strings"
	"time"

	"github.com/cortex-orchestrator/cortex/llm"
)

// rounds is the number of calls that could each leave a goroutine behind; kept is the number that an idle connection may have.
const rounds, kept = 10, 4

// left makes a case of calls through one client that must not leave goroutines behind.
func left(name string, reply func(*env) *Reply, call func(*env, llm.Client, *server)) testCase {
	return testCase{name: name, run: func(e *env) {
		c, s := e.serve(&Reply{Pieces: []string{"Hello."}})
		e.wantText(e.ask(c, request("hi")), "Hello.") // now the connection exists
		s.call()
		before, _ := e.goroutines()
		s.say(reply(e))
		for range rounds {
			call(e, c, s)
		}
		until := time.Now().Add(e.wire.patience)
		for {
			n, stacks := e.goroutines()
			if n <= before+kept {
				return
			}
			if time.Now().After(until) {
				e.Fatalf("%d goroutines after %d calls, %d before:\n%s", n, rounds, before, stacks)
			}
			<-time.After(5 * time.Millisecond)
		}
	}}
}

var goroutineCases = []testCase{
	left("complete", func(*env) *Reply { return &Reply{Pieces: []string{"Hel", "lo."}} }, func(e *env, c llm.Client, _ *server) {
		e.wantText(e.ask(c, request("hi")), "Hello.")
	}),
	left("error", func(*env) *Reply { return &Reply{Error: &Fault{Status: 503}} }, func(e *env, c llm.Client, _ *server) {
		e.wantError(e.ask(c, request("hi")), llm.ErrUnavailable)
	}),
	left("error after pieces", func(*env) *Reply {
		return &Reply{Pieces: []string{"Once"}, Error: &Fault{Status: 503}}
	}, func(e *env, c llm.Client, _ *server) {
		e.wantError(e.ask(c, request("hi")), llm.ErrUnavailable)
	}),
	left("cut", func(*env) *Reply { return &Reply{Pieces: []string{"Once"}, Cut: true} }, func(e *env, c llm.Client, _ *server) {
		e.wantError(e.ask(c, request("hi")), llm.ErrTruncated)
	}),
	left("canceled before the head", func(e *env) *Reply { return &Reply{Hold: e.over} }, canceledBeforeHead),
	left("canceled in mid-stream", func(e *env) *Reply { return &Reply{Pieces: []string{"Once"}, Hold: e.over} }, canceledInStream),
	left("left early", func(e *env) *Reply { return &Reply{Pieces: []string{"Once"}, Hold: e.over} }, leftEarly),
	left("canceled at once", func(*env) *Reply { return &Reply{Pieces: []string{"Hello."}} }, func(e *env, c llm.Client, _ *server) {
		ctx, cancel := context.WithCancel(e.Context())
		cancel()
		e.wantEnd(e.await(e.start(ctx, c, request("hi"), 0)), context.Canceled)
	}),
}

// goroutines returns the number of goroutines that this case's calls have started and that still run, and their stacks.
func (e *env) goroutines() (n int, stacks string) {
	var all, these strings.Builder
	if err := pprof.Lookup("goroutine").WriteTo(&all, 1); err != nil {
		e.Fatal(err)
	}
	mark := strconv.Quote(label) + ":" + strconv.Quote(e.Name())
	_, records, _ := strings.Cut(all.String(), "\n") // the first line is the total
	for record := range strings.SplitSeq(records, "\n\n") {
		if !strings.Contains(record, mark) {
			continue
		}
		// A record begins with the number of identical goroutines: "3 @ 0x43…".
		count, _, _ := strings.Cut(strings.TrimSpace(record), " ")
		i, err := strconv.Atoi(count)
		if err != nil {
			e.Fatalf("a goroutine profile with the record %q", brief(record))
		}
		n += i
		these.WriteString(record + "\n\n")
	}
	return n, these.String()
}
