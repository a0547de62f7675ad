package tests

import (
	"bufio"
	"bytes"
	"context"
	"errors"
	"io"
	"io/fs"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
)

// TestPlugin builds the program of another module, which has its own model, agent, transport and store, and runs it as a user would.
func TestPlugin(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	parrot := filepath.Join(dir, "parrot")
	build := exec.Command("go", "build", "-o", parrot, ".")
	build.Dir = filepath.Join("tests", "testdata", "plugin")
	if out, err := build.CombinedOutput(); err != nil {
		t.Fatalf("go build: %v\n%s", err, out)
	}
	config := filepath.Join(dir, "parrot.yaml")
	write := func(text string) {
		if err := os.WriteFile(config, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	data := filepath.Join(dir, "data")
	run := func(want string, args ...string) {
		t.Helper()
		ctx, cancel := context.WithTimeout(t.Context(), patience)
		defer cancel()
		c := exec.CommandContext(ctx, parrot, append(args, "--data", data)...)
		c.Env = append(os.Environ(), "PARROT_KEY=secret", "OPENAI_API_KEY=")
		var out bytes.Buffer
		c.Stdin, c.Stdout, c.Stderr = strings.NewReader("wave back"), &out, &out
		err := c.Run()
		if refused := strings.HasPrefix(want, "cortex: ") || strings.HasPrefix(want, "The budget"); (err != nil) != refused || !strings.Contains(strings.Join(strings.Fields(out.String()), " "), want) {
			t.Errorf("%q: %v, it says\n%s\nwant %q", args, err, &out, want)
		}
	}
	run("parrot grey configured", "llm", "list")
	run("usage ok 1000000 tokens in, 1000000 out, cost 3.00", "llm", "check", "parrot")
	run("Polly wants a cracker.", "ask", "--llm", "parrot", "hello")
	run(`\o/`, "ask", "wave back")

	// Cortex's settings and the provider's own: a failed first call is retried, prices count, and a permanent failure falls back.
	write("llm: macaw\nbudget: {conversation: {cost: 5}}\nllms:\n  macaw: {provider: parrot, model: ara, sentence: Ahoy., fails: 1, price: {input: 7}}\n")
	run("Ahoy.", "ask", "--config", config, "--conversation", "one", "hello")
	run("The budget for this conversation is used up (cost 9 of 5).", "ask", "--config", config, "--conversation", "one", "hello")
	write("llm: macaw\nllms:\n  macaw: {provider: parrot, fails: 100, retries: 0, fallback: [spare]}\n  spare: {provider: parrot, sentence: Here instead.}\n")
	run("Here instead.", "ask", "--config", config, "hello")
	write("llm: macaw\nllms:\n  macaw: {provider: parrot, sentense: Ahoy.}\n")
	run(`cortex: llms.macaw: unknown key "sentense"`, "ask", "--config", config, "hello")
	write("llm: macaw\nllms:\n  macaw: {provider: parrot, fails: often}\n")
	run("cortex: llms.macaw.fails: want a whole number, not a string", "ask", "--config", config, "hello")

	// With its own transport and store, which persists between processes. Nothing of NATS is created.
	data = filepath.Join(dir, "own")
	run(`\o/`, "chat", "--transport", "loft", "--store", "diary")
	write("transport: loft\nstore: diary\nllm: parrot\nbudget: {conversation: {cost: 2}}\n")
	run("Polly wants a cracker.", "ask", "--config", config, "--conversation", "one", "hello")
	run("The budget for this conversation is used up (cost 3 of 2).", "ask", "--config", config, "--conversation", "one", "hello")
	if _, err := os.Stat(filepath.Join(data, "nats")); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("there is a store of NATS: %v", err)
	}
	run("cortex: --transport loft reaches no other process", "sessions", "--config", config)
	run("cortex: --transport loft: Cortex's own store lies on a NATS server: name another one with --store", "ask", "--transport", "loft", "hello")
	run(`cortex: --transport: there is no "pigeons": it is one of loft`, "ask", "--transport", "pigeons://roof", "hello")
	run("Polly wants a cracker.", "ask", "--llm", "parrot", "--store", "diary", "hello") // over NATS

	// With a role that serves HTTP beside the service. Its flag is a setting like all others.
	run("perch passers-by ask by HTTP", "serve", "--help")
	write("llm: parrot\nperch: nowhere\n")
	run("cortex: perch: listen tcp: address nowhere: missing port in address", "serve", "--config", config, "--http", "none")
	write("llm: parrot\nhttp: none\nperch: 127.0.0.1:0\n")
	if got := askPerch(t, parrot, "--config", config, "--data", data); got != "Polly wants a cracker." {
		t.Errorf("passers-by are told %q", got)
	}
}

// askPerch runs a service, and asks it over HTTP.
func askPerch(t *testing.T, parrot string, args ...string) string {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()
	c := exec.CommandContext(ctx, parrot, append([]string{"serve"}, args...)...)
	c.Env = append(os.Environ(), "PARROT_KEY=secret")
	log, err := c.StderrPipe()
	if err == nil {
		err = c.Start()
	}
	if err != nil {
		t.Fatal(err)
	}
	lines, said := bufio.NewScanner(log), ""
	for url := regexp.MustCompile(`msg=perch role=perch url=(\S+)`); lines.Scan(); {
		if found := url.FindStringSubmatch(lines.Text()); found != nil {
			said = post(t, found[1], "hello")
			break
		}
	}
	if err := c.Process.Signal(os.Interrupt); err != nil {
		t.Error(err)
	}
	if _, err := io.Copy(io.Discard, log); err != nil { // until it ends
		t.Error(err)
	}
	if err := c.Wait(); err != nil {
		t.Errorf("the service ends with %v", err)
	}
	return said
}

// post returns the body of the response.
func post(t *testing.T, url, body string) string {
	t.Helper()
	res, err := http.Post(url, "text/plain", strings.NewReader(body)) //nolint:noctx // the service ends in time
	if err != nil {
		t.Error(err)
		return ""
	}
	defer res.Body.Close()
	b, err := io.ReadAll(res.Body)
	if err != nil {
		t.Error(err)
	}
	return string(b)
}

// TestPluginConforms runs the suites of transports and stores on those of another module.
func TestPluginConforms(t *testing.T) {
	t.Parallel()
	suites := exec.CommandContext(t.Context(), "go", "test", "./...")
	suites.Dir = filepath.Join("tests", "testdata", "plugin")
	if out, err := suites.CombinedOutput(); err != nil {
		t.Errorf("go test: %v\n%s", err, out)
	}
}
