package cli

import (
	"context"
	"io"
	"net"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

func TestFindModel(t *testing.T) {
	for name, c := range map[string]struct {
		env   map[string]string
		ports []string // with a listening program
		want  modelOffer
	}{
		"nothing":          {},
		"a key":            {map[string]string{"OPENAI_API_KEY": "sk-1"}, nil, modelOffer{"openai", "OPENAI_API_KEY", "gpt-5.4-mini"}},
		"no key":           {map[string]string{"OPENAI_API_KEY": "Bearer sk 1"}, nil, modelOffer{}},
		"of Google":        {map[string]string{"GOOGLE_API_KEY": "k"}, nil, modelOffer{"gemini", "GOOGLE_API_KEY", "gemini-3.5-flash"}},
		"of Gemini":        {map[string]string{"GEMINI_API_KEY": "k"}, nil, modelOffer{"gemini", "GEMINI_API_KEY", "gemini-3.5-flash"}},
		"of Anthropic":     {map[string]string{"ANTHROPIC_API_KEY": "k"}, nil, modelOffer{"anthropic", "ANTHROPIC_API_KEY", "claude-haiku-5-5"}},
		"of somebody else": {map[string]string{"GROQ_API_KEY": "k"}, nil, modelOffer{}},
		"Google's cloud":   {map[string]string{"GOOGLE_CLOUD_PROJECT": "p"}, nil, modelOffer{}},
		"Ollama":           {nil, []string{"11434", "1234"}, modelOffer{"ollama", "Ollama", ""}},
		"LM Studio":        {nil, []string{"1234"}, modelOffer{"lmstudio", "LM Studio", ""}},
		"a key before":     {map[string]string{"OPENAI_API_KEY": "sk-1"}, []string{"11434"}, modelOffer{"openai", "OPENAI_API_KEY", "gpt-5.4-mini"}},
	} {
		t.Run(name, func(t *testing.T) {
			for _, v := range []string{"OPENAI_API_KEY", "GEMINI_API_KEY", "GOOGLE_API_KEY", "GOOGLE_CLOUD_PROJECT", "ANTHROPIC_API_KEY", "GROQ_API_KEY", "OPENAI_BASE_URL"} {
				t.Setenv(v, c.env[v])
			}
			program := &Program{}
			s := &settings{program: program, node: newNodeSettings(program)}
			got, found := s.findModel(t.Context(), func(_ context.Context, port string) bool { return slices.Contains(c.ports, port) })
			if diff := cmp.Diff(c.want, got, cmp.AllowUnexported(modelOffer{})); diff != "" || found != (c.want != modelOffer{}) {
				t.Errorf("found %v (-want +got):\n%s", found, diff)
			}
		})
	}
}

func TestOfferModel(t *testing.T) {
	keyed, local := modelOffer{"openai", "OPENAI_API_KEY", "gpt-5.4-mini"}, modelOffer{llm: "ollama", by: "Ollama"}
	for _, c := range []struct {
		offer    modelOffer
		typed    string
		want     modelChoice
		answered bool
		left     string // unread input
	}{
		{keyed, "y\nhello\n", modelChoice{LLM: "openai"}, true, "hello\n"},
		{keyed, " YES \n", modelChoice{LLM: "openai"}, true, ""},
		{keyed, "\n", modelChoice{}, true, ""},
		{keyed, "No\nhello\n", modelChoice{}, true, "hello\n"},
		{keyed, "what?\n", modelChoice{}, false, ""},
		{keyed, "what?\ny\n", modelChoice{LLM: "openai"}, true, ""},
		{keyed, "what?\nhm\n2+2\nhello\n", modelChoice{}, false, "hello\n"},
		{keyed, "", modelChoice{}, false, ""},
		{local, "qwen3\nhello\n", modelChoice{"ollama", "qwen3"}, true, "hello\n"},
		{local, "\n", modelChoice{}, true, ""},
		{local, "no\n", modelChoice{}, true, ""},
		{local, "yes\nllama3:8b\n", modelChoice{"ollama", "llama3:8b"}, true, ""},
		{local, "the best one\n\n", modelChoice{}, true, ""},
		{local, "y\ny\ny\ny\n", modelChoice{}, true, "y\n"},
		{local, "", modelChoice{}, false, ""},
	} {
		in, out := strings.NewReader(c.typed), &strings.Builder{}
		e := &env{stdin: in, stdout: out}
		got, answered, err := e.offerModel(t.Context(), c.offer)
		left, _ := io.ReadAll(in)
		if got != c.want || answered != c.answered || err != nil || string(left) != c.left {
			t.Errorf("%s, %q: %+v, answered %v, %v, left %q; want %+v, %v, left %q\n%s", c.offer.llm, c.typed, got, answered, err, left, c.want, c.answered, c.left, out)
		}
		first, _, _ := strings.Cut(out.String(), "Which model?")
		first, _, _ = strings.Cut(first, "Each decision")
		if len(first) > 79 {
			t.Errorf("the question has %d columns: %q", len(first), first)
		}
	}
}

// TestListens checks that looking for a local program only connects to it, and sends nothing.
func TestListens(t *testing.T) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	_, port, _ := net.SplitHostPort(l.Addr().String())
	sent := make(chan string)
	go func() {
		c, err := l.Accept()
		if err != nil {
			sent <- err.Error()
			return
		}
		b, _ := io.ReadAll(c)
		c.Close()
		sent <- string(b)
	}()
	if !listens(t.Context(), port) {
		t.Error("nobody listens")
	}
	if got := <-sent; got != "" {
		t.Errorf("it was sent %q", got)
	}
	l.Close()
	if listens(t.Context(), port) {
		t.Error("somebody listens at a closed port")
	}
}
