package mirror

import (
	"cmp"
	"errors"
	"flag"
	"fmt"
	"log/slog"
	"strconv"
	"strings"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/cortex-orchestrator/cortex/cortex/storage"
	"github.com/cortex-orchestrator/cortex/transport"
)

// Store is what a mirror reads: the journal, and single conversations, to fold those that went on while no mirror ran.
type Store interface {
	storage.Store
	storage.Journal
}

// Options configures a mirror.
type Options struct {
	// Postgres says which database: a URL, or the keywords of libpq. What is missing comes from libpq's variables and files, such as PGPASSWORD and
	// ~/.pgpass.
	Postgres string
	// NoContent leaves out what people, agents and models wrote: bodies, errors and reasons. Cards of agents stay.
	NoContent bool
	// Retain is how long rows are kept; 0 is for ever.
	Retain time.Duration
	// Transport announces agents, whose states are mirrored too; nil mirrors none.
	Transport transport.Transport
	Tenant    string       // of the agents
	Logger    *slog.Logger // nil discards
	// Ready, unless nil, is called when the mirror has begun to copy, or stands by for another one, and each time that it begins again.
	Ready func()
	// Waits, unless nil, is called with the reason each time that the mirror has to wait for the database or the log, and with nil when it copies again.
	Waits func(error)

	patience time.Duration    // 0 is silentAfter
	now      func() time.Time // nil is time.Now
}

// maxRetain bounds Options.Retain, in days.
const maxRetain = 100 * 365

// AddFlags adds the options that people give to f.
func (o *Options) AddFlags(f *flag.FlagSet) {
	f.Func("postgres", "`URL`: database that mirrors the log, such as postgres://cortex@db.internal/audit; a password is best in PGPASSWORD or ~/.pgpass", func(text string) error {
		if text == "none" {
			text = ""
		}
		if text != "" {
			if _, err := parse(text); err != nil {
				return err
			}
		}
		o.Postgres = text
		return nil
	})
	f.Func("postgres-content", "`BOOL`: false leaves out of the mirror what people, agents and models wrote, but for cards (default true)", func(text string) error {
		content, err := strconv.ParseBool(text)
		if err != nil {
			return errors.New("want true or false")
		}
		o.NoContent = !content
		return nil
	})
	f.Func("postgres-retain", "`TIME`: how long the mirror keeps rows, such as 90d (default: for ever)", func(text string) (err error) {
		o.Retain, err = parseRetain(text)
		return err
	})
}

// parseRetain parses a number of days, or a duration of at least one day.
func parseRetain(text string) (time.Duration, error) {
	if text == "" || text == "0" {
		return 0, nil
	}
	d, err := time.ParseDuration(text)
	if days, ok := strings.CutSuffix(text, "d"); ok {
		var n int
		n, err = strconv.Atoi(days)
		d = time.Duration(max(-1, min(n, maxRetain+1))) * 24 * time.Hour
	}
	if err != nil || d < 24*time.Hour || d > maxRetain*24*time.Hour {
		return 0, errors.New("want days, such as 90d")
	}
	return d, nil
}

// errURL is the error for a database that cannot be parsed. It does not repeat the text, which may have a password.
var errURL = errors.New("want a URL such as postgres://cortex@db.internal/audit, or host=/var/run/postgresql dbname=audit")

// parse reads Options.Postgres.
func parse(text string) (*pgx.ConnConfig, error) {
	c, err := pgx.ParseConfig(text)
	if err != nil {
		return nil, errURL
	}
	c.ConnectTimeout = cmp.Or(c.ConnectTimeout, 10*time.Second)
	c.RuntimeParams["application_name"] = cmp.Or(c.RuntimeParams["application_name"], "cortex mirror")
	return c, nil
}

// where describes a database without its password.
func where(c *pgx.ConnConfig) string { return fmt.Sprintf("%s:%d/%s", c.Host, c.Port, c.Database) }

// hide returns err without the password, should it be part of its text. The class of the error stays.
func hide(c *pgx.ConnConfig, err error) error {
	if err == nil || len(c.Password) == 0 || !strings.Contains(err.Error(), c.Password) {
		return err
	}
	return hidden{strings.ReplaceAll(err.Error(), c.Password, "xxxxx"), err}
}

// hidden is an error with another text.
type hidden struct {
	text string
	err  error
}

// Error implements error.
func (h hidden) Error() string { return h.text }

// Unwrap returns the error.
func (h hidden) Unwrap() error { return h.err }
