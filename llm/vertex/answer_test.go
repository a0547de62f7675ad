package vertex_test

import (
	"errors"
	"net/http"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/cortex-orchestrator/cortex/llm"
	"github.com/cortex-orchestrator/cortex/llm/llmtest"
	"github.com/cortex-orchestrator/cortex/llm/vertex/vertextest"
)

// TestEnds checks the results of all finish reasons over REST. hi is a message with text.
func TestEnds(t *testing.T) {
	const hi = `{"candidates":[{"content":{"parts":[{"text":"hi"}]}}]}`
	tests := []struct {
		name, body string
		want       error // nil: a complete answer
		code       string
	}{
		{"stop", `[` + hi + `,{"candidates":[{"finishReason":1}]}]`, nil, ""},
		{"stop in words", `[` + hi + `,{"candidates":[{"finishReason":"STOP"}]}]`, nil, ""},
		{"stop with the text", `[{"candidates":[{"content":{"parts":[{"text":"hi"}]},"finishReason":1}]}]`, nil, ""},
		{"other with text", `[` + hi + `,{"candidates":[{"finishReason":5}]}]`, llm.ErrTruncated, "OTHER"},
		{"other", `[{"candidates":[{"finishReason":5}]}]`, llm.ErrEmpty, "OTHER"},
		{"new with text", `[` + hi + `,{"candidates":[{"finishReason":99}]}]`, nil, ""},
		{"new in words with text", `[` + hi + `,{"candidates":[{"finishReason":"BORED"}]}]`, nil, ""},
		{"new in words", `[{"candidates":[{"finishReason":"BORED"}]}]`, llm.ErrEmpty, "BORED"},
		{"max tokens", `[` + hi + `,{"candidates":[{"finishReason":2}]}]`, llm.ErrLength, "MAX_TOKENS"},
		{"safety", `[` + hi + `,{"candidates":[{"finishReason":3}]}]`, llm.ErrRefused, "SAFETY"},
		{"recitation", `[` + hi + `,{"candidates":[{"finishReason":4}]}]`, llm.ErrRefused, "RECITATION"},
		{"blocklist", `[` + hi + `,{"candidates":[{"finishReason":6}]}]`, llm.ErrRefused, "BLOCKLIST"},
		{"prohibited", `[` + hi + `,{"candidates":[{"finishReason":"PROHIBITED_CONTENT"}]}]`, llm.ErrRefused, "PROHIBITED_CONTENT"},
		{"spii", `[` + hi + `,{"candidates":[{"finishReason":8}]}]`, llm.ErrRefused, "SPII"},
		{"malformed call", `[` + hi + `,{"candidates":[{"finishReason":9}]}]`, llm.ErrEmpty, "MALFORMED_FUNCTION_CALL"},
		{"unreadable", `[` + hi + `,{"candidates":[{"finishReason":"MALFORMED_RESPONSE"}]}]`, llm.ErrEmpty, "MALFORMED_RESPONSE"},
		{"model armor", `[` + hi + `,{"candidates":[{"finishReason":10}]}]`, llm.ErrRefused, "MODEL_ARMOR"},
		{"model armor in words", `[` + hi + `,{"candidates":[{"finishReason":"MODEL_ARMOR"}]}]`, llm.ErrRefused, "MODEL_ARMOR"},
		{"image safety", `[` + hi + `,{"candidates":[{"finishReason":11}]}]`, llm.ErrRefused, "IMAGE_SAFETY"},
		{"image prohibited", `[` + hi + `,{"candidates":[{"finishReason":12}]}]`, llm.ErrRefused, "IMAGE_PROHIBITED_CONTENT"},
		{"image recitation", `[` + hi + `,{"candidates":[{"finishReason":13}]}]`, llm.ErrRefused, "IMAGE_RECITATION"},
		{"other image", `[` + hi + `,{"candidates":[{"finishReason":14}]}]`, llm.ErrTruncated, "IMAGE_OTHER"},
		{"unexpected call", `[` + hi + `,{"candidates":[{"finishReason":15}]}]`, llm.ErrEmpty, "UNEXPECTED_TOOL_CALL"},
		{"no image", `[` + hi + `,{"candidates":[{"finishReason":16}]}]`, llm.ErrTruncated, "NO_IMAGE"},
		{"too many calls", `[` + hi + `,{"candidates":[{"finishReason":"TOO_MANY_TOOL_CALLS"}]}]`, llm.ErrEmpty, "TOO_MANY_TOOL_CALLS"},
		{"language", `[` + hi + `,{"candidates":[{"finishReason":"LANGUAGE"}]}]`, llm.ErrRefused, "LANGUAGE"},
		{"filter of tomorrow", `[` + hi + `,{"candidates":[{"finishReason":"AUDIO_SAFETY"}]}]`, llm.ErrRefused, "AUDIO_SAFETY"},
		{"to be continued", `[` + hi + `,{"candidates":[{"finishReason":"CONTINUATION"}]}]`, llm.ErrTruncated, "CONTINUATION"},
		{"signatures", `[` + hi + `,{"candidates":[{"finishReason":"MISSING_THOUGHT_SIGNATURE"}]}]`, llm.ErrBadRequest, "MISSING_THOUGHT_SIGNATURE"},
		{"blocked", `[{"promptFeedback":{"blockReason":4,"blockReasonMessage":"no"}}]`, llm.ErrRefused, "PROHIBITED_CONTENT"},
		{"feedback without block", `[{"promptFeedback":{"safetyRatings":[{}]}},` + hi + `,{"candidates":[{"finishReason":1}]}]`, nil, ""},
		{"no reason", `[` + hi + `]`, llm.ErrTruncated, ""},
		{"no reason but its name", `[` + hi + `,{"candidates":[{"finishReason":"FINISH_REASON_UNSPECIFIED"}]}]`, llm.ErrTruncated, ""},
		{"no bracket", `[` + hi + `,{"candidates":[{"finishReason":1}]}`, llm.ErrTruncated, ""},
		{"comma", `[` + hi + `,{"candidates":[{"finishReason":1}]},`, llm.ErrTruncated, ""},
		{"half", `[` + hi + `,{"candidates":[{"fini`, llm.ErrTruncated, ""},
		{"text behind the end", `[` + hi + `,{"candidates":[{"finishReason":1}]}] and more`, nil, ""},
		{"other JSON", `[` + hi + `,7]`, llm.ErrUnavailable, ""},
		{"wrong type", `[` + hi + `,{"candidates":7}]`, llm.ErrUnavailable, ""},
		{"error", `[` + hi + `,{"error":{"code":429,"message":"slow","status":"RESOURCE_EXHAUSTED"}}]`, llm.ErrRateLimited, "RESOURCE_EXHAUSTED"},
		{"error without number", `[{"error":{"message":"slow","status":"RESOURCE_EXHAUSTED"}}]`, llm.ErrRateLimited, "RESOURCE_EXHAUSTED"},
		{"error without words", `[{"error":{}}]`, llm.ErrUnavailable, ""},
		{"error of a kind", `[{"error":"overloaded"}]`, llm.ErrUnavailable, ""},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			text, done, err := ask(t.Context(), raw(t, says(test.body)), request("x"))
			if test.want == nil {
				if err != nil || text != "hi" || !done.Done {
					t.Errorf("Generate = %q, %v, %v, want hi", text, done, err)
				}
				return
			}
			var failed *llm.Error
			if !errors.Is(err, test.want) || !errors.As(err, &failed) || failed.Code != test.code || done.Done {
				t.Errorf("Generate = %q, %v, %v, want %v with the code %q", text, done, err, test.want, test.code)
			}
		})
	}
}

