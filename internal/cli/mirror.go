package cli

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"log/slog"
	"strings"
	"time"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/cortex-orchestrator/cortex/internal/cli/typed"
	"github.com/cortex-orchestrator/cortex/mirror"
	"github.com/cortex-orchestrator/cortex/transport"
)

// addMirror adds the flags that say how the log is mirrored. They are those of the role of `cortex serve`.
func addMirror(f *pflag.FlagSet, o *mirror.Options, names ...string) {
	own := flag.NewFlagSet("mirror", flag.ContinueOnError)
	o.AddFlags(own)
	for _, name := range names {
		f.AddFlag(pflag.PFlagFromGoFlag(own.Lookup(name)))
		setting(f, name)
		f.SetAnnotation(name, ownMark, nil) //nolint:errcheck // there is such a flag
	}
}

func (e *env) newMirror() *cobra.Command {
	o := &mirror.Options{}
	c := &cobra.Command{
		Use:   "mirror",
		Short: "Mirror the log to PostgreSQL, for audits and SQL",
		Long: `Copy every entry of the log to PostgreSQL, once, and what follows from it: conversations, turns, tasks, tokens and costs. It runs until it
is interrupted, and goes on where it was. Turns do not wait for it, and when the database is away, it waits. A second one stands by. What
is deleted from Cortex is deleted there as well, also when no mirror ran at the time.

The database gets the schema cortex, with views whose names begin with v_, and the role cortex_read. Nobody may read anything, except the
owner, until SELECT cortex.allow('ROLE', 'TENANT') is run: '' is the default tenant, and '*' all. With keys, this takes the credentials of
the orchestrator: --creds, or those of the data folder.

The same runs within a service: cortex serve --postgres URL.`,
		Example: "  cortex mirror --postgres postgres://cortex@db.internal/audit\n  CORTEX_POSTGRES=postgres:///audit cortex mirror --postgres-content=false --postgres-retain 90d\n  cortex mirror check",
		Args:    typed.Exact(),
		RunE: func(cmd *cobra.Command, _ []string) error {
			return e.withLog(cmd.Context(), o, true, func(ctx context.Context, l *link, store mirror.Store, log *slog.Logger) error {
				opts := *o
				opts.Transport, opts.Tenant, opts.Logger = l.bus, l.tenant, log
				m, err := mirror.New(store, &opts)
				if err != nil {
					return err
				}
				return m.Run(ctx)
			})
		},
	}
	addMirror(c.Flags(), o, "postgres", "postgres-content", "postgres-retain")
	c.AddCommand(e.newMirrorCheck())
	return c
}

func (e *env) newMirrorCheck() *cobra.Command {
	o := &mirror.Options{}
	var wait time.Duration
	var asJSON bool
	c := &cobra.Command{
		Use:   "check",
		Short: "Prove that the mirror is complete, or say what is missing",
		Long: `Compare the mirror with the log, entry by entry: each one is there once, with the checksum that it has in the log now, and nothing else is.
The exit status is 1 when something is missing, too much or different, or not mirrored yet. It reads the whole log.`,
		Example: "  cortex mirror check --postgres postgres://cortex@db.internal/audit\n  cortex mirror check --wait 10s --json",
		Args:    typed.Exact(),
		RunE: func(cmd *cobra.Command, _ []string) error {
			return e.withLog(cmd.Context(), o, false, func(ctx context.Context, _ *link, store mirror.Store, _ *slog.Logger) error {
				r, err := mirror.Check(ctx, store, o, wait)
				if err != nil {
					return err
				}
				return e.showMirror(r, asJSON)
			})
		},
	}
	addMirror(c.Flags(), o, "postgres")
	c.Flags().DurationVar(&wait, "wait", 0, "`TIME`: how long to wait for the mirror to have what the log has now")
	c.Flags().BoolVar(&asJSON, "json", false, "as JSON")
	return c
}

