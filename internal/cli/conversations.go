package cli

import (
	"context"
	"fmt"
	"log/slog"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/cortex-orchestrator/cortex/client"
	"github.com/cortex-orchestrator/cortex/cortex/conversation"
	"github.com/cortex-orchestrator/cortex/cortex/jetstore"
	"github.com/cortex-orchestrator/cortex/cortex/storage"
	"github.com/cortex-orchestrator/cortex/internal/cli/typed"
	"github.com/cortex-orchestrator/cortex/internal/screen"
	"github.com/cortex-orchestrator/cortex/internal/table"
	"github.com/cortex-orchestrator/cortex/internal/view"
	"github.com/cortex-orchestrator/cortex/llm"
	"github.com/cortex-orchestrator/cortex/repl"
)

func (e *env) newConversations() *cobra.Command {
	var asJSON bool
	list := func(c *cobra.Command) *cobra.Command {
		var most limit
		c.Args = typed.Exact()
		c.RunE = func(cmd *cobra.Command, _ []string) error {
			if err := most.check(); err != nil {
				return err
			}
			return e.withLink(cmd.Context(), func(ctx context.Context, l *link) error { return e.listConversations(ctx, l, most, asJSON) })
		}
		c.Flags().BoolVar(&asJSON, "json", false, "as JSON")
		most.add(c.Flags())
		return c
	}
	c := list(&cobra.Command{
		Use: "conversations", Short: "List the conversations, show or delete one", Aliases: []string{"sessions"}, // its former name
		Example: "  cortex conversations -n 5\n  cortex conversations history demo\n  cortex conversations share demo bob\n  cortex conversations delete demo",
	})
	c.AddCommand(
		list(&cobra.Command{Use: "list", Short: "List the conversations, the last one first", Example: "  cortex conversations list --limit 5"}),
		e.newHistory(), e.newShare(), e.newDelete(),
	)
	return c
}

func (e *env) listConversations(ctx context.Context, l *link, most limit, asJSON bool) error {
	list, more, err := view.Conversations(ctx, l.reader(), e.most(most, asJSON))
	if err != nil {
		return err
	}
	known, err := view.DetailsOf(ctx, l.reader(), list)
	if err != nil {
		return err
	}
	if asJSON {
		return writeJSON(e, view.ConversationsJSON(list, known))
	}
	if len(list) == 0 {
		e.say("no conversation yet: `cortex chat` begins one")
		if l.sender != "" && e.settings.hasKeyless() {
			e.say("what was said here before there were keys is kept, but only a service without keys can show it")
		}
		return nil
	}
	if err := e.show(repl.ConversationTable(conversationInfos(list, known, l.sender != ""), "", time.Now())); err != nil {
		return err
	}
	e.sayMore(more)
	return nil
}

// hasKeyless reports whether the data folder has a log of a service without keys.
func (s *settings) hasKeyless() bool {
	if !s.inFolder() {
		return false
	}
	r, err := s.folder().Known()
	return err == nil && r != nil && slices.Contains(r.Streams, keyless+"/"+jetstore.Stream)
}

// conversationInfos converts conversations to the rows of a list, with their owners when owned.
func conversationInfos(list []storage.ContextInfo, known map[string]*view.Details, owned bool) []repl.ConversationInfo {
	infos := make([]repl.ConversationInfo, len(list))
	for i, c := range list {
		d := known[c.ContextID]
		info := repl.ConversationInfo{ContextID: c.ContextID, Title: c.Title, Updated: c.Updated}
		if d.Turns > 0 {
			info.Turns = fmt.Sprint(d.Turns)
		}
		if n := d.Usage.Tokens(); n > 0 {
			info.Tokens = fmt.Sprint(n)
		}
		if d.Usage.Cost > 0 {
			info.Cost = view.CostText(d.Usage.Cost)
		}
		if d.Damaged {
			info.Turns, info.Tokens, info.Cost, info.Title = "?", "?", "?", "(damaged: see cortex doctor) "+c.Title
		}
		if owned {
			info.Owner = d.Whose()
		}
		infos[i] = info
	}
	return infos
}

// withLink joins the running Cortex and calls f with the connection.
func (e *env) withLink(ctx context.Context, f func(context.Context, *link) error) error {
	l, err := e.settings.mustJoin(ctx, "look", e.commandLog(slog.LevelError), nil)
	if err != nil {
		return err
	}
	defer l.Close()
	return f(ctx, l)
}

