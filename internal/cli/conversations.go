package cli

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"
	"golang.org/x/sync/errgroup"

	"github.com/cortex-orchestrator/cortex/cortex/conversation"
	"github.com/cortex-orchestrator/cortex/cortex/jetstore"
	"github.com/cortex-orchestrator/cortex/cortex/storage"
	"github.com/cortex-orchestrator/cortex/internal/table"
	"github.com/cortex-orchestrator/cortex/llm"
	"github.com/cortex-orchestrator/cortex/repl"
)

func (e *env) newConversations() *cobra.Command {
	var asJSON bool
	list := func(c *cobra.Command) *cobra.Command {
		var most limit
		c.Args = exactArgs()
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
	list, more, err := listConversations(ctx, l, e.most(most, asJSON))
	if err != nil {
		return err
	}
	known, err := detailsOf(ctx, l, list)
	if err != nil {
		return err
	}
	if asJSON {
		return writeJSON(e, conversationsJSON(list, known))
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
func conversationInfos(list []storage.ContextInfo, known map[string]*details, owned bool) []repl.ConversationInfo {
	infos := make([]repl.ConversationInfo, len(list))
	for i, c := range list {
		d := known[c.ContextID]
		info := repl.ConversationInfo{ContextID: c.ContextID, Title: c.Title, Updated: c.Updated}
		if d.turns > 0 {
			info.Turns = fmt.Sprint(d.turns)
		}
		if n := d.usage.Tokens(); n > 0 {
			info.Tokens = fmt.Sprint(n)
		}
		if d.usage.Cost > 0 {
			info.Cost = costText(d.usage.Cost)
		}
		if d.damaged {
			info.Turns, info.Tokens, info.Cost, info.Title = "?", "?", "?", "(damaged: see cortex doctor) "+c.Title
		}
		if owned {
			info.Owner = d.whose()
		}
		infos[i] = info
	}
	return infos
}

// withLink joins the running Cortex and calls f with the connection.
func (e *env) withLink(ctx context.Context, f func(context.Context, *link) error) error {
	l, err := e.settings.mustJoin(ctx, "look", e.settings.logger(e.stderr, slog.LevelError), nil)
	if err != nil {
		return err
	}
	defer l.Close()
	return f(ctx, l)
}

type conversationJSON struct {
	ContextID string    `json:"contextId"`
	Title     string    `json:"title"`
	Updated   time.Time `json:"updated"`
	Turns     int       `json:"turns"`
	Entries   int       `json:"entries"` // length of its log
	Usage     llm.Usage `json:"usage"`
	Owner     string    `json:"owner"`
	Shared    []string  `json:"sharedWith"`
	Damaged   bool      `json:"damaged,omitempty"` // turns, usage and owner are unknown
}

// details are the parts of a list's row that come from the outline of a conversation, not from its log.
type details struct {
	turns   int
	usage   llm.Usage // spent on it
	owner   string
	shared  []string
	damaged bool // nothing else is known
}

// whose formats the owner of a conversation and those it is shared with, for a list.
func (d *details) whose() string {
	if d.damaged {
		return "?"
	}
	if len(d.shared) == 0 {
		return d.owner
	}
	return d.owner + ", shared with " + strings.Join(d.shared, ", ")
}

// detailsAhead bounds the conversations that are loaded at the same time.
const detailsAhead = 4

// detailsOf returns the details of each conversation. It loads conversations whose outlines lack them, and stores new outlines where it may.
func detailsOf(ctx context.Context, l *link, list []storage.ContextInfo) (map[string]*details, error) {
	all := make(map[string]*details, len(list))
	for _, s := range list {
		all[s.ContextID] = &details{}
	}
	g, ctx := errgroup.WithContext(ctx)
	g.SetLimit(detailsAhead)
	for _, s := range list {
		d := all[s.ContextID]
		if o := s.Outline; o.Whole() {
			*d = details{turns: o.Turns, usage: o.Usage, owner: o.Owner, shared: o.Shared}
			continue
		}
		g.Go(func() error {
			conv, err := storage.Load(ctx, l.store, l.tenant, s.ContextID)
			if errors.Is(err, conversation.ErrDamaged) {
				d.damaged = true
				return nil
			}
			if err != nil {
				return err
			}
			*d = details{turns: conv.Begun, usage: conv.Usage, owner: conv.Owner, shared: conv.Shared}
			if kept, ok := l.store.(storage.Outlines); ok && conv.Version == s.Version {
				_ = kept.PutOutline(ctx, l.tenant, s.ContextID, storage.OutlineOf(conv, s.Title, s.Updated)) // outlines are a cache: an error does no harm
			}
			return nil
		})
	}
	return all, g.Wait()
}

func conversationsJSON(list []storage.ContextInfo, known map[string]*details) []conversationJSON {
	out := make([]conversationJSON, len(list))
	for i, s := range list {
		d := known[s.ContextID]
		out[i] = conversationJSON{s.ContextID, s.Title, s.Updated, d.turns, s.Entries, d.usage, d.owner, append([]string{}, d.shared...), d.damaged}
	}
	return out
}

func (e *env) newHistory() *cobra.Command {
	var asJSON bool
	var last int
	c := &cobra.Command{
		Use:     "history CONVERSATION",
		Short:   "Show a conversation",
		Long:    "Show a conversation: what was said, who was asked to do what, and what came of it. --json prints its log, one entry a line.",
		Example: "  cortex conversations history demo\n  cortex conversations history demo -n 5\n  cortex conversations history demo --json",
		Args:    exactArgs("CONVERSATION"),
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
		out := newJSON(e.stdout)
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
		lines := ending[*repl.Line]{most: last, write: func(l *repl.Line) error {
			e.printLine(l)
			return nil
		}}
		err = transcript(ctx, l.bus, l.store, l.tenant, contextID, alike, func(line *repl.Line) bool {
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
	known, err := detailsOf(ctx, l, []storage.ContextInfo{{ContextID: contextID}})
	if err != nil || asJSON {
		return nil // the text was printed
	}
	d := known[contextID]
	if d.usage != (llm.Usage{}) {
		e.tell("%s", usageLine(d.usage))
	}
	if l.sender != "" {
		e.tell("belongs to %s", repl.Sanitize(d.whose()))
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
func (e *env) printLine(l *repl.Line) {
	mark := map[repl.LineKind]string{repl.LineTask: "→ ", repl.LineResult: "← "}[l.Kind]
	head := l.Time.Local().Format(time.DateTime) + "  " + table.Pad(repl.Sanitize(mark+l.Who), 16) + "  "
	indent, width := 39, screenWidth(e.stdout)
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
