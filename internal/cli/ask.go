package cli

import (
	"bufio"
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/a2aproject/a2a-go/v2/a2a"
	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/cortex-orchestrator/cortex/client"
	"github.com/cortex-orchestrator/cortex/cortex/conversation"
	"github.com/cortex-orchestrator/cortex/cortex/storage"
	"github.com/cortex-orchestrator/cortex/internal/rest"
	"github.com/cortex-orchestrator/cortex/internal/usage"
	"github.com/cortex-orchestrator/cortex/internal/view"
	"github.com/cortex-orchestrator/cortex/prompt"
	"github.com/cortex-orchestrator/cortex/repl"
	"github.com/cortex-orchestrator/cortex/transport"
)

// asking holds the flags and arguments of ask.
type asking struct {
	where           where
	asJSON, verbose bool
	files           []string
	output          string
	to              transport.Direct
	input           string
	again           string // the command line without the question, with the flags that say which Cortex is asked
}

func (e *env) newAsk() *cobra.Command {
	var a asking
	c := &cobra.Command{
		Use:   "ask [TEXT | -]",
		Short: "Ask one thing and print the answer",
		Long: `Ask one thing of the Cortex that runs, or of one of your own if none runs on the data folder; with --nats of the one that
runs on that server. The answer goes to standard output.

What comes on standard input goes along: a text behind the question, anything else, or more than a message holds, as a file.
- in place of TEXT takes the question from there.

A question that waits for your yes, or for what Cortex or an agent wants to know, is put to you on a terminal. Elsewhere it is the answer,
the exit status is 3, and standard error has the command that replies. Else it is 0, 1 for a failure, as when the agent that is named is not there, 2 for a
mistake in the command, and 4 when the request was not understood or is refused: the answer says why.

With --agent no model decides: that agent gets the text, and the input if there is one, and what it gives back is the answer.

--json prints each event of the turn as a line of JSON, and a last line {"answer", "conversation", "turn", "decision", "files", "failed"}; "decision"
is respond, clarify for a question to you, or refuse.

How a Cortex of your own runs comes from the environment and the file of --config, see ` + "`cortex help settings`" + `.`,
		Example: "  cortex ask 'what time is it in Tokyo?'\n  cat notes.txt | cortex ask 'summarize'\n  cortex ask -c 'and shorter?'\n" +
			"  cortex ask -f data.csv -o plots 'plot it'\n  cortex ask --json 'what is 17*23?' | tail -n 1 | jq -r .answer\n" +
			"  cortex ask --agent shop --skill find --input '{\"query\":\"shoes\"}'",
		Args: func(_ *cobra.Command, args []string) error { return a.check(e, args) },
		RunE: func(cmd *cobra.Command, args []string) error {
			a.again = e.again(cmd)
			return e.ask(cmd.Context(), &a, args)
		},
	}
	e.settings.addOwn(c, []string{"llm", "model", "max-file"}, ownAgents...)
	a.where.add(e, c)
	f := c.Flags()
	f.StringVarP(&a.to.Agent, "agent", "a", "", "`ID`: agent to ask; no model decides then")
	f.StringVar(&a.to.Skill, "skill", "", "`ID`: skill of the agent")
	f.StringVar(&a.input, "input", "", "`JSON`: input of the skill, if it takes structured input")
	f.StringArrayVarP(&a.files, "file", "f", nil, "`FILE`: file to attach; repeat it for several")
	f.StringVarP(&a.output, "output", "o", "", "`DIR`: where to write the answer's files; no existing file is replaced")
	f.BoolVar(&a.asJSON, "json", false, "print each event of the turn as a line of JSON, and the answer in a last one")
	f.BoolVarP(&a.verbose, "verbose", "v", false, "show delegations and progress on standard error")
	e.completeFlag(c, "agent", agentIDs)
	e.completeFlag(c, "skill", func(ctx context.Context, b *backend, add offer) error { return skillIDs(ctx, b, a.to.Agent, add) })
	return c
}

// check checks the flags and arguments before any input is read.
func (a *asking) check(e *env, args []string) error {
	switch {
	case a.to.Agent == "" && (a.to.Skill != "" || a.input != ""):
		return usagef("--skill and --input are for the agent that --agent names: name one")
	case tooDeep(a.input):
		return usagef("--input is nested too deep")
	case a.input != "" && !json.Valid([]byte(a.input)):
		return usagef("--input is not JSON: %.200s", a.input)
	case a.to.Agent != "":
		a.to.Input = json.RawMessage(a.input)
		if err := a.to.Address(&a2a.Message{}); err != nil {
			return usagef("--agent, --skill and --input: %s", strings.TrimPrefix(err.Error(), transport.ErrInvalid.Error()+": "))
		}
	}
	if err := a.where.check(); err != nil {
		return err
	}
	if strings.TrimSpace(strings.Join(args, " ")) == "" && a.input == "" && !e.stdinBrings() {
		return errWhat
	}
	if err := repl.CheckFiles(len(a.files)); err != nil {
		return usagef("--file: %w", err)
	}
	if slices.Contains(a.files, "") {
		return usagef("--file: the name of a file is empty")
	}
	return nil
}

