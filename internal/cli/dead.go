package cli

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/cortex-orchestrator/cortex/internal/cli/typed"
	"github.com/cortex-orchestrator/cortex/internal/table"
	"github.com/cortex-orchestrator/cortex/internal/view"
	"github.com/cortex-orchestrator/cortex/prompt"
	"github.com/cortex-orchestrator/cortex/transport"
)

func (e *env) newDead() *cobra.Command {
	var asJSON bool
	var most limit
	list := func(cmd *cobra.Command, _ []string) error {
		if err := most.check(); err != nil {
			return err
		}
		return e.withLink(cmd.Context(), func(ctx context.Context, l *link) error { return e.listDead(ctx, l, most, asJSON) })
	}
	c := &cobra.Command{
		Use:   "dead",
		Short: "Look at what was given up",
		Long: `List the dead letters, the oldest first: events that nobody could handle, such as those that are damaged or too large. They are
kept until they are replayed or removed; of very many, the oldest go.`,
		Example: "  cortex dead\n  cortex dead show 12\n  cortex dead replay 12\n  cortex dead remove --all",
		Args:    typed.Exact(),
		RunE:    list,
	}
	ls := &cobra.Command{Use: "list", Short: "List what was given up", Example: "  cortex dead list --limit 10", Args: typed.Exact(), RunE: list}
	show := &cobra.Command{
		Use: "show ID", Short: "Show all of a dead letter", Example: "  cortex dead show 12", Args: typed.Exact("ID"), ValidArgsFunction: first(e.completeIDs(deadLetterIDs)),
		RunE: func(cmd *cobra.Command, args []string) error {
			return e.withLink(cmd.Context(), func(ctx context.Context, l *link) error { return e.showDead(ctx, l, args[0], asJSON) })
		},
	}
	for _, c := range []*cobra.Command{c, ls, show} {
		c.Flags().BoolVar(&asJSON, "json", false, "as JSON")
	}
	for _, c := range []*cobra.Command{c, ls} {
		most.add(c.Flags())
	}
	c.AddCommand(ls, show,
		e.newDeadEach("replay", "Put dead letters back into their inbox",
			"Put dead letters back into their inbox, as if they came now: for when the reason why they were given up is gone.",
			func(ctx context.Context, l *link, dead transport.DeadLetters, d *transport.DeadLetter) (string, error) {
				if err := dead.ReplayDead(ctx, l.tenant, d.ID); err != nil {
					return "", err
				}
				return fmt.Sprintf("replayed %s: it is in the inbox of %s, and will be given up again if this still holds: %s",
					d.ID, prompt.Clean(d.Topic.ID, 60), prompt.Clean(d.Reason, 200)), nil
			}),
		e.newDeadEach("remove", "Remove dead letters for good", "Remove dead letters for good. What they asked for is never done.",
			func(ctx context.Context, l *link, dead transport.DeadLetters, d *transport.DeadLetter) (string, error) {
				return "removed " + d.ID, dead.RemoveDead(ctx, l.tenant, d.ID)
			}),
	)
	return c
}

func (e *env) listDead(ctx context.Context, l *link, most limit, asJSON bool) error {
	dead, err := l.deadLetters()
	if err != nil {
		return err
	}
	all, more := []view.DeadJSON{}, false
	for d, err := range dead.DeadLetters(ctx, l.tenant) {
		if err != nil {
			return err
		}
		if more = len(all) == e.most(most, asJSON); more {
			break
		}
		j := view.NewDeadJSON(d)
		if !asJSON {
			j.Event.Payload = &transport.Opaque{Kind: view.KindOf(j.Event)} // of many, keep only what is shown
		}
		all = append(all, j)
	}
	if asJSON {
		return writeJSON(e, all)
	}
	if len(all) == 0 {
		e.say("nothing was given up")
		return nil
	}
	now := time.Now()
	t := &table.Table{Columns: []table.Column{
		{Title: "ID"}, {Title: "WHEN", Rank: 1}, {Title: "INBOX", Least: 12}, {Title: "FROM", Least: 12, Rank: 2}, {Title: "KIND", Rank: 3}, {Title: "REASON", Least: 30},
	}}
	for _, d := range all {
		t.Row(d.ID, table.Ago(d.Time, now), d.Inbox, d.Event.From, view.KindOf(d.Event), d.Reason)
	}
	if err := e.show(t); err != nil {
		return err
	}
	e.sayMore(more)
	return nil
}

