package cli

import (
	"context"
	"fmt"
	"log/slog"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/cortex-orchestrator/cortex/cortex"
	"github.com/cortex-orchestrator/cortex/llm"
	"github.com/cortex-orchestrator/cortex/repl"
)

func (e *env) newSessions() *cobra.Command {
	var asJSON bool
	var limit int
	c := &cobra.Command{
		Use:     "sessions",
		Short:   "List the conversations",
		Example: "  cortex sessions --limit 5\n  cortex sessions delete demo",
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
					defer fmt.Fprintf(e.stderr, "there are more: these are the %d used last (--limit)\n", limit)
				}
				spent, err := spentOn(ctx, l, list)
				if err != nil {
					return err
				}
				if asJSON {
					return writeJSON(e, sessionsJSON(list, spent))
				}
				if len(list) == 0 {
					fmt.Fprintln(e.stderr, "no conversation yet: `cortex chat` begins one")
					return nil
				}
				now := time.Now()
				t := newTable(e.stdout, "CONTEXT", "UPDATED", "ENTRIES", "TOKENS", "COST", "TITLE")
				for _, s := range list {
					u := spent[s.ContextID]
					t.row(s.ContextID, ago(s.Updated, now), fmt.Sprint(s.Entries), tokensText(u), costText(u.Cost), s.Title)
				}
				return t.flush()
			})
		},
	}
	c.Flags().BoolVar(&asJSON, "json", false, "as JSON")
	c.Flags().IntVar(&limit, "limit", maxSessions, "how many at most")
	c.AddCommand(e.newSessionsDelete())
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
}

// spentOn returns what was spent on each conversation.
func spentOn(ctx context.Context, l *link, list []repl.Session) (map[string]llm.Usage, error) {
	spent := make(map[string]llm.Usage, len(list))
	for _, s := range list {
		conv, err := cortex.Load(ctx, l.store, l.tenant, s.ContextID)
		if err != nil {
			return nil, err
		}
		spent[s.ContextID] = conv.Usage
	}
	return spent, nil
}

func tokensText(u llm.Usage) string {
	if u.Tokens() == 0 {
		return "-"
	}
	return fmt.Sprint(u.Tokens())
}

func sessionsJSON(list []repl.Session, spent map[string]llm.Usage) []sessionJSON {
	out := make([]sessionJSON, len(list))
	for i, s := range list {
		out[i] = sessionJSON{s.ContextID, s.Title, s.Updated, s.Entries, spent[s.ContextID]}
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
			return e.withLink(cmd.Context(), func(ctx context.Context, l *link) error { return e.history(ctx, l, args[0], asJSON) })
		},
	}
	c.Flags().BoolVar(&asJSON, "json", false, "the log, one entry a line of JSON")
	return c
}

func (e *env) history(ctx context.Context, l *link, contextID string, asJSON bool) error {
	found := false
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
		err := transcript(ctx, l.store, l.tenant, contextID, func(line *repl.Line) bool {
			found = true
			e.printLine(line)
			return true
		})
		if err != nil {
			return err
		}
	}
	if spent, err := spentOn(ctx, l, []repl.Session{{ContextID: contextID}}); err == nil && !asJSON && spent[contextID] != (llm.Usage{}) {
		fmt.Fprintf(e.stdout, "%s\n", usageLine(spent[contextID]))
	}
	if !found {
		return fmt.Errorf("there is no conversation %s: `cortex sessions` lists them", contextID)
	}
	return nil
}

func (e *env) printLine(l *repl.Line) {
	mark := map[repl.LineKind]string{repl.LineTask: "→ ", repl.LineResult: "← "}[l.Kind]
	who := pad(repl.Sanitize(mark+l.Who), 16)
	text := strings.ReplaceAll(repl.Sanitize(l.Text), "\n", "\n"+strings.Repeat(" ", 39))
	fmt.Fprintf(e.stdout, "%s  %s  %s\n", l.Time.Local().Format(time.DateTime), who, text)
}