// errWhat is returned when there is no question.
var errWhat = usage.New(errors.New("what? cortex ask 'what time is it in Tokyo?'"))

// ask asks the question. When its task waits for a reply and the user is at a terminal, it asks for the reply.
func (e *env) ask(ctx context.Context, a *asking, args []string) error {
	for _, path := range a.files {
		if _, err := client.CheckFile(path, int64(e.settings.node.maxFile)); err != nil {
			return usagef("--file %w", err)
		}
	}
	if a.output != "" { // fail before the question is asked
		_, missing := os.Stat(a.output)
		if err := client.MakeFolder(a.output); err != nil {
			return fmt.Errorf("--output: %w", err)
		}
		if missing != nil {
			defer os.Remove(a.output) // if nothing was written into it
		}
	}
	text, remove, err := e.question(ctx, a, args)
	defer remove()
	if err != nil {
		return err
	}
	return e.converse(ctx, func(ctx context.Context, b *backend, cfg repl.Config) error {
		defer func() { e.sayNotices(cfg.Notices)() }() // those that are left
		cfg.Verbose, cfg.Files, cfg.Output = a.verbose, a.files, a.output
		if a.to.Agent != "" {
			if a.to.Agent, err = b.agent(ctx, a.to.Agent); err != nil {
				return err
			}
			cfg.To = &a.to
		}
		if cfg.ContextID == "" {
			cfg.ContextID = cfg.Client.NextID()
		}
		var said client.Turn
		for {
			cfg.Client.OnSend = func(event *transport.Event) {
				said = client.Turn{ContextID: event.ContextID, From: event.From, MessageID: event.ID}
			}
			if a.asJSON {
				end := e.sayNotices(cfg.Notices)
				err = e.askJSON(ctx, cfg, text)
				end()
			} else {
				err = repl.Ask(ctx, cfg, text)
			}
			asks := errors.Is(err, repl.ErrAsks)
			if err != nil && !asks {
				return err
			}
			waits := b.waits(ctx, cfg.Client.ID(said), cfg.ContextID)
			if waits == nil && !asks {
				return nil
			}
			reply, stopped := "", error(nil)
			if e.onTerminal() && !a.asJSON {
				end := e.sayNotices(cfg.Notices)
				reply, stopped = e.readReply(ctx)
				end()
			}
			if reply == "" {
				b.delivered(ctx, waits, cfg.ContextID)
				what, reply := "reply", "'…'"
				if waits != nil && waits.Phase == conversation.Held {
					what, reply = "yes or no", "yes"
				}
				e.sayCommand("cortex: it waits for your "+what+":", fmt.Sprintf("%s --conversation %s %s", a.again, shellWord(cfg.ContextID), reply))
				return cmp.Or(stopped, errWaits)
			}
			text, cfg.Files, cfg.To, cfg.ReplyTo = reply, nil, nil, ""
			if waits != nil {
				cfg.ReplyTo = waits.Turn
			}
		}
	}, &a.where)
}

// sayNotices prints notices on standard error until the function that it returns is called.
func (e *env) sayNotices(notices <-chan string) (end func()) {
	var said sync.WaitGroup
	over := make(chan struct{})
	say := func(line string) { e.say("cortex: %s", line) }
	said.Go(func() {
		for {
			select {
			case line := <-notices:
				say(line)
			case <-over:
				return
			}
		}
	})
	return func() {
		close(over)
		said.Wait()
		for len(notices) > 0 {
			say(<-notices)
		}
	}
}

// question returns the question, from the arguments and standard input. When standard input is put into a file, the file exists until remove is
// called.
func (e *env) question(ctx context.Context, a *asking, args []string) (text string, remove func(), err error) {
	text, remove = strings.Join(args, " "), func() {}
	fromStdin := slices.Equal(args, []string{"-"})
	if fromStdin {
		text = ""
	}
	var in brought
	if fromStdin && !e.stdinBrings() { // the user types it
		b, err := e.readStdin(ctx, transport.MaxText+1)
		if err != nil {
			return "", remove, err
		}
		in.text = strings.TrimSpace(string(b))
	} else {
		in, err = e.bring(ctx, text, int64(e.settings.node.maxFile), func() (string, error) {
			folder, err := os.MkdirTemp("", "cortex-ask-*")
			if err == nil {
				remove = func() { os.RemoveAll(folder) }
			}
			return folder, err
		})
		if err != nil {
			return "", remove, err
		}
	}
	switch {
	case strings.TrimSpace(text) == "":
		text = in.text
	case in.text != "":
		text += between + in.text
	}
	if in.file != "" {
		a.files = append(a.files, in.file)
	}
	if strings.TrimSpace(text) == "" {
		text = a.input
	}
	if strings.TrimSpace(text) == "" {
		if in.file != "" {
			return "", remove, usagef("standard input is no question: it is not text, or too much; say what is to be done with it: cortex ask 'what is this?'")
		}
		return "", remove, errWhat
	}
	return text, remove, repl.CheckFiles(len(a.files))
}

