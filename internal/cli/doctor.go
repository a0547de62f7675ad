package cli

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"time"
	"unicode"
	"unicode/utf8"

	"github.com/spf13/cobra"

	"github.com/cortex-orchestrator/cortex/cortex/jetstore"
	"github.com/cortex-orchestrator/cortex/internal/cli/typed"
	"github.com/cortex-orchestrator/cortex/internal/datadir"
	"github.com/cortex-orchestrator/cortex/internal/erase"
	"github.com/cortex-orchestrator/cortex/internal/home"
	"github.com/cortex-orchestrator/cortex/internal/screen"
	"github.com/cortex-orchestrator/cortex/internal/table"
	"github.com/cortex-orchestrator/cortex/prompt"
	"github.com/cortex-orchestrator/cortex/transport"
	"github.com/cortex-orchestrator/cortex/transport/nats/auth"
	"github.com/cortex-orchestrator/cortex/transport/nats/storecheck"
)

func (e *env) newDoctor() *cobra.Command {
	var repair, online, asJSON bool
	c := &cobra.Command{
		Use:   "doctor",
		Short: "Check everything, and repair what is stored",
		Long: `Check the settings, the data folder, the ports, the clock, the model and the keys, and whether a Cortex runs and answers. Then read
everything in the data folder and say what of it is damaged or lost. While a service runs on the folder, its own words for that are
shown: what it found when it started, and what it has met since. The exit status is 1 when something is wrong or damaged.

Nobody outside of this machine is asked, but with --online the servers of the models that are set, and those are sent no key.

With --repair, for which no service may run, damaged records are set aside, damaged conversations end behind their last good entry,
and what was behind it is set aside, too: in the folder "damaged" below the store, whose files are named. They hold what people said;
remove them when they are of no more use: until then the doctor names them. What is missing is taken note of, and not told again.`,
		Example: "  cortex doctor\n  cortex doctor --llm openai --online\n  cortex doctor --json\n  cortex doctor --repair",
		Args:    typed.Exact(),
		RunE: func(cmd *cobra.Command, _ []string) error {
			s := &e.settings
			if s.nats != "" && repair {
				return usagef("--nats: the files of a server are looked at where they are: use its own tools, or let Cortex keep them in its --data")
			}
			if s.transport != "" {
				return usagef("--transport: what Cortex itself keeps in its --data is looked at, and %s has tools of its own", scheme(s.transport))
			}
			s.store = "" // only Cortex's own store is examined
			var checks []check
			if !repair {
				checks = s.checkUp(cmd.Context(), cmd.Flag("http").Value.String(), online)
			}
			s.node = &nodeSettings{auth: s.node.auth} // its server listens nowhere
			return e.doctor(cmd.Context(), checks, repair, asJSON)
		},
	}
	c.Flags().BoolVar(&repair, "repair", false, "set aside what is damaged, and keep what is good of each conversation")
	c.Flags().BoolVar(&online, "online", false, "look whether the models that are set can be reached")
	c.Flags().BoolVar(&asJSON, "json", false, "as JSON")
	return c
}

// diagnosis is the doctor's result, in JSON output.
type diagnosis struct {
	Checks        []check              `json:"checks,omitempty"`
	Running       bool                 `json:"running"` // a service runs, and this is what it knows
	Damaged       bool                 `json:"damaged"`
	Findings      []storecheck.Finding `json:"findings"`
	Conversations jetstore.Audited     `json:"conversations"`
	Loose         []erase.Loose        `json:"loose_files"` // files that no conversation refers to
	Streams       []string             `json:"streams"`
	Accepted      bool                 `json:"accepted,omitempty"` // missing data is not reported again
	Repaired      []repaired           `json:"repaired,omitempty"`
	SetAside      []datadir.Aside      `json:"set_aside,omitempty"` // what earlier repairs set aside

	byAccount map[string]jetstore.Audited // nil: not known
	asideIn   string                      // the folder of SetAside, when not all of it was examined
	forgotten bool
	outdated  bool
	accounts  []string // of the server, whose streams are damaged
}