func (e *env) showDead(ctx context.Context, l *link, id string, asJSON bool) error {
	dead, err := l.deadLetters()
	if err != nil {
		return err
	}
	d, err := dead.DeadLetter(ctx, l.tenant, id)
	if err != nil {
		return deadError(id, err)
	}
	if asJSON {
		return writeJSON(e, view.NewDeadJSON(d))
	}
	field := func(name, text string) {
		if text != "" {
			fmt.Fprintf(e.stdout, "%-14s%s\n", name, prompt.Clean(text, 2*transport.MaxID))
		}
	}
	field("id", d.ID)
	field("given up", d.Time.Local().Format(time.DateTime))
	fmt.Fprintf(e.stdout, "%-14s%s\n", "reason", prompt.Clean(d.Reason, 4<<10))
	field("inbox", d.Topic.ID)
	field("deliveries", fmt.Sprint(d.Deliveries))
	field("event", d.Event.ID)
	if !d.Event.Time.IsZero() {
		field("made", d.Event.Time.Local().Format(time.DateTime))
	}
	field("from", d.Event.From)
	field("conversation", d.Event.ContextID)
	field("task", string(d.Event.TaskID))
	field("kind", view.KindOf(d.Event))
	_, err = fmt.Fprintf(e.stdout, "\n%s\n", view.PayloadText(d.Event.Payload))
	return err
}

// doDead does something with a dead letter, and returns a description of what it did.
type doDead func(context.Context, *link, transport.DeadLetters, *transport.DeadLetter) (string, error)

// newDeadEach makes a command that applies do to each of the dead letters that it is given.
func (e *env) newDeadEach(verb, short, long string, do doDead) *cobra.Command {
	var all bool
	c := &cobra.Command{
		Use: verb + " ID...", Short: short, Long: long, Example: fmt.Sprintf("  cortex dead %[1]s 12 13\n  cortex dead %[1]s --all", verb),
		Args: func(_ *cobra.Command, args []string) error {
			if all == (len(args) > 0) {
				return usagef("which ones? cortex dead %s ID..., or --all", verb)
			}
			return nil
		},
		RunE: func(cmd *cobra.Command, ids []string) error {
			return e.withLink(cmd.Context(), func(ctx context.Context, l *link) error {
				dead, err := l.deadLetters()
				if err == nil && all {
					ids, err = deadIDs(ctx, dead, l.tenant)
				}
				if err != nil {
					return err
				}
				return e.eachDead(ctx, l, dead, verb, ids, do)
			})
		},
	}
	c.ValidArgsFunction = e.completeIDs(deadLetterIDs)
	c.Flags().BoolVar(&all, "all", false, "all that there are now")
	return c
}

// deadIDs returns the ids of the dead letters that are there now.
func deadIDs(ctx context.Context, dead transport.DeadLetters, tenant string) ([]string, error) {
	var ids []string
	for d, err := range dead.DeadLetters(ctx, tenant) {
		if err != nil {
			return nil, err
		}
		ids = append(ids, d.ID)
	}
	return ids, nil
}

func (e *env) eachDead(ctx context.Context, l *link, dead transport.DeadLetters, verb string, ids []string, do doDead) error {
	if len(ids) == 0 {
		e.say("nothing was given up")
	}
	failed := 0
	for _, id := range ids {
		text := ""
		d, err := dead.DeadLetter(ctx, l.tenant, id)
		if err == nil {
			text, err = do(ctx, l, dead, d)
		}
		switch {
		case err != nil && (ctx.Err() != nil || len(ids) == 1):
			return deadError(id, err)
		case err != nil:
			failed++
			e.say("cortex: %s", oneLine(deadError(id, err)))
		default:
			e.tell("%s", text)
		}
	}
	if failed > 0 {
		return fmt.Errorf("%s: %d of %d dead letters were left as they are", verb, failed, len(ids))
	}
	return nil
}

// deadError adds to an error what to do about it.
func deadError(id string, err error) error {
	switch {
	case errors.Is(err, transport.ErrNotFound):
		return fmt.Errorf("there is no dead letter %s: `cortex dead` lists them", prompt.Clean(id, 64))
	case errors.Is(err, transport.ErrForbidden):
		return fmt.Errorf("%w: only the credentials of the orchestrator may do that, give them with --creds", err)
	case errors.Is(err, transport.ErrInvalid):
		return fmt.Errorf("%w; `cortex dead show %[2]s` shows it, `cortex dead remove %[2]s` removes it", err, strings.TrimSpace(id))
	}
	return err
}
