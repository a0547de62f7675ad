package tests

import (
	"bytes"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/rogpeppe/go-internal/testscript"

	"github.com/cortex-orchestrator/cortex/internal/program"
	"github.com/cortex-orchestrator/cortex/llm"
	"github.com/cortex-orchestrator/cortex/llm/llmtest"
	"github.com/cortex-orchestrator/cortex/llm/openai/openaitest"
	"github.com/cortex-orchestrator/cortex/mirror/mirrortest"
)

func TestMain(m *testing.M) {
	leaveAtOnce()
	commands := map[string]func(){"cortex": program.Main, "asker": asker, "booker": booker, "stranger": stranger, "toolbox": toolbox, "a2apeer": a2apeer, "laborer": laborer, "hubpeer": hubpeer, "rockpeer": rockpeer, "curl": curl}
	if commands[filepath.Base(os.Args[0])] == nil {
		if err := os.Chdir(".."); err != nil { // paths in these tests are those of the repository
			panic(err)
		}
		os.Setenv("XDG_CONFIG_HOME", "/nonexistent") //nolint:errcheck // who runs the tests may have settings
	}
	testscript.Main(m, commands)
}

// leaveAtOnce makes child processes exit without delay: with the race detector each would wait for a second before that, for pending race reports,
// and the scripts start a thousand of them.
func leaveAtOnce() {
	if os.Getenv("GORACE") == "" {
		os.Setenv("GORACE", "atexit_sleep_ms=10") //nolint:errcheck // the name is a good one
	}
}

// TestScripts runs the command line as users do, each script in an empty folder with a state folder of its own.
func TestScripts(t *testing.T) {
	upgrade, err := filepath.Abs("tests/testdata/upgrade")
	if err != nil {
		t.Fatal(err)
	}
	testscript.Run(t, testscript.Params{
		Dir: "tests/testdata/script",
		Setup: func(e *testscript.Env) error {
			e.Setenv("HOME", filepath.Join(e.WorkDir, "home"))
			e.Setenv("XDG_STATE_HOME", "")
			e.Setenv("UPGRADE", upgrade) // folders of older versions
			e.Setenv("XDG_CONFIG_HOME", "")
			return nil
		},
		Cmds: map[string]func(*testscript.TestScript, bool, []string){
			"eventually": eventually,
			"setenv":     setenv,
			"address":    func(ts *testscript.TestScript, neg bool, args []string) { address(t, ts, neg, args) },
			"postgres":   func(ts *testscript.TestScript, _ bool, _ []string) { startPostgres(t, ts) },
			"model":      func(ts *testscript.TestScript, _ bool, args []string) { serveModel(t, ts, args) },
		},
		Condition: func(c string) (bool, error) {
			program, ok := strings.CutPrefix(c, "needs:")
			if !ok {
				return false, fmt.Errorf("there is no condition %q", c)
			}
			if program == "postgresql" {
				return mirrortest.Here(os.Stderr, "scripts with [!needs:postgresql]")
			}
			return isHere(os.Stderr, program, "scripts with [!needs:"+program+"]")
		},
		RequireExplicitExec: true,
	})
}

// startPostgres starts a PostgreSQL for a script, which finds it by its environment:
//
//	postgres
func startPostgres(t *testing.T, ts *testscript.TestScript) {
	s, err := mirrortest.New(false)
	ts.Check(err)
	t.Cleanup(s.Close)
	ts.Setenv("PGHOST", s.Host())
	ts.Setenv("PGUSER", "test")
}

// isHere reports whether a program is on this machine. What is not run without it is told of in a line, and in CI it is an error.
func isHere(tell io.Writer, program, without string) (bool, error) {
	_, err := exec.LookPath(program)
	if err == nil {
		return true, nil
	}
	fmt.Fprintf(tell, "NOT RUN: %s: there is no %s on this machine\n", without, program)
	if os.Getenv("CI") != "" {
		return false, fmt.Errorf("%w: CI has to have it", err)
	}
	return false, nil
}

