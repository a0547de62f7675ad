package cli

import (
	"context"
	"fmt"
	"time"

	"github.com/cortex-orchestrator/cortex/internal/datadir"
	"github.com/cortex-orchestrator/cortex/internal/rest"
)

// turn is the place in the order of a chat or a question that has just started.
type turn struct {
	e    *env
	end  time.Time // how long it waits for processes with precedence
	told bool
}

func (e *env) newTurn() *turn { return &turn{e: e} }

// await returns when this process may join the Cortex of the data folder, or start one. It waits for processes with precedence, and for the end of a
// chat whose Cortex has no keys when this process was given some.
func (t *turn) await(ctx context.Context) error {
	s := &t.e.settings
	for {
		a, runs, err := datadir.Find(ctx, s.data)
		if err != nil {
			return err
		}
		keyless := runs && s.node.auth != "" && a.Node.Of("auth") == ""
		first := ""
		if !runs {
			first = datadir.Precedence(s.data)
		}
		switch {
		case keyless && !a.Passing:
			return s.errNoKeys(a)
		case keyless && !t.told:
			t.told = true
			fmt.Fprintf(t.e.stderr, "cortex: waiting for the data folder: a chat or a question (process %d) runs on %s without keys: stop it, or leave --auth out\n", a.PID, s.data)
		case keyless:
		case first == "":
			return nil
		case t.end.IsZero():
			t.end = time.Now().Add(behindGateway)
		case time.Now().After(t.end):
			return fmt.Errorf("no cortex runs on %s: %s cannot, and says why: mend that, end it, or start `cortex serve`", s.data, first)
		}
		if err := rest.For(ctx, waitingPause); err != nil {
			return err
		}
	}
}