func (e *env) newHistory() *cobra.Command {
	var asJSON bool
	var last int
	c := &cobra.Command{
		Use:     "history CONVERSATION",
		Short:   "Show a conversation",
		Long:    "Show a conversation: what was said, who was asked to do what, and what came of it. --json prints its log, one entry a line.",
		Example: "  cortex conversations history demo\n  cortex conversations history demo -n 5\n  cortex conversations history demo --json",
		Args:    typed.Exact("CONVERSATION"),
		RunE: func(cmd *cobra.Command, args []string) error {
			if err := limit(last).check(); err != nil {
				return err
			}
			return e.withBackend(cmd.Context(), func(ctx context.Context, b *backend) error {
				id, err := b.conversation(ctx, args[0])
				if err != nil {
					return err
				}
				return e.history(ctx, b, id, last, asJSON)
			})
		},
		ValidArgsFunction: first(e.completeIDs(conversationIDs)),
	}
	c.Flags().BoolVar(&asJSON, "json", false, "the log, one entry a line of JSON")
	c.Flags().IntVarP(&last, "limit", "n", 0, "`N`: show only the last ones, at most this many; 0 shows all")
	return c
}

// history prints a conversation: the last so many of its lines or, in JSON, of its entries; 0 is all.
func (e *env) history(ctx context.Context, b *backend, contextID string, last int, asJSON bool) error {
	found, l := false, b.link
	if asJSON {
		out := view.NewJSON(e.stdout)
		entries := ending[*conversation.Entry]{most: last, write: func(e *conversation.Entry) error { return out.Encode(e) }}
		for entry, err := range l.store.Load(ctx, l.tenant, contextID, 0) {
			if err != nil {
				return err
			}
			found = true
			if err := entries.add(entry); err != nil {
				return err
			}
		}
		if err := entries.end(); err != nil {
			return err
		}
	} else {
		alike, err := b.lookalikes(ctx)
		if err != nil {
			return err
		}
		lines := ending[*client.Line]{most: last, write: func(l *client.Line) error {
			e.printLine(l)
			return nil
		}}
		err = view.Transcript(ctx, l.reader(), contextID, alike, func(line *client.Line) bool {
			found = true
			return lines.add(line) == nil
		})
		if err == nil {
			err = lines.end()
		}
		if err != nil {
			return err
		}
	}
	if !found {
		return noConversation(contextID)
	}
	known, err := view.DetailsOf(ctx, l.reader(), []storage.ContextInfo{{ContextID: contextID}})
	if err != nil || asJSON {
		return nil // the text was printed
	}
	d := known[contextID]
	if d.Usage != (llm.Usage{}) {
		e.tell("%s", view.UsageLine(d.Usage))
	}
	if l.sender != "" {
		e.tell("belongs to %s", repl.Sanitize(d.Whose()))
	}
	return nil
}

// ending writes the last so many of what is added, or all of it at once if most is 0.
type ending[T any] struct {
	most  int
	write func(T) error
	kept  []T // the last ones
}

func (n *ending[T]) add(one T) error {
	if n.most == 0 {
		return n.write(one)
	}
	if len(n.kept) == n.most {
		n.kept = n.kept[1:]
	}
	n.kept = append(n.kept, one)
	return nil
}

func (n *ending[T]) end() error {
	for _, one := range n.kept {
		if err := n.write(one); err != nil {
			return err
		}
	}
	return nil
}

// printLine prints one line of a transcript. On a narrow terminal the text goes below the time and the name.
func (e *env) printLine(l *client.Line) {
	mark := map[client.LineKind]string{client.LineTask: "→ ", client.LineResult: "← "}[l.Kind]
	head := l.Time.Local().Format(time.DateTime) + "  " + table.Pad(repl.Sanitize(mark+l.Who), 16) + "  "
	indent, width := 39, screen.Width(e.stdout)
	text := repl.Sanitize(l.Text)
	if width > 0 {
		if width-indent < narrowText {
			indent = 2
		}
		if table.Width(head) > indent {
			head = repl.WrapText(strings.TrimRight(head, " "), width) + strings.Repeat(" ", indent)
		}
		text = strings.TrimRight(repl.WrapText(text, width-indent), "\n")
	}
	fmt.Fprintf(e.stdout, "%s%s\n", head, strings.ReplaceAll(text, "\n", "\n"+strings.Repeat(" ", indent)))
}

// narrowText is the number of columns below which a text goes on a line of its own.
const narrowText = 40
