package openai_test

import (
	"io"
	"net/http"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/cortex-orchestrator/cortex/llm/openai"
)

// TestEndlessAnswersArePaced has an endpoint say more than anybody reads: it is not read as fast as it comes.
func TestEndlessAnswersArePaced(t *testing.T) {
	said := strings.Repeat(": "+strings.Repeat("x", 8000)+"\n", 4500)
	synctest.Test(t, func(t *testing.T) {
		began := time.Now()
		for range 3 {
			var failed error
			for _, err := range newClient(t, openai.Config{BaseURL: "http://endpoint.test/v1", HTTPClient: &http.Client{Transport: roundTrip(func(r *http.Request) (*http.Response, error) {
				return &http.Response{StatusCode: http.StatusOK, Header: http.Header{"Content-Type": {"text/event-stream"}}, Body: io.NopCloser(strings.NewReader(said)), Request: r}, nil
			})}}).Generate(t.Context(), hi()) {
				failed = err
			}
			if failed == nil {
				t.Fatal("it was answered")
			}
		}
		if time.Since(began) == 0 {
			t.Error("three answers without an end were read without a pause")
		}
	})
}