// repaired is a conversation that was cut before its damage.
type repaired struct {
	Tenant    string `json:"tenant,omitempty"`
	ContextID string `json:"context_id"`
	Good      int    `json:"good"`
	Removed   int    `json:"removed"`
	Archive   string `json:"kept"` // file with the entries that were removed
}

// doctor prints the checks, and what is damaged in the store.
func (e *env) doctor(ctx context.Context, checks []check, repair, asJSON bool) error {
	if !asJSON {
		if err := e.showChecks(checks); err != nil {
			return err
		}
	}
	data := e.settings.data
	stored := func(c check) error { // the store cannot be examined further
		if asJSON {
			if err := writeJSON(e, &diagnosis{Checks: append(checks, c)}); err != nil {
				return err
			}
		} else if err := e.showChecks([]check{c}); err != nil {
			return err
		}
		if anyWrong(checks) {
			return errShown
		}
		return nil
	}
	if e.settings.nats != "" {
		return stored(check{"store", isNoted, "it is on a server of its own, whose own tools look at it", ""})
	}
	if _, err := os.Stat(datadir.Store(data)); err != nil {
		if lost := e.settings.lostStore(); lost != nil {
			return lost
		}
		if !repair && errors.Is(err, fs.ErrNotExist) {
			return stored(good("store", "nothing is stored yet"))
		}
		return fmt.Errorf("there is no store in %s: %w", data, errors.Unwrap(err))
	}
	err := e.doctorStore(ctx, checks, repair, asJSON)
	if err == nil && anyWrong(checks) {
		err = errShown
	}
	return err
}

// lostStore returns an error when there is no store where there was one.
func (s *settings) lostStore() error {
	err := datadir.MissingStore(s.data, s.folder())
	if gone := datadir.GoneStore(s.data, s.folder()); err == nil && gone != "" {
		err = errors.New(gone)
	}
	return err
}

// doctorStore prints what is damaged in the store, and repairs it when repair is set.
func (e *env) doctorStore(ctx context.Context, checks []check, repair, asJSON bool) error {
	data := e.settings.data
	c, err := datadir.Take(ctx, data)
	switch {
	case errors.Is(err, datadir.ErrLocked) && repair:
		return fmt.Errorf("a cortex runs on %s: stop it first", data)
	case errors.Is(err, datadir.ErrLocked):
		d, err := e.settings.known()
		if err != nil {
			return err
		}
		d.Checks = checks
		return e.tellDiagnosis(d, asJSON)
	case err != nil:
		return err
	}
	d, err := e.settings.examine(ctx)
	if lost := e.settings.lostStore(); lost != nil {
		err = lost
	}
	c.Release()
	if err == nil && repair && d.Damaged {
		return e.repair(ctx, d, asJSON)
	}
	if err != nil {
		return err
	}
	d.Checks = checks
	err = e.tellDiagnosis(d, asJSON)
	if err == nil && repair && !asJSON {
		e.tell("\nnothing had to be repaired")
	}
	return err
}

// known returns what the service that runs on the data folder has found out.
func (s *settings) known() (*diagnosis, error) {
	r, err := s.folder().Known()
	if err != nil {
		return nil, fmt.Errorf("what the cortex that runs on %s says of its store cannot be read: %w", s.data, err)
	}
	if r == nil {
		return nil, fmt.Errorf("the cortex that runs on %s has not said anything of its store yet: try again", s.data)
	}
	d := diagnose(r)
	d.Running = true
	return d, nil
}

// examine reads the whole store.
func (s *settings) examine(ctx context.Context) (*diagnosis, error) {
	r, err := s.folder().Check(ctx)
	if err != nil {
		return nil, err
	}
	return diagnose(r), nil
}

