package repl

import (
	"cmp"
	"context"
	"fmt"
	"strings"

	"github.com/cortex-orchestrator/cortex/internal/table"
)

// help lists the commands. At 80 columns it has no more rows than a small terminal shows above the prompt.
func (c *chat) help(context.Context, string) error {
	width, _ := c.ui.size()
	t := table.Table{Columns: make([]table.Column, 2), Wrap: true}
	for _, cmd := range commands() {
		if cmd.help != "" && cmd.name != "/help" { // it is known by now, and the list fits 24 rows
			t.Row(strings.TrimSpace(cmd.name+" "+cmd.args), cmd.help)
		}
	}
	notes := []string{
		`Anything else is a message; \ at its end, or """ around it, for several lines.`,
		"exit, quit and bye leave; behind a space they, or a command, are a message.",
		"Tab completes. Ctrl-X Ctrl-E opens $EDITOR. Ctrl-C stops what is running.",
	}
	if c.Decides != "" {
		notes = append(notes, strings.ToUpper(c.Decides[:1])+oneLine(c.Decides[1:]))
	}
	text := t.Render(width-1, nil)
	for _, note := range notes {
		text += strings.Join(table.Wrap(note, width-1), "\n") + "\n"
	}
	c.ui.Print(text)
	return nil
}

// maxRows bounds a list on the screen, in rows.
const maxRows = 200

func (c *chat) list(t *table.Table, none string) {
	if t.Len() == 0 {
		c.ui.Say(none, lookDim)
		return
	}
	width, _ := c.ui.size()
	more := t.Cut(maxRows)
	text := t.Render(width-1, c.ui.style.dim)
	if more > 0 {
		text += c.ui.style.dim(fmt.Sprintf("… and %d more", more)) + "\n"
	}
	c.ui.Print(text)
}

func (c *chat) showAgents(ctx context.Context, _ string) error {
	all, err := c.Backend.Agents(ctx)
	if err != nil {
		return err
	}
	c.list(AgentTable(all), "no agents; start one in another terminal: "+c.Name+" agent echo")
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
	text = cmp.Or(text, "nothing has been decided in this conversation yet")
	c.say(text)
	return nil
}

// say shows an external text, wrapped between words.
func (c *chat) say(text string) {
	width, _ := c.ui.size()
	c.ui.Print(WrapText(Sanitize(text), width-1))
}

// sayText shows what a function of the backend has returned.
func (c *chat) sayText(text string, err error) error {
	if err == nil {
		c.say(text)
	}
	return err
}

func (c *chat) showUsage(ctx context.Context, _ string) error {
	if c.Backend.Usage == nil {
		return errMissing
	}
	return c.sayText(c.Backend.Usage(ctx, c.contextID))
}

func (c *chat) showModel(ctx context.Context, _ string) error {
	if c.Backend.Model == nil {
		return errMissing
	}
	return c.sayText(c.Backend.Model(ctx))
}

// switchVerbose toggles whether an explanation follows each answer.
func (c *chat) switchVerbose(context.Context, string) error {
	if c.Backend.Why == nil {
		return errMissing
	}
	c.verbose = !c.verbose
	text := "answers are followed by how they came about; /verbose ends that"
	if !c.verbose {
		text = "answers are no longer followed by how they came about"
	}
	c.ui.Say(text, lookDim)
	return nil
}

// explain shows how an answer came about. Failing to read that is no error of the turn.
func (c *chat) explain(ctx context.Context) {
	text, err := c.Backend.Why(ctx, c.contextID)
	if err != nil || text == "" {
		return
	}
	width, _ := c.ui.size()
	for line := range strings.SplitSeq(strings.TrimSuffix(WrapText(Sanitize(text), width-1), "\n"), "\n") {
		c.ui.Print(c.ui.style.dim(line))
	}
}

func (c *chat) showPrompt(ctx context.Context, text string) error {
	if c.Backend.Prompt == nil {
		return errMissing
	}
	return c.sayText(c.Backend.Prompt(ctx, c.contextID, text))
}

func (c *chat) showTasks(ctx context.Context, _ string) error {
	if c.Backend.Tasks == nil {
		return errMissing
	}
	all, earlier, err := c.Backend.Tasks(ctx, c.contextID)
	if err != nil {
		return err
	}
	if earlier != "" {
		c.ui.Say(oneLine(earlier), lookDim)
	}
	c.list(TaskTable(all, c.present.named, c.Client.Clock()), "no tasks in this conversation")
	return nil
}

func (c *chat) showConversations(ctx context.Context, _ string) error {
	if c.Backend.Conversations == nil {
		return errMissing
	}
	all, err := c.Backend.Conversations(ctx)
	if err != nil {
		return err
	}
	c.list(ConversationTable(all, c.contextID, c.Client.Clock()), "no conversations yet")
	return nil
}
