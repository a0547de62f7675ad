package cli

import (
	"bytes"
	"cmp"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/spf13/cobra"
	"golang.org/x/sync/errgroup"

	"github.com/cortex-orchestrator/cortex/cortex/registry"
	"github.com/cortex-orchestrator/cortex/internal/cli/typed"
	"github.com/cortex-orchestrator/cortex/internal/datadir"
	"github.com/cortex-orchestrator/cortex/internal/document"
	"github.com/cortex-orchestrator/cortex/internal/rest"
	"github.com/cortex-orchestrator/cortex/internal/screen"
	"github.com/cortex-orchestrator/cortex/repl"
	"github.com/cortex-orchestrator/cortex/transport"
)

// syncTimeout bounds the wait for the list of agents.
const (
	syncTimeout = 15 * time.Second
	maxSyncs    = 40 // times that while it goes on arriving
)

// ownAgents are the built-in agents of a Cortex that a chat starts.
var ownAgents = []string{"echo", "clock", "calc"}

func (e *env) newChat() *cobra.Command {
	var w where
	var at string
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
			if err := typed.Exact()(cmd, args); err != nil {
				return err
			}
			return w.check()
		},
		RunE: func(cmd *cobra.Command, _ []string) error {
			if at != none && !isAddress(at) {
				return e.settings.wrong("console", " %q: want host:port, such as %s, or none", at, defaultHTTP)
			}
			unready, err := e.chooseModel(cmd.Context())
			if err != nil {
				return err
			}
			return e.converse(cmd.Context(), func(ctx context.Context, b *backend, cfg repl.Config) error {
				cfg.Warning = strings.Trim(unready+"; "+cfg.Warning, "; ")
				if !cfg.Terminal {
					return repl.Pipe(ctx, cfg)
				}
				link, closeConsole, err := e.chatConsole(ctx, b, at)
				if err != nil {
					return err
				}
				defer closeConsole()
				cfg.Console = link
				return repl.Run(ctx, cfg)
			}, &w)
		},
	}
	e.settings.addNode(c, ownAgents...)
	e.settings.keys = oneOf(repl.KeysEmacs, repl.KeysVi)
	c.Flags().Var(&e.settings.keys, "keys", "`NAME`: key bindings: emacs, as in most shells, or vi")
	c.Flags().StringVar(&at, "console", defaultHTTP, "`ADDRESS`: where the console is for a browser, if this chat starts Cortex, or none")
	setting(c.Flags(), "keys", "console")
	group(c.Flags(), groupKeep, "console")
	w.add(e, c)
	return c
}

// converse joins the running Cortex, or starts one on the data folder, and calls talk with it.
func (e *env) converse(ctx context.Context, talk func(context.Context, *backend, repl.Config) error, w *where) error {
	if err := datadir.Make(e.settings.data); err != nil { // for the history, also when the server is elsewhere
		return err
	}
	notices := make(chan string, 8)
	log := e.sentencesOr(slog.LevelError, e.notify(notices))
	ctx, fail := context.WithCancelCause(ctx)
	defer fail(nil)
	e.settings.node.tell, e.settings.node.fail = e.notify(notices), fail
	b, err := e.attach(ctx, log, e.tellConnection(notices))
	if err != nil {
		return err
	}
	contextID, err := w.find(ctx, b.link)
	if err != nil {
		b.close() //nolint:errcheck // nothing was said
		return err
	}
	user := b.client()
	user.TimeZone, user.Locale = timeZone(), locale()
	cfg := repl.Config{
		Client: user, Backend: b.repl(), ContextID: contextID,
		Color: e.settings.color.value, Theme: e.settings.theme.value, Keys: e.settings.keys.value, MaxFile: int64(e.settings.node.maxFile), Stdin: e.stdin, Stdout: e.stdout, Stderr: e.stderr, Terminal: e.onTerminal(), Notices: notices,
		Version: buildVersion(), Where: b.where, Decides: e.settings.decidesHere(ctx), Warning: b.warning, History: filepath.Join(e.settings.data, "history"),
	}
	cfg.Backend.Model = e.settings.decides
	err = talk(ctx, b.backend, cfg)
	if cause := context.Cause(ctx); cause != nil && !errors.Is(cause, context.Canceled) {
		err = cause // the reason why ctx ended
	}
	if cerr := b.close(); err == nil {
		err = cerr
	}
	if errors.Is(err, repl.ErrFailed) {
		return errShown // the answer said so
	}
	return err
}