// diagnose makes a diagnosis of a report.
func diagnose(r *home.Report) *diagnosis {
	d := &diagnosis{Findings: r.Findings, Conversations: r.Conversations, byAccount: r.ByAccount, Loose: r.Loose, Streams: r.Streams, forgotten: r.Forgotten, accounts: r.Accounts}
	d.outdated = r.Outdated
	if d.Findings == nil {
		d.Findings = []storecheck.Finding{}
	}
	if d.Loose == nil {
		d.Loose = []erase.Loose{}
	}
	if d.Conversations.Damaged == nil {
		d.Conversations.Damaged = []jetstore.Damaged{}
	}
	lost := func(f storecheck.Finding) bool { return f.Level == storecheck.Lost }
	d.Damaged = slices.ContainsFunc(d.Findings, lost) || len(d.Conversations.Damaged) > 0 || d.Conversations.Lost > 0
	return d
}

// keyless is the account of a server without keys.
const keyless = "$G"

// reaches returns why a service with this --auth does not use an account, or nil.
func (s *settings) reaches(account string) error {
	switch {
	case s.node.auth == "" && account != keyless:
		return errors.New("what is damaged was kept by a service with keys: repair it with the --auth of that service")
	case s.node.auth != "" && account == keyless:
		return errors.New("what is damaged was kept by a service without keys: repair it without --auth")
	case s.node.auth == "":
		return nil
	}
	if _, err := auth.Fetch(s.node.auth, account); err != nil {
		return fmt.Errorf("what is damaged was kept with other keys than those of --auth %s: %w", s.node.auth, err)
	}
	return nil
}

// repair sets damaged files aside, and cuts damaged conversations before the damage. It accepts that data is missing from an account when all of the
// account's conversations are repaired, and only after reporting it: if the process is killed before, the next run reports it again.
func (e *env) repair(ctx context.Context, d *diagnosis, asJSON bool) error {
	var reached []string
	var beyond error
	for _, account := range d.accounts {
		if err := e.settings.reaches(account); err != nil {
			beyond = err
			continue
		}
		reached = append(reached, account)
	}
	if len(reached) == 0 {
		return beyond // before a server is started on the store
	}
	log := e.settings.logger(e.logTo(), slog.LevelError+1) // the table reports everything
	n := &node{log: log, release: func() {}}
	defer n.leave()
	if err := n.open(ctx, &e.settings, nil); err != nil {
		return err
	}
	d.Findings = n.server.Found()
	dir := filepath.Join(datadir.AsideDir(e.settings.data), time.Now().UTC().Format(datadir.AsideLayout))
	left := map[string]int{} // damaged conversations, by account
	for _, c := range d.Conversations.Damaged {
		left[c.Account]++
	}
	store := n.jetstore()
	for _, c := range store.Damaged() {
		if !slices.Contains(reached, c.Account) || e.settings.node.auth != "" && c.Tenant != e.settings.tenant {
			continue // they belong to another --auth and --tenant
		}
		r, err := repairOne(ctx, store, c, dir)
		if err != nil {
			return err
		}
		left[c.Account]--
		d.Repaired = append(d.Repaired, r)
	}
	unfinished := func(account string) bool { return left[account] > 0 }
	whole := slices.DeleteFunc(reached, unfinished)
	d.Accepted = len(whole) == len(d.accounts)
	if len(whole) == 0 && len(d.Repaired) == 0 {
		return errors.New("nothing is repaired: the damaged conversations are those of other tenants: name one with --tenant")
	}
	err := e.tellDiagnosis(d, asJSON)
	if err != nil && !errors.Is(err, errShown) {
		return fmt.Errorf("it is repaired, but what is missing could not be written: it is told again at the next time: %w", err)
	}
	n.server.Accept(whole...)
	return err
}

// removed is a line of the file to which removed entries are written.
type removed struct {
	Version uint64 `json:"version"`
	Entry   string `json:"entry,omitempty"`
	Base64  []byte `json:"base64,omitempty"` // instead of Entry, when that is not UTF-8, which JSON could not give back
}

func removedEntry(version uint64, data []byte) removed {
	if utf8.Valid(data) {
		return removed{Version: version, Entry: string(data)}
	}
	return removed{Version: version, Base64: data}
}