// TestEndInWords checks that the endpoint's explanation is shown, even with an unknown reason.
func TestEndInWords(t *testing.T) {
	for _, reason := range []string{`3`, `"LANGUAGE"`} {
		c := raw(t, says(`[{"candidates":[{"content":{"parts":[{"text":"hi"}]},"finishReason":`+reason+`,"finishMessage":"too spicy"}]}]`))
		var failed *llm.Error
		if _, _, err := ask(t.Context(), c, request("x")); !errors.As(err, &failed) || failed.Message != "too spicy" {
			t.Errorf("reason %s: Generate = %v, want it to say too spicy", reason, err)
		}
	}
}

// TestAlive checks that each message yields a chunk, even without text, so that the model does not seem silent.
func TestAlive(t *testing.T) {
	const call = `{"kind":"respond"}`
	tests := []struct {
		mode  llm.Structured
		reply llmtest.Reply
		want  []string
	}{
		{llm.StructuredSchema, llmtest.Reply{Thoughts: "Let me think.", Pieces: []string{"a"}}, []string{"", "a", ""}},
		{llm.StructuredTools, llmtest.Reply{Before: "I call.", Pieces: []string{call}}, []string{"", call, ""}},
	}
	each(t, func(t *testing.T, rest bool) {
		for _, test := range tests {
			s := serve(t, rest, func(*llmtest.Call) *llmtest.Reply { return &test.reply }, false)
			cfg := config(rest, s.Addr)
			cfg.Structured = test.mode
			r := request("hi")
			r.Schema = llm.DecisionSchema(&llm.Turn{})
			var got []string
			for chunk, err := range dialPlain(t, cfg).Generate(t.Context(), r) {
				if err != nil {
					t.Fatal(err)
				}
				if !chunk.Done {
					got = append(got, chunk.Text)
				}
			}
			if diff := cmp.Diff(test.want, got); diff != "" {
				t.Errorf("%s: the texts of the chunks (-want +got):\n%s", test.mode, diff)
			}
		}
	})
}