// tellConnection returns a callback that tells the user when the connection to a joined Cortex is lost, restored or refused for good.
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

// notify returns a function that shows a line to the user: by whoever writes to the terminal, or on standard error when there is none.
func (e *env) notify(notices chan<- string) func(line string) {
	return func(line string) {
		if !e.onTerminal() && !screen.IsTerminal(e.stderr) {
			e.say("cortex: %s", line)
			return
		}
		select {
		case notices <- line:
		default:
		}
	}
}

// attached is a Cortex that a chat talks to.
type attached struct {
	*backend
	where, warning string // warning names settings that have no effect
	close          func() error
}

// attach joins the running Cortex, or starts one in this process; the latter only on the data folder, never on an external server.
func (e *env) attach(ctx context.Context, log *slog.Logger, onConn func(up bool, err error)) (*attached, error) {
	s := &e.settings
	s.node.passing = true
	given, err := s.checkAll(ctx, log)
	if err != nil {
		return nil, err
	}
	before := s.creds
	turn := e.newTurn()
	late := time.Now().Add(syncTimeout)
	for {
		s.creds, s.node.joined, s.node.strict = before, "", given.Of("strict-abilities") == "true" // the other server's credentials are of no use
		if s.inFolder() {
			if err := turn.await(ctx); err != nil {
				return nil, err
			}
		}
		joined, leaving, err := e.joinRunning(ctx, given, log, onConn)
		if leaving && s.inFolder() && !refusesTLS(err) && time.Now().Before(late) && rest.For(ctx, 50*time.Millisecond) == nil {
			continue // to start one, or to join the next
		}
		if err != nil || joined != nil {
			return joined, err
		}
		n, err := s.startNode(ctx, log, nil)
		if errors.Is(err, datadir.ErrLocked) {
			continue // another process was faster: join it
		}
		if err != nil {
			return nil, err
		}
		own := func(context.Context) (*datadir.Handover, error) { return n.set, nil }
		watching, unwatch := context.WithCancel(ctx)
		var watched sync.WaitGroup
		watched.Go(func() { s.report(watching, n) })
		return &attached{&backend{link: n.link, registry: n.Registry, node: n, isSet: own, index: n.Index}, "started on " + n.url, "", func() error {
			unwatch()
			watched.Wait()
			return n.Close()
		}}, nil
	}
}

// checkAll returns the settings. It reports wrong ones also when the running Cortex uses its own.
func (s *settings) checkAll(ctx context.Context, log *slog.Logger) (*datadir.Handover, error) {
	s.takeOnlyModel(ctx)
	if err := s.checkLLM(); err != nil {
		return nil, err
	}
	if _, err := s.builtin(); err != nil {
		return nil, err
	}
	if _, err := s.loadPolicy(log); err != nil {
		return nil, err
	}
	return s.handover()
}

