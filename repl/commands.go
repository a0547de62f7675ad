package repl

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/signal"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"time"
	"unicode"

	"github.com/agnivade/levenshtein"

	"github.com/cortex-orchestrator/cortex/internal/table"
	"github.com/cortex-orchestrator/cortex/transport"
)

// command is a word that begins with a slash.
type command struct {
	name, args, help string
	run              func(*chat, context.Context, string) error
}

// meanwhile are the commands that are run at once during a turn, too. They change nothing of the chat.
var meanwhile = []string{"/help", "/agents", "/why", "/usage", "/model", "/tasks", "/cancel", "/conversations", "/sessions"}

// lookFor bounds the time of such a command: the next line waits for its end.
const lookFor = 5 * time.Second

// looker runs commands during a turn, one at a time.
type looker struct {
	busy    atomic.Bool
	running sync.WaitGroup
}

// look runs a line if it is a command for that. Else, and while another one runs, it reports false: the line waits for the end of the turn.
func (l *looker) look(ctx context.Context, c *chat, line string) bool {
	name, args, ok := parseCommand(line)
	if !ok || !slices.Contains(meanwhile, name) || !l.busy.CompareAndSwap(false, true) {
		return false
	}
	l.running.Go(func() {
		defer l.busy.Store(false)
		c.ui.Say("> "+oneLine(line), lookDim)
		ctx, cancel := context.WithTimeout(ctx, lookFor)
		defer cancel()
		c.runCommand(ctx, name, args)
	})
	return true
}

// commands returns the commands in the order of /help.
func commands() []command {
	return []command{
		{"/help", "", "this list", (*chat).help},
		{"/agents", "", "who is there, and what they can do", (*chat).showAgents},
		{"/why", "", "how the last answer came about", (*chat).showWhy},
		{"/prompt", "[TEXT]", "what the model would be sent now", (*chat).showPrompt},
		{"/usage", "", "what this conversation has cost so far", (*chat).showUsage},
		{"/model", "", "what decides who does what", (*chat).showModel},
		{"/verbose", "", "show after each answer how it came about, or no longer", (*chat).switchVerbose},
		{"/tasks", "", "what agents are doing, and have done, in this conversation", (*chat).showTasks},
		{"/cancel", "[TASK]", "stop a task, or all that is open in this conversation", (*chat).cancel},
		{"/conversations", "", "your conversations", (*chat).showConversations},
		{"/sessions", "", "", (*chat).showConversations}, // former name of /conversations
		{"/resume", "ID", "go on with one of them, by the beginning of its id", (*chat).resume},
		{"/retry", "", "say your last message again", (*chat).retry},
		{"/edit", "", "change your last message and say it again", (*chat).edit},
		{"/new", "", "begin a new conversation", (*chat).begin},
		{"/attach", "[FILE|none]", "have a file go with your next message; alone it lists them", (*chat).attach},
		{"/save", "N [PATH]", "write the file of an answer that has number N", (*chat).save},
		{"/export", "FILE.md", "write it all to a new file; /export! replaces one", (*chat).export},
		{"/export!", "FILE.md", "", (*chat).exportOver},
		{"/theme", "[NAME]", "what colours there are: auto, dark, light or plain", (*chat).theme},
		{"/vi", "[on|off]", "have the keys of vi while you type, or no longer", (*chat).vi},
		{"/quit", "", "leave, like Ctrl-D", nil}, // see chat.command
	}
}

// stopping are the messages that mean Ctrl-C while a turn runs.
var stopping = []string{"stop", "stop it", "stop that", "stop this", "stop everything", "cancel", "cancel it", "cancel that", "cancel this", "cancel everything", "cancel all", "abort"}

// stops reports whether a line that is typed during a turn wants that to be canceled.
func stops(line string) bool {
	return slices.Contains(stopping, bareWords(line))
}

// bareWords returns a line in lower case, without punctuation and "please" at its ends.
func bareWords(line string) string {
	line = strings.Trim(strings.ToLower(strings.TrimSpace(line)), ".! ")
	return strings.TrimRight(strings.TrimSuffix(strings.TrimPrefix(line, "please "), "please"), ", ")
}