// waits returns a task of the turn that waits for a reply, or nil.
func (b *backend) waits(ctx context.Context, turnID, contextID string) *conversation.Task {
	conv, err := storage.Load(ctx, b.store, b.tenant, contextID)
	if err != nil {
		return nil // the answer was printed already, which is what matters
	}
	return conv.WaitsFor(turnID)
}

// delivered returns when Cortex knows that the question of a held task has been delivered, or after [deliveredTimeout]. A yes that another process
// sends sooner is not taken for this question, see [conversation.Reply].
func (b *backend) delivered(ctx context.Context, waits *conversation.Task, contextID string) {
	if waits == nil || waits.Phase != conversation.Held {
		return
	}
	ctx, cancel := context.WithTimeout(ctx, deliveredTimeout)
	defer cancel()
	for {
		conv, err := storage.Load(ctx, b.store, b.tenant, contextID)
		if err != nil {
			return
		}
		if turn := conv.Turn(waits.Turn); turn == nil || turn.Delivered || rest.For(ctx, 20*time.Millisecond) != nil {
			return
		}
	}
}

// deliveredTimeout is how long ask waits for the receipt of a question, which follows the question at once unless Cortex is overloaded or ends.
const deliveredTimeout = 10 * time.Second

// readReply reads a line from the terminal. An empty line is no reply.
func (e *env) readReply(ctx context.Context) (string, error) {
	fmt.Fprint(e.stdout, "reply> ") // as in the chat
	line := make(chan string, 1)
	go func() { // ends with the process when the user does not reply
		text, _ := bufio.NewReader(e.stdin).ReadString('\n')
		line <- strings.TrimSpace(text)
	}()
	select {
	case <-ctx.Done():
		fmt.Fprintln(e.stdout)
		return "", ctx.Err()
	case text := <-line:
		if text == "" {
			fmt.Fprintln(e.stdout)
		}
		return text, nil
	}
}

// again returns the command line that sends another message to the same Cortex, without the message.
func (e *env) again(cmd *cobra.Command) string {
	text := cmd.CommandPath()
	cmd.Flags().Visit(func(f *pflag.Flag) {
		if cmd.Root().PersistentFlags().Lookup(f.Name) != nil && !strings.HasPrefix(f.Name, "log-") {
			text += " --" + f.Name + " " + shellWord(f.Value.String())
		}
	})
	return text
}

// tooDeep reports whether text is JSON nested deeper than encoding/json accepts.
func tooDeep(text string) bool {
	var raw json.RawMessage
	err := json.Unmarshal([]byte(text), &raw)
	return err != nil && strings.HasSuffix(err.Error(), "exceeded max depth") // encoding/json exports no error for it
}

// lastLine is the last line of `ask --json`, after the events.
type lastLine struct {
	Answer       string     `json:"answer"`
	Conversation string     `json:"conversation"`
	Turn         string     `json:"turn"`
	Decision     string     `json:"decision"`
	Files        []fileJSON `json:"files"`
	Failed       bool       `json:"failed"`
}

// fileJSON is a file of an answer.
type fileJSON struct {
	Name string `json:"name"`
	Type string `json:"type,omitempty"`
	Path string `json:"path,omitempty"` // where --output stored it
}

// askJSON prints the events of one turn as they arrive, then the answer.
func (e *env) askJSON(ctx context.Context, cfg repl.Config, text string) error {
	out := view.NewJSON(e.stdout)
	printed, noted := false, cfg.Client.OnSend
	cfg.Client.OnSend = func(event *transport.Event) {
		noted(event)
		if !printed { // the client may send it again
			printed = true
			out.Encode(event) //nolint:errcheck // the next one says it too
		}
	}
	var last *lastLine
	var outcome error
	for event, err := range cfg.Say(ctx, cfg.ContextID, text) {
		if err != nil {
			return err
		}
		if err := out.Encode(event); err != nil {
			return err
		}
		if m, ok := event.Payload.(*a2a.Message); ok {
			paths, err := cfg.Keep(ctx, m)
			if err != nil {
				return err
			}
			last = &lastLine{Answer: transport.Text(m.Parts), Conversation: cfg.ContextID, Turn: transport.MetaString(m, transport.MetaTurn), Decision: transport.MetaString(m, transport.MetaDecision), Files: []fileJSON{}}
			outcome = repl.Outcome(m)
			last.Failed = errors.Is(outcome, repl.ErrFailed)
			for i, p := range transport.FilesOf(m.Parts) {
				name, kind, _, _ := transport.FileOf(p)
				f := fileJSON{Name: prompt.Clean(transport.FileName(name, kind, i+1), transport.MaxFileName), Type: prompt.Clean(kind, transport.MaxFileName)}
				if i < len(paths) {
					f.Path = paths[i]
				}
				last.Files = append(last.Files, f)
			}
		}
	}
	if last == nil {
		return nil
	}
	if err := out.Encode(last); err != nil {
		return err
	}
	return outcome
}
