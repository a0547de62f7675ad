package cli

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"net"
	"net/url"
	"os"
	"os/signal"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"golang.org/x/term"

	"github.com/cortex-orchestrator/cortex/internal/datadir"
	"github.com/cortex-orchestrator/cortex/internal/table"
	"github.com/cortex-orchestrator/cortex/repl"
)

// modelChoice is the answer of a user who was offered a model. It is the default for the data folder; without an LLM the user declined.
type modelChoice struct {
	LLM   string `json:"llm,omitempty"`
	Model string `json:"model,omitempty"`
}

func choiceFile(data string) string { return filepath.Join(data, "model.json") }

// modelOffer is a model that could decide. It is not asked anything before the user agrees.
type modelOffer struct {
	llm  string // the value for --llm
	by   string // how it was found: the variable of its key, or the local program
	name string // of the model; empty when the user has to name it
}

// localServers are programs that serve models on this machine, by their names for --llm.
var localServers = []struct{ llm, name, list string }{{"ollama", "Ollama", "ollama list"}, {"lmstudio", "LM Studio", "lms ls"}}

// dialTime bounds the wait for a local program that may not run.
const dialTime = 200 * time.Millisecond

// listens reports whether a local program listens at a port. It sends nothing.
func listens(ctx context.Context, port string) bool {
	d := net.Dialer{Timeout: dialTime}
	c, err := d.DialContext(ctx, "tcp", net.JoinHostPort("127.0.0.1", port))
	if err != nil {
		return false
	}
	c.Close() //nolint:errcheck // nothing was written
	return true
}

// findModel returns the first usable model: one whose key is in the environment, or one of a program that listens on this machine.
func (s *settings) findModel(ctx context.Context, listens func(ctx context.Context, port string) bool) (modelOffer, bool) {
	all := s.endpoints()
	for _, name := range []string{"openai", "anthropic", "gemini"} {
		ep := all[name]
		if ep == nil || ep.IsOwn() || ep.Ready() != nil {
			continue
		}
		for _, env := range strings.Split(ep.KeyEnv, ",") {
			if strings.TrimSpace(os.Getenv(env)) != "" {
				return modelOffer{llm: name, by: env, name: ep.Model}, true
			}
		}
	}
	for _, local := range localServers {
		ep := all[local.llm]
		if ep == nil || ep.IsOwn() {
			continue
		}
		if u, err := url.Parse(ep.BaseURL); err == nil && listens(ctx, u.Port()) {
			return modelOffer{llm: local.llm, by: local.name, name: ep.Model}, true
		}
	}
	return modelOffer{}, false
}

// chooseModel selects the model that the user of a terminal chat chose for the data folder. The first time a model is found, chooseModel offers it,
// and stores the answer. Settings take precedence, and a chat that joins a running Cortex uses that one's model. It returns a warning for the user.
func (e *env) chooseModel(ctx context.Context) (warning string, _ error) {
	s := &e.settings
	if !e.onTerminal() || !s.inFolder() || s.given["llm"] != 0 || s.given["model"] != 0 || len(s.llms) > 0 || datadir.Held(s.data) {
		return "", nil
	}
	choice, err := keptChoice(s.data)
	if errors.Is(err, fs.ErrNotExist) {
		offer, found := s.findModel(ctx, listens)
		if !found {
			return "", nil
		}
		answered := false
		if choice, answered, err = e.offerModel(ctx, offer); err != nil || !answered {
			return "", err
		}
		err = keepChoice(s.data, choice)
	}
	if _, cannot := os.Stat(s.data); err != nil && cannot != nil {
		return "", nil // whoever opens the folder next says so
	}
	if err != nil {
		return "", fmt.Errorf("the model that decides: %w", err)
	}
	if choice.LLM == "" {
		return "", nil
	}
	s.node.llm, s.node.model = choice.LLM, choice.Model
	if err := s.checkLLM(); err != nil {
		s.node.llm, s.node.model = "fake", ""
		return fmt.Sprintf("%s was chosen in this folder, and does not decide: %s", choice.LLM, missing(err)), nil
	}
	return "", nil
}

