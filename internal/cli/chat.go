package cli

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/spf13/cobra"
	"golang.org/x/sync/errgroup"
	"golang.org/x/term"

	"github.com/cortex-orchestrator/cortex/cortex/registry"
	"github.com/cortex-orchestrator/cortex/repl"
	"github.com/cortex-orchestrator/cortex/transport"
)

// syncTimeout bounds how long the list of agents may take to arrive.
const syncTimeout = 15 * time.Second

// ownAgents are the built-in agents of a Cortex that a chat starts for itself.
var ownAgents = []string{"echo", "clock", "calc"}

func (e *env) newChat() *cobra.Command {
	var w where
	c := &cobra.Command{
		Use:   "chat",
		Short: "Talk to Cortex; starts everything it needs",
		Long: `Talk to Cortex. If none runs on the data folder, chat starts one, with the small agents echo, clock and calc; agents
from other terminals join it by themselves. If one runs, chat joins it. On a server that --nats names it only joins the one
that runs there: start that with ` + "`cortex serve --nats URL`" + `.

Without --llm it decides offline, by words. When the environment has a key of a model, or a program with models runs on this machine, chat
offers that once, and keeps the answer in the data folder, for chats; before that, nothing is sent to it.

When standard input is no terminal, all of it is one message: the answer goes to standard output, and nothing else.`,
		Example: "  cortex chat\n  echo 'Echo this!' | cortex chat\n  cortex chat --conversation trip-to-tokyo\n  cortex chat -c",
		Args: func(cmd *cobra.Command, args []string) error {
			if err := exactArgs()(cmd, args); err != nil {
				return err
			}
			return w.check()
		},
		RunE: func(cmd *cobra.Command, _ []string) error {
			unready, err := e.chooseModel(cmd.Context())
			if err != nil {
				return err
			}
			return e.converse(cmd.Context(), func(ctx context.Context, _ *backend, cfg repl.Config) error {
				cfg.Warning = strings.Trim(unready+"; "+cfg.Warning, "; ")
				if !cfg.Terminal {
					return repl.Pipe(ctx, cfg)
				}
				return repl.Run(ctx, cfg)
			}, &w)
		},
	}
	e.settings.addNode(c, ownAgents...)
	e.settings.keys = oneOf(repl.KeysEmacs, repl.KeysVi)
	c.Flags().Var(&e.settings.keys, "keys", "`NAME` of the keys to type with: emacs, as in most shells, or vi")
	setting(c.Flags(), "keys")
	w.add(e, c)
	return c
}

// converse joins the Cortex that runs, or starts one on the data folder, and calls talk with it.
func (e *env) converse(ctx context.Context, talk func(context.Context, *backend, repl.Config) error, w *where) error {
	if err := makeDir(e.settings.data); err != nil { // for the history, also where the server is elsewhere
		return err
	}
	notices := make(chan string, 8)
	log := e.sentencesOr(slog.LevelError, e.notify(notices))
	ctx, fail := context.WithCancelCause(ctx)
	defer fail(nil)
	e.settings.node.tell, e.settings.node.fail = e.notify(notices), fail
	b, place, warning, closeAll, err := e.attach(ctx, log, e.tellConnection(notices))
	if err != nil {
		return err
	}
	contextID, err := w.find(ctx, b.link)
	if err != nil {
		closeAll() //nolint:errcheck // nothing was said
		return err
	}
	cfg := repl.Config{
		Client: b.client(), Backend: b.repl(), ContextID: contextID,
		Color: e.settings.color.value, Theme: e.settings.theme.value, Keys: e.settings.keys.value, MaxFile: int64(e.settings.node.maxFile), Stdin: e.stdin, Stdout: e.stdout, Stderr: e.stderr, Terminal: e.onTerminal(), Notices: notices,
		Version: buildVersion(), Where: place, Decides: e.settings.decidesHere(ctx), Warning: warning, History: filepath.Join(e.settings.data, "history"),
	}
	cfg.Backend.Model = e.settings.decides
	err = talk(ctx, b, cfg)
	if cause := context.Cause(ctx); cause != nil && !errors.Is(cause, context.Canceled) {
		err = cause // it was cut short
	}
	if cerr := closeAll(); err == nil {
		err = cerr
	}
	if errors.Is(err, repl.ErrFailed) {
		return errShown // the answer said so
	}
	return err
}

