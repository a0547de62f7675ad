package repl

import (
	"context"
	"fmt"
	"strings"
	"time"
)

func (c *chat) help() {
	width, _ := c.ui.size()
	t := table{head: []string{"command", "what it does"}}
	for _, cmd := range commands {
		if cmd.help != "" {
			t.add(strings.TrimSpace(cmd.name+" "+cmd.args), cmd.help)
		}
	}
	notes := []string{
		`Anything else is a message. End a line with \ to go on in the next, or put several lines between """ and """.`,
		"exit, quit or bye leave; a space before them, or before a command, makes it a message.",
		"Tab completes commands, @agents, ids and files. Ctrl-X Ctrl-E has the line changed in your $EDITOR. Ctrl-C stops what is running.",
	}
	if c.Decides != "" {
		notes = append(notes, strings.ToUpper(c.Decides[:1])+oneLine(c.Decides[1:]))
	}
	text := t.render(width, c.ui.style)
	for _, note := range notes {
		text += strings.Join(Wrap(note, width-1), "\n") + "\n"
	}
	c.ui.Print(text)
}

func (c *chat) table(t table, none string) {
	if len(t.rows) == 0 {
		c.ui.Say(none, lookDim)
		return
	}
	width, _ := c.ui.size()
	c.ui.Print(t.render(width, c.ui.style))
}

func (c *chat) showAgents(ctx context.Context, _ string) error {
	list := c.Backend.Agents
	if list == nil {
		list = c.present.list
	}
	all, err := list(ctx)
	if err != nil {
		return err
	}
	t := table{head: []string{"agent", "state", "seen", "what it does"}}
	for _, a := range all {
		does := a.Description
		if len(a.Skills) > 0 {
			does = strings.TrimSpace(strings.TrimSuffix(strings.TrimSpace(does), ".") + " [" + strings.Join(a.Skills, ", ") + "]")
		}
		t.add(a.ID, a.State, a.LastSeen, does)
	}
	c.table(t, "no agents; start one in another terminal: "+c.Name+" agent echo")
	return nil
}

func (c *chat) showWhy(ctx context.Context, _ string) error {
	if c.Backend.Why == nil {
		return errMissing
	}
	text, err := c.Backend.Why(ctx, c.contextID)
	if err != nil {
		return err
	}
	if text == "" {
		text = "nothing has been decided in this conversation yet"
	}
	c.say(text)
	return nil
}

// say shows a text that may be anybody's, broken between its words.
func (c *chat) say(text string) {
	width, _ := c.ui.size()
	c.ui.Print(wrapText(Sanitize(text), width-1))
}

func (c *chat) showUsage(ctx context.Context, _ string) error {
	if c.Backend.Usage == nil {
		return errMissing
	}
	text, err := c.Backend.Usage(ctx, c.contextID)
	if err != nil {
		return err
	}
	c.say(text)
	return nil
}

func (c *chat) showModel(ctx context.Context, _ string) error {
	if c.Backend.Model == nil {
		return errMissing
	}
	text, err := c.Backend.Model(ctx)
	if err != nil {
		return err
	}
	c.say(text)
	return nil
}

// switchVerbose has each answer be followed by how it came about, or no longer.
func (c *chat) switchVerbose(context.Context, string) error {
	if c.Backend.Why == nil {
		return errMissing
	}
	c.verbose = !c.verbose
	text := "answers are followed by how they came about; /verbose ends that"
	if !c.verbose {
		text = "answers come alone again"
	}
	c.ui.Say(text, lookDim)
	return nil
}

// explain shows how an answer came about. That it cannot be read is no error of the turn.
func (c *chat) explain(ctx context.Context) {
	text, err := c.Backend.Why(ctx, c.contextID)
	if err != nil || text == "" {
		return
	}
	width, _ := c.ui.size()
	for line := range strings.SplitSeq(strings.TrimSuffix(wrapText(Sanitize(text), width-1), "\n"), "\n") {
		c.ui.Print(c.ui.style.dim(line))
	}
}

func (c *chat) showPrompt(ctx context.Context, text string) error {
	if c.Backend.Prompt == nil {
		return errMissing
	}
	prompt, err := c.Backend.Prompt(ctx, c.contextID, text)
	if err != nil {
		return err
	}
	c.say(prompt)
	return nil
}

func (c *chat) showTasks(ctx context.Context, _ string) error {
	if c.Backend.Tasks == nil {
		return errMissing
	}
	all, err := c.Backend.Tasks(ctx, c.contextID)
	if err != nil {
		return err
	}
	t := table{head: []string{"task", "agent", "state", "took", "what"}}
	for _, task := range all {
		end := task.Ended
		if end.IsZero() {
			end = c.Client.Clock()
		}
		took := ""
		if !task.Started.IsZero() {
			took = elapsed(end.Sub(task.Started))
		}
		state := stateName(task.State)
		if task.Attempt > 1 {
			state += fmt.Sprintf(", attempt %d", task.Attempt)
		}
		t.add(string(task.ID), c.present.named(task.Agent), state, took, task.Text)
	}
	c.table(t, "no tasks in this conversation")
	return nil
}

func (c *chat) showSessions(ctx context.Context, _ string) error {
	if c.Backend.Sessions == nil {
		return errMissing
	}
	all, err := c.Backend.Sessions(ctx)
	if err != nil {
		return err
	}
	t := table{head: []string{"id", "entries", "updated", "what"}}
	for _, s := range all {
		title := s.Title
		if s.ContextID == c.contextID {
			title = "(this one) " + title
		}
		t.add(s.ContextID, fmt.Sprint(s.Entries), ago(c.Client.Clock().Sub(s.Updated)), title)
	}
	c.table(t, "no conversations yet")
	return nil
}

// ago returns how long ago something was, for people.
func ago(d time.Duration) string {
	switch {
	case d < time.Minute:
		return "now"
	case d < time.Hour:
		return fmt.Sprintf("%d min ago", int(d.Minutes()))
	case d < 48*time.Hour:
		return fmt.Sprintf("%d h ago", int(d.Hours()))
	}
	return fmt.Sprintf("%d days ago", int(d.Hours()/24))
}