// put prints a question wrapped to the terminal; the user types the answer after it.
func (e *env) put(format string, args ...any) {
	width := 80
	if f, ok := e.stdout.(*os.File); ok {
		if w, _, err := term.GetSize(int(f.Fd())); err == nil && w > 0 {
			width = w
		}
	}
	fmt.Fprint(e.stdout, strings.Join(table.Wrap(fmt.Sprintf(format, args...), width-3), "\n")+" ")
}

// offerModel asks whether a model shall decide, again when the answer is none. answered is false at the end of the input, and when it stays unclear:
// then the next chat asks.
func (e *env) offerModel(ctx context.Context, o modelOffer) (choice modelChoice, answered bool, _ error) {
	if o.name != "" {
		e.put("%s is set: let %s decide, at its price? [y/N]", o.by, o.name)
		for i := range 3 {
			if i > 0 {
				e.put("Each decision is a call of %s, paid with your key. Yes or no? [y/N]", o.name)
			}
			line, err := e.readAnswer(ctx)
			switch {
			case line == "" || err != nil:
				return choice, false, notEnd(err)
			case saysYes(line):
				return modelChoice{LLM: o.llm}, true, nil
			case strings.TrimSpace(line) == "" || saysNo(line):
				return choice, true, nil
			}
		}
		return choice, false, nil
	}
	e.put("%s runs here: type a model of it to decide with, or Enter for none:", o.by)
	for range 3 {
		line, err := e.readAnswer(ctx)
		name := strings.TrimSpace(line)
		switch {
		case line == "" || err != nil:
			return choice, false, notEnd(err)
		case saysYes(line), strings.ContainsAny(name, " \t"), name != repl.Sanitize(name):
			e.put("Which model? `%s` names them; Enter for none:", o.lists())
			continue
		case name != "" && !saysNo(line):
			choice = modelChoice{LLM: o.llm, Model: name}
		}
		return choice, true, nil
	}
	return choice, true, nil
}

// lists returns the command that lists the models of a local program.
func (o modelOffer) lists() string {
	for _, local := range localServers {
		if local.llm == o.llm {
			return local.list
		}
	}
	return ""
}

func saysYes(line string) bool {
	line = strings.ToLower(strings.TrimSpace(line))
	return line == "y" || line == "yes"
}

func saysNo(line string) bool {
	return slices.Contains([]string{"n", "no", "nope", "none", "never"}, strings.ToLower(strings.TrimSpace(line)))
}

// notEnd returns err, or nil when it is io.EOF.
func notEnd(err error) error {
	if errors.Is(err, io.EOF) {
		return nil
	}
	return err
}

// readAnswer reads one line, including its end, and nothing after it. Ctrl-C is [repl.ErrInterrupted].
func (e *env) readAnswer(ctx context.Context) (string, error) {
	ctx, stop := signal.NotifyContext(ctx, os.Interrupt)
	defer stop()
	type read struct {
		line string
		err  error
	}
	done := make(chan read, 1)
	go func() { // until there is a line: after ctx ends, the process does too
		var line []byte
		b := make([]byte, 1)
		for len(line) < 1000 {
			n, err := e.stdin.Read(b)
			if line = append(line, b[:n]...); err != nil || n > 0 && b[0] == '\n' {
				done <- read{string(line), err}
				return
			}
		}
		done <- read{string(line), nil}
	}()
	select {
	case got := <-done:
		return got.line, got.err
	case <-ctx.Done():
		fmt.Fprintln(e.stdout)
		return "", repl.ErrInterrupted
	}
}

func keptChoice(data string) (c modelChoice, _ error) {
	b, err := datadir.Read(choiceFile(data))
	if err != nil {
		return c, err
	}
	if err := json.Unmarshal(b, &c); err != nil {
		return c, fmt.Errorf("%s cannot be read: %w: remove it to be asked again", choiceFile(data), err)
	}
	return c, nil
}

func keepChoice(data string, c modelChoice) error {
	if err := datadir.Make(data); err != nil {
		return err
	}
	b, err := json.Marshal(c)
	if err != nil {
		return err
	}
	return datadir.Leave(choiceFile(data), append(b, '\n'))
}
