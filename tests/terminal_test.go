package tests

import (
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/creack/pty"
	"github.com/hinshun/vt10x"
)

// TestChatOnATerminal types into the real program on a real terminal, with nearly nothing in its environment but a path.
func TestChatOnATerminal(t *testing.T) {
	t.Parallel()
	term := open(t, "chat", "--data", t.TempDir())
	term.shows("3 agents online")
	term.types("what time is it in Tokyo, and what is 17*23?\r")
	term.shows("agent_clock: Tokyo (Asia/Tokyo): ")
	term.shows("agent_calc: 17*23 = 391")
	term.shows("✓ agent_clock  what time is it in Tokyo")
	term.types("and in Paris?\r")
	term.shows("Paris (Europe/Paris): ")
	term.types("tell me a joke\r")
	term.shows("I did not understand this: deciding offline")
	term.types("/help\r")
	term.shows("Deciding offline by words; for a language model: --llm …")
	term.types("times 2\r")
	term.shows("391 times 2 = 782")
	term.types("/why\r")
	term.shows("1. delegate")
	term.types("\x04")
	term.ends(0)
}

// TestModelIsOfferedOnce checks that a chat that finds a key in its environment offers the model, and keeps the answer.
func TestModelIsOfferedOnce(t *testing.T) {
	t.Parallel()
	const question = "OPENAI_API_KEY is set: let gpt-5.4-mini decide, at its price? [y/N]"
	key := []string{"OPENAI_API_KEY=sk-nobody"}
	leave := func(term *terminal) {
		term.shows("> ")
		term.types("\x04")
		term.ends(0)
	}
	for answer, decides := range map[string]string{
		"y": "deciding with openai gpt-5.4-mini", "n": "deciding offline by words; for a language model: --llm …", "": "deciding offline by words",
	} {
		data := t.TempDir()
		term := openWith(t, key, "chat", "--data", data)
		term.shows(question)
		term.types(answer + "\r")
		term.shows(decides)
		leave(term)
		again := openWith(t, key, "chat", "--data", data)
		again.shows(decides)
		if strings.Contains(again.text(), question) {
			t.Errorf("after %q it asks again:\n%s", answer, again.text())
		}
		leave(again)
		if answer != "y" {
			continue
		}
		without := openWith(t, nil, "chat", "--data", data)
		without.shows("warning: openai was chosen in this folder, and does not decide: ")
		without.shows("deciding offline by words")
		leave(without)
		other := openWith(t, key, "chat", "--data", data, "--llm", "fake")
		other.shows("deciding offline by words")
		leave(other)
	}
	narrow := openSized(t, 36, key, "chat", "--data", t.TempDir())
	narrow.shows("OPENAI_API_KEY is set: let")
	if text := narrow.text(); !strings.Contains(text, "\ngpt-5.4-mini decide, at its") || !strings.Contains(text, "\nprice? [y/N] ") {
		t.Errorf("on a narrow terminal it asks\n%s", text)
	}
	alone := openWith(t, key, "ask", "--data", t.TempDir(), "17*23") // only a chat offers a model
	alone.shows("17*23 = 391")
	alone.ends(0)
	file := filepath.Join(t.TempDir(), "file")
	if err := os.WriteFile(file, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	nowhere := openWith(t, key, "chat", "--data", filepath.Join(file, "data")) // the folder is said to be wrong, not the model
	nowhere.shows("data folder")
	nowhere.ends(1)
	if text := nowhere.text(); strings.Contains(text, "model") {
		t.Errorf("without a folder it says\n%s", text)
	}
	asked := openWith(t, key, "chat", "--data", t.TempDir())
	asked.shows(question)
	asked.types("\x03")
	asked.ends(130)
}

// terminal is a program on a terminal of 30 lines.
type terminal struct {
	t     *testing.T
	path  string // of the program
	pty   *os.File
	ended chan int

	mu     sync.Mutex
	screen vt10x.Terminal
}

// open runs this test's own binary as cortex, see TestMain.
func open(t *testing.T, args ...string) *terminal {
	t.Helper()
	return openWith(t, []string{"CORTEX_LLM=fake"}, args...) // prevents that a model is offered
}

// openWith is open with more variables.
func openWith(t *testing.T, env []string, args ...string) *terminal {
	t.Helper()
	return openSized(t, 100, env, args...)
}

// openSized is openWith on a terminal with this many columns.
func openSized(t *testing.T, cols int, env []string, args ...string) *terminal {
	t.Helper()
	path := cortexPath(t)
	return openProgram(t, cols, path, env, args...)
}

// openProgram is openSized for any program.
func openProgram(t *testing.T, cols int, path string, env []string, args ...string) *terminal {
	t.Helper()
	cmd := exec.Command(path, args...)
	cmd.Env = append([]string{"GORACE=" + os.Getenv("GORACE"), "PATH=" + os.Getenv("PATH"), "TERM=xterm"}, env...)
	f, err := pty.StartWithSize(cmd, &pty.Winsize{Cols: uint16(cols), Rows: 30})
	if err != nil {
		t.Fatal(err)
	}
	term := &terminal{t: t, path: path, pty: f, ended: make(chan int, 1), screen: vt10x.New(vt10x.WithSize(cols, 30), vt10x.WithWriter(f))}
	go func() {
		buf := make([]byte, 4096)
		for {
			n, err := f.Read(buf)
			term.mu.Lock()
			term.screen.Write(buf[:n]) //nolint:errcheck // a screen takes everything
			term.mu.Unlock()
			if err != nil {
				break
			}
		}
		cmd.Wait() //nolint:errcheck // the status is what counts
		term.ended <- cmd.ProcessState.ExitCode()
	}()
	t.Cleanup(func() {
		cmd.Process.Kill() //nolint:errcheck // it may have ended
		f.Close()
	})
	return term
}

func (x *terminal) types(keys string) {
	x.t.Helper()
	if _, err := x.pty.WriteString(keys); err != nil {
		x.t.Fatal(err)
	}
}

// text returns the screen.
func (x *terminal) text() string {
	x.mu.Lock()
	defer x.mu.Unlock()
	return x.screen.String()
}

func (x *terminal) shows(want string) {
	x.t.Helper()
	poll := time.NewTicker(10 * time.Millisecond)
	defer poll.Stop()
	for end := time.Now().Add(patience); !strings.Contains(x.text(), want); <-poll.C {
		if time.Now().After(end) {
			x.t.Fatalf("the screen never shows %q:\n%s", want, x.text())
		}
	}
}

// prompts waits until the chat reads a line. Before, the terminal takes Ctrl-D itself.
func (x *terminal) prompts() {
	x.t.Helper()
	poll := time.NewTicker(10 * time.Millisecond)
	defer poll.Stop()
	for end := time.Now().Add(patience); ; <-poll.C {
		lines := strings.Split(strings.TrimSpace(x.text()), "\n")
		if strings.TrimSpace(lines[len(lines)-1]) == ">" {
			return
		}
		if time.Now().After(end) {
			x.t.Fatalf("the chat does not read a line:\n%s", x.text())
		}
	}
}

func (x *terminal) ends(want int) {
	x.t.Helper()
	select {
	case got := <-x.ended:
		if got != want {
			x.t.Errorf("exit status %d, want %d; the screen:\n%s", got, want, x.text())
		}
	case <-time.After(patience):
		x.t.Fatalf("the program does not end; the screen:\n%s", x.text())
	}
}
