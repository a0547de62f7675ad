package gemini_test

import (
	"context"
	"crypto/rand"
	"crypto/rsa"
	"crypto/x509"
	"encoding/json"
	"encoding/pem"
	"errors"
	"fmt"
	"io"
	"log"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/cortex-orchestrator/cortex/llm"
	"github.com/cortex-orchestrator/cortex/llm/gemini"
	"github.com/cortex-orchestrator/cortex/llm/gemini/geminitest"
	"github.com/cortex-orchestrator/cortex/llm/llmtest"
)

func TestDialErrors(t *testing.T) {
	t.Setenv("GOOGLE_APPLICATION_CREDENTIALS", filepath.Join(t.TempDir(), "missing.json"))
	for name, c := range map[string]struct {
		cfg  gemini.Config
		kind error    // nil: any
		says []string // in the error
	}{
		"no model":       {gemini.Config{Key: key}, nil, []string{"gemini", "Model"}},
		"nothing":        {gemini.Config{Model: "m"}, llm.ErrAuth, []string{"GEMINI_API_KEY", "gcloud auth application-default login"}},
		"both":           {gemini.Config{Model: "m", Key: key, Project: "p"}, nil, []string{"Key", "Project"}},
		"key with blank": {gemini.Config{Model: "m", Key: key + "\n"}, llm.ErrAuth, []string{"key"}},
		"mode":           {gemini.Config{Model: "m", Key: key, Structured: "xml"}, nil, []string{"Structured", "xml"}},
		"base URL":       {gemini.Config{Model: "m", Key: key, BaseURL: "localhost:8080"}, nil, []string{"BaseURL", "localhost:8080"}},
		"project":        {gemini.Config{Model: "m", Project: "p/../q"}, nil, []string{"Project"}},
		"location":       {gemini.Config{Model: "m", Project: "p", Location: "evil.example/"}, nil, []string{"Location"}},
		"no credentials": {gemini.Config{Name: "big", Model: "m", Project: "p"}, llm.ErrAuth, []string{"big", "gcloud auth application-default login", "GEMINI_API_KEY", "missing.json"}},
	} {
		t.Run(name, func(t *testing.T) {
			_, err := gemini.Dial(t.Context(), c.cfg)
			if err == nil || c.kind != nil && !errors.Is(err, c.kind) {
				t.Fatalf("Dial = %v, want an error that is %v", err, c.kind)
			}
			for _, s := range c.says {
				if !strings.Contains(err.Error(), s) {
					t.Errorf("the error %q has no %q", err, s)
				}
			}
			if strings.Contains(err.Error(), key) {
				t.Errorf("the error %q shows the key", err)
			}
		})
	}
}

// TestDialEnds checks that the context bounds the search for credentials.
func TestDialEnds(t *testing.T) {
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if _, err := gemini.Dial(ctx, gemini.Config{Model: "m", Project: "p", HTTPClient: &http.Client{}}); !errors.Is(err, context.Canceled) {
		t.Errorf("Dial = %v, want context.Canceled", err)
	}
}

// foreignEnvironment sets the variables that the SDK reads by itself.
func foreignEnvironment(t *testing.T) {
	t.Helper()
	for name, value := range map[string]string{
		"GOOGLE_API_KEY": "a-foreign-key", "GEMINI_API_KEY": "another-foreign-key",
		"GOOGLE_GENAI_USE_VERTEXAI": "true", "GOOGLE_GENAI_USE_ENTERPRISE": "true",
		"GOOGLE_CLOUD_PROJECT": "foreign-project", "GOOGLE_CLOUD_LOCATION": "foreign-location", "GOOGLE_CLOUD_REGION": "foreign-region",
		"GOOGLE_GEMINI_BASE_URL": "https://foreign.example", "GOOGLE_VERTEX_BASE_URL": "https://foreign.example",
	} {
		t.Setenv(name, value)
	}
}

