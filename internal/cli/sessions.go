package cli

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"strings"
	"time"

	"github.com/rivo/uniseg"
	"github.com/spf13/cobra"
	"golang.org/x/sync/errgroup"

	"github.com/cortex-orchestrator/cortex/cortex/conversation"
	"github.com/cortex-orchestrator/cortex/cortex/storage"
	"github.com/cortex-orchestrator/cortex/llm"
	"github.com/cortex-orchestrator/cortex/repl"
)

func (e *env) newSessions() *cobra.Command {
	var asJSON bool
	var limit int
	c := &cobra.Command{
		Use:     "sessions",
		Short:   "List the conversations",
		Example: "  cortex sessions --limit 5\n  cortex sessions share demo bob\n  cortex sessions delete demo",
		Args:    exactArgs(),
		RunE: func(cmd *cobra.Command, _ []string) error {
			if limit < 1 {
				return usagef("--limit %d: it must be at least 1", limit)
			}
			return e.withLink(cmd.Context(), func(ctx context.Context, l *link) error {
				list, more, err := listSessions(ctx, l, limit)
				if err != nil {
					return err
				}
				if more {
					these := fmt.Sprintf("these are the %d", limit)
					if limit == 1 {
						these = "this is the one"
					}
					defer printText(e.stderr, "there are more: %s used last (--limit)", these)
				}
				known, err := detailsOf(ctx, l, list)
				if err != nil {
					return err
				}
				if asJSON {
					return writeJSON(e, sessionsJSON(list, known))
				}
				if len(list) == 0 {
					fmt.Fprintln(e.stderr, "no conversation yet: `cortex chat` begins one")
					return nil
				}
				now := time.Now()
				columns := []string{"CONTEXT", "UPDATED", "ENTRIES", "TOKENS", "COST", "TITLE"}
				owned := l.sender != ""
				if owned {
					columns = slices.Insert(columns, 1, "OWNER")
				}
				t := newList(e.stdout, columns...)
				for _, s := range list {
					d := known[s.ContextID]
					row := []string{s.ContextID, ago(s.Updated, now), fmt.Sprint(s.Entries), tokensText(d.usage), costText(d.usage.Cost), s.Title}
					if d.damaged {
						row[3], row[4], row[5] = "?", "?", "(damaged: see cortex doctor) "+s.Title
					}
					if owned {
						row = slices.Insert(row, 1, d.whose())
					}
					t.row(row...)
				}
				return t.flush()
			})
		},
	}
	c.Flags().BoolVar(&asJSON, "json", false, "as JSON")
	c.Flags().IntVar(&limit, "limit", maxSessions, "how many at most")
	c.AddCommand(e.newSessionsShare(), e.newSessionsDelete())
	return c
}

// withLink calls f with a connection to the running Cortex.
func (e *env) withLink(ctx context.Context, f func(context.Context, *link) error) error {
	l, err := e.settings.mustJoin(ctx, "look", e.settings.logger(e.stderr, slog.LevelError), nil)
	if err != nil {
		return err
	}
	defer l.Close()
	return f(ctx, l)
}

type sessionJSON struct {
	ContextID string    `json:"contextId"`
	Title     string    `json:"title"`
	Updated   time.Time `json:"updated"`
	Entries   int       `json:"entries"`
	Usage     llm.Usage `json:"usage"`
	Owner     string    `json:"owner"`
	Shared    []string  `json:"sharedWith"`
	Damaged   bool      `json:"damaged,omitempty"` // neither usage nor owner is known
}

// details are what else than its log only the outline of a conversation tells.
type details struct {
	usage   llm.Usage // spent on it
	owner   string
	shared  []string
	damaged bool // nothing else is known
}

// whose says on a line to whom a conversation belongs.
func (d *details) whose() string {
	if d.damaged {
		return "?"
	}
	if len(d.shared) == 0 {
		return d.owner
	}
	return d.owner + ", shared with " + strings.Join(d.shared, ", ")
}

// detailsAhead is how many conversations are loaded at once.
const detailsAhead = 4

// detailsOf returns the details of each conversation. It loads those whose outline does not have them, and keeps what it finds, where it may.
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
			*d = details{usage: o.Usage, owner: o.Owner, shared: o.Shared}
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
			*d = details{usage: conv.Usage, owner: conv.Owner, shared: conv.Shared}
			if kept, ok := l.store.(storage.Outlines); ok && conv.Version == s.Version {
				_ = kept.PutOutline(ctx, l.tenant, s.ContextID, storage.OutlineOf(conv, s.Title, s.Updated)) // it is a cache
			}
			return nil
		})
	}
	return all, g.Wait()
}

