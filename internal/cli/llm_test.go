package cli_test

import (
	"context"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/cortex-orchestrator/cortex/internal/cli"
	"github.com/cortex-orchestrator/cortex/llm"
	"github.com/cortex-orchestrator/cortex/llm/anthropic/anthropictest"
	"github.com/cortex-orchestrator/cortex/llm/gemini/geminitest"
	"github.com/cortex-orchestrator/cortex/llm/llmtest"
	"github.com/cortex-orchestrator/cortex/llm/openai/openaitest"
)

const secret = "sk-very-secret-0123456789"

// orchestrate is a model that gives the user's message to agent_echo, and answers with the result.
func orchestrate(c *llmtest.Call) *llmtest.Reply {
	last := c.Messages[len(c.Messages)-1].Text()
	usage := llm.Usage{Input: 1000, Cached: 400, Output: 50}
	if _, results, ok := strings.Cut(last, "<cortex:results>"); ok {
		said := regexp.MustCompile(`"result":"([^"]*)"`).FindStringSubmatch(results)
		return &llmtest.Reply{Pieces: []string{`{"kind":"respond","say":"It sa`, `id: `, said[1], `","delegations":[],"reason":"done"}`}, Usage: usage}
	}
	return &llmtest.Reply{Pieces: []string{
		`{"kind":"delegate","say":null,"delegations":[{"id":"a","agent":"agent_echo","skill":null,`,
		`"task":"tea","input":null,"depends_on":[]}],"reason":"it echoes"}`,
	}, Usage: usage}
}

// ran is the result of a command.
type ran struct {
	code           int
	stdout, stderr string
}

func run(t *testing.T, args ...string) ran {
	t.Helper()
	var stdout, stderr output
	code := cli.Run(t.Context(), args, strings.NewReader(""), &stdout, &stderr)
	for _, text := range []string{stdout.String(), stderr.String()} {
		if strings.Contains(text, secret) {
			t.Errorf("%v shows the key:\n%s", args, text)
		}
	}
	return ran{code, stdout.String(), stderr.String()}
}

func writeFile(t *testing.T, name, text string) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), name)
	if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	return path
}

// TestEveryProvider runs a turn with a delegation over each protocol.
func TestEveryProvider(t *testing.T) {
	t.Run("openai", func(t *testing.T) { takesATurn(t, "openai", "", openaitest.Serve(t, orchestrate).URL+"/v1") })
	t.Run("gemini", func(t *testing.T) { takesATurn(t, "gemini", "", geminitest.Serve(t, orchestrate).URL) })
	t.Run("anthropic", func(t *testing.T) {
		takesATurn(t, "anthropic", "thinking: off, reasoning_effort: low, ", anthropictest.Serve(t, orchestrate).URL)
	})
}

// takesATurn runs a turn with a delegation with the provider at the URL, and checks its reported cost.
func takesATurn(t *testing.T, provider, settings, url string) {
	t.Helper()
	t.Setenv("OPENAI_API_KEY", secret)
	t.Setenv("GEMINI_API_KEY", secret)
	t.Setenv("ANTHROPIC_API_KEY", secret)
	config := writeFile(t, "cortex.yaml", fmt.Sprintf("llms: {%s: {%sbase_url: %q, model: test-model, price: {input: 2, cached: 1, output: 10}}}", provider, settings, url))
	data := t.TempDir()
	serveCortex(t, data, "--config", config, "--llm", provider, "--agents", "echo")
	got := run(t, "ask", "--data", data, "--conversation", "c", "what is for breakfast?")
	if want := "It said: Echo: tea\n"; got.stdout != want || got.code != 0 {
		t.Fatalf("ask: %q, status %d, want %q; stderr:\n%s", got.stdout, got.code, want, got.stderr)
	}
	history := run(t, "history", "--data", data, "c")
	// Twice: 600 tokens at 2, 400 at 1, 50 at 10 per million.
	if want := "2000 tokens in (800 cached), 100 out, cost 0.0042\n"; !strings.HasSuffix(history.stdout, want) {
		t.Errorf("history ends with %q, want %q", history.stdout, want)
	}
	if log := run(t, "history", "--data", data, "--json", "c"); strings.Count(log.stdout, `"usage":{"input":1000,"cached":400,"output":50,"cost":0.0021}`) != 2 {
		t.Errorf("history --json does not have the cost of both decisions:\n%s", log.stdout)
	}
	if list := run(t, "sessions", "--data", data); !regexp.MustCompile(`c .* 2100 +0.0042 +what is for breakfast`).MatchString(list.stdout) {
		t.Errorf("sessions:\n%s", list.stdout)
	}
}

