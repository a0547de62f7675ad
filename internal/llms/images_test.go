package llms

import (
	"encoding/json"
	"testing"
)

// TestImagesSetting checks which endpoints accept images by default: those of the vendors, but none at another URL.
func TestImagesSetting(t *testing.T) {
	t.Setenv("A_KEY", "sk-secret")
	for entry, want := range map[string]bool{
		`{"provider":"openai"}`:                                     true,
		`{"provider":"openai","images":false}`:                      false,
		`{"provider":"openai","base_url":"http://localhost:1"}`:     false,
		`{"provider":"openai","base_url":"http://x","images":true}`: true,
		`{"provider":"azure","base_url":"http://x","model":"m"}`:    false,
		`{"provider":"openrouter","model":"m"}`:                     false,
		`{"provider":"ollama","model":"m"}`:                         false,
		`{"provider":"ollama","model":"m","images":true}`:           true,
		`{"provider":"gemini"}`:                                     true,
		`{"provider":"gemini","base_url":"http://x"}`:               true,
		`{"provider":"gemini","images":false}`:                      false,
	} {
		ep, err := Read("mine", json.RawMessage(entry), Providers(nil))
		if err != nil {
			t.Fatal(err)
		}
		if ep.KeyEnv != "" {
			ep.KeyEnv = "A_KEY"
		}
		r, _, err := ep.Resolved()
		if err != nil {
			t.Fatalf("%s: %v", entry, err)
		}
		if *r.Images != want {
			t.Errorf("%s takes images: %v, want %v", entry, *r.Images, want)
		}
	}
	t.Setenv("OPENAI_BASE_URL", "http://localhost:1")
	ep, err := Read("openai", json.RawMessage(`{"api_key_env":"A_KEY"}`), Providers(nil))
	if err != nil {
		t.Fatal(err)
	}
	if r, _, err := ep.Resolved(); err != nil || *r.Images {
		t.Errorf("with OPENAI_BASE_URL: %+v, %v, want no images", r, err)
	}
	if _, err := Read("mine", json.RawMessage(`{"provider":"openai","images":"yes"}`), Providers(nil)); err == nil || err.Error() != `llms.mine.images: want true or false, not a string` {
		t.Errorf(`images: "yes" gives %v`, err)
	}
}
