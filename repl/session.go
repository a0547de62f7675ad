package repl

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/a2aproject/a2a-go/v2/a2a"

	"github.com/cortex-orchestrator/cortex/client"
	"github.com/cortex-orchestrator/cortex/internal/table"
	"github.com/cortex-orchestrator/cortex/transport"
)

// resumeLines bounds the lines shown of a conversation that is resumed.
const resumeLines = 6

func (c *chat) resume(ctx context.Context, id string) error {
	if id == "" {
		return errors.New("which one? /conversations lists them")
	}
	if c.Backend.Conversations != nil {
		all, err := c.Backend.Conversations(ctx)
		if err != nil {
			return err
		}
		var ids []string
		for _, s := range all {
			ids = append(ids, s.ContextID)
		}
		if id, err = byPrefix(ids, id, "conversation", "/conversations"); err != nil {
			return err
		}
	} else if err := transport.CheckID(id); err != nil {
		return fmt.Errorf("the id %w", err)
	}
	c.follow(ctx, id)
	if err := c.recap(ctx, id); err != nil {
		c.follow(ctx, c.contextID)
		return err
	}
	c.contextID = id
	c.remember(ctx)
	c.ui.Say("going on with "+oneLine(id), lookDim)
	return nil
}

// remember finds out what waits for a reply in a conversation that goes on. Without that the prompt is as usual.
func (c *chat) remember(ctx context.Context) {
	c.asked = false
	clear(c.waiting)
	if c.Backend.Tasks == nil {
		return
	}
	all, _, err := c.Backend.Tasks(ctx, c.contextID)
	if err != nil {
		return
	}
	for _, t := range all {
		if (t.State == a2a.TaskStateInputRequired || t.State == a2a.TaskStateAuthRequired) && len(c.waiting) < maxOpen {
			c.asked = true
			c.waiting[t.ID] = &delegation{id: t.ID, agent: oneLine(c.present.named(t.Agent)), text: oneLine(t.Text), consent: t.State == a2a.TaskStateAuthRequired}
		}
	}
}

// recap shows the end of a conversation. It cuts each line to the screen, except the last, which may be a question. /save can save the files of the
// answers shown.
func (c *chat) recap(ctx context.Context, id string) error {
	if c.Backend.History == nil {
		return nil
	}
	var last []*client.Line
	for line, err := range c.Backend.History(ctx, id) {
		if err != nil {
			return fmt.Errorf("read %s: %w", id, err)
		}
		if line.Kind == client.LineUser || line.Kind == client.LineAnswer {
			last = append(last, line)
			last = last[max(0, len(last)-resumeLines):]
		}
	}
	width, height := c.ui.size()
	for i, line := range last {
		if line.Kind == client.LineUser {
			c.last, c.lastFiles = line.Text, nil
		}
		text := c.ui.style.dim(table.Fit(speaker(line)+": "+oneLine(line.Text), width-1))
		if whole := Sanitize(speaker(line) + ": " + line.Text); i == len(last)-1 && strings.Count(whole, "\n") < height/2 && len(whole) < height/2*width {
			text = render(whole, width, c.ui.style, lookDim)
		}
		c.ui.Print(text)
		if line.Kind == client.LineAnswer {
			c.brought(ctx, id, line.ID, line.Files)
		}
	}
	return nil
}

func (c *chat) begin(ctx context.Context, _ string) error {
	c.contextID, c.last, c.lastFiles, c.asked = c.Client.NextID(), "", nil, false
	clear(c.waiting)
	c.follow(ctx, c.contextID)
	c.ui.Say("a new conversation: "+oneLine(c.contextID), lookDim)
	return nil
}

// byPrefix returns typed if it is one of ids, or else the only id that begins with it.
func byPrefix(ids []string, typed, what, list string) (string, error) {
	found := ""
	for _, id := range ids {
		if id == typed {
			return id, nil
		}
		if strings.HasPrefix(id, typed) {
			if found != "" {
				return "", fmt.Errorf("several begin with %s; give more of the id (%s lists them)", typed, list)
			}
			found = id
		}
	}
	if found == "" {
		return "", fmt.Errorf("no %s %s; %s lists them", what, typed, list)
	}
	return found, nil
}

// speaker returns the name of the author of a line.
func speaker(l *client.Line) string {
	switch {
	case l.Kind == client.LineUser && (l.Who == "" || l.Who == "user"):
		return "you"
	case l.Who != "":
		return oneLine(l.Who)
	}
	return transport.Cortex
}

// cancel asks Cortex to cancel tasks; /tasks shows the result.
func (c *chat) cancel(ctx context.Context, id string) error {
	if c.Backend.Tasks != nil {
		all, _, err := c.Backend.Tasks(ctx, c.contextID)
		if err != nil {
			return err
		}
		var ids []string
		for _, t := range all {
			if !t.State.Terminal() {
				ids = append(ids, string(t.ID))
			}
		}
		switch {
		case id != "":
			if id, err = byPrefix(ids, id, "open task", "/tasks"); err != nil {
				return err
			}
		case len(ids) == 0 && !c.isAsked(ctx):
			return errors.New("nothing is open in this conversation")
		}
	}
	what := "all open tasks of this conversation"
	if id != "" {
		what = "task " + oneLine(id)
	}
	c.ui.Say("asking cortex to cancel "+what, lookDim) // before the turn that runs shows what comes of it
	x := transport.Cancel{TaskID: a2a.TaskID(id), Reason: "by the user"}
	if err := c.Client.Cancel(ctx, c.contextID, x); err != nil {
		return err
	}
	if id == "" {
		c.asked = false // there is nothing to reply to
	}
	return nil
}

// givingUp are the messages that mean, when an agent asks something, that it gets no reply, besides those that stop a turn.
var givingUp = []string{"never mind", "nevermind", "forget it", "forget that"}

// givesUp reports whether a line, as a reply to what agents ask, says that they get none. A consent is denied in words: Cortex reads those. Behind a
// space, it is a reply.
func (c *chat) givesUp(line string) bool {
	if !c.asked || len(c.waiting) == 0 || strings.HasPrefix(line, " ") || !stops(line) && !slices.Contains(givingUp, bareWords(line)) {
		return false
	}
	for _, d := range c.waiting {
		if d.consent {
			return false
		}
	}
	return true
}

// giveUp cancels the tasks whose agents ask something.
func (c *chat) giveUp(ctx context.Context) {
	for _, id := range slices.Sorted(maps.Keys(c.waiting)) {
		if err := c.Client.Cancel(ctx, c.contextID, transport.Cancel{TaskID: id, Reason: "by the user"}); err != nil {
			c.fail(err)
			return
		}
		c.ui.Say("asked cortex to cancel what "+c.waiting[id].agent+" was to do", lookDim)
		delete(c.waiting, id)
	}
	c.asked = false
}