// tellConnection tells the user when the connection to a Cortex that was joined is lost and made again, or cannot be.
func (e *env) tellConnection(notices chan<- string) func(up bool, err error) {
	tell := e.notify(notices)
	return func(up bool, err error) {
		end := e.settings.shutOut(err)
		switch {
		case end != nil:
			e.settings.node.fail(end)
		case up:
			tell("cortex is back")
		case errors.Is(err, transport.ErrForbidden):
			tell(oneLine(err))
		default:
			tell("the connection to cortex is lost; it is tried again until it is back, and nothing that was said is lost")
		}
	}
}

// notify tells the user something: in the chat, or, where there is none, on standard error.
func (e *env) notify(notices chan<- string) func(line string) {
	return func(line string) {
		if !e.onTerminal() {
			fmt.Fprintln(e.stderr, "cortex: "+line)
			return
		}
		select {
		case notices <- line:
		default:
		}
	}
}

// attach joins the Cortex that runs, or starts one in this process: on the data folder only, and never on a server of others. warning says
// what of the settings is not used.
func (e *env) attach(ctx context.Context, log *slog.Logger, onConn func(up bool, err error)) (b *backend, where, warning string, closeAll func() error, err error) {
	s := &e.settings
	s.node.passing = true
	fail := func(err error) (*backend, string, string, func() error, error) { return nil, "", "", nil, err }
	// What is wrong with the settings is said also when another process has its own.
	if err := s.checkLLM(); err != nil {
		return fail(err)
	}
	if _, err := s.builtin(); err != nil {
		return fail(err)
	}
	if _, err := s.loadPolicy(log); err != nil {
		return fail(err)
	}
	given, err := s.handover()
	if err != nil {
		return fail(err)
	}
	before, wellKnown := s.creds, s.node.wellKnown
	turn := e.newTurn()
	for late := time.Now().Add(syncTimeout); ; {
		s.creds, s.node.wellKnown, s.node.strict = before, wellKnown, given.of("strict-abilities") == "true" // those of another are of no use
		if s.inFolder() {
			if err := turn.await(ctx); err != nil {
				return fail(err)
			}
		}
		conn := new(outage)
		again := func(err error) bool { // it is just ending: start one, or join the next
			return errors.Is(err, transport.ErrUnavailable) && s.inFolder() && !refusesTLS(err) && time.Now().Before(late) && rest(ctx, 50*time.Millisecond) == nil
		}
		joining, end := context.WithCancel(ctx)
		defer end()
		in := &entrance{end: end}
		l, err := s.enter(joining, in, log, func(up bool, err error) {
			conn.onConn(up, err)
			if onConn != nil {
				onConn(up, err)
			}
		})
		if again(err) {
			continue
		}
		if err != nil {
			return fail(cmp.Or(ctx.Err(), err))
		}
		if s.remote() { // the server is there; is there an orchestrator on it?
			if err := l.awaitCortex(ctx); err != nil {
				l.Close()
				return fail(err)
			}
		}
		if l != nil {
			unused, err := s.unused(ctx, given)
			if err != nil {
				l.Close()
				return fail(err)
			}
			abdicate := s.succeed(ctx, log)
			b, unwatch, err := s.watch(joining, l, log)
			if err = in.settle(err); err != nil {
				if b != nil {
					err = errors.Join(err, unwatch())
				}
				l.Close()
				if err = errors.Join(err, abdicate()); again(err) {
					continue
				}
				return fail(cmp.Or(ctx.Err(), err))
			}
			conn.tell(b.registry)
			decides, other := s.whoDecides(ctx)
			warning = strings.Join(slices.DeleteFunc([]string{other, unused}, func(s string) bool { return s == "" }), "; ")
			where := "joined " + l.url
			if !s.inFolder() || !e.onTerminal() { // else it says so in a line of its own
				where += decides
			}
			if warning != "" && !e.onTerminal() { // else the chat begins with it
				fmt.Fprintf(e.stderr, "cortex: %s: %s\n", where, warning)
			}
			return b, where, warning, func() error { return errors.Join(unwatch(), abdicate()) }, nil
		}
		n, err := s.startNode(ctx, log, nil)
		if errors.Is(err, errLocked) {
			continue // somebody else was faster: join it
		}
		if err != nil {
			return fail(err)
		}
		where = "started on " + n.url
		own := func(context.Context) (*handover, error) { return n.set, nil }
		watching, unwatch := context.WithCancel(ctx)
		var watched sync.WaitGroup
		watched.Go(func() { s.report(watching, n) })
		return &backend{link: n.link, registry: n.Registry, isSet: own, index: n.Index}, where, "", func() error {
			unwatch()
			watched.Wait()
			return n.Close()
		}, nil
	}
}