// joinRunning joins the running Cortex; nil when none runs. leaving says that it is just ending, which is the error then.
func (e *env) joinRunning(ctx context.Context, given *datadir.Handover, log *slog.Logger, onConn func(up bool, err error)) (a *attached, leaving bool, err error) {
	s := &e.settings
	conn := new(outage)
	joining, end := context.WithCancel(ctx)
	defer end()
	in := &entrance{end: end}
	l, err := s.joinEntering(joining, in, log, func(up bool, err error) {
		conn.onConn(up, err)
		if onConn != nil {
			onConn(up, err)
		}
	})
	if err != nil {
		return nil, errors.Is(err, transport.ErrUnavailable), cmp.Or(ctx.Err(), err)
	}
	if l == nil {
		return nil, false, nil
	}
	if s.remote() { // the server is reachable: check that an orchestrator runs on it
		if err := l.awaitCortex(ctx); err != nil {
			l.Close()
			return nil, false, err
		}
	}
	unused, err := s.unused(ctx, given)
	if err != nil {
		l.Close()
		return nil, false, err
	}
	abdicate := s.prepareTakeover(ctx, log)
	b, unwatch, err := s.watch(joining, l, log)
	if err = in.settle(err); err != nil {
		if b != nil {
			err = errors.Join(err, unwatch())
		}
		l.Close()
		err = errors.Join(err, abdicate())
		return nil, errors.Is(err, transport.ErrUnavailable), cmp.Or(ctx.Err(), err)
	}
	conn.tell(b.registry)
	decides, other := s.whoDecides(ctx)
	a = &attached{b, "joined " + l.url, strings.Trim(other+"; "+unused, "; "), func() error { return errors.Join(unwatch(), abdicate()) }}
	if !s.inFolder() || !e.onTerminal() { // otherwise the chat shows it in a line of its own
		a.where += decides
	}
	if a.warning != "" && !e.onTerminal() { // the chat shows the warning itself
		e.say("cortex: %s: %s", a.where, a.warning)
	}
	return a, false, nil
}

// entrance is the period until this process has joined a running Cortex.
type entrance struct {
	end           context.CancelFunc // cancels what waits for that Cortex
	lost, settled atomic.Bool
}

// joinEntering joins the running Cortex, as join does. When the Cortex of the data folder ends before the entrance is settled, joinEntering cancels the waiting: no
// process may come back to that address before this one does. After that, onConn receives changes of the connection.
func (s *settings) joinEntering(ctx context.Context, in *entrance, log *slog.Logger, onConn func(up bool, err error)) (*link, error) {
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

// settle ends the entrance. It returns err, or ErrUnavailable when the other Cortex has ended in the meantime.
func (in *entrance) settle(err error) error {
	in.settled.Store(true)
	switch {
	case !in.lost.Load():
		return err
	case err == nil:
		return fmt.Errorf("%w: the connection was lost", transport.ErrUnavailable)
	}
	return fmt.Errorf("%w: %s", transport.ErrUnavailable, oneLine(err)) // the cause does not matter: the other Cortex is gone
}

// whoDecides returns which model the joined Cortex decides with, unless it is fake, and a warning when this command named another model.
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
	a, ok, err := datadir.Find(ctx, s.data)
	switch {
	case err != nil || !ok || a.LLM == "":
		return "", ""
	case s.describeLLM() == a.LLM:
		warning = ""
	case warning != "" && a.Passing:
		warning += untilTakeover
	}
	if a.LLM != "fake" || warning != "" {
		text = ", which decides with " + a.LLM
	}
	return text, warning
}

// offline describes the decider without a model.
const offline = "offline by words; for a language model: --llm … (cortex llm list)"

// decides describes the model that decides.
func (s *settings) decides(ctx context.Context) (string, error) {
	if !s.inFolder() {
		return "the Cortex on that server decides; it does not say with which model", nil
	}
	a, ok, err := datadir.Find(ctx, s.data)
	switch {
	case err != nil:
		return "", err
	case !ok:
		return "no Cortex runs now", nil
	case a.LLM == "fake":
		return "deciding " + offline, nil
	}
	return "deciding with " + a.LLM, nil
}

// decidesHere is decides for the first lines of a chat; "" when the Cortex is elsewhere.
func (s *settings) decidesHere(ctx context.Context) string {
	text, err := s.decides(ctx)
	if err != nil || !s.inFolder() {
		return ""
	}
	return text
}

// untilTakeover limits a warning about unused settings: they take effect when this process takes over.
const untilTakeover = " until this one takes over"

