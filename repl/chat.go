package repl

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/signal"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/a2aproject/a2a-go/v2/a2a"

	"github.com/cortex-orchestrator/cortex/client"
	"github.com/cortex-orchestrator/cortex/transport"
)

// Run chats until the user leaves. It returns nil after Ctrl-D or /quit, ErrInterrupted after a second Ctrl-C on an empty line, and ctx's error when
// ctx ends. Without a terminal it does what Pipe does. It handles the interrupt signal while it runs.
func Run(ctx context.Context, cfg Config) error {
	cfg = cfg.withDefaults()
	if cfg.Client == nil {
		return errors.New("repl: Config.Client is missing")
	}
	if !cfg.Terminal {
		return Pipe(ctx, cfg)
	}
	interrupts := make(chan os.Signal, 1)
	signal.Notify(interrupts, os.Interrupt)
	defer signal.Stop(interrupts)

	c := &chat{
		Config: cfg, contextID: cfg.ContextID, present: newPresence(), waiting: map[a2a.TaskID]*delegation{}, others: others{look: make(chan struct{}, 1)},
		ui: &ui{screen: cfg.screen(cfg.Stdout, true), interrupts: interrupts}, interrupts: interrupts,
	}
	c.contextID = cmp.Or(c.contextID, c.Client.NextID())
	if c.Backend.Agents == nil {
		c.Backend.Agents = c.present.list
	}
	return c.run(ctx)
}

// chat is the state of Run.
type chat struct {
	Config
	ui         *ui
	contextID  string
	present    *presence
	others     others
	typed      history
	interrupts chan os.Signal
	warned     bool // Ctrl-C on an empty line was answered with a hint, and nothing was entered since
	files      sync.Mutex
	got        []gotFile // files of answers in the order of their numbers; guarded by files
	last       string    // the last message of the user; lastFiles has its files
	lastFiles  []string
	verbose    bool
	waiting    map[a2a.TaskID]*delegation // for the user
	asked      bool                       // the last answer in this conversation asks the user something
}

func (c *chat) run(ctx context.Context) (err error) {
	c.typed.path = c.History
	recalled, historyErr := c.typed.load()
	if err := c.openEditor(recalled); err != nil {
		return err
	}
	inner, stop := context.WithCancel(ctx)
	var running sync.WaitGroup
	defer func() {
		stop()
		c.others.stop()
		running.Wait()
		err = errors.Join(err, c.ui.Close())
	}()

	cards, err := c.Client.Transport.Subscribe(ctx, transport.Cards(c.Client.Tenant), &transport.SubscribeOptions{Concurrency: 1})
	if err != nil {
		return fmt.Errorf("watch the agents: %w", err)
	}
	changes := make(chan change, 64)
	running.Go(func() {
		defer cards.Close()
		err := cards.Serve(inner, func(ctx context.Context, e *transport.Event) error {
			if ch := c.present.apply(e); ch != nil {
				select {
				case changes <- *ch:
				case <-ctx.Done():
				}
			}
			return nil
		})
		if inner.Err() == nil {
			c.ui.Notice("warning: agents are no longer watched: "+oneLine(err.Error()), lookYellow)
		}
	})
	running.Go(func() {
		h := changePrinter{tell: c.ui.Notice}
		h.run(inner, changes)
	})

	running.Go(func() {
		for {
			select {
			case line := <-c.Notices:
				c.ui.Notice(oneLine(line), lookYellow)
				c.others.again() // live events may have been lost in the meantime
			case <-inner.Done():
				return
			}
		}
	})

	c.banner(ctx)
	if historyErr != nil {
		c.warn("history is not kept: " + historyErr.Error())
		c.typed.path = ""
	}
	c.follow(ctx, c.contextID)
	if c.ContextID != "" {
		if err := c.recap(ctx, c.ContextID); err != nil {
			c.warn(err.Error())
		}
		c.remember(ctx)
	}
	return c.loop(ctx)
}

func (c *chat) openEditor(recalled []string) error {
	_, hasKeys := fileno(c.Stdin)
	if !c.ui.repaint || !hasKeys {
		c.ui.editor = newPlainEditor(c.Stdin, c.Stdout, c.ui.take)
		return nil
	}
	e, err := newLineEditor(c.Stdin, c.ui.screen, recalled, c.ui.take, c.complete)
	if err != nil {
		return fmt.Errorf("open the terminal: %w", err)
	}
	e.keys.onStop = func() { c.ui.Notice(noStop, lookDim) }
	e.vi(c.Keys == KeysVi)
	c.ui.editor = e
	return nil
}

// noStop is shown for Ctrl-Z.
const noStop = "(Ctrl-Z does nothing: cortex may run in this chat, and would stand still for everybody; Ctrl-D leaves)"

// maxNamed bounds how many agents the banner names.
const maxNamed = 8