// TestIsHere checks that what is left out is told of, and that CI leaves out nothing.
func TestIsHere(t *testing.T) {
	for _, test := range []struct {
		program, ci string
		here, fails bool
		told        string
	}{
		{"go", "", true, false, ""},
		{"go", "1", true, false, ""},
		{"no-such-program", "", false, false, "NOT RUN: this: there is no no-such-program on this machine\n"},
		{"no-such-program", "1", false, true, "NOT RUN: this: there is no no-such-program on this machine\n"},
	} {
		t.Setenv("CI", test.ci)
		var told strings.Builder
		if here, err := isHere(&told, test.program, "this"); here != test.here || (err != nil) != test.fails || told.String() != test.told {
			t.Errorf("isHere(%s) with CI=%q = %v, %v, and tells %q; want %+v", test.program, test.ci, here, err, told.String(), test)
		}
	}
}

// TestScriptsLeaveOutNothing checks that no script leaves something out in silence.
func TestScriptsLeaveOutNothing(t *testing.T) {
	scripts, err := filepath.Glob("tests/testdata/script/*.txtar")
	if err != nil || len(scripts) == 0 {
		t.Fatalf("no scripts: %v", err)
	}
	silent := regexp.MustCompile(`(?m)^\[!?exec:.*|^(\[.*\] *)?skip\b.*`)
	for _, file := range scripts {
		script, _, _ := strings.Cut(read(t, file), "\n-- ")
		if line := silent.FindString(script); line != "" {
			t.Errorf("%s: %s: make it [!needs:PROGRAM] stop, which tells of it and fails in CI", file, line)
		}
	}
}

// patience bounds how long a script waits for a condition.
const patience = 90 * time.Second // a RabbitMQ starts in one second, and in more than thirty on a busy machine