// entrance is the time until a Cortex that runs is joined for good.
type entrance struct {
	end           context.CancelFunc // of what waits for that one
	lost, settled atomic.Bool
}

// enter joins the Cortex that runs, as join does. When the one of the data folder ends before the entrance is settled, so does what waits for
// it: nobody may come back to its address before this process does. onConn is told what becomes of the connection after that.
func (s *settings) enter(ctx context.Context, in *entrance, log *slog.Logger, onConn func(up bool, err error)) (*link, error) {
	l, err := s.join(ctx, "chat", log, func(up bool, err error) {
		switch {
		case in.settled.Load() || !s.inFolder():
			onConn(up, err)
		case !up:
			in.lost.Store(true)
			in.end()
		}
	})
	if err != nil || l == nil {
		err = in.settle(err)
	}
	return l, err
}

// settle ends the entrance. It returns err, or ErrUnavailable when the other one has ended meanwhile.
func (in *entrance) settle(err error) error {
	in.settled.Store(true)
	switch {
	case !in.lost.Load():
		return err
	case err == nil:
		return fmt.Errorf("%w: the connection was lost", transport.ErrUnavailable)
	}
	return fmt.Errorf("%w: %s", transport.ErrUnavailable, oneLine(err)) // whatever it was: that one is gone
}

// whoDecides says which model the Cortex that was joined decides with, where it is not fake, and warns when it is another one than this
// command was told to use.
func (s *settings) whoDecides(ctx context.Context) (text, warning string) {
	if s.node.llm != "fake" {
		warning = fmt.Sprintf("--llm %s is not used", s.node.llm)
	}
	if !s.inFolder() {
		if warning != "" {
			text = ", which has its own model"
		}
		return text, warning
	}
	a, ok, err := findAddress(ctx, s.data)
	switch {
	case err != nil || !ok || a.LLM == "":
		return "", ""
	case s.describeLLM() == a.LLM:
		warning = ""
	case warning != "" && a.Passing:
		warning += untilSucceeded
	}
	if a.LLM != "fake" || warning != "" {
		text = ", which decides with " + a.LLM
	}
	return text, warning
}

// decides says what decides, for people.
func (s *settings) decides(ctx context.Context) (string, error) {
	if !s.inFolder() {
		return "the Cortex on that server decides; it does not say with which model", nil
	}
	a, ok, err := findAddress(ctx, s.data)
	switch {
	case err != nil:
		return "", err
	case !ok:
		return "no Cortex runs now", nil
	case a.LLM == "fake":
		return "deciding offline by words; for a language model: --llm … (cortex llm list)", nil
	}
	return "deciding with " + a.LLM, nil
}

// decidesHere is what the chat begins with of that; "" when the Cortex is elsewhere.
func (s *settings) decidesHere(ctx context.Context) string {
	text, err := s.decides(ctx)
	if err != nil || !s.inFolder() {
		return ""
	}
	return text
}

// untilSucceeded is for settings that are not used as long as a chat or a question runs that was there before.
const untilSucceeded = " until this one takes over"

// succeed makes this process the next to run the Cortex of the data folder, when the chat that does ends while this one
// goes on. The new server has the address of the old one, and all its settings but those that this process was given, so that everybody finds it again. A service that ends is not
// succeeded: it is about to be started again. But a chat may run one by the time that this matters. The function that is returned ends that.
func (s *settings) succeed(ctx context.Context, log *slog.Logger) (abdicate func() error) {
	if !s.inFolder() {
		return func() error { return nil }
	}
	ctx, stop := context.WithCancel(context.WithoutCancel(ctx))
	done := make(chan error, 1)
	enter, leave := inherit(s.data)
	enter()
	go func() { done <- s.reign(ctx, log, enter) }()
	return func() error {
		defer leave()
		stop()
		return <-done
	}
}

