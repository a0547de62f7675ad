//go:build unix

package process

import (
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"
)

func TestLinesAreBounded(t *testing.T) {
	var got []string
	w := &Lines{Each: func(l string) { got = append(got, l) }}
	for range 100 {
		fmt.Fprint(w, strings.Repeat("x", 10_000))
	}
	if len(w.partial) > maxLine {
		t.Errorf("%d bytes of an endless line are kept", len(w.partial))
	}
	fmt.Fprint(w, "\r\n\n\x1b[31mnext\x1b[0m\n")
	if len(got) != 2 || len(got[0]) != maxLine || got[1] != "next" {
		t.Errorf("lines = %q", got)
	}
	got = nil
	const trace = "Traceback (most recent call last):\n  File \"tool.py\", line 3, in work\n    return 1 / 0\n           ~~^~~\n"
	if fmt.Fprint(w, trace); strings.Join(got, "\n")+"\n" != trace {
		t.Errorf("lines = %q, want them indented as %q", got, trace)
	}
	got = nil
	fmt.Fprint(w, " \t \n\x1b[31m\tat\ta\x07 b\n"+strings.Repeat("\t", maxLine-3)+"end\n")
	if want := []string{"    at a b", strings.Repeat(" ", maxLine/2) + "end"}; !slices.Equal(got, want) {
		t.Errorf("lines = %q, want %q", got, want)
	}
	for range 100 {
		fmt.Fprintln(w, strings.Repeat("é", 400))
	}
	if last := w.Tail(); len(w.last) > lastLines || len(last) > lastBytes+len("…") || !strings.HasPrefix(last, "…é") {
		t.Errorf("%d lines are kept, and the last ones in %d bytes: %.20q", len(w.last), len(last), last)
	}
}

// What ends soon is started again later and later, and what ran for long soon.
func TestRestarts(t *testing.T) {
	r := NewRestarts()
	var longest time.Duration
	for range 20 {
		longest = max(longest, r.Pause(time.Second))
	}
	if most := maxPause + maxPause/4; longest < maxPause/2 || longest > most {
		t.Errorf("the longest pause is %v, want about %v", longest, maxPause)
	}
	if again := r.Pause(steady + 1); again > 2*firstPause {
		t.Errorf("the pause is %v after a long run, want about %v", again, firstPause)
	}
}

// A program has its pipes, its lines on standard error are told and kept, and it ends by itself when its input is closed.
func TestProgram(t *testing.T) {
	sh, err := Find("sh", "")
	if err != nil {
		t.Fatal(err)
	}
	var told []string
	p, err := Start(&exec.Cmd{Path: sh, Args: []string{"sh", "-c", `read a; echo "got $a"; echo hm >&2; printf "no end" >&2; cat; exit 3`}}, func(line string) { told = append(told, line) })
	if err != nil {
		t.Fatal(err)
	}
	defer p.Out.Close()
	if _, err := fmt.Fprintln(p.In, "this"); err != nil {
		t.Fatal(err)
	}
	var got string
	if _, err := fmt.Fscanf(p.Out, "got %s\n", &got); err != nil || got != "this" {
		t.Errorf("it says %q, %v", got, err)
	}
	p.End(false)
	var exit *exec.ExitError
	if err := p.Err(); !errors.As(err, &exit) || exit.ExitCode() != 3 {
		t.Errorf("it ended with %v, want exit status 3", err)
	}
	if want := "hm\nno end"; strings.Join(told, "\n") != want || p.Last() != want {
		t.Errorf("told %q, kept %q, want %q", told, p.Last(), want)
	}
}

// A program that goes on when it is asked to end is killed, with its children.
func TestProgramIsKilled(t *testing.T) {
	sh, err := Find("sh", "")
	if err != nil {
		t.Fatal(err)
	}
	p, err := Start(&exec.Cmd{Path: sh, Args: []string{"sh", "-c", `trap "" TERM; (trap "" TERM; sleep 300) & echo $!; while :; do sleep 300; done`}}, func(string) {})
	if err != nil {
		t.Fatal(err)
	}
	defer p.Out.Close()
	if _, err := fmt.Fscanln(p.Out, new(int)); err != nil { // its child runs
		t.Fatal(err)
	}
	p.End(true)
	p.End(false) // again
	isGone(t, p)
}

// The children of a program that ends by itself end with it.
func TestProgramLeavesNothing(t *testing.T) {
	sh, err := Find("sh", "")
	if err != nil {
		t.Fatal(err)
	}
	p, err := Start(&exec.Cmd{Path: sh, Args: []string{"sh", "-c", "sleep 300 2>/dev/null &"}}, func(string) {})
	if err != nil {
		t.Fatal(err)
	}
	defer p.End(true)
	defer p.Out.Close()
	<-p.Ended
	isGone(t, p)
}

// isGone waits until nothing of a program is left; what was killed takes a moment.
func isGone(t *testing.T, p *Program) {
	t.Helper()
	for end := time.Now().Add(time.Minute); !IsGone(p.cmd.Process.Pid, p.mark); <-time.After(5 * time.Millisecond) {
		if time.Now().After(end) {
			t.Fatal("something that it started is left")
		}
	}
}

func TestFind(t *testing.T) {
	dir := t.TempDir()
	if err := os.WriteFile(filepath.Join(dir, "plain"), nil, 0o600); err != nil {
		t.Fatal(err)
	}
	for name, want := range map[string]string{
		"./none":              "./none: there is no such file",
		"./plain":             "./plain: not executable: run chmod +x on it, or name its interpreter before it",
		"plain":               "plain: not found in PATH; to run the one in this folder, write ./plain",
		"no-such-program-x":   "no-such-program-x: not found in PATH: check the name, or give the path",
		"/no-such-folder/x/y": "/no-such-folder/x/y: there is no such file",
	} {
		if path, err := Find(name, dir); err == nil || err.Error() != want {
			t.Errorf("Find(%s) = %q, %v, want %q", name, path, err, want)
		}
	}
	if _, err := Find("sh", filepath.Join(dir, "none")); err == nil || !strings.Contains(err.Error(), "there is no such folder to run in") {
		t.Errorf("Find in no folder: %v", err)
	}
}

// TestLinesLeftOutAreSaid has a program write more lines than are passed on, and end: each line was passed on or is counted among those that were left out.
func TestLinesLeftOutAreSaid(t *testing.T) {
	const all = 2000
	passed, left := 0, 0
	p, err := Start(exec.Command("sh", "-c", fmt.Sprintf("i=0; while [ $i -lt %d ]; do echo line $i >&2; i=$((i+1)); done", all)), func(line string) {
		var n int
		if _, err := fmt.Sscanf(line, "[%d lines of its standard error were left out", &n); err == nil {
			left += n
		} else {
			passed++
		}
	})
	if err != nil {
		t.Fatal(err)
	}
	<-p.Ended
	p.End(true)
	if passed+left != all || passed < logBurst || left == 0 && passed < all {
		t.Errorf("of %d lines, %d are passed on and %d said to be left out", all, passed, left)
	}
}
