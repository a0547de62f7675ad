package agents

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strings"
	"time"
	"unicode/utf8"

	"github.com/a2aproject/a2a-go/v2/a2a"

	"github.com/cortex-orchestrator/cortex/agentcard"
	"github.com/cortex-orchestrator/cortex/internal/process"
	"github.com/cortex-orchestrator/cortex/internal/shorten"
	"github.com/cortex-orchestrator/cortex/internal/taskfile"
	"github.com/cortex-orchestrator/cortex/transport"
)

const (
	endPoll = 20 * time.Millisecond // between checks whether a terminated program has ended

	maxOutput   = 1 << 20  // bytes of stdout
	maxEnvInput = 64 << 10 // bytes of structured input in the environment; systems allow about twice as much
)

var errFlood = errors.New("too much output")

// ExecOptions says which program does an agent's tasks, and how.
type ExecOptions struct {
	// Argv is the program and its arguments; it is run directly, without a shell.
	Argv []string
	// Dir is the working directory; "" is the current directory.
	Dir string
	// Env is added to the environment of this process, as KEY=value.
	Env []string
	// Card is the agent's card, or nil. JSON output of a skill with an output schema becomes a data part.
	Card *a2a.AgentCard
	// JSON writes the whole task to stdin, as an A2A message in one line of JSON, instead of its text.
	JSON bool
	// Timeout limits each run; with 0 only the task's deadline does.
	Timeout time.Duration
	// Questions is a folder in which [ExecLines] and [Keep] keep what a program needs to go on after a question; "" keeps nothing.
	// It is removed after 30 days, or by [ForgetQuestions].
	Questions string
	// Log receives lines of standard error of a program that speaks lines of JSON; nil discards them. It is called concurrently.
	Log func(line string)
}

// Exec returns a handler that runs a program for each task. The program reads the task on stdin and may ignore it. Its stdout is the result,
// and each line on stderr is progress. An exit status other than 0 fails the task with the last lines of stderr. Its environment has
// CORTEX_TASK_ID, CORTEX_CONTEXT_ID, CORTEX_SKILL and CORTEX_DEADLINE (RFC 3339, empty without one), and in CORTEX_INPUT the structured input of
// the task as JSON (empty without one, and when it is 64 KiB or more: then only JSON has it). TRACEPARENT and TRACESTATE are the W3C trace
// context of the task, empty without one.
//
// CORTEX_FILES names a folder with the files of the task, under names that are safe in a folder; the files that the program leaves in the folder
// CORTEX_OUT become the files of the result, under their names there. On Linux the result of a program that has opened none of the files says so. Both folders are made for each run and removed after it, or, when
// the agent was killed, at its next start (on Linux; elsewhere after a week). With JSON, a file that is too large for a message is a file: URL
// there. When no temporary folder can be made, both variables are empty, and tasks with files fail.
//
// When the task is canceled or its time is over, the program and everything it started get SIGTERM, and SIGKILL two seconds later. On
// Linux that includes processes that left the program's process group, as daemons do: they are found by the variable CORTEX_RUN in their
// environment, and escape only with a new environment or as another user. On other Unix systems only the group is ended, elsewhere only the
// program. When a program ends by itself, the rest of its group is killed; daemons that it started stay. When the agent
// itself is killed, on Linux its programs are killed with it, and processes that these had started are killed when an agent of this user next
// starts. A program that writes more than 1 MiB is ended at once, since it may never stop; what it had written is the result, with a
// note. Output that is not UTF-8 is sent as bytes.
//
// Exec returns an error when the program cannot be found or run.
func Exec(o ExecOptions) (Handler, error) {
	p, err := newProgram(o)
	if err != nil {
		return nil, err
	}
	return p.run, nil
}