// repairOne repairs a conversation, and writes the removed entries to a file.
func repairOne(ctx context.Context, store *jetstore.Store, c jetstore.Damaged, dir string) (r repaired, err error) {
	r = repaired{Tenant: c.Tenant, ContextID: c.ContextID}
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return r, err
	}
	f, err := os.CreateTemp(dir, "conversation-*.jsonl")
	if err != nil {
		return r, err
	}
	r.Archive = f.Name()
	head, err := json.Marshal(r)
	if err == nil {
		_, err = fmt.Fprintf(f, "%s\n", head)
	}
	if err == nil {
		r.Good, err = store.Repair(ctx, c.Tenant, c.ContextID, func(version uint64, data []byte) error {
			r.Removed++
			line, err := json.Marshal(removedEntry(version, data))
			if err == nil {
				_, err = fmt.Fprintf(f, "%s\n", line)
			}
			return err
		}, f.Sync)
	}
	return r, errors.Join(err, f.Close())
}

// tellDiagnosis prints the diagnosis. It returns an error when something is damaged and not repaired.
func (e *env) tellDiagnosis(d *diagnosis, asJSON bool) error {
	d.remember(e.settings.data)
	if asJSON {
		if err := writeJSON(e, d); err != nil {
			return err
		}
	} else if err := e.showDiagnosis(d); err != nil {
		return err
	}
	if d.Damaged && !d.Accepted {
		return errShown
	}
	return nil
}

// remember adds what earlier repairs set aside and nobody has removed.
func (d *diagnosis) remember(data string) {
	var named []string
	for _, f := range d.Findings {
		if f.Archive != "" {
			named = append(named, f.Archive)
		}
	}
	for _, r := range d.Repaired {
		named = append(named, r.Archive)
	}
	all, more := datadir.ListAside(data)
	d.SetAside = datadir.Unnamed(all, named)
	if more {
		d.asideIn = datadir.AsideDir(data)
	}
}

// accountNames names the accounts of streams, when there are several: each tenant has one, and a server without keys another.
func (s *settings) accountNames(streams []string) map[string]string {
	names := map[string]string{}
	for _, name := range streams {
		account, _, _ := strings.Cut(name, "/")
		names[account] = "other keys"
	}
	if len(names) == 1 {
		return nil
	}
	if _, ok := names[keyless]; ok {
		names[keyless] = "no keys"
	}
	tenants, _ := auth.Tenants(cmp.Or(s.node.auth, filepath.Join(s.data, "auth"))) // without the folder they have no names
	for account, tenant := range tenants {
		if _, ok := names[account]; ok {
			names[account] = "tenant " + cmp.Or(tenant, "-")
		}
	}
	return names
}

// count says how much was found to be stored.
func (d *diagnosis) count(c jetstore.Audited) string {
	text := counted(c.Conversations, "conversation") + ", "
	if c.Entries == 1 {
		text += "1 entry"
	} else {
		text += fmt.Sprintf("%d entries", c.Entries)
	}
	if d.Running {
		text += " when the service started"
	}
	if c.Lost > 0 {
		text += fmt.Sprintf(", %d lost", c.Lost)
	}
	return text
}

// showStore lists the streams of the store with their states. After other checks, a store without damage is shown as one of them.
func (e *env) showStore(d *diagnosis) error {
	t := &table.Table{Columns: []table.Column{{Title: "OF", Least: 12}, {Title: "STREAM"}, {Title: "STATE"}, {Title: "WHAT"}}, Wrap: true}
	whole, has := true, "no conversations are kept in it"
	of := e.settings.accountNames(d.Streams)
	for _, name := range d.Streams {
		state, what := "good", ""
		account, stream, _ := strings.Cut(name, "/")
		for _, f := range d.Findings {
			if f.Account+"/"+f.Stream != name {
				continue
			}
			if f.Level == storecheck.Lost {
				state = "damaged"
			} else if state == "good" && f.Level == storecheck.Recent {
				state = "cut off"
			}
		}
		if stream == jetstore.Stream {
			c := d.Conversations
			if one, ok := d.byAccount[account]; ok {
				c = one
			}
			what = d.count(c)
			has = d.count(d.Conversations)
			if c.Lost > 0 || len(c.Damaged) > 0 {
				state = "damaged"
			}
		}
		whole = whole && state == "good"
		t.Row(of[account], stream, state, what)
	}
	if whole && !d.Damaged && len(d.Checks) > 0 {
		return e.showChecks([]check{good("store", "%s", has)})
	}
	if len(d.Checks) > 0 {
		if _, err := fmt.Fprintln(e.stdout); err != nil {
			return err
		}
	}
	return e.show(t)
}

