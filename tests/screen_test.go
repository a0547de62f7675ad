package tests

import (
	"bytes"
	"encoding/json"
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/creack/pty"
	"github.com/google/go-cmp/cmp"
	"github.com/hinshun/vt10x"
	"github.com/rogpeppe/go-internal/txtar"
)

// TestScreens checks the output for people. Each file of tests/testdata/screen has a command line, after "$ ", and its output on terminals of 80 and 120
// columns, on one of 80 with NO_COLOR, and in a pipe; ids, times and paths are replaced by others of the same length. With -update it writes the
// files.
func TestScreens(t *testing.T) {
	files, err := filepath.Glob("tests/testdata/screen/*.txtar")
	if err != nil || len(files) == 0 {
		t.Fatal("there are no screens: ", err)
	}
	// These show ages, which must not grow, or all tasks, of which a screen with a question makes more.
	late := func(file string) bool {
		return !strings.Contains(file, "conversations") && !strings.Contains(file, "tasks")
	}
	slices.SortStableFunc(files, func(a, b string) int {
		switch {
		case late(a) == late(b):
			return strings.Compare(a, b)
		case late(a):
			return 1
		}
		return -1
	})
	w := newWorld(t)
	for _, file := range files {
		t.Run(strings.TrimSuffix(filepath.Base(file), ".txtar"), func(t *testing.T) {
			want, err := txtar.ParseFile(file)
			if err != nil {
				t.Fatal(err)
			}
			line := regexp.MustCompile(`(?m)^\$ (.*)$`).FindSubmatch(want.Comment)
			if line == nil {
				t.Fatalf("%s has no line with a command", file)
			}
			command := string(line[1])
			got := &txtar.Archive{Comment: want.Comment}
			show := func(name, text string) {
				got.Files = append(got.Files, txtar.File{Name: name, Data: []byte(w.normal(text))})
			}
			wide, _ := w.screen(t, 120, command)
			usual, _ := w.screen(t, 80, command)
			plain, raw := w.screen(t, 80, command, "NO_COLOR=1")
			if colour := regexp.MustCompile(`\x1b\[[0-9;]*m`).FindString(raw); colour != "" {
				t.Errorf("with NO_COLOR there is %q", colour)
			}
			piped := w.piped(t, command)
			if strings.Contains(piped, "\x1b") {
				t.Errorf("in a pipe there is a control character:\n%q", piped)
			}
			show("80", usual)
			show("120", wide)
			show("80, NO_COLOR", plain)
			show("piped", piped)
			if *update {
				if err := os.WriteFile(file, txtar.Format(got), 0o644); err != nil {
					t.Fatal(err)
				}
				return
			}
			if diff := cmp.Diff(string(txtar.Format(want)), string(txtar.Format(got))); diff != "" {
				t.Errorf("%s (-want +got), -update writes it anew:\n%s", file, diff)
			}
		})
	}
}

// world is a Cortex with agents, conversations and a long task.
type world struct {
	dir string
	env []string
}

func newWorld(t *testing.T) *world {
	w := &world{dir: t.TempDir()}
	w.env = []string{
		"GORACE=" + os.Getenv("GORACE"), "PATH=" + os.Getenv("PATH"), "HOME=" + w.dir, "TERM=xterm", "TZ=UTC",
		"CORTEX_DATA=" + filepath.Join(w.dir, "cortex"), "CORTEX_LLM=fake", "CORTEX_HTTP=none",
	}
	card := filepath.Join(w.dir, "slow.yaml")
	if err := os.WriteFile(card, []byte("name: slow\ndescription: Takes its time over whatever it is given, and says so at the end of it, which is late\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	w.start(t, "serve")
	w.eventually(t, "agent_echo +active", "agents")
	w.start(t, "agent", "exec", "--card", card, "--", "sleep", "3600")
	w.eventually(t, "slow +active", "agents")
	w.run(t, "ask", "--conversation", "demo", "what is 17*23?")
	w.run(t, "ask", "--conversation", "demo", "echo hello there, whoever you are and wherever you may be, and good night to you all")
	w.run(t, "ask", "--conversation", "0193b2f0-aaaa-7000-8000-000000000001", "echo one, two, three and whatever else there is to be counted in this house")
	w.run(t, "ask", "--conversation", "both", "what is 17*23, and echo hello there")
	w.start(t, "ask", "--conversation", "slowly", "--agent", "slow", "do it slowly, please")
	w.eventually(t, "^[0-9a-f-]+ +slow ", "tasks")
	var tasks []struct{ TaskID string }
	if err := json.Unmarshal([]byte(w.run(t, "tasks", "--json")), &tasks); err != nil || len(tasks) != 1 {
		t.Fatalf("the tasks are %v, %v", tasks, err)
	}
	w.env = append(w.env, "TASK="+tasks[0].TaskID)
	return w
}

func (w *world) command(args ...string) *exec.Cmd {
	cmd := exec.Command(args[0], args[1:]...)
	cmd.Dir, cmd.Env = w.dir, w.env
	return cmd
}

// start runs a command until the end of the test.
func (w *world) start(t *testing.T, args ...string) {
	t.Helper()
	cmd := w.command(append([]string{"cortex"}, args...)...)
	var said bytes.Buffer
	cmd.Stdout, cmd.Stderr = &said, &said
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		cmd.Process.Signal(syscall.SIGTERM) //nolint:errcheck // it may have ended
		cmd.Wait()                          //nolint:errcheck // how does not matter
		if t.Failed() {
			t.Logf("cortex %s:\n%s", strings.Join(args, " "), &said)
		}
	})
}