// withLog joins the running Cortex as one who may read the whole log, and calls f with it. With patience it waits for a Cortex to run.
func (e *env) withLog(ctx context.Context, o *mirror.Options, patience bool, f func(context.Context, *link, mirror.Store, *slog.Logger) error) error {
	if o.Postgres == "" {
		return usagef("which database? --postgres postgres://USER@HOST/DATABASE, or CORTEX_POSTGRES")
	}
	log := e.commandLog(slog.LevelError)
	if patience {
		log = e.newServing().log // it runs as a service does
	}
	e.settings.admin = true
	join := func() (*link, error) { return e.settings.mustJoin(ctx, "mirror", log, nil) }
	if patience {
		join = func() (*link, error) {
			return e.settings.awaitJoin(ctx, "mirror", log, nil, func(away error) { log.Warn("waiting for Cortex", "err", oneLine(away)) })
		}
	}
	l, err := join()
	if err != nil {
		if patience && ctx.Err() != nil {
			return nil
		}
		return err
	}
	defer l.Close()
	if l.sender != "" && l.sender != transport.Cortex {
		return fmt.Errorf("%w: the log is that of all people: give the credentials of the orchestrator with --creds", transport.ErrForbidden)
	}
	store, ok := l.store.(mirror.Store)
	if !ok {
		return errors.New("this store has no journal, as Cortex's own has: it cannot be mirrored")
	}
	return f(ctx, l, store, log)
}

// showMirror prints a report. It returns errShown when the mirror is not complete.
func (e *env) showMirror(r *mirror.Report, asJSON bool) error {
	if asJSON {
		if err := writeJSON(e, r); err != nil {
			return err
		}
	} else if err := e.write(mirrorText(r)); err != nil {
		return err
	}
	if !r.Complete() {
		return errShown
	}
	return nil
}

// maxRowsShown bounds the rows that are named in words; JSON has more.
const maxRowsShown = 10

func mirrorText(r *mirror.Report) string {
	var b strings.Builder
	entries := func(n int64) string {
		if n == 1 {
			return "1 entry"
		}
		return fmt.Sprintf("%d entries", n)
	}
	if r.Complete() {
		fmt.Fprintf(&b, "complete: the log has %s up to version %d, and the mirror has each of them once, with the same checksum\n", entries(r.Entries), r.Position)
	} else {
		fmt.Fprintf(&b, "NOT complete: up to version %d the log has %s, and the mirror %d\n", r.Position, entries(r.Entries), r.Mirrored)
	}
	if r.Behind > 0 {
		fmt.Fprintf(&b, "%s not mirrored yet: does `cortex mirror` run?\n", verb(entries(r.Behind)+" after that", r.Behind))
	}
	for _, wrong := range []struct {
		versions mirror.Versions
		what     string
	}{
		{r.Missing, "missing in the mirror"}, {r.Extra, "in the mirror, and not in the log"}, {r.Different, "not as in the log"},
	} {
		if wrong.versions.Count == 0 {
			continue
		}
		text := strings.Trim(fmt.Sprint(wrong.versions.Some), "[]")
		if int64(len(wrong.versions.Some)) < wrong.versions.Count {
			text += " …"
		}
		fmt.Fprintf(&b, "%s %s: version %s\n", verb(entries(wrong.versions.Count), wrong.versions.Count), wrong.what, text)
	}
	for _, wrong := range []struct {
		rows mirror.Rows
		what string
	}{
		{r.MissingRows, "missing, though their entries are there"}, {r.ExtraRows, "there that do not follow from the entries"},
	} {
		if wrong.rows.Count > 0 {
			first := strings.Join(wrong.rows.Some[:min(len(wrong.rows.Some), maxRowsShown)], ", ")
			if wrong.rows.Count > maxRowsShown {
				first += " …"
			}
			fmt.Fprintf(&b, "%d rows are %s (table, tenant, conversation, id): %s: a database without the schema cortex is mirrored anew\n", wrong.rows.Count, wrong.what, first)
		}
	}
	if r.Quarantine > 0 {
		fmt.Fprintf(&b, "%s in quarantine, since they cannot be read: see cortex.v_quarantine\n", verb(entries(r.Quarantine), r.Quarantine))
	}
	if r.Retired > 0 {
		fmt.Fprintf(&b, "%s dropped from the mirror, because of their age\n", verb(entries(r.Retired), r.Retired))
	}
	return b.String()
}

func verb(what string, n int64) string {
	if n == 1 {
		return what + " is"
	}
	return what + " are"
}
