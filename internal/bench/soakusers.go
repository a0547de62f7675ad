package bench

import (
	"context"
	"errors"
	"fmt"
	"sync/atomic"
	"time"

	"github.com/cortex-orchestrator/cortex/internal/rest"
)

// talker has one conversation after the other, each with this many turns.
type talker struct {
	s     *soak
	name  string
	turns int
	begun int
	user  *user
}

// say sends a message in the conversation, or in the next one. A lost answer is counted when the conversation ends.
func (t *talker) say(ctx context.Context, what saying) (err error) {
	if t.user == nil {
		t.begun++
		if t.user, err = t.s.n.newUser(fmt.Sprintf("%s-%d", t.name, t.begun), t.s.cfg.wait); err != nil {
			return err
		}
		t.s.begun.Add(1)
	}
	if _, err := t.user.say(ctx, what); err != nil && !errors.Is(err, errLost) {
		return err
	}
	t.s.turns.Add(1)
	if t.user.said < t.turns {
		return nil
	}
	return t.end(ctx)
}

// end ends the conversation, if there is one.
func (t *talker) end(ctx context.Context) error {
	if t.user == nil {
		return nil
	}
	u := t.user
	t.user = nil
	return t.s.finish(ctx, u)
}

// chat talks to agents that answer at once, in a long conversation and in new ones. Turns have one delegation, three, or one to an agent that fails
// now and then.
func (s *soak) chat(ctx, more context.Context, i int) error {
	fresh := &talker{s: s, name: fmt.Sprintf("new-%d", i+1), turns: newTurns}
	long := &talker{s: s, name: fmt.Sprintf("long-%d", i+1), turns: soakLong * (i + 1) / soakChats} // different lengths, so that they do not all end at once
	all := s.n.agents
	for turn := 0; s.pace.Wait(more) == nil; turn++ {
		t := long
		if (turn+i)%soakRound < newTurns {
			t = fresh
		}
		to := all[turn%len(all):][:1]
		switch (turn + i) % 10 {
		case 7, 8:
			to = all
		case 9:
			to = []string{flakyID}
		}
		if err := t.say(ctx, saying{to: to}); err != nil {
			return err
		}
		if long.begun > 0 && long.user == nil {
			long.turns = soakLong
		}
	}
	return errors.Join(ctx.Err(), fresh.end(ctx), long.end(ctx))
}

// unanswered repeatedly asks an agent that never answers: the deadline passes, or the user cancels before, at once or while the agent works.
func (s *soak) unanswered(ctx, more context.Context, t *talker, patience func() time.Duration, count *atomic.Int64) error {
	for more.Err() == nil {
		if err := t.say(ctx, saying{to: []string{sleeperID}, any: true, cancel: patience()}); err != nil {
			return err
		}
		count.Add(1)
	}
	return errors.Join(ctx.Err(), t.end(ctx))
}

// visit talks to the passing agents, whether they are present or not.
func (s *soak) visit(ctx, more context.Context) error {
	t := &talker{s: s, name: "visit", turns: 5 * newTurns}
	for i := 0; ; i++ {
		if rest.For(more, passEvery/4) != nil {
			return errors.Join(ctx.Err(), t.end(ctx))
		}
		if err := t.say(ctx, saying{to: []string{passingID(i)}, any: true}); err != nil {
			return err
		}
	}
}
