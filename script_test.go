package main

import (
	"bytes"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/rogpeppe/go-internal/testscript"
)

func TestMain(m *testing.M) {
	testscript.Main(m, map[string]func(){"cortex": main})
}

// TestScripts runs the command line as people do, each script in an empty folder with a state folder of its own.
func TestScripts(t *testing.T) {
	testscript.Run(t, testscript.Params{
		Dir: "testdata/script",
		Setup: func(e *testscript.Env) error {
			e.Setenv("HOME", filepath.Join(e.WorkDir, "home"))
			e.Setenv("XDG_STATE_HOME", "")
			return nil
		},
		Cmds: map[string]func(*testscript.TestScript, bool, []string){
			"eventually": eventually,
			"setenv":     setenv,
		},
		RequireExplicitExec: true,
	})
}

// patience bounds how long a script waits for something to become true.
const patience = 30 * time.Second

// eventually runs a command until its output matches a pattern (with !: does not match):
//
//	eventually 'wordcount +active' cortex agents
//
// The file "output" then holds what it printed.
func eventually(ts *testscript.TestScript, neg bool, args []string) {
	if len(args) < 2 {
		ts.Fatalf("usage: eventually PATTERN COMMAND [ARGS...]")
	}
	pattern, err := regexp.Compile("(?m)" + args[0])
	ts.Check(err)
	poll := time.NewTicker(20 * time.Millisecond)
	defer poll.Stop()
	var out []byte
	for end := time.Now().Add(patience); time.Now().Before(end); <-poll.C {
		cmd := exec.Command(lookPath(ts, args[1]), args[2:]...)
		cmd.Dir = ts.Getenv("WORK")
		cmd.Env = environ(ts)
		var errout bytes.Buffer
		cmd.Stderr = &errout
		out, _ = cmd.Output() // a command that fails has not come true yet
		out = append(out, errout.Bytes()...)
		if pattern.Match(out) != neg {
			return
		}
	}
	ts.Fatalf("%v never came true; the last output was:\n%s", args, out)
}

// setenv sets a variable to the content of a file: setenv NAME FILE.
func setenv(ts *testscript.TestScript, neg bool, args []string) {
	if neg || len(args) != 2 {
		ts.Fatalf("usage: setenv NAME FILE")
	}
	ts.Setenv(args[0], strings.TrimSpace(ts.ReadFile(args[1])))
}

func lookPath(ts *testscript.TestScript, name string) string {
	for _, dir := range filepath.SplitList(ts.Getenv("PATH")) {
		if path, err := exec.LookPath(filepath.Join(dir, name)); err == nil {
			return path
		}
	}
	ts.Fatalf("command %s not found", name)
	return ""
}

func environ(ts *testscript.TestScript) []string {
	var env []string
	for _, name := range []string{"PATH", "HOME", "XDG_STATE_HOME", "CORTEX_DATA", "CORTEX_NATS_URL", "TESTSCRIPT_COMMAND"} {
		if v := ts.Getenv(name); v != "" {
			env = append(env, name+"="+v)
		}
	}
	return env
}
