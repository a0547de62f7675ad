package gemini_test

import (
	"errors"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"testing"

	"github.com/cortex-orchestrator/cortex/llm"
	"github.com/cortex-orchestrator/cortex/llm/gemini"
	"github.com/cortex-orchestrator/cortex/llm/gemini/geminitest"
	"github.com/cortex-orchestrator/cortex/llm/llmtest"
)

// TestModels lists the models that generate text, and explains what is none.
func TestModels(t *testing.T) {
	models := func(url, project, key string) ([]string, error) {
		return dial(t, url, project, llmtest.Options{Key: key}).(*gemini.Client).Models(t.Context())
	}
	url := geminitest.Serve(t, nil).URL
	if got, err := models(url, "", "key-1"); err != nil || !slices.Equal(got, []string{llmtest.Model}) {
		t.Errorf("models %q, error %v", got, err)
	}
	if _, err := models(url, "project-1", "token"); !errors.Is(err, llm.ErrBadRequest) || !strings.Contains(err.Error(), "console") {
		t.Errorf("of a project: %v", err)
	}
	refuses := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		w.WriteHeader(http.StatusBadRequest)
		_, _ = w.Write([]byte(`{"error":{"code":400,"status":"INVALID_ARGUMENT","message":"API key not valid: key-1","details":[{"@type":"type.googleapis.com/google.rpc.ErrorInfo","reason":"API_KEY_INVALID"}]}}`))
	}))
	defer refuses.Close()
	if _, err := models(refuses.URL, "", "key-1"); !errors.Is(err, llm.ErrAuth) || strings.Contains(err.Error(), "key-1") {
		t.Errorf("a wrong key: %v", err)
	}
}