// prepareTakeover prepares this process to run the Cortex of the data folder when the chat that runs it ends first. The new server has the address of the old
// one, so that others find it again, and its settings, except those given to this process. A service that ends is restarted by others and not
// succeeded; but by that time a chat may run the Cortex. The function that prepareTakeover returns ends the preparation.
func (s *settings) prepareTakeover(ctx context.Context, log *slog.Logger) (abdicate func() error) {
	if !s.inFolder() {
		return func() error { return nil }
	}
	ctx, stop := context.WithCancel(context.WithoutCancel(ctx))
	done := make(chan error, 1)
	enter, leave := datadir.AnnounceTakeover(s.data)
	enter()
	go func() { done <- s.takeOver(ctx, log, enter) }()
	return func() error {
		defer leave()
		stop()
		return <-done
	}
}

// takeOver waits until the data folder is free, then runs a node with the settings of the previous one until ctx ends. It keeps waiting when the
// previous one was a service, which is about to be restarted, and when no node can be started, since the user may remove the cause. It calls enter
// repeatedly.
func (s *settings) takeOver(ctx context.Context, log *slog.Logger, enter func()) error {
	var told string
	for rest.For(ctx, 100*time.Millisecond) == nil {
		enter()
		if datadir.Held(s.data) || datadir.Locked(datadir.QueueFile(s.data)) {
			continue
		}
		last, ok := datadir.Last(s.data)
		if !ok || !last.Passing {
			continue
		}
		next, own, err := s.successor(last.Node)
		var n *node
		if err == nil {
			n, err = next.startNode(ctx, log, nil)
		}
		switch {
		case errors.Is(err, datadir.ErrLocked):
			continue
		case ctx.Err() != nil:
			return nil
		case err != nil:
			if line := takeoverNotice(err); line != told && s.node.tell != nil {
				s.node.tell(line)
				told = line
			}
			if err := rest.For(ctx, takeoverPause); err != nil {
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
	return nil
}

// takeoverPause is the pause after a failed takeover, which may have started a server.
const takeoverPause = time.Second

// takeoverNotice is the notice to the user of a chat that cannot take over.
func takeoverNotice(err error) string {
	what := "mend that"
	if errors.Is(err, fs.ErrNotExist) {
		what = "put it back"
	}
	return "no cortex runs now: " + oneLine(err) + "; " + what + ", or start `cortex serve`"
}

// report tells the chat, which cannot go on, that its node has failed before ctx ended.
func (s *settings) report(ctx context.Context, n *node) {
	if err := n.Wait(ctx); err != nil && s.node.fail != nil {
		s.node.fail(err)
	}
}

// watch keeps a registry of the agents that are announced on l, until the function that it returns is called.
func (s *settings) watch(ctx context.Context, l *link, log *slog.Logger) (*backend, func() error, error) {
	wellKnown, err := s.shownWellKnown(ctx, log)
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

// persist calls run, and again when the server is unavailable.
func persist(ctx context.Context, run func(context.Context) error) error {
	for {
		err := run(ctx)
		if ctx.Err() != nil || !errors.Is(err, transport.ErrUnavailable) {
			return err
		}
		if err := rest.For(ctx, 100*time.Millisecond); err != nil {
			return err
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

// maxJoinedList bounds what is read of a list of well-known agents, in bytes: more than registry.ReadWellKnown takes.
const maxJoinedList = 2 << 20

// shownWellKnown returns the well-known agents that a process shows that has joined a Cortex: its own list, or that of the Cortex in the data folder. The
// latter is a convenience, and its Cortex may have read it from a pipe: one that is no file or damaged by now only leaves those agents out.
func (s *settings) shownWellKnown(ctx context.Context, log *slog.Logger) ([]registry.WellKnown, error) {
	if s.node.wellKnown != "" || s.node.joined == "" {
		return s.loadWellKnown(ctx)
	}
	b, _, err := document.ReadRegular(s.node.joined, maxJoinedList)
	var list []registry.WellKnown
	if err == nil {
		list, err = registry.ReadWellKnown(bytes.NewReader(b))
	}
	if err != nil {
		log.Error("the list of well-known agents of the running cortex cannot be read: those that do not run are not shown", "file", s.node.joined, "err", err)
	}
	return list, nil
}

// onTerminal reports whether both standard input and standard output are terminals.
func (e *env) onTerminal() bool { return screen.IsTerminal(e.stdin) && screen.IsTerminal(e.stdout) }
