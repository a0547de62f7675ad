package repl

import (
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

// When there are colours, see [Config].
const (
	ColorAuto   = "auto"
	ColorAlways = "always"
	ColorNever  = "never"
)

// Keys that one can type with, see [Config].
const (
	KeysEmacs = "emacs"
	KeysVi    = "vi"
)

// Config says what Run, Pipe and Ask work with. Client is required.
type Config struct {
	Client  *client.Client
	Backend Backend

	// ContextID is the conversation to continue; "" begins a new one.
	ContextID string

	// Terminal says that Stdin and Stdout are a terminal: Run then chats, otherwise it does what Pipe does.
	Terminal bool
	Stdin    io.Reader // nil: os.Stdin
	Stdout   io.Writer // nil: os.Stdout
	Stderr   io.Writer // nil: os.Stderr
	// Color says whether what is written has colours: [ColorAlways] or [ColorNever]; "" or anything else: where a terminal shows them and
	// NO_COLOR is not set.
	Color string
	// Theme is what colours there are: [ThemeDark] or [ThemeLight], for a terminal's background, or [ThemePlain], which is bold and dim and
	// no colour; "" or [ThemeAuto] goes by the background that the terminal says it has, and is dark if it says none.
	Theme string
	// Verbose makes Pipe and Ask write progress to Stderr even if that is no terminal.
	Verbose bool
	// To is the agent that what Ask says is for; nil: whoever fits.
	To *transport.Direct
	// Files are paths of files that go with what Ask says, or with the first message of a chat; each has at most MaxFile bytes, 0 is
	// [transport.DefaultMaxFile]. Output is the folder that the files of Ask's answer are written to; "": they are only named.
	Files   []string
	MaxFile int64
	Output  string

	// Keys are those of the line that is typed: [KeysVi], or "" for those of most shells.
	Keys string

	Name    string // of the program, for the banner; "" is "cortex"
	Version string // likewise; may be empty
	Where   string // where it runs, one line for the banner; may be empty
	// Decides says in one line what decides, for the banner and the help; it may be empty.
	Decides string
	// Warning is what the chat begins with, beside that: such as settings that are not used. It may be empty.
	Warning string
	// Notices are lines that the chat shows when they come, such as that the connection was lost; nil: none.
	Notices <-chan string
	// History is the file that keeps what was typed; "" keeps nothing. It is readable by its owner only.
	History string
}

// Backend is what the chat knows from elsewhere than the transport. Any function may be nil; what needs it then says that
// it is not available. All are called with a context that ends when the user interrupts.
type Backend struct {
	// Agents lists the agents that are known.
	Agents func(ctx context.Context) ([]AgentInfo, error)
	// Conversations lists the conversations, the most recent first.
	Conversations func(ctx context.Context) ([]ConversationInfo, error)
	// History yields a conversation, oldest first.
	History func(ctx context.Context, contextID string) iter.Seq2[*Line, error]
	// Turns lists the latest turns of a conversation that people have begun, oldest first.
	Turns func(ctx context.Context, contextID string) ([]Turn, error)
	// Why explains the conversation's last decision: kind, reason, model, usage, delegations.
	Why func(ctx context.Context, contextID string) (string, error)
	// Prompt returns what the model would be sent if text were said now; text may be empty.
	Prompt func(ctx context.Context, contextID, text string) (string, error)
	// Usage says what the conversation has cost so far.
	Usage func(ctx context.Context, contextID string) (string, error)
	// Model says what decides: which model, or that none does.
	Model func(ctx context.Context) (string, error)
	// Tasks lists the conversation's delegations, the oldest first.
	Tasks func(ctx context.Context, contextID string) ([]TaskInfo, error)
}

// AgentInfo is an agent in a list. Its texts may be anybody's.
type AgentInfo struct {
	ID          string
	Description string
	State       string   // active, draining, unknown, …
	LastSeen    string   // for people: "3 min ago"
	Skills      []string // ids
	Version     string
	Instances   *int   // nil is not known
	Confidence  string // of itself, for people
	Mark        string // for one that may be taken for another agent
}

// ConversationInfo is a conversation in a list. What else than its id, title and time is "" may not be known.
type ConversationInfo struct {
	ContextID string
	Title     string
	Updated   time.Time
	Entries   int // of its log: two or more for a turn

	Tokens, Cost, Owner string // for people
}

// Turn is what a person said, and what came of it.
type Turn struct {
	ID     string // see [transport.TurnID]
	Who    string
	Said   string
	Answer *Line // nil: not yet
}

// LineKind tells the lines of a conversation apart.
type LineKind string

// The kinds of line.
const (
	LineUser   LineKind = "user"   // what the user said
	LineAnswer LineKind = "answer" // what Cortex answered
	LineTask   LineKind = "task"   // what an agent was asked; Who is the agent
	LineResult LineKind = "result" // what it returned; Who is the agent
	LineNote   LineKind = "note"   // anything else
)

// Line is one contribution to a conversation. Who may be empty for the user and for Cortex; Text may have several lines, and ends with one
// for each of the Files. ID is that of an answer's message.
type Line struct {
	Time time.Time
	Kind LineKind
	ID   string
	Who  string
	Text string

	Files []*a2a.Part
}

// TaskInfo is a delegation in a list.
type TaskInfo struct {
	ID      a2a.TaskID
	Agent   string
	State   a2a.TaskState
	Text    string // what was asked
	Attempt int    // at it, from 1; 0 is not known
	Started time.Time
	Ended   time.Time // zero while it is open
}

// screen is what is known of an output.
type screen struct {
	w       io.Writer
	style   style
	repaint bool // cursor movements are understood
}

// withDefaults returns c with its zero values replaced.
func (c Config) withDefaults() Config {
	if c.Stdin == nil {
		c.Stdin = os.Stdin
	}
	if c.Stdout == nil {
		c.Stdout = os.Stdout
	}
	if c.Stderr == nil {
		c.Stderr = os.Stderr
	}
	if c.Name == "" {
		c.Name = "cortex"
	}
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