// banner prints the program, where it runs, the agents, and what to do.
func (c *chat) banner(ctx context.Context) {
	wait := time.NewTimer(2 * time.Second) // cards usually arrive at once; a slow server must not keep the user from typing
	defer wait.Stop()
	select {
	case <-c.present.synced:
	case <-wait.C:
		c.present.once.Do(func() { close(c.present.synced) })
	case <-ctx.Done():
	}
	say := func(text, look string) {
		if text != "" {
			c.ui.Say(oneLine(text), look)
		}
	}
	say(strings.TrimSpace(c.Name+" "+c.Version), lookBold)
	say(c.Where, lookDim)
	say(c.Decides, lookDim)
	if c.Console != "" {
		say("console: "+c.Console, lookDim)
	}
	if c.Warning != "" {
		say("warning: "+c.Warning, lookYellow)
	}
	online := "no agents online yet; start one in another terminal: " + c.Name + " agent echo"
	switch ids := c.present.ids(); {
	case len(ids) > maxNamed:
		online = count(len(ids), "agent") + " online: /agents lists them"
	case len(ids) > 0:
		online = count(len(ids), "agent") + " online: " + strings.Join(ids, ", ")
	}
	say(online, lookDim)
	say("/help for help, Ctrl-D to leave", lookDim)
}

func (c *chat) loop(ctx context.Context) error {
	var typing composer
	for {
		prompt := "> "
		switch {
		case typing.open:
			prompt = ". "
		case c.asked:
			prompt = "reply> "
		}
		c.drainInterrupts()
		line, err := c.ui.ReadLine(ctx, prompt)
		switch {
		case errors.Is(err, errInterrupt):
			discarded := typing.open || line != ""
			typing.reset()
			if c.interrupted(discarded) {
				return ErrInterrupted
			}
			continue
		case errors.Is(err, errEdit):
			c.change(ctx, line)
			continue
		case errors.Is(err, io.EOF):
			return nil
		case err != nil:
			return err
		}
		c.warned = false
		text, done, err := typing.add(line)
		if err != nil {
			c.warn(err.Error())
		}
		if !done || strings.TrimSpace(text) == "" {
			continue
		}
		recall, err := c.typed.add(text)
		if err != nil {
			c.warn("history is not kept: " + err.Error())
			c.typed.path = ""
		}
		if recall {
			c.ui.editor.remember(text)
		}
		if slices.Contains(leaving, text) {
			return nil
		}
		name, args, ok := parseCommand(text)
		switch {
		case c.givesUp(text):
			c.giveUp(ctx)
		case ok && c.command(ctx, name, args):
			return nil
		case !ok:
			c.turn(ctx, text)
		}
		if err := ctx.Err(); err != nil {
			return err
		}
	}
}

// interrupted handles a Ctrl-C at the prompt, and reports whether the user wants to leave.
func (c *chat) interrupted(discarded bool) bool {
	if discarded {
		c.warned = false
		return false
	}
	if !c.warned { // what follows may be much later: the hint is still on the screen
		c.warned = true
		c.ui.Say("(Ctrl-C again, or Ctrl-D, to leave)", lookDim)
		return false
	}
	return true
}

// drainInterrupts discards a Ctrl-C that was meant for what has just ended.
func (c *chat) drainInterrupts() {
	select {
	case <-c.interrupts:
	default:
	}
}

// turn sends text and shows the turn, until the answer or Ctrl-C.
func (c *chat) turn(ctx context.Context, text string) {
	ctx, stop := signal.NotifyContext(ctx, os.Interrupt)
	defer stop()
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	c.last, c.lastFiles = text, c.Files
	v := newTurnView(c.ui, c.Client.Clock)
	v.board.named, v.board.runs, v.board.waiting = c.present.named, c.present.has, c.waiting
	stopClock := v.clock()
	var answered atomic.Bool
	var looks looker
	unlisten := c.ui.editor.listen(func(key byte, typed string) bool {
		switch {
		case key == ctrlC:
			cancel()
		case key == ctrlD && answered.Load():
			return false // whoever sees the answer wants to leave
		case key == ctrlD:
			c.ui.Notice("(Ctrl-C cancels what is running; to leave, press Ctrl-D when it is done)", lookDim)
		case key == enter && stops(typed):
			c.ui.Notice("> "+oneLine(typed), lookDim)
			cancel()
			return true
		case key == enter:
			return looks.look(ctx, c, typed)
		}
		v.typing(typed)
		return true
	})
	c.To, c.ReplyTo = addressee(ctx, c.Backend.Agents, text), c.others.latest()
	said, failed := c.Message(ctx, c.contextID, text)
	var answer *a2a.Message
	sent, asker := false, *c.Client
	asker.OnSend = func(e *transport.Event) {
		c.others.mine(e)
		if sent = true; c.Client.OnSend != nil {
			c.Client.OnSend(e)
		}
	}
	ask := asker.Ask(ctx, said)
	if failed != nil {
		ask = func(func(*transport.Event, error) bool) {}
	}
	for e, err := range ask {
		if err != nil {
			failed = err
			break
		}
		answer, _ = e.Payload.(*a2a.Message)
		answered.Store(answer != nil) // before it is seen
		v.show(e)
	}
	unlisten()
	looks.running.Wait()
	stopClock()
	v.end()
	if sent && !errors.Is(failed, client.ErrUnsent) {
		c.Files = nil // they were sent
	}
	c.asked = answer != nil && (v.board.asked || transport.MetaString(answer, transport.MetaDecision) == transport.DecisionClarify)
	if answer != nil {
		c.others.saw(transport.MetaString(answer, transport.MetaTurn))
		c.brought(ctx, c.contextID, answer.ID, transport.FilesOf(answer.Parts))
		if c.verbose {
			c.explain(ctx)
		}
	}
	switch {
	case failed == nil:
	case errors.Is(failed, context.Canceled) && ctx.Err() != nil:
		if answer == nil { // otherwise the answer shows it
			c.ui.Say("(canceled)", lookDim)
		}
		if errors.Is(failed, transport.ErrUnavailable) {
			c.warn("the cancellation could not be sent: " + unreachable)
		}
	default:
		c.fail(failed)
	}
	c.remind()
}