// TestOnlyModel asks a local endpoint that has one model for that model, when none is named; of none, or of several, one has to be named.
func TestOnlyModel(t *testing.T) {
	config := func(url string) string {
		return writeFile(t, "cortex.yaml", fmt.Sprintf("llms: {near: {provider: ollama, base_url: %q, structured: json_schema}}", url+"/v1"))
	}
	t.Setenv("CORTEX_AGENTS", "echo")
	one := config(openaitest.Serve(t, orchestrate).URL)
	if got := run(t, "ask", "--data", t.TempDir(), "--config", one, "--llm", "near", "what is for breakfast?"); got.stdout != "It said: Echo: tea\n" {
		t.Errorf("ask: %q; stderr:\n%s", got.stdout, got.stderr)
	}
	if got := run(t, "llm", "check", "--config", one, "near"); !strings.Contains(got.stdout, "model   ok      test-model") {
		t.Errorf("llm check: %q, status %d; stderr:\n%s", got.stdout, got.code, got.stderr)
	}
	for _, models := range []string{"", `{"id":"a"},{"id":"b"}`} {
		server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { fmt.Fprintf(w, `{"data":[%s]}`, models) }))
		got := run(t, "ask", "--data", t.TempDir(), "--config", config(server.URL), "--llm", "near", "hello")
		server.Close()
		if got.code != 2 || !strings.Contains(got.stderr, "--llm near: which model? name it with --model") {
			t.Errorf("of %q: status %d; stderr:\n%s", models, got.code, got.stderr)
		}
	}
}

// serveCortex runs `cortex serve` until the end of the test.
func serveCortex(t *testing.T, data string, args ...string) *output {
	t.Helper()
	ctx, stop := context.WithCancel(t.Context())
	stderr, code := new(output), make(chan int, 1)
	go func() {
		code <- cli.Run(ctx, append([]string{"serve", "--data", data, "--http", "none"}, args...), strings.NewReader(""), new(output), stderr)
	}()
	t.Cleanup(func() {
		stop()
		<-code
		if strings.Contains(stderr.String(), secret) {
			t.Errorf("the log shows the key:\n%s", stderr)
		}
	})
	eventually(t, "cortex is ready", func() bool { return strings.Contains(stderr.String(), "cortex is ready") })
	return stderr
}