// TestEnvironment checks that only the Config has an effect, and that nothing is printed.
func TestEnvironment(t *testing.T) {
	for name, c := range map[string]struct {
		cfg gemini.Config
		url string
		key string
	}{
		"Gemini API":       {gemini.Config{Key: key}, "https://generativelanguage.googleapis.com/v1beta/models/m:streamGenerateContent?alt=sse", key},
		"version":          {gemini.Config{Key: key, APIVersion: "v1"}, "https://generativelanguage.googleapis.com/v1/models/m:streamGenerateContent?alt=sse", key},
		"base URL":         {gemini.Config{Key: key, BaseURL: "http://127.0.0.1:1/google/"}, "http://127.0.0.1:1/google/v1beta/models/m:streamGenerateContent?alt=sse", key},
		"Vertex AI":        {gemini.Config{Project: "p"}, "https://aiplatform.googleapis.com/v1beta1/projects/p/locations/global/publishers/google/models/m:streamGenerateContent?alt=sse", ""},
		"Vertex AI there":  {gemini.Config{Project: "example.com:p", Location: "europe-west4"}, "https://europe-west4-aiplatform.googleapis.com/v1beta1/projects/example.com:p/locations/europe-west4/publishers/google/models/m:streamGenerateContent?alt=sse", ""},
		"Vertex AI region": {gemini.Config{Project: "p", Location: "eu"}, "https://aiplatform.eu.rep.googleapis.com/v1beta1/projects/p/locations/eu/publishers/google/models/m:streamGenerateContent?alt=sse", ""},
		"Vertex AI URL":    {gemini.Config{Project: "p", BaseURL: "http://127.0.0.1:1", APIVersion: "v1"}, "http://127.0.0.1:1/v1/projects/p/locations/global/publishers/google/models/m:streamGenerateContent?alt=sse", ""},
	} {
		t.Run(name, func(t *testing.T) {
			foreignEnvironment(t)
			logged := printed(t)
			var asked *http.Request
			answer := says(200, nil, strings.NewReader(end))
			own := &http.Client{Transport: endpoint(func(r *http.Request) (*http.Response, error) {
				asked = r
				return answer(r)
			})}
			before := *own
			c.cfg.Model, c.cfg.HTTPClient = "m", own
			client, err := gemini.Dial(t.Context(), c.cfg)
			if err != nil {
				t.Fatal(err)
			}
			if _, _, err := ask(t.Context(), client, hello()); err != nil {
				t.Fatal(err)
			}
			if got := asked.URL.String(); got != c.url {
				t.Errorf("asked %s, want %s", got, c.url)
			}
			if got := asked.Header.Get("X-Goog-Api-Key"); got != c.key {
				t.Errorf("the key is %q, want %q", got, c.key)
			}
			for name, values := range asked.Header {
				if strings.Contains(strings.Join(values, " "), "foreign") {
					t.Errorf("the header %s has %q", name, values)
				}
			}
			if logged.Len() > 0 {
				t.Errorf("package log printed %q", logged)
			}
			if own.CheckRedirect != nil || own.Timeout != before.Timeout {
				t.Error("the HTTP client that was given has changed")
			}
			if _, ok := own.Transport.(endpoint); !ok {
				t.Error("the transport of the HTTP client that was given has changed")
			}
		})
	}
}

// TestOthersLog checks that package log is unchanged afterwards.
func TestOthersLog(t *testing.T) {
	foreignEnvironment(t)
	logged := printed(t)
	own := log.Writer()
	asking(t, says(200, nil, strings.NewReader(end)))
	if log.Writer() != own {
		t.Error("package log writes elsewhere after Dial")
	}
	log.Print("hello")
	if !strings.Contains(logged.String(), "hello") {
		t.Errorf("package log printed %q, want hello", logged)
	}
}

// serviceAccount creates application-default credentials whose tokens come from the handler tokens.
func serviceAccount(t *testing.T, tokens http.HandlerFunc) {
	t.Helper()
	s := httptest.NewServer(tokens)
	t.Cleanup(s.Close)
	private, err := rsa.GenerateKey(rand.Reader, 2048)
	if err != nil {
		t.Fatal(err)
	}
	der, err := x509.MarshalPKCS8PrivateKey(private)
	if err != nil {
		t.Fatal(err)
	}
	file, err := json.Marshal(map[string]string{
		"type": "service_account", "project_id": "p", "client_email": "cortex@example.com", "client_id": "1", "token_uri": s.URL,
		"private_key_id": "1", "private_key": string(pem.EncodeToMemory(&pem.Block{Type: "PRIVATE KEY", Bytes: der})),
	})
	if err != nil {
		t.Fatal(err)
	}
	path := filepath.Join(t.TempDir(), "credentials.json")
	if err := os.WriteFile(path, file, 0o600); err != nil {
		t.Fatal(err)
	}
	t.Setenv("GOOGLE_APPLICATION_CREDENTIALS", path)
}