func (w *world) run(t *testing.T, args ...string) string {
	t.Helper()
	cmd := w.command(append([]string{"cortex"}, args...)...)
	out, err := cmd.Output()
	if err != nil {
		t.Fatalf("cortex %s: %v\n%s", strings.Join(args, " "), err, out)
	}
	return string(out)
}

func (w *world) eventually(t *testing.T, pattern string, args ...string) {
	t.Helper()
	found := regexp.MustCompile("(?m)" + pattern)
	for end := time.Now().Add(patience); ; <-time.After(50 * time.Millisecond) {
		out, _ := w.command(append([]string{"cortex"}, args...)...).CombinedOutput()
		if found.Match(out) {
			return
		}
		if time.Now().After(end) {
			t.Fatalf("cortex %s never shows %s, but:\n%s", strings.Join(args, " "), pattern, out)
		}
	}
}

// screen returns what a command line shows on a terminal, and its raw output.
func (w *world) screen(t *testing.T, columns int, line string, env ...string) (text, raw string) {
	t.Helper()
	const rows = 120
	cmd := w.command("sh", "-c", line)
	cmd.Env = append(cmd.Env[:len(cmd.Env):len(cmd.Env)], env...)
	f, err := pty.StartWithSize(cmd, &pty.Winsize{Cols: uint16(columns), Rows: rows})
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	var b bytes.Buffer
	if _, err := b.ReadFrom(f); err != nil && !errors.Is(err, syscall.EIO) { // how it ends on Linux
		t.Fatal(err)
	}
	if err := cmd.Wait(); err != nil {
		t.Fatalf("%s: %v\n%s", line, err, &b)
	}
	raw = b.String()
	screen := vt10x.New(vt10x.WithSize(columns, rows))
	screen.Write(b.Bytes()) //nolint:errcheck // a screen takes everything
	for line := range strings.Lines(screen.String()) {
		text += strings.TrimRight(line, " \n") + "\n"
	}
	return strings.TrimRight(text, "\n") + "\n", raw
}

// piped returns the output of a command line in a pipe.
func (w *world) piped(t *testing.T, line string) string {
	t.Helper()
	out, err := w.command("sh", "-c", line).CombinedOutput()
	if err != nil {
		t.Fatalf("%s: %v\n%s", line, err, out)
	}
	return string(out)
}

// normal replaces the variable parts of a screen, by texts of the same length where that affects the layout.
func (w *world) normal(text string) string {
	text = strings.ReplaceAll(text, w.dir, "/home/ada/.local/state")
	for _, r := range [][2]string{
		{`[0-9a-f]{8}-[0-9a-f]{4}-[57][0-9a-f]{3}-[0-9a-f]{4}-[0-9a-f]{12}`, "5f0c2a54-1b2c-7000-8000-5f0c2a541b2c"},
		{`\b[0-9a-f]{8}-[0-9a-f]{4}\b`, "5f0c2a54-1b2c"},
		{`\d{4}-\d\d-\d\d \d\d:\d\d:\d\d`, "2026-01-02 03:04:05"},
		{`\b\d\.\d s\b`, "0.0 s"},
		{`\b(127\.0\.0\.1:)\d{5}\b`, "${1}40000"},
		{`\(process \d+\)`, "(process 1234)"},
		{`[0-9.]+ [kMGT]B free`, "40 GB free"},
		{`cortex \S+, go\S+, \S+/\S+`, "cortex 0.1.0, go1.26.0, linux/amd64"},
	} {
		text = regexp.MustCompile(r[0]).ReplaceAllString(text, r[1])
	}
	return text
}