// TestTroubledModel uses models that fail in various ways: the user gets an explanation, and nothing hangs.
func TestTroubledModel(t *testing.T) {
	never := make(chan struct{})
	fault := func(f llmtest.Fault) llmtest.Handler {
		return func(*llmtest.Call) *llmtest.Reply { return &llmtest.Reply{Error: &f} }
	}
	say := func(pieces ...string) llmtest.Handler {
		return func(*llmtest.Call) *llmtest.Reply { return &llmtest.Reply{Pieces: pieces} }
	}
	for name, c := range map[string]struct {
		model llmtest.Handler
		want  string
	}{
		"wrong key":    {fault(llmtest.Fault{Status: 401, Message: "Incorrect API key provided: {key}"}), `cortex llm check.*not authorized`},
		"no model":     {fault(llmtest.Fault{Kind: llmtest.Unknown, Status: 404}), `no such model`},
		"quota":        {fault(llmtest.Fault{Kind: llmtest.Quota, Status: 429}), `quota used up`},
		"rate limited": {fault(llmtest.Fault{Status: 429, RetryAfter: time.Hour}), `rate limited`},
		"overloaded":   {fault(llmtest.Fault{Status: 503}), `after 2 attempts.*model unavailable`},
		"nonsense":     {say("I would rather sing."), `invalid decision.*I would rather sing`},
		"wrong agent":  {say(`{"kind":"delegate","say":null,"delegations":[{"id":"a","agent":"nobody","skill":null,"task":"x","input":null,"depends_on":[]}],"reason":""}`), `no agent .nobody`},
		"empty":        {say(), `empty answer`},
		"cut off": {func(*llmtest.Call) *llmtest.Reply {
			return &llmtest.Reply{Pieces: []string{`{"kind":"respond","say":"Once`}, Cut: true}
		}, `cut off`},
		"too long": {func(*llmtest.Call) *llmtest.Reply {
			return &llmtest.Reply{Pieces: []string{`{"kind":"respond","say":"Once`}, Finish: llmtest.Length}
		}, `answer too long`},
		"filtered":    {func(*llmtest.Call) *llmtest.Reply { return &llmtest.Reply{Finish: llmtest.Filtered} }, `model refused`},
		"no protocol": {func(*llmtest.Call) *llmtest.Reply { return &llmtest.Reply{Garbage: "<html>It works!</html>"} }, `(?i)unavailable|cut off`},
		"silent":      {func(*llmtest.Call) *llmtest.Reply { return &llmtest.Reply{Hold: never} }, `no answer for 0.3s`},
		"hanging": {func(*llmtest.Call) *llmtest.Reply {
			return &llmtest.Reply{Pieces: []string{`{"kind"`, `:`}, Hold: never}
		}, `no answer for 0.3s, in the middle`},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			url, timeout := openaitest.Serve(t, c.model).URL, "30s"
			if strings.Contains(c.want, "0.3s") { // a busy machine may take longer for answers that do come
				timeout = "300ms"
			}
			config := writeFile(t, "cortex.yaml", fmt.Sprintf("llms: {openai: {base_url: %q, retries: 1, timeout: %s, api_key_file: %q}}", url+"/v1", timeout, writeFile(t, "key", secret+"\n")))
			got := run(t, "ask", "--data", t.TempDir(), "--config", config, "--llm", "openai", "hello")
			if got.code != 1 || !regexp.MustCompile(c.want).MatchString(got.stdout) || strings.Count(got.stdout, "\n") != 1 {
				t.Errorf("status %d, stdout %q, want status 1 and one line with %q; stderr:\n%s", got.code, got.stdout, c.want, got.stderr)
			}
			t.Logf("%s", got.stdout)
		})
	}
}

// TestModelIsDown uses a model without a listening server.
func TestModelIsDown(t *testing.T) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	l.Close()
	t.Setenv("OPENAI_API_KEY", secret)
	t.Setenv("OPENAI_BASE_URL", "http://"+l.Addr().String()+"/v1")
	got := run(t, "ask", "--data", t.TempDir(), "--llm", "openai", "hello")
	if want := "model unavailable"; got.code != 1 || !strings.Contains(got.stdout, want) || !strings.Contains(got.stdout, l.Addr().String()) {
		t.Errorf("status %d, stdout %q, want status 1, %q and the address; stderr:\n%s", got.code, got.stdout, want, got.stderr)
	}
}