func TestCredentials(t *testing.T) {
	const token = "ya29.not-a-real-token"
	for name, c := range map[string]struct {
		tokens http.HandlerFunc
		reply  llmtest.Reply
		kind   error
		says   string
	}{
		"token": {nil, llmtest.Reply{Pieces: []string{"hello"}}, nil, ""},
		"token that is refused": {
			nil,
			llmtest.Reply{Error: &llmtest.Fault{Status: 401, Message: "I do not like {key}."}},
			llm.ErrAuth, "I do not like [secret].",
		},
		"no token": {
			func(w http.ResponseWriter, _ *http.Request) {
				w.WriteHeader(400)
				_, _ = io.WriteString(w, `{"error":"invalid_grant","error_description":"Invalid grant: account not found"}`)
			},
			llmtest.Reply{},
			llm.ErrAuth, "gcloud auth application-default login",
		},
	} {
		t.Run(name, func(t *testing.T) {
			foreignEnvironment(t)
			if c.tokens == nil {
				c.tokens = func(w http.ResponseWriter, _ *http.Request) {
					w.Header().Set("Content-Type", "application/json")
					_, _ = io.WriteString(w, `{"access_token":"`+token+`","token_type":"Bearer","expires_in":3600}`)
				}
			}
			serviceAccount(t, c.tokens)
			got := make(chan string, 1)
			server := geminitest.Serve(t, func(call *llmtest.Call) *llmtest.Reply {
				got <- call.Key
				return &c.reply
			})
			client, err := gemini.Dial(t.Context(), gemini.Config{Model: "m", Project: "p", BaseURL: server.URL})
			if err != nil {
				t.Fatal(err)
			}
			text, _, err := ask(t.Context(), client, hello())
			if c.kind != nil {
				if e := asError(t, err, c.kind); !strings.Contains(e.Message, c.says) || strings.Contains(e.Message, token) {
					t.Errorf("the error says %q, want %q in it, and no token", e.Message, c.says)
				}
				return
			}
			if err != nil || text != "hello" {
				t.Fatalf("text = %q, %v, want hello", text, err)
			}
			if key := <-got; key != token {
				t.Errorf("the server got the token %q, want %q", key, token)
			}
		})
	}
}

// TestCredentialsAreRenewed checks that a call whose token has expired gets another one.
func TestCredentialsAreRenewed(t *testing.T) {
	foreignEnvironment(t)
	var given atomic.Int32
	serviceAccount(t, func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Type", "application/json")
		_, _ = fmt.Fprintf(w, `{"access_token":"token-%d","token_type":"Bearer","expires_in":60}`, given.Add(1)) // soon enough to be renewed at once
	})
	got := make(chan string, 1)
	server := geminitest.Serve(t, func(call *llmtest.Call) *llmtest.Reply {
		got <- call.Key
		return &llmtest.Reply{Pieces: []string{"hello"}}
	})
	client, err := gemini.Dial(t.Context(), gemini.Config{Model: "m", Project: "p", BaseURL: server.URL})
	if err != nil {
		t.Fatal(err)
	}
	for key := "token-1"; key == "token-1"; key = <-got { // the SDK renews it beside the calls
		if _, _, err := ask(t.Context(), client, hello()); err != nil {
			t.Fatal(err)
		}
	}
}

// TestRedirect checks that the key is sent to no other server.
func TestRedirect(t *testing.T) {
	elsewhere := httptest.NewServer(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
		t.Errorf("the redirection was followed, with the key %q", r.Header.Get("X-Goog-Api-Key"))
	}))
	t.Cleanup(elsewhere.Close)
	server := httptest.NewServer(http.RedirectHandler(elsewhere.URL, http.StatusTemporaryRedirect))
	t.Cleanup(server.Close)
	client, err := gemini.Dial(t.Context(), gemini.Config{Model: "m", Key: key, BaseURL: server.URL})
	if err != nil {
		t.Fatal(err)
	}
	_, _, err = ask(t.Context(), client, hello())
	if e := asError(t, err, llm.ErrBadRequest); e.Status != http.StatusTemporaryRedirect {
		t.Errorf("status = %d, want %d", e.Status, http.StatusTemporaryRedirect)
	}
}

// TestClientTimeout distinguishes a timeout of the HTTP client from the end of the context.
func TestClientTimeout(t *testing.T) {
	server := geminitest.Serve(t, func(call *llmtest.Call) *llmtest.Reply {
		return &llmtest.Reply{Pieces: []string{"hello"}, Hold: call.Gone}
	})
	for name, hold := range map[string]time.Duration{"before": time.Nanosecond, "between": 200 * time.Millisecond} {
		client, err := gemini.Dial(t.Context(), gemini.Config{Model: "m", Key: key, BaseURL: server.URL, HTTPClient: &http.Client{Timeout: hold}})
		if err != nil {
			t.Fatal(err)
		}
		_, _, err = ask(t.Context(), client, hello())
		if !errors.Is(err, llm.ErrUnavailable) && !errors.Is(err, llm.ErrTruncated) {
			t.Errorf("%s: error %v, want an unavailable model or a cut answer", name, err)
		}
		if errors.Is(err, context.DeadlineExceeded) || errors.Is(err, context.Canceled) {
			t.Errorf("%s: error %v is that of a context", name, err)
		}
	}
}
