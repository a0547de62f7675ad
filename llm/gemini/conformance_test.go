package gemini_test

import (
	"net/http"
	"net/http/httptest"
	"testing"

	"github.com/cortex-orchestrator/cortex/llm"
	"github.com/cortex-orchestrator/cortex/llm/gemini"
	"github.com/cortex-orchestrator/cortex/llm/gemini/geminitest"
	"github.com/cortex-orchestrator/cortex/llm/llmtest"
)

// bearer authorizes requests as application-default credentials do.
type bearer struct{ token string }

func (b bearer) RoundTrip(r *http.Request) (*http.Response, error) {
	r = r.Clone(r.Context())
	r.Header.Set("Authorization", "Bearer "+b.token)
	return http.DefaultTransport.RoundTrip(r)
}

// dial returns a client of the server at url: for Vertex AI with a project, otherwise for the Gemini API.
func dial(t *testing.T, url, project string, o llmtest.Options) llm.Client {
	t.Helper()
	cfg := gemini.Config{Model: llmtest.Model, BaseURL: url, Structured: o.Mode, Images: o.Images}
	if project == "" {
		cfg.Key = o.Key
	} else {
		cfg.Project, cfg.HTTPClient = project, &http.Client{Transport: bearer{o.Key}}
	}
	c, err := gemini.Dial(t.Context(), cfg)
	if err != nil {
		t.Fatal(err)
	}
	return c
}

func wire(project string) llmtest.Wire {
	return llmtest.Wire{
		Dial: func(t *testing.T, h llmtest.Handler, o llmtest.Options) llm.Client {
			return dial(t, geminitest.Serve(t, h).URL, project, o)
		},
		Down: func(t *testing.T, o llmtest.Options) llm.Client {
			s := httptest.NewServer(nil)
			s.Close()
			return dial(t, s.URL, project, o)
		},
		Modes: []llm.Structured{llm.StructuredSchema, llm.StructuredTools, llm.StructuredObject, llm.StructuredPrompt},
		Lacks: []llmtest.Feature{llmtest.NoCacheKey, llmtest.NoRefusal, llmtest.NoReset, llmtest.NoFragments},
	}
}

func TestGeminiAPI(t *testing.T) { llmtest.Run(t, wire("")) }

func TestVertexAI(t *testing.T) { llmtest.Run(t, wire("project-1")) }