// TestOthersGoOn lets a model hang for one conversation: another is answered in the meantime, and the first one later.
func TestOthersGoOn(t *testing.T) {
	release := make(chan struct{})
	var asked atomic.Bool
	url := openaitest.Serve(t, func(c *llmtest.Call) *llmtest.Reply {
		r := &llmtest.Reply{Pieces: []string{`{"kind":"respond","say":"Hi.","delegations":[],"reason":""}`}}
		if strings.Contains(c.Messages[len(c.Messages)-1].Text(), "hang") {
			asked.Store(true)
			r = &llmtest.Reply{Pieces: []string{`{"kind":"respond",`, `"say":"At last.","delegations":[],"reason":""}`}, Hold: release}
		}
		return r
	}).URL
	t.Setenv("OPENAI_API_KEY", secret)
	t.Setenv("OPENAI_BASE_URL", url+"/v1")
	data := t.TempDir()
	serveCortex(t, data, "--llm", "openai")
	slow := make(chan ran, 1)
	go func() { slow <- run(t, "ask", "--data", data, "hang") }()
	eventually(t, "the model is asked", asked.Load)
	if got := run(t, "ask", "--data", data, "hello"); got.stdout != "Hi.\n" {
		t.Errorf("the other conversation: %q, want Hi.; stderr:\n%s", got.stdout, got.stderr)
	}
	close(release)
	if got := <-slow; got.stdout != "At last.\n" {
		t.Errorf("the slow conversation: %q, want At last.; stderr:\n%s", got.stdout, got.stderr)
	}
}

// TestFallback checks that the next model answers when the first one fails.
func TestFallback(t *testing.T) {
	down := openaitest.Serve(t, func(*llmtest.Call) *llmtest.Reply { return &llmtest.Reply{Error: &llmtest.Fault{Status: 500}} }).URL
	up := geminitest.Serve(t, orchestrate).URL
	t.Setenv("GEMINI_API_KEY", secret)
	t.Setenv("ANTHROPIC_API_KEY", secret)
	config := writeFile(t, "cortex.yaml", fmt.Sprintf(`
llm: main
agents: [echo]
llms:
  main:
    provider: vllm
    model: big
    base_url: %s/v1
    retries: 0
    fallback: [spare]
  spare:
    provider: gemini
    base_url: %s
`, down, up))
	got := run(t, "ask", "--data", t.TempDir(), "--config", config, "hello")
	if want := "It said: Echo: tea\n"; got.stdout != want {
		t.Errorf("ask: %q, want %q; stderr:\n%s", got.stdout, want, got.stderr)
	}
}

// TestModelBelongsToItsLLM checks that a model that the config file names for one endpoint is not used with another.
func TestModelBelongsToItsLLM(t *testing.T) {
	var asked []string
	url := openaitest.Serve(t, func(c *llmtest.Call) *llmtest.Reply {
		asked = append(asked, c.Model)
		return &llmtest.Reply{Pieces: []string{`{"kind":"respond",`, `"say":"Hi.","delegations":[],"reason":""}`}}
	}).URL
	t.Setenv("OPENAI_API_KEY", secret)
	t.Setenv("OPENAI_BASE_URL", url+"/v1")
	config := writeFile(t, "cortex.yaml", "llm: openai\nmodel: big\nllms: {small: {provider: vllm, model: tiny, base_url: "+url+"/v1}}")
	data := t.TempDir()
	run(t, "ask", "--data", data, "--config", config, "hello there")
	run(t, "ask", "--data", data, "--config", config, "--llm", "small", "hello there")
	run(t, "ask", "--data", data, "--config", config, "--llm", "small", "--model", "other", "hello there")
	run(t, "llm", "check", "--config", config, "small")
	run(t, "llm", "check", "--config", config)
	if got, want := strings.Join(asked, " "), "big tiny other tiny big"; got != want {
		t.Errorf("asked for %q, want %q", got, want)
	}
}