// reign waits for the data folder to be free, and then runs a node like the one before until ctx ends. When that was a service, it is
// about to be started again, and reign goes on to wait. So it does when no node can be started: what is in the way may be taken out of it.
// It calls enter again and again.
func (s *settings) reign(ctx context.Context, log *slog.Logger, enter func()) error {
	var told string
	poll := time.NewTicker(100 * time.Millisecond)
	defer poll.Stop()
	for {
		select {
		case <-ctx.Done():
			return nil
		case <-poll.C:
		}
		enter()
		if held(s.data) || locked(queueFile(s.data)) {
			continue
		}
		last, ok := lastAddress(s.data)
		if !ok || !last.Passing {
			continue
		}
		next, own, err := s.successor(last.Node)
		var n *node
		if err == nil {
			n, err = next.startNode(ctx, log, nil)
		}
		switch {
		case errors.Is(err, errLocked):
			continue
		case ctx.Err() != nil:
			return nil
		case err != nil:
			if line := cannotReign(err); line != told && s.node.tell != nil {
				s.node.tell(line)
				told = line
			}
			if err := rest(ctx, reignPause); err != nil {
				return nil //nolint:nilerr // the chat ends
			}
			continue
		}
		if len(own) > 0 && s.node.tell != nil {
			s.node.tell("this one runs cortex now, with its own " + listed(own))
		}
		next.report(ctx, n)
		return n.Close()
	}
}

// reignPause is how long a chat waits that could not take over. Each time it may have started a server.
const reignPause = time.Second

// cannotReign is what the user of a chat is told that cannot take over.
func cannotReign(err error) string {
	what := "mend that"
	if errors.Is(err, fs.ErrNotExist) {
		what = "put it back"
	}
	return "no cortex runs now: " + oneLine(err) + "; " + what + ", or start `cortex serve`"
}

// report tells the chat, which cannot go on, when its node fails before ctx ends.
func (s *settings) report(ctx context.Context, n *node) {
	if err := n.Wait(ctx); err != nil && s.node.fail != nil {
		s.node.fail(err)
	}
}

// watch keeps a registry of the agents that are announced on l, until closed.
func (s *settings) watch(ctx context.Context, l *link, log *slog.Logger) (*backend, func() error, error) {
	wellKnown, err := s.loadWellKnown(ctx)
	if err != nil {
		return nil, nil, err
	}
	r := registry.New(registry.Config{
		Tenant: s.tenant, WellKnown: wellKnown, Logger: log, StrictAbilities: s.node.strict, Keep: l.recollection(),
	})
	rctx, stop := context.WithCancel(context.WithoutCancel(ctx))
	var g errgroup.Group
	g.Go(func() error { return persist(rctx, func(ctx context.Context) error { return r.Run(ctx, l.bus) }) })
	closeAll := func() error {
		stop()
		err := g.Wait()
		l.Close()
		if errors.Is(err, context.Canceled) {
			return nil
		}
		return err
	}
	return &backend{link: l, registry: r, isSet: s.joined, arrived: r.Synced()}, closeAll, nil
}

// persist calls run, and again when the server was away just when it was asked to begin.
func persist(ctx context.Context, run func(context.Context) error) error {
	for {
		err := run(ctx)
		if ctx.Err() != nil || !errors.Is(err, transport.ErrUnavailable) {
			return err
		}
		select {
		case <-time.After(100 * time.Millisecond):
		case <-ctx.Done():
			return ctx.Err()
		}
	}
}

func (s *settings) loadWellKnown(ctx context.Context) ([]registry.WellKnown, error) {
	if s.node.wellKnown == "" {
		return nil, nil
	}
	list, err := registry.LoadWellKnown(ctx, s.node.wellKnown)
	if err != nil {
		return nil, s.wrong("well-known", ": %w", err)
	}
	return list, nil
}

// onTerminal reports whether a person sits at both ends.
func (e *env) onTerminal() bool { return isTerminal(e.stdin) && isTerminal(e.stdout) }

func isTerminal(stream any) bool {
	f, ok := stream.(*os.File)
	return ok && term.IsTerminal(int(f.Fd()))
}