// leaving are the messages that mean /quit.
var leaving = []string{"exit", "quit", "bye"}

// errNothingSaid is returned by commands that need a message.
var errNothingSaid = errors.New("nothing was said in this conversation yet")

// retry sends the last message again, with its files.
func (c *chat) retry(ctx context.Context, _ string) error {
	if c.last == "" {
		return errNothingSaid
	}
	c.Files = append(c.lastFiles[:len(c.lastFiles):len(c.lastFiles)], c.Files...)
	c.turn(ctx, c.last)
	return nil
}

// errDumb is returned by commands that need cursor movements.
var errDumb = errors.New("this terminal does not understand what is needed for that")

// edit puts the last message into the next line; a long one is edited in the user's editor first.
func (c *chat) edit(ctx context.Context, _ string) error {
	if c.last == "" {
		return errNothingSaid
	}
	text, err := c.last, error(nil)
	if long := len(text) > maxInline || strings.Contains(text, "\n"); long {
		text, err = c.outside(ctx, text)
	}
	switch {
	case errors.Is(err, errNoEditor) && len(text) > maxRecall:
		return fmt.Errorf("your last message is too long to be changed on a line; %w", err)
	case err != nil && !errors.Is(err, errNoEditor):
		return err
	case !c.ui.editor.begin(text):
		return errDumb
	}
	return nil
}

// errMissing is returned by commands whose function in Backend is nil.
var errMissing = errors.New("not available here")

// parseCommand splits a line into a command and its arguments. Lines that begin with a slash but have no command's form, such as paths, are messages;
// so are lines that begin with a space.
func parseCommand(line string) (name, args string, ok bool) {
	if !strings.HasPrefix(line, "/") || strings.Contains(line, "\n") {
		return "", "", false
	}
	name, args, _ = strings.Cut(line, " ")
	for _, r := range name[1:] {
		if !unicode.IsLetter(r) && r != '!' && r != '-' && r != '?' {
			return "", "", false
		}
	}
	return name, strings.TrimSpace(args), len(name) > 1 || args == ""
}

// command runs a command, and reports whether it was /quit. Ctrl-C cancels a command.
func (c *chat) command(ctx context.Context, name, args string) (quit bool) {
	if name == "/quit" && args == "" {
		return true
	}
	ctx, stop := signal.NotifyContext(ctx, os.Interrupt)
	defer stop()
	if name != "/retry" && name != "/edit" { // these need the keys themselves
		defer c.ui.editor.listen(func(key byte, _ string) bool {
			if key == ctrlC {
				stop()
			}
			return key == ctrlC
		})()
	}
	c.runCommand(ctx, name, args)
	return false
}

// runCommand runs a command, and shows why it fails.
func (c *chat) runCommand(ctx context.Context, name, args string) {
	for _, cmd := range commands() {
		if cmd.name != name {
			continue
		}
		if cmd.args == "" && args != "" {
			c.warn(name + " takes nothing behind it")
			return
		}
		if err := cmd.run(c, ctx, args); err != nil {
			if errors.Is(err, transport.ErrUnavailable) || errors.Is(err, context.DeadlineExceeded) {
				err = errors.New(unreachable)
			}
			c.warn(name + ": " + err.Error())
		}
		return
	}
	hint := "/help lists them"
	if near := nearest(name); near != "" {
		hint = "did you mean " + near + "?"
	}
	c.warn(fmt.Sprintf("no command %s; %s (a message may begin with a space)", table.Fit(oneLine(name), 30), hint))
}

// nearest returns the command that name is probably a misspelling of, or "".
func nearest(name string) string {
	best, at := "", 3
	if len(name) < 2 || len(name) > 40 {
		return ""
	}
	for _, cmd := range commands() {
		d := levenshtein.ComputeDistance(name, cmd.name)
		if strings.HasPrefix(cmd.name, name) {
			d = 1
		}
		if d < at {
			best, at = cmd.name, d
		}
	}
	return best
}