// TestTakeover lets a chat without settings of a model take over from one that was started with a model and a budget: it uses both.
func TestTakeover(t *testing.T) {
	url := openaitest.Serve(t, func(*llmtest.Call) *llmtest.Reply {
		return &llmtest.Reply{Pieces: []string{`{"kind":"respond",`, `"say":"By the model.","delegations":[],"reason":""}`}, Usage: llm.Usage{Input: 3000, Output: 10}}
	}).URL
	t.Setenv("OPENAI_API_KEY", secret)
	t.Setenv("OPENAI_BASE_URL", url+"/v1")
	t.Setenv("GEMINI_API_KEY", secret)
	data := t.TempDir()
	config := writeFile(t, "cortex.yaml", "llm: openai\nllm_timeout: 30s\nllms: {openai: {model: big, timeout: 20s}}\nbudget: {conversation: {tokens: 7000}}")
	first, _, firstDone := startChat(t, "--data", data, "--config", config)
	eventually(t, "the first runs", func() bool { return run(t, "sessions", "--data", data).code == 0 })
	second, said, secondDone := startChat(t, "--data", data, "--conversation", "c", "--retain", "30d")
	eventually(t, "the second has joined", func() bool {
		return strings.Contains(said.String(), "decides with openai big: --retain is not used until this one takes over")
	})
	io.WriteString(first, "hello\n")
	first.Close()
	if got := <-firstDone; got.stdout != "By the model.\n" {
		t.Fatalf("first: %q, stderr %s", got.stdout, got.stderr)
	}
	eventually(t, "the second runs it", func() bool { return run(t, "sessions", "--data", data).code == 0 })
	for range 2 {
		if got := run(t, "ask", "--data", data, "--conversation", "x", "hello"); got.stdout != "By the model.\n" {
			t.Fatalf("by the second: %q, stderr %s", got.stdout, got.stderr)
		}
	}
	if got := run(t, "ask", "--data", data, "--conversation", "x", "hello"); !strings.Contains(got.stdout, "budget for this conversation") {
		t.Errorf("the budget is gone: %q", got.stdout)
	}
	io.WriteString(second, "hello\n")
	second.Close()
	if got := <-secondDone; got.stdout != "By the model.\n" {
		t.Errorf("second: %q, stderr %s", got.stdout, got.stderr)
	}
}

// startChat runs `cortex chat` with a pipe for the test's input.
func startChat(t *testing.T, args ...string) (stdin io.WriteCloser, stderr *output, done <-chan ran) {
	t.Helper()
	r, w := io.Pipe()
	t.Cleanup(func() { w.Close() })
	stdout, stderr, end := new(output), new(output), make(chan ran, 1)
	go func() {
		code := cli.Run(t.Context(), append([]string{"chat"}, args...), r, stdout, stderr)
		end <- ran{code, stdout.String(), stderr.String()}
	}()
	return w, stderr, end
}

// TestSilentModel checks that the next model answers when the first one accepts the request and then sends nothing, with the default timeouts.
func TestSilentModel(t *testing.T) {
	var asked atomic.Int64
	silent := openaitest.Serve(t, func(*llmtest.Call) *llmtest.Reply {
		asked.Add(1)
		return &llmtest.Reply{Hold: make(chan struct{})}
	}).URL
	up := openaitest.Serve(t, orchestrate).URL
	config := writeFile(t, "cortex.yaml", fmt.Sprintf(`
llm: main
llm_timeout: 6s
llms:
  main: {provider: openai, base_url: %s/v1, fallback: [spare]}
  spare: {provider: vllm, model: small, base_url: %s/v1}
`, silent, up))
	t.Setenv("OPENAI_API_KEY", secret)
	got := run(t, "ask", "--data", t.TempDir(), "--config", config, "hello")
	if want := "It said: Echo: tea\n"; got.stdout != want || got.code != 0 {
		t.Errorf("ask: %q, want %q; stderr:\n%s", got.stdout, want, got.stderr)
	}
	if n := asked.Load(); n != 1 {
		t.Errorf("the silent model was asked %d times in a turn with two decisions, want once", n)
	}
}