func newProgram(o ExecOptions) (*program, error) {
	if len(o.Argv) == 0 || o.Argv[0] == "" {
		return nil, errors.New("no program to run: give a command after --")
	}
	path, err := process.Find(o.Argv[0], o.Dir)
	if err != nil {
		return nil, err
	}
	process.KillOrphans()
	removeFolders(time.Now())
	return &program{ExecOptions: o, path: path, name: filepath.Base(o.Argv[0]), givesData: givesData(o.Card), once: once(o.Card)}, nil
}

// once returns the skills, as tasks name them, that a card wants to be done once.
func once(card *a2a.AgentCard) map[string]bool {
	if card == nil {
		return nil
	}
	names := map[string]bool{}
	for id, a := range agentcard.SpecOf(card).Abilities {
		names[id] = a.Once
		if a.DispatchKey != "" {
			names[skillOf(a.DispatchKey)] = a.Once
		}
		if len(card.Skills) == 1 {
			names[""] = a.Once
		}
	}
	return names
}

// program is a program that does tasks.
type program struct {
	ExecOptions
	path, name string
	givesData  map[string]bool // by the skill names that a task may use
	once       map[string]bool // likewise
}

// begun returns an error when a task that is to be done once was given before: the program may have done it then, or a part of it.
func (p *program) begun(t *Task) error {
	if t.Delivery > 1 && p.once[t.Skill] {
		return fmt.Errorf("%s was given this before, when it, its agent or the connection was lost, and what it had done until then is unknown", p.name)
	}
	return nil
}

func (p *program) log(line string) {
	if p.Log != nil {
		p.Log(line)
	}
}

// timed returns the context for a task, which ends after Timeout.
func (p *program) timed(ctx context.Context) (context.Context, context.CancelFunc) {
	if p.Timeout <= 0 {
		return ctx, func() {}
	}
	return context.WithTimeoutCause(ctx, p.Timeout, fmt.Errorf("%s did not end within %v", p.name, p.Timeout))
}

func (p *program) run(ctx context.Context, t *Task) (*Result, error) {
	if err := p.begun(t); err != nil {
		return nil, err
	}
	ctx, cancel := p.timed(ctx)
	defer cancel()
	running, end := context.WithCancelCause(ctx)
	defer end(nil)
	files, err := newFolder(t)
	if err != nil {
		return nil, err
	}
	defer files.remove()
	if err := files.fill(running, t); err != nil {
		return nil, err
	}
	stdin, err := p.stdin(t, files)
	if err != nil {
		return nil, err
	}
	var given []*a2a.Part
	if t.Message != nil {
		given = transport.FilesOf(t.Message.Parts)
	}
	var reads *opened
	if len(given) > 0 && !p.JSON { // which has the files itself
		reads = watchFolder(files.in())
		defer reads.stop()
	}
	stdout := &limited{limit: maxOutput, each: t.noteProgress, over: func() { end(errFlood) }}
	stderr := &process.Lines{Each: t.Progress}

	// On Linux the program dies with the thread that starts it, so the thread must live as long as the program.
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	cmd := exec.CommandContext(running, p.path, p.Argv[1:]...)
	cmd.Args[0] = p.Argv[0]
	mark := process.NewMark()
	cmd.Dir, cmd.Env = p.Dir, append(append(p.env(t), files.env()...), process.MarkVar+"="+mark)
	cmd.Stdin, cmd.Stderr = bytes.NewReader(stdin), stderr
	out, err := process.NewOutput(cmd)
	if err != nil {
		return nil, fmt.Errorf("%s cannot be started: %w", p.name, err)
	}
	defer out.Close()
	process.Isolate(cmd)
	var asked time.Time // when the program was asked to end
	cmd.Cancel = func() error {
		asked = time.Now()
		return process.Terminate(cmd.Process, mark)
	}
	cmd.WaitDelay = process.Grace
	if err := cmd.Start(); err != nil {
		if cause := context.Cause(running); cause != nil {
			return nil, cause
		}
		return nil, fmt.Errorf("%s cannot be started: %w", p.name, taskfile.Pathless(err))
	}
	out.Copy(stdout)
	err = cmd.Wait()
	if asked.IsZero() {
		out.Await(err)
	} else {
		waitUntil(asked.Add(process.Grace), func() bool { return process.IsGone(cmd.Process.Pid, mark) })
		process.KillAll(cmd.Process.Pid, mark)
	}
	// Kill the rest of the program's group.
	process.KillGroup(cmd.Process.Pid)
	out.Close()
	stderr.Flush()

	switch cause := context.Cause(running); {
	case errors.Is(cause, errFlood):
		return output(stdout.kept(), fmt.Sprintf("[cut: %s wrote more than %d bytes and was stopped]", p.name, maxOutput)), nil
	case cause != nil && err != nil:
		return nil, cause
	case err != nil && !errors.Is(err, exec.ErrWaitDelay):
		return nil, p.failure(err, stderr)
	}
	notes, err := files.collect(ctx, t)
	if err != nil {
		return nil, err
	}
	if p.givesData[t.Skill] {
		if r := data(stdout.kept()); r != nil {
			return r, nil
		}
	}
	r := output(stdout.kept(), strings.Join(notes, "\n"))
	if reads.none() {
		r.Parts = append(r.Parts, a2a.NewTextPart("("+notRead(given)+": "+p.name+" opened no file.)"))
	}
	return r, nil
}