// unreachable replaces the error of a library when nothing can be sent or read.
const unreachable = "cortex cannot be reached now; it is tried again until it is back"

// unsent is shown for a message that could not be sent.
const unsent = "not sent: cortex cannot be reached now. Say it again when it is back."

// overfull is shown for a message that is refused because too many events wait.
const overfull = "cortex has too much to do now: this was not taken, say it again later"

// fail shows an error.
func (c *chat) fail(err error) {
	if errors.Is(err, transport.ErrFull) {
		c.warn(overfull)
		return
	}
	if errors.Is(err, transport.ErrUnavailable) || errors.Is(err, context.DeadlineExceeded) {
		if errors.Is(err, client.ErrUnsent) {
			c.warn(unsent)
			return
		}
		c.warn(unreachable)
		return
	}
	c.warn(strings.ReplaceAll(err.Error(), transport.ErrInvalid.Error()+": ", ""))
}

// warn shows an error message.
func (c *chat) warn(text string) {
	width, _ := c.ui.size()
	lines := wrapSpans([]span{{"error: ", lookRed}, {oneLine(text), ""}}, width-1, false)
	for _, line := range lines {
		c.ui.Print(c.ui.style.paintAll(line))
	}
}

// complete offers commands at the beginning of a line, their arguments, and agents after an @.
func (c *chat) complete(before string) (word string, options []string, about func(string) string) {
	word = before[strings.LastIndexAny(before, " \t")+1:]
	first, args, inArgs := strings.Cut(before, " ")
	var all []string
	switch {
	case strings.HasPrefix(word, "@"):
		for _, id := range c.present.ids() {
			all = append(all, "@"+id)
		}
	case !inArgs && strings.HasPrefix(word, "/"):
		for _, cmd := range commands() {
			all = append(all, cmd.name)
		}
	case first == "/resume":
		titles := map[string]string{}
		for _, s := range c.conversations() {
			all = append(all, s.ContextID)
			titles[oneLine(s.ContextID)] = s.Title
		}
		about = func(id string) string { return titles[id] }
	case first == "/theme":
		all = Themes
	case first == "/vi":
		all = []string{"on", "off"}
	case inArgs && slices.Contains([]string{"/attach", "/export", "/export!"}, first):
		word, options = pathsFrom(args)
		return word, options, nil
	case inArgs && first == "/save":
		if _, path, ok := strings.Cut(args, " "); ok {
			word, options = pathsFrom(path)
			return word, options, nil
		}
	case first == "/cancel":
		for _, t := range c.tasks() {
			if !t.State.Terminal() {
				all = append(all, string(t.ID))
			}
		}
	}
	for _, s := range all {
		if s = oneLine(s); strings.HasPrefix(s, word) && s != "" {
			options = append(options, s)
		}
	}
	slices.Sort(options)
	return word, slices.Compact(options), about
}

// conversations returns the conversations for a completion. The user waits for it, so it returns nothing after a second.
func (c *chat) conversations() []ConversationInfo {
	if c.Backend.Conversations == nil {
		return nil
	}
	ctx, cancel := context.WithTimeout(context.Background(), time.Second)
	defer cancel()
	all, _ := c.Backend.Conversations(ctx)
	return all
}

func (c *chat) tasks() []TaskInfo {
	if c.Backend.Tasks == nil {
		return nil
	}
	ctx, cancel := context.WithTimeout(context.Background(), time.Second)
	defer cancel()
	all, _, _ := c.Backend.Tasks(ctx, c.contextID)
	return all
}