func tokensText(u llm.Usage) string {
	if u.Tokens() == 0 {
		return "-"
	}
	return fmt.Sprint(u.Tokens())
}

func sessionsJSON(list []storage.ContextInfo, known map[string]*details) []sessionJSON {
	out := make([]sessionJSON, len(list))
	for i, s := range list {
		d := known[s.ContextID]
		out[i] = sessionJSON{s.ContextID, s.Title, s.Updated, s.Entries, d.usage, d.owner, append([]string{}, d.shared...), d.damaged}
	}
	return out
}

func (e *env) newHistory() *cobra.Command {
	var asJSON bool
	c := &cobra.Command{
		Use:     "history CONTEXT",
		Short:   "Show a conversation",
		Long:    "Show a conversation: what was said, who was asked to do what, and what came of it. --json prints its log, one entry a line.",
		Example: "  cortex history demo\n  cortex history demo --json",
		Args:    exactArgs("CONTEXT"),
		RunE: func(cmd *cobra.Command, args []string) error {
			return e.withBackend(cmd.Context(), func(ctx context.Context, b *backend) error {
				id, err := b.conversation(ctx, args[0])
				if err != nil {
					return err
				}
				return e.history(ctx, b, id, asJSON)
			})
		},
		ValidArgsFunction: first(e.completeIDs(conversationIDs)),
	}
	c.Flags().BoolVar(&asJSON, "json", false, "the log, one entry a line of JSON")
	return c
}

func (e *env) history(ctx context.Context, b *backend, contextID string, asJSON bool) error {
	found, l := false, b.link
	if asJSON {
		out := newJSON(e.stdout)
		for entry, err := range l.store.Load(ctx, l.tenant, contextID, 0) {
			if err != nil {
				return err
			}
			found = true
			if err := out.Encode(entry); err != nil {
				return err
			}
		}
	} else {
		alike, err := b.lookalikes(ctx)
		if err != nil {
			return err
		}
		err = transcript(ctx, l.bus, l.store, l.tenant, contextID, alike, func(line *repl.Line) bool {
			found = true
			e.printLine(line)
			return true
		})
		if err != nil {
			return err
		}
	}
	if !found {
		return fmt.Errorf("there is no conversation %s: `cortex sessions` lists them", contextID)
	}
	known, err := detailsOf(ctx, l, []storage.ContextInfo{{ContextID: contextID}})
	if err != nil || asJSON {
		return nil // it was shown
	}
	d := known[contextID]
	if d.usage != (llm.Usage{}) {
		fmt.Fprintf(e.stdout, "%s\n", usageLine(d.usage))
	}
	if l.sender != "" {
		fmt.Fprintf(e.stdout, "belongs to %s\n", repl.Sanitize(d.whose()))
	}
	return nil
}

// printLine prints what was said or done. On a screen that leaves little room beside the time and the name, the text comes below them.
func (e *env) printLine(l *repl.Line) {
	mark := map[repl.LineKind]string{repl.LineTask: "→ ", repl.LineResult: "← "}[l.Kind]
	head := l.Time.Local().Format(time.DateTime) + "  " + pad(repl.Sanitize(mark+l.Who), 16) + "  "
	indent, width := 39, screenWidth(e.stdout)
	lines := strings.Split(repl.Sanitize(l.Text), "\n")
	if width > 0 {
		if width-indent < narrowText {
			indent = gap
		}
		if uniseg.StringWidth(head) > indent {
			head = strings.Join(wrapped([]string{strings.TrimRight(head, " ")}, width), "\n") + "\n" + strings.Repeat(" ", indent)
		}
		lines = wrapped(lines, width-indent)
	}
	fmt.Fprintf(e.stdout, "%s%s\n", head, strings.Join(lines, "\n"+strings.Repeat(" ", indent)))
}

// narrowText is how many columns a text needs beside something else.
const narrowText = 40

// wrapped breaks those of the lines that are wider than width.
func wrapped(lines []string, width int) []string {
	var out []string
	for _, line := range lines {
		if uniseg.StringWidth(line) <= width {
			out = append(out, line)
			continue
		}
		out = append(out, repl.Wrap(line, width)...)
	}
	return out
}