// TestBudget checks that a turn ends with an explanation when its budget is used up.
func TestBudget(t *testing.T) {
	t.Setenv("OPENAI_API_KEY", secret)
	t.Setenv("OPENAI_BASE_URL", openaitest.Serve(t, orchestrate).URL+"/v1")
	for name, c := range map[string]struct{ budget, want string }{
		"tokens": {"turn: {tokens: 1000}", `budget`},
		"cost":   {"conversation: {cost: 0.001}", `budget.*conversation|conversation.*budget`},
		"day":    {"day: {cost: 0.001}", `budget.*day|day.*budget`},
	} {
		t.Run(name, func(t *testing.T) {
			config := writeFile(t, "cortex.yaml", "budget: {"+c.budget+"}\nllms: {openai: {price: {input: 2, output: 10}}}")
			got := run(t, "ask", "--data", t.TempDir(), "--config", config, "--llm", "openai", "hello")
			if got.code != 1 || !regexp.MustCompile(c.want).MatchString(got.stdout) {
				t.Errorf("status %d, stdout %q, want status 1 and %q; stderr:\n%s", got.code, got.stdout, c.want, got.stderr)
			}
			t.Logf("%s", got.stdout)
		})
	}
}

// TestLLMCheck checks the report about an endpoint.
func TestLLMCheck(t *testing.T) {
	for name, c := range map[string]struct {
		model llmtest.Handler
		code  int
		want  []string
	}{
		"all": {
			func(*llmtest.Call) *llmtest.Reply {
				return &llmtest.Reply{Pieces: []string{`{"kind":"respond",`, `"say":"one two three"}`}, Usage: llm.Usage{Input: 60, Output: 12}, Model: "m-1"}
			},
			0,
			[]string{`reach +ok`, `auth +ok`, `model +ok +m-1`, `JSON +ok`, `stream +ok +2 pieces`, `usage +ok +60 tokens in, 12 out`},
		},
		"wrong key": {
			func(*llmtest.Call) *llmtest.Reply {
				return &llmtest.Reply{Error: &llmtest.Fault{Status: 401, Message: "bad key {key}"}}
			},
			1,
			[]string{`reach +ok`, `auth +failed`, `model +not known`},
		},
		"no schema": {
			func(c *llmtest.Call) *llmtest.Reply {
				if c.Mode == llm.StructuredSchema {
					return &llmtest.Reply{Error: &llmtest.Fault{Status: 400, Message: "response_format is not supported"}}
				}
				return &llmtest.Reply{Pieces: []string{`{"kind":"respond","say":"one"}`}}
			},
			1,
			[]string{`settings +failed +set structured: json_object`, `JSON +ok +json_object`, `stream +no`, `usage +no`},
		},
		"page": {
			func(*llmtest.Call) *llmtest.Reply { return &llmtest.Reply{Error: &llmtest.Fault{Status: 500}} },
			1,
			[]string{`reach +ok`, `auth +not known`},
		},
		"half": {
			func(*llmtest.Call) *llmtest.Reply { return &llmtest.Reply{Pieces: []string{"half"}, Cut: true} },
			1,
			[]string{`model +ok`, `JSON +not known`},
		},
		"no JSON": {
			func(*llmtest.Call) *llmtest.Reply { return &llmtest.Reply{Pieces: []string{"one", " two"}} },
			1,
			[]string{`JSON +failed +it wrote "one two"`},
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Setenv("OPENAI_API_KEY", secret)
			t.Setenv("OPENAI_BASE_URL", openaitest.Serve(t, c.model).URL+"/v1")
			got := run(t, "llm", "check", "openai", "--model", "m")
			if got.code != c.code {
				t.Errorf("status %d, want %d; stderr:\n%s", got.code, c.code, got.stderr)
			}
			for _, want := range c.want {
				if !regexp.MustCompile(want).MatchString(got.stdout) {
					t.Errorf("no %q in\n%s", want, got.stdout)
				}
			}
		})
	}
}