// eventually runs a command repeatedly until its output matches a pattern (with !: does not match):
//
//	eventually 'wordcount +active' cortex agents
//
// The file "output" then has the output.
func eventually(ts *testscript.TestScript, neg bool, args []string) {
	if len(args) < 2 {
		ts.Fatalf("usage: eventually PATTERN COMMAND [ARGS...]")
	}
	pattern, err := regexp.Compile("(?m)" + args[0])
	ts.Check(err)
	var out []byte
	for end := time.Now().Add(patience); time.Now().Before(end); <-time.After(50 * time.Millisecond) { // leaves the processor to the processes that it waits for
		cmd := exec.Command(lookPath(ts, args[1]), args[2:]...)
		cmd.Dir = ts.Getenv("WORK")
		cmd.Env = environ(ts)
		var errout bytes.Buffer
		cmd.Stderr = &errout
		out, _ = cmd.Output() // a failed command does not match yet
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

// address sets variables to addresses of this machine at which nobody listens: address NAME...
func address(t *testing.T, ts *testscript.TestScript, neg bool, args []string) {
	if neg || len(args) == 0 {
		ts.Fatalf("usage: address NAME...")
	}
	for _, name := range args {
		ts.Setenv(name, freeAddress(t))
	}
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
	for _, name := range []string{"PATH", "HOME", "XDG_STATE_HOME", "CORTEX_DATA", "CORTEX_NATS_URL", "TESTSCRIPT_COMMAND", "GORACE", "PGHOST", "PGUSER"} {
		if v := ts.Getenv(name); v != "" {
			env = append(env, name+"="+v)
		}
	}
	return env
}

// serveModel sets the variable in args to the URL of a server with OpenAI's protocol. Its model gives the user's message to agent_echo, and answers
// with the result. Asked to look, it says which images it sees, or the lines that replace them; asked to give files to the worker, it does; asked to
// paint and frame, it has the painter do the first, and the worker the second. As a persona it reads todo.txt.
func serveModel(t *testing.T, ts *testscript.TestScript, args []string) {
	if len(args) != 1 {
		ts.Fatalf("usage: model VARIABLE")
	}
	server := openaitest.Serve(t, func(c *llmtest.Call) *llmtest.Reply {
		message := c.Messages[len(c.Messages)-1]
		last := message.Text()
		reply := &llmtest.Reply{Usage: llm.Usage{Input: 1200, Output: 40}}
		if said := regexp.MustCompile(`"result":"([^"]*)"`).FindStringSubmatch(last); said != nil {
			reply.Pieces = []string{`{"kind":"respond","say":"It said: `, said[1], `","delegations":[],"reason":"done"}`}
			return reply
		}
		if why := regexp.MustCompile(`Your reply cannot be used: (.*)\n`).FindStringSubmatch(last); why != nil {
			reply.Pieces = []string{fmt.Sprintf(`{"kind":"respond","say":%q,"delegations":[],"reason":"it was told"}`, why[1])}
			return reply
		}
		if strings.Contains(c.System, "You review the result") { // a judge, which wants numbers
			reply.Pieces = []string{`{"score":0.2,"advice":"there is no number in it"}`}
			if regexp.MustCompile(`The result:\n<result>\n[^<]*\d`).MatchString(last) {
				reply.Pieces = []string{`{"score":0.9,"advice":""}`}
			}
			return reply
		}
		if strings.Contains(c.System, "# How you work here") { // a persona, which reads a file and says what is in it
			reply.Pieces = []string{`{"kind":"call","say":"reading","calls":[{"tool":"Read","input":"{\"path\":\"todo.txt\"}"}]}`}
			if found := regexp.MustCompile(`(?s)<result>\n(.*?)\n*</result>`).FindStringSubmatch(last); found != nil {
				reply.Pieces = []string{fmt.Sprintf(`{"kind":"answer","say":%q,"calls":[]}`, "todo.txt says: "+found[1])}
			}
			return reply
		}
		said := regexp.MustCompile(`<cortex:user>\n(.*)\n`).FindStringSubmatch(last)
		if said == nil {
			said = []string{"", "nothing"}
		}
		if said[1] == "look" {
			var seen []string
			for _, p := range message.Parts {
				if p.Image != nil {
					seen = append(seen, fmt.Sprintf("%s of %d bytes", p.Image.Type, len(p.Image.Data)))
				}
			}
			seen = append(seen, regexp.MustCompile(`\[image .*\.png, .*\]|Image f\d+:`).FindAllString(last, -1)...)
			reply.Pieces = []string{fmt.Sprintf(`{"kind":"respond","say":%q,"delegations":[],"reason":"seen"}`, strings.Join(seen, "; "))}
			return reply
		}
		if strings.HasPrefix(said[1], "paint") {
			then := ""
			if strings.HasSuffix(said[1], "and frame") {
				then = `,{"id":"b","agent":"worker","skill":null,"task":"frame","input":null,"files":null,"depends_on":["a"]}`
			}
			reply.Pieces = []string{`{"kind":"delegate","say":null,"delegations":[{"id":"a","agent":"painter","skill":null,"task":"paint","input":null,"files":null,"depends_on":[]}` +
				then + `],"reason":"it works"}`}
			return reply
		}
		if list, ok := strings.CutPrefix(said[1], "give the worker "); ok {
			files := `"` + strings.ReplaceAll(list, " ", `","`) + `"`
			reply.Pieces = []string{`{"kind":"delegate","say":null,"delegations":[{"id":"a","agent":"worker","skill":null,"task":"do it","input":null,"files":[` +
				files + `],"depends_on":[]}],"reason":"it works"}`}
			return reply
		}
		reply.Pieces = []string{
			`{"kind":"delegate","say":"I ask the echo.",`,
			fmt.Sprintf(`"delegations":[{"id":"a","agent":"agent_echo","skill":null,"task":%q,"input":null,"files":null,"depends_on":[]}],"reason":"it echoes"}`, said[1]),
		}
		return reply
	})
	ts.Setenv(args[0], server.URL+"/v1")
}
