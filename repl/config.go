package repl

import (
	"cmp"
	"context"
	"io"
	"iter"
	"os"
	"time"

	"github.com/a2aproject/a2a-go/v2/a2a"
	"golang.org/x/term"

	"github.com/cortex-orchestrator/cortex/client"
	"github.com/cortex-orchestrator/cortex/transport"
)

// Values of [Config.Color].
const (
	ColorAuto   = "auto"
	ColorAlways = "always"
	ColorNever  = "never"
)

// Values of [Config.Keys].
const (
	KeysEmacs = "emacs"
	KeysVi    = "vi"
)

// Config is the configuration of Run, Pipe and Ask. Client is required.
type Config struct {
	Client  *client.Client
	Backend Backend

	// ContextID is the conversation to continue; "" begins a new one.
	ContextID string

	// Terminal says that Stdin and Stdout are a terminal: then Run chats, otherwise it does what Pipe does.
	Terminal bool
	Stdin    io.Reader // nil: os.Stdin
	Stdout   io.Writer // nil: os.Stdout
	Stderr   io.Writer // nil: os.Stderr
	// Color says whether the output has colours: [ColorAlways] or [ColorNever]. With any other value it has, on a terminal that supports them and when
	// NO_COLOR is not set.
	Color string
	// Theme selects the colours: [ThemeDark] or [ThemeLight] for a terminal's background, or [ThemePlain] for bold and dim without colours. With
	// [ThemeAuto] or "" the background that the terminal reports decides, and dark is the default.
	Theme string
	// Verbose makes Pipe and Ask write progress to Stderr even if it is no terminal.
	Verbose bool
	// To is the agent that Ask's message is for; with nil the model decides.
	To *transport.Direct
	// ReplyTo is the id of the turn that Ask's message replies to, see [client.Message].
	ReplyTo string
	// Files are the paths of files that Ask sends with its message, or a chat with its first one; each has at most MaxFile bytes, where 0 stands for
	// [transport.DefaultMaxFile]. Output is the folder that the files of Ask's answer are written to; with "" they are only listed.
	Files   []string
	MaxFile int64
	Output  string

	// Keys selects the editing keys of the line editor: [KeysVi], or "" for those of most shells.
	Keys string

	Name    string // of the program, for the banner; "" stands for "cortex"
	Version string // of the program, for the banner; may be empty
	Where   string // where it runs, one line for the banner; may be empty
	// Decides describes in one line what decides, for the banner and the help; it may be empty.
	Decides string
	// Console is a link for a browser, for the banner; it may be empty.
	Console string
	// Warning is shown when the chat begins, such as about settings that have no effect. It may be empty.
	Warning string
	// Notices are lines that the chat shows when they arrive, such as that the connection is lost; nil: none.
	Notices <-chan string
	// History is the file that stores what was typed, readable by its owner only; with "" nothing is stored.
	History string
}

// Backend is what the chat needs besides the transport. Any function may be nil; the commands that need it then report that they are not available.
// The context of each call ends when the user interrupts.
type Backend struct {
	// Agents lists the known agents.
	Agents func(ctx context.Context) ([]AgentInfo, error)
	// Conversations lists the conversations, the most recent first.
	Conversations func(ctx context.Context) ([]ConversationInfo, error)
	// History yields a conversation, oldest first.
	History func(ctx context.Context, contextID string) iter.Seq2[*client.Line, error]
	// Turns lists the latest turns of a conversation that people began, oldest first.
	Turns func(ctx context.Context, contextID string) ([]Turn, error)
	// Why explains the conversation's last decision: kind, reason, model, usage, delegations.
	Why func(ctx context.Context, contextID string) (string, error)
	// Prompt returns what the model would be sent if the user said text now; text may be empty.
	Prompt func(ctx context.Context, contextID, text string) (string, error)
	// Usage describes what the conversation has cost so far.
	Usage func(ctx context.Context, contextID string) (string, error)
	// Model describes what decides: which model, or that none does.
	Model func(ctx context.Context) (string, error)
	// Tasks lists the conversation's delegations, the oldest first, and says where those before them are; "" when there are none.
	Tasks func(ctx context.Context, contextID string) (list []TaskInfo, earlier string, err error)
}

// AgentInfo is an agent in a list. Its texts are external and may be unsafe.
type AgentInfo struct {
	ID          string
	Description string
	State       string   // active, draining, unknown, …
	LastSeen    string   // for people: "3 min ago"
	Skills      []string // ids
	Version     string
	Instances   string // how many, and how many of them are silent
	Confidence  string // as the agent states it, formatted
	Mark        string // a warning that it may be mistaken for another agent
}

// ConversationInfo is a conversation in a list. Fields other than ContextID, Title and Updated may be "" when they are unknown.
type ConversationInfo struct {
	ContextID string
	Title     string
	Updated   time.Time

	Turns, Tokens, Cost, Owner string // formatted
}

// Turn is a message of a person, and its answer.
type Turn struct {
	ID     string // see [transport.TurnID]
	Who    string
	Said   string
	Answer *client.Line // nil: none yet
}

// TaskInfo is a delegation in a list.
type TaskInfo struct {
	ID      a2a.TaskID
	Agent   string
	State   a2a.TaskState
	Text    string // what was asked
	Attempt int    // the current attempt, from 1; 0 is unknown
	Started time.Time
	Ended   time.Time // zero while it is open
}

// screen describes an output.
type screen struct {
	w       io.Writer
	style   style
	repaint bool // the output understands cursor movements
}

// withDefaults returns c with its zero values replaced.
func (c Config) withDefaults() Config {
	c.Stdin, c.Stdout, c.Stderr = cmp.Or(c.Stdin, io.Reader(os.Stdin)), cmp.Or(c.Stdout, io.Writer(os.Stdout)), cmp.Or(c.Stderr, io.Writer(os.Stderr))
	c.Name = cmp.Or(c.Name, "cortex")
	return c
}

// screen describes w, which is a terminal or not.
func (c *Config) screen(w io.Writer, terminal bool) screen {
	clever := terminal && os.Getenv("TERM") != "dumb"
	colour := clever && os.Getenv("NO_COLOR") == "" && c.Color != ColorNever || c.Color == ColorAlways
	s := screen{w: w, repaint: clever}
	if colour {
		s.style = themed(c.Theme)
	}
	return s
}

// size returns the columns and rows of the screen, 80 and 24 when they cannot be known.
func (s screen) size() (width, height int) {
	if fd, ok := fileno(s.w); ok {
		if w, h, err := term.GetSize(fd); err == nil && w > 0 && h > 0 {
			return w, h
		}
	}
	return 80, 24
}

// fileno returns the file descriptor of a stream that has one.
func fileno(stream any) (int, bool) {
	f, ok := stream.(interface{ Fd() uintptr })
	if !ok {
		return 0, false
	}
	return int(f.Fd()), true
}

// isTerminal reports whether stream is a terminal.
func isTerminal(stream any) bool {
	fd, ok := fileno(stream)
	return ok && term.IsTerminal(fd)
}