// waitUntil returns when so() is true, or at end.
func waitUntil(end time.Time, so func() bool) {
	poll := time.NewTicker(endPoll)
	defer poll.Stop()
	for time.Now().Before(end) && !so() {
		<-poll.C
	}
}

func (p *program) stdin(t *Task, files *folder) ([]byte, error) {
	if !p.JSON {
		text := t.Text()
		if !strings.HasSuffix(text, "\n") {
			text += "\n"
		}
		return []byte(text), nil
	}
	b, err := json.Marshal(files.message(t.Message))
	if err != nil {
		return nil, fmt.Errorf("write the task for %s: %w", p.name, err)
	}
	return append(b, '\n'), nil
}

func (p *program) env(t *Task) []string {
	deadline := ""
	if !t.Deadline.IsZero() {
		deadline = t.Deadline.Format(time.RFC3339Nano)
	}
	env := append(os.Environ(), p.Env...)
	for _, v := range [][2]string{
		{"CORTEX_TASK_ID", string(t.ID)}, {"CORTEX_CONTEXT_ID", t.ContextID}, {"CORTEX_SKILL", t.Skill}, {"CORTEX_DEADLINE", deadline},
	} {
		env = append(env, v[0]+"="+shorten.Line(v[1], 256))
	}
	env = append(env, "TRACEPARENT="+t.Traceparent, "TRACESTATE="+t.Tracestate)
	input := []byte(nil)
	if v := t.Input(); v != nil {
		if b, err := json.Marshal(v); err == nil && len(b) < maxEnvInput {
			input = b
		}
	}
	return append(env, "CORTEX_INPUT="+string(input))
}

// failure describes how the program failed, with the last lines of its stderr.
func (p *program) failure(err error, stderr *process.Lines) error {
	text := p.name + ": " + taskfile.Pathless(err).Error()
	if last := stderr.Tail(); last != "" {
		text += ": " + last
	}
	return errors.New(text)
}

// output makes a result of what a program wrote.
func output(b []byte, note string) *Result {
	if note != "" {
		b = b[:shorten.Whole(b)] // the output may have been cut within a character
	}
	if !utf8.Valid(b) || bytes.IndexByte(b, 0) >= 0 {
		text := fmt.Sprintf("binary output, %d bytes", len(b))
		if note != "" {
			text += "\n" + note
		}
		r := Text(text)
		r.Parts = append(r.Parts, &a2a.Part{Content: a2a.Raw(b), MediaType: transport.TypeOf("", "", b)})
		return r
	}
	text := strings.TrimRight(string(b), "\r\n")
	if note != "" {
		text = shorten.To(text, MaxResultText-len(note)-1) + "\n" + note
	}
	return Text(text)
}
