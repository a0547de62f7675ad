package repl

import (
	"cmp"
	"context"
	"maps"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/a2aproject/a2a-go/v2/a2a"

	"github.com/cortex-orchestrator/cortex/client"
	"github.com/cortex-orchestrator/cortex/transport"
)

// others shows what is said in this conversation elsewhere: in another chat, or by a command. Live events only signal that there is something new;
// the content is read from the store, so that nothing is missed when a connection was lost.
type others struct {
	mu      sync.Mutex
	own     map[string]bool // the ids of this chat's turns
	last    string          // the turn of the user's own whose answer was shown last in this conversation; "" is none
	look    chan struct{}
	end     context.CancelFunc
	running sync.WaitGroup
}

// mine records a turn of this chat, before any event of it can arrive.
func (o *others) mine(e *transport.Event) {
	o.mu.Lock()
	defer o.mu.Unlock()
	if o.own == nil {
		o.own = make(map[string]bool)
	}
	o.own[transport.TurnID(e.Tenant, e.ContextID, e.From, e.ID)] = true
}

func (o *others) isMine(turn string) bool {
	o.mu.Lock()
	defer o.mu.Unlock()
	return o.own[turn]
}

// saw records that the answer to one of the user's own turns was shown, which the next message replies to.
func (o *others) saw(turn string) {
	o.mu.Lock()
	defer o.mu.Unlock()
	o.last = turn
}

func (o *others) latest() string {
	o.mu.Lock()
	defer o.mu.Unlock()
	return o.last
}

// again requests another look at the store.
func (o *others) again() {
	select {
	case o.look <- struct{}{}:
	default:
	}
}

// stop ends what follow has started.
func (o *others) stop() {
	if o.end != nil {
		o.end()
	}
	o.running.Wait()
}

// lookAgain is the interval of looks at the store while somebody else waits for an answer, since the live event of the answer may be lost.
const lookAgain = 5 * time.Second

// follow shows what others say in a conversation from now on, and stops following another one. It continues after ctx ends, until the next call or
// stop.
func (c *chat) follow(ctx context.Context, contextID string) {
	if c.Backend.Turns == nil {
		c.others.saw("")
		return
	}
	c.others.stop()
	c.others.saw("")
	ctx, c.others.end = context.WithCancel(context.WithoutCancel(ctx))
	told := make(map[string]bool) // the turns whose question was shown; true when the answer was shown, too
	reading, done := context.WithTimeout(ctx, 2*time.Second)
	defer done()
	before, _ := c.Backend.Turns(reading, contextID) // if they cannot be read, old turns are shown again
	for _, t := range before {
		told[t.ID] = t.Answer != nil
	}
	c.others.running.Go(func() {
		writing := "" // a turn of others that is being answered
		_ = c.Client.Listen(ctx, contextID, func(e *transport.Event) {
			turn, piece := turnOf(e)
			if turn == "" || piece && turn == writing || c.others.isMine(turn) {
				return
			}
			if piece {
				writing = turn
			}
			c.others.again()
		})
	})
	c.others.running.Go(func() {
		var later <-chan time.Time
		for {
			select {
			case <-c.others.look:
			case <-later:
			case <-ctx.Done():
				return
			}
			later = nil
			if turns, err := c.Backend.Turns(ctx, contextID); err != nil || c.tell(ctx, contextID, turns, told) {
				later = time.After(lookAgain)
			}
		}
	})
}

// turnOf returns the turn in which Cortex has given a task, streamed a piece of an answer, or answered; "" for other events.
func turnOf(e *transport.Event) (turn string, piece bool) {
	if e.From != transport.Cortex {
		return "", false
	}
	switch p := e.Payload.(type) {
	case *a2a.Task:
		return transport.MetaString(p, transport.MetaTurn), false
	case *a2a.Message:
		return transport.MetaString(p, transport.MetaTurn), false
	case *transport.Delta:
		return p.Turn, true
	}
	return "", false
}

// tell shows what is new in the turns of others, and reports whether one waits for its answer. told is what was shown before.
func (c *chat) tell(ctx context.Context, contextID string, turns []Turn, told map[string]bool) (open bool) {
	for _, t := range turns {
		answered, known := told[t.ID]
		if answered || c.others.isMine(t.ID) {
			continue
		}
		who, whose := "you, elsewhere", ", elsewhere"
		if name := speaker(&client.Line{Kind: client.LineUser, Who: t.Who}); name != "you" {
			who, whose = name, " to "+name
		}
		if !known {
			c.ui.Notice(who+": "+oneLine(t.Said), lookDim)
		}
		if told[t.ID] = t.Answer != nil; t.Answer == nil {
			open = true
			continue
		}
		if cmp.Or(t.Who, "user") == cmp.Or(c.Client.User, "user") {
			c.others.saw(t.ID)
		}
		text := Sanitize(t.Answer.Text)
		c.ui.notify(func(width int, s style) string { return othersAnswer(transport.Cortex+whose+":", text, width, s) })
		for _, line := range c.number(ctx, contextID, t.Answer.ID, t.Answer.Files) {
			c.ui.Notice(line, lookDim)
		}
	}
	maps.DeleteFunc(told, func(id string, _ bool) bool {
		return !slices.ContainsFunc(turns, func(t Turn) bool { return t.ID == id })
	})
	return open
}

// isAsked reports whether somebody waits for an answer in this conversation. It returns true when it cannot find out.
func (c *chat) isAsked(ctx context.Context) bool {
	if c.Backend.Turns == nil {
		return true
	}
	turns, err := c.Backend.Turns(ctx, c.contextID)
	return err != nil || slices.ContainsFunc(turns, func(t Turn) bool { return t.Answer == nil })
}

// maxOverheard bounds how many lines of an answer to others are shown.
const maxOverheard = 20

// othersAnswer formats an answer to others.
func othersAnswer(who, text string, width int, s style) string {
	gap := " "
	if strings.Contains(strings.TrimSpace(text), "\n") {
		gap = "\n"
	}
	lines := strings.Split(strings.TrimRight(render(who+gap+text, width, s, lookDim), "\n"), "\n")
	if more := len(lines) - maxOverheard; more > 1 {
		lines = append(lines[:maxOverheard], s.lines("… and "+count(more, "more line")+"; /export writes the whole conversation", lookDim, width))
	}
	return strings.Join(lines, "\n")
}