// TestAnswerBoundGRPC checks that an endless answer over gRPC is ended; TestAnswerBoundREST is for REST.
func TestAnswerBoundGRPC(t *testing.T) {
	const most = 32 << 20
	endless := &llmtest.Reply{Pieces: slices.Repeat([]string{strings.Repeat("a", 1<<20)}, most>>20+8)}
	s := serve(t, false, func(*llmtest.Call) *llmtest.Reply { return endless }, false)
	text, _, err := ask(t.Context(), dialPlain(t, config(false, s.Addr)), request("hi"))
	if len(text) > most || !errors.Is(err, llm.ErrUnavailable) {
		t.Errorf("Generate = %d bytes, %v, want at most %d and %v", len(text), err, most, llm.ErrUnavailable)
	}
}

// TestUsage checks that the last usage counts, including thoughts, and that an empty one does not.
func TestUsage(t *testing.T) {
	c := raw(t, says(`[{"candidates":[{"content":{"parts":[{"text":"hi"}]}}],"usageMetadata":{"promptTokenCount":9},"modelVersion":"m-1"},
		{"candidates":[{"finishReason":1}],"usageMetadata":{"promptTokenCount":10,"candidatesTokenCount":3,"thoughtsTokenCount":4,"cachedContentTokenCount":8}},
		{"usageMetadata":{"trafficType":"ON_DEMAND"}}]`))
	_, done, err := ask(t.Context(), c, request("x"))
	want := llm.Chunk{Done: true, Model: "m-1", Usage: llm.Usage{Input: 10, Cached: 8, Output: 7, Reasoning: 4}}
	if diff := cmp.Diff(want, done); diff != "" || err != nil {
		t.Errorf("the last chunk, error %v (-want +got):\n%s", err, diff)
	}
}

// TestFaults checks the shapes of errors over REST.
func TestFaults(t *testing.T) {
	const words = "that will not do"
	for shape := range vertextest.Shapes {
		for _, status := range []int{400, 401, 403, 404, 429, 500, 503} {
			fault := &llmtest.Fault{Status: status, Message: words, Shape: shape, RetryAfter: 3 * time.Second}
			s := vertextest.ServeREST(t, func(*llmtest.Call) *llmtest.Reply { return &llmtest.Reply{Error: fault} }, false)
			_, _, err := ask(t.Context(), dialPlain(t, config(true, s.Addr)), request("x"))
			var failed *llm.Error
			if !errors.As(err, &failed) || !errors.Is(err, llm.KindOfStatus(status)) || failed.Status != status || failed.RetryAfter != 3*time.Second {
				t.Errorf("shape %d, status %d: Generate = %+v, want %v", shape, status, failed, llm.KindOfStatus(status))
				continue
			}
			want := words
			if shape > 2 {
				want = http.StatusText(status)
			}
			if !strings.Contains(failed.Message, want) || strings.Contains(failed.Message, "<") {
				t.Errorf("shape %d, status %d: the message is %q, want %q", shape, status, failed.Message, want)
			}
			if shape < 2 && failed.RequestID != "request-1" {
				t.Errorf("shape %d, status %d: the request's id is %q", shape, status, failed.RequestID)
			}
		}
	}
}

// TestKinds checks the kinds of Google's errors, on both transports.
func TestKinds(t *testing.T) {
	tests := []struct {
		status  int
		message string
		want    error
	}{
		{429, "Resource exhausted. Please try again later.", llm.ErrRateLimited},
		{429, "Quota exceeded for aiplatform.googleapis.com/generate_content_requests_per_minute_per_project_per_base_model", llm.ErrRateLimited},
		{429, "Quota exceeded for metric: generate_requests, limit: 0, model: x", llm.ErrQuota},
		{429, "Quota exceeded for metric: generate_requests_per_model_per_day, limit: 250", llm.ErrQuota},
		{400, "The input token count (1200000) exceeds the maximum number of tokens allowed (1048576).", llm.ErrTooLong},
		{400, "Unable to submit request because the input token count is 2000000 but model only supports up to 1048576", llm.ErrTooLong},
		{400, "Unable to submit request because it has a maxOutputTokens value of 99999 but the supported range is from 1 to 65537", llm.ErrBadRequest},
		{400, "Request payload size exceeds the limit: 20971520 bytes.", llm.ErrTooLong},
		{400, "User location is not supported for the API use.", llm.ErrAuth},
		{400, "The free tier is not available in your country. Please enable billing on your project.", llm.ErrAuth},
		{400, "Unknown name \"x\"", llm.ErrBadRequest},
		{403, "Permission 'aiplatform.endpoints.predict' denied", llm.ErrAuth},
		{503, "The input token count is of no matter here", llm.ErrUnavailable},
	}
	each(t, func(t *testing.T, rest bool) {
		for _, test := range tests {
			s := serve(t, rest, func(*llmtest.Call) *llmtest.Reply {
				return &llmtest.Reply{Error: &llmtest.Fault{Status: test.status, Message: test.message}}
			}, false)
			if _, _, err := ask(t.Context(), dialPlain(t, config(rest, s.Addr)), request("x")); !errors.Is(err, test.want) {
				t.Errorf("%q = %v, want %v", test.message, err, test.want)
			}
		}
	})
}