func (e *env) showDiagnosis(d *diagnosis) error {
	if err := e.showStore(d); err != nil {
		return err
	}
	var failed error
	out := func(_ int, err error) { failed = cmp.Or(failed, err) }
	line := func(format string, args ...any) { out(screen.Print(e.stdout, format, args...)) }
	gap := func(follow int) {
		if follow > 0 {
			line("")
		}
	}
	gap(len(d.Findings))
	for _, f := range d.Findings {
		where := f.Stream
		if f.File != "" {
			where += "/" + f.File
		}
		line("%s: %s", prompt.Clean(where, 200), prompt.Clean(f.What, 300))
		for _, subject := range f.Subjects {
			line("  a message of %s", prompt.Clean(subject, 200))
		}
		if f.Archive != "" {
			out(fmt.Fprintf(e.stdout, "  kept in %s\n", pathText(f.Archive))) // not shortened, to be copied
		}
	}
	gap(len(d.Conversations.Damaged))
	for _, c := range d.Conversations.Damaged {
		line("conversation %s: %d entries are good, %d behind them are not: %s", prompt.Clean(c.ContextID, 200), c.Good, c.Rest, prompt.Clean(c.Why, 300))
	}
	for i, l := range d.Loose {
		if i == 0 {
			line("\nfiles that no conversation has, and that a service removes when nothing has spoken of them for a while:")
		}
		of := prompt.Clean(l.From, 200)
		if l.Tenant != "" {
			of += " of tenant " + prompt.Clean(l.Tenant, 200)
		}
		line("  %d of %s, %s", l.Files, of, transport.SizeText(l.Bytes))
	}
	gap(len(d.Repaired))
	for _, r := range d.Repaired {
		out(fmt.Fprintf(e.stdout, "repaired conversation %s: it keeps %d entries, %d are in %s\n", prompt.Clean(r.ContextID, 200), r.Good, r.Removed, pathText(r.Archive)))
	}
	gap(len(d.SetAside))
	for i, a := range d.SetAside {
		if i == maxAsideNamed {
			line("and %d more", len(d.SetAside)-i)
			break
		}
		what := fmt.Sprintf("%d bytes of %s", a.Bytes, prompt.Clean(a.What, 200))
		if a.ContextID != "" {
			what = fmt.Sprintf("%d entries of conversation %s", a.Entries, prompt.Clean(a.ContextID, 200))
		}
		out(fmt.Fprintf(e.stdout, "set aside %s: %s: %s\n", a.At.Format("2006-01-02 15:04"), what, pathText(a.File)))
	}
	if d.asideIn != "" {
		line("and more in %s", d.asideIn)
	}
	switch {
	case d.Accepted:
		line("\nwhat is missing is taken note of")
	case d.Damaged && !d.Running:
		line("\n`cortex doctor --repair` sets aside what is damaged, and keeps the rest")
	case d.Damaged:
		line("\nstop the service and run `cortex doctor --repair`: what is good of each conversation stays")
	}
	if d.forgotten {
		screen.Print(e.stderr, "nothing was remembered of this store: what is missing altogether cannot be told")
	}
	if d.outdated {
		screen.Print(e.stderr, "what is remembered of this store is of an earlier time than the store: whether something is missing that came since cannot be told")
	}
	return failed
}

// maxAsideNamed bounds how many files are named that were set aside.
const maxAsideNamed = 20

// pathText returns a path to be copied: unchanged, or quoted when it contains characters that do not belong on a terminal.
func pathText(path string) string {
	if strings.ContainsFunc(path, func(r rune) bool { return !unicode.IsPrint(r) || r == utf8.RuneError }) {
		return strconv.Quote(path)
	}
	return path
}
