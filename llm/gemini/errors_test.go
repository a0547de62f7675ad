package gemini_test

import (
	"fmt"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/cortex-orchestrator/cortex/llm"
	"github.com/cortex-orchestrator/cortex/llm/gemini/geminitest"
	"github.com/cortex-orchestrator/cortex/llm/llmtest"
)

// rpc returns the body of an error in Google's form.
func rpc(code int, status, message string, details ...string) string {
	return fmt.Sprintf(`{"error": {"code": %d, "message": %q, "status": %q, "details": [%s]}}`, code, message, status, strings.Join(details, ","))
}

func quota(id, value string) string {
	return fmt.Sprintf(`{"@type": "type.googleapis.com/google.rpc.QuotaFailure", "violations": [{"quotaId": "GenerateContentInputTokensPerModelPerMinute-FreeTier", "quotaValue": "250000"}, {"quotaId": %q, "quotaValue": %q}]}`, id, value)
}

const plan = "You exceeded your current quota, please check your plan and billing details."

func TestFaults(t *testing.T) {
	retryInfo := `{"@type": "type.googleapis.com/google.rpc.RetryInfo", "retryDelay": "35.5s"}`
	for name, c := range map[string]struct {
		status int
		header http.Header
		body   string
		want   llm.Error
	}{
		"wrong key": {
			400, nil,
			rpc(400, "INVALID_ARGUMENT", "API key not valid. Please pass a valid API key.", `{"@type": "type.googleapis.com/google.rpc.ErrorInfo", "reason": "API_KEY_INVALID", "domain": "googleapis.com"}`),
			llm.Error{Kind: llm.ErrAuth, Status: 400, Code: "INVALID_ARGUMENT", Message: "API key not valid. Please pass a valid API key."},
		},
		"no permission": {403, nil, rpc(403, "PERMISSION_DENIED", "no"), llm.Error{Kind: llm.ErrAuth, Status: 403, Code: "PERMISSION_DENIED", Message: "no"}},
		"no token":      {401, nil, rpc(401, "UNAUTHENTICATED", "who?"), llm.Error{Kind: llm.ErrAuth, Status: 401, Code: "UNAUTHENTICATED", Message: "who?"}},
		"no model":      {404, nil, rpc(404, "NOT_FOUND", "models/m is not found"), llm.Error{Kind: llm.ErrNoModel, Status: 404, Code: "NOT_FOUND", Message: "models/m is not found"}},
		"bad request":   {400, nil, rpc(400, "INVALID_ARGUMENT", "Invalid JSON payload"), llm.Error{Kind: llm.ErrBadRequest, Status: 400, Code: "INVALID_ARGUMENT", Message: "Invalid JSON payload"}},
		"location":      {400, nil, rpc(400, "FAILED_PRECONDITION", "User location is not supported for the API use."), llm.Error{Kind: llm.ErrAuth, Status: 400, Code: "FAILED_PRECONDITION", Message: "User location is not supported for the API use."}},
		"no billing":    {400, nil, rpc(400, "FAILED_PRECONDITION", "The free tier is not available in your country. Please enable billing on your project."), llm.Error{Kind: llm.ErrAuth, Status: 400, Code: "FAILED_PRECONDITION", Message: "The free tier is not available in your country. Please enable billing on your project."}},
		"precondition":  {400, nil, rpc(400, "FAILED_PRECONDITION", "The file is not active"), llm.Error{Kind: llm.ErrBadRequest, Status: 400, Code: "FAILED_PRECONDITION", Message: "The file is not active"}},
		"too long": {
			400, nil, rpc(400, "INVALID_ARGUMENT", "The input token count (2000000) exceeds the maximum number of tokens allowed (1048576)."),
			llm.Error{Kind: llm.ErrTooLong, Status: 400, Code: "INVALID_ARGUMENT", Message: "The input token count (2000000) exceeds the maximum number of tokens allowed (1048576)."},
		},
		"too long for Vertex AI": {
			400, nil, rpc(400, "INVALID_ARGUMENT", "Unable to submit request because the input token count is 1048577 but the model only supports up to 1048576."),
			llm.Error{Kind: llm.ErrTooLong, Status: 400, Code: "INVALID_ARGUMENT", Message: "Unable to submit request because the input token count is 1048577 but the model only supports up to 1048576."},
		},
		"too many bytes": {400, nil, rpc(400, "INVALID_ARGUMENT", "Request payload size exceeds the limit: 20971520 bytes."), llm.Error{Kind: llm.ErrTooLong, Status: 400, Code: "INVALID_ARGUMENT", Message: "Request payload size exceeds the limit: 20971520 bytes."}},
		"tokens asked for": {
			400, nil, rpc(400, "INVALID_ARGUMENT", "max_output_tokens must be positive; the token count is unknown"),
			llm.Error{Kind: llm.ErrBadRequest, Status: 400, Code: "INVALID_ARGUMENT", Message: "max_output_tokens must be positive; the token count is unknown"},
		},

		"rate": {429, nil, rpc(429, "RESOURCE_EXHAUSTED", plan, quota("GenerateRequestsPerMinutePerProjectPerModel", "15"), retryInfo), llm.Error{Kind: llm.ErrRateLimited, Status: 429, Code: "RESOURCE_EXHAUSTED", Message: plan, RetryAfter: 35500 * time.Millisecond}},
		"rate without details": {
			429,
			http.Header{"Retry-After": {"7"}},
			rpc(429, "RESOURCE_EXHAUSTED", "Resource has been exhausted (e.g. check quota)."),
			llm.Error{Kind: llm.ErrRateLimited, Status: 429, Code: "RESOURCE_EXHAUSTED", Message: "Resource has been exhausted (e.g. check quota).", RetryAfter: 7 * time.Second},
		},
		"the longer wait":     {429, http.Header{"Retry-After": {"60"}}, rpc(429, "RESOURCE_EXHAUSTED", "x", retryInfo), llm.Error{Kind: llm.ErrRateLimited, Status: 429, Code: "RESOURCE_EXHAUSTED", Message: "x", RetryAfter: time.Minute}},
		"the day's requests":  {429, nil, rpc(429, "RESOURCE_EXHAUSTED", plan, quota("GenerateRequestsPerDayPerProjectPerModel-FreeTier", "50"), retryInfo), llm.Error{Kind: llm.ErrQuota, Status: 429, Code: "RESOURCE_EXHAUSTED", Message: plan, RetryAfter: 35500 * time.Millisecond}},
		"no quota":            {429, nil, rpc(429, "RESOURCE_EXHAUSTED", plan, quota("GenerateRequestsPerMinutePerProjectPerModel-FreeTier", "0")), llm.Error{Kind: llm.ErrQuota, Status: 429, Code: "RESOURCE_EXHAUSTED", Message: plan}},
		"no quota, in words":  {429, nil, rpc(429, "RESOURCE_EXHAUSTED", plan+" limit: 0, model: m"), llm.Error{Kind: llm.ErrQuota, Status: 429, Code: "RESOURCE_EXHAUSTED", Message: plan + " limit: 0, model: m"}},
		"a quota, in words":   {429, nil, rpc(429, "RESOURCE_EXHAUSTED", plan+" limit: 5, model: m"), llm.Error{Kind: llm.ErrRateLimited, Status: 429, Code: "RESOURCE_EXHAUSTED", Message: plan + " limit: 5, model: m"}},
		"the day, in words":   {429, nil, rpc(429, "RESOURCE_EXHAUSTED", "Quota exceeded for limit 'Requests per day per user'"), llm.Error{Kind: llm.ErrQuota, Status: 429, Code: "RESOURCE_EXHAUSTED", Message: "Quota exceeded for limit 'Requests per day per user'"}},
		"billing, in details": {429, nil, rpc(429, "RESOURCE_EXHAUSTED", "no", `{"@type": "type.googleapis.com/google.rpc.QuotaFailure", "violations": [{"description": "The billing account is closed."}]}`), llm.Error{Kind: llm.ErrQuota, Status: 429, Code: "RESOURCE_EXHAUSTED", Message: "no"}},

		"a quota, by message alone": {429, nil, `{"error":{"message":"limit: 0"}}`, llm.Error{Kind: llm.ErrQuota, Status: 429, Message: "limit: 0"}},
		"length, by message alone":  {400, nil, `{"error":{"message":"the token count exceeds the maximum"}}`, llm.Error{Kind: llm.ErrTooLong, Status: 400, Message: "the token count exceeds the maximum"}},
		"another name":              {200, nil, `{"error":{"message":"x","status":"RESOURCE_EXHAUSTED"}}`, llm.Error{Kind: llm.ErrRateLimited, Message: "x", Code: "RESOURCE_EXHAUSTED"}},

		"overloaded":   {503, nil, rpc(503, "UNAVAILABLE", "The model is overloaded."), llm.Error{Kind: llm.ErrUnavailable, Status: 503, Code: "UNAVAILABLE", Message: "The model is overloaded."}},
		"too slow":     {504, nil, rpc(504, "DEADLINE_EXCEEDED", "slow"), llm.Error{Kind: llm.ErrUnavailable, Status: 504, Code: "DEADLINE_EXCEEDED", Message: "slow"}},
		"cancelled":    {499, nil, rpc(499, "CANCELLED", "gone"), llm.Error{Kind: llm.ErrUnavailable, Status: 499, Code: "CANCELLED", Message: "gone"}},
		"in an array":  {503, nil, "[" + rpc(503, "UNAVAILABLE", "busy") + "]", llm.Error{Kind: llm.ErrUnavailable, Status: 503, Code: "UNAVAILABLE", Message: "busy"}},
		"a text":       {400, nil, `{"error": "no"}`, llm.Error{Kind: llm.ErrBadRequest, Status: 400, Message: "no"}},
		"a page":       {502, nil, "<!DOCTYPE html><title>Bad&nbsp;Gateway</title>", llm.Error{Kind: llm.ErrUnavailable, Status: 502, Message: "Bad\u00a0Gateway"}},
		"other JSON":   {418, nil, `{"detail":"tea"}`, llm.Error{Kind: llm.ErrBadRequest, Status: 418, Message: `{"detail":"tea"}`}},
		"nothing":      {503, nil, "", llm.Error{Kind: llm.ErrUnavailable, Status: 503, Message: "Service Unavailable"}},
		"odd details":  {429, nil, `{"error":{"message":"x","status":"RESOURCE_EXHAUSTED","details":[7,{"@type":"/google.rpc.RetryInfo","retryDelay":-3},{"@type":"x/google.rpc.QuotaFailure","violations":"many"}]}}`, llm.Error{Kind: llm.ErrRateLimited, Status: 429, Code: "RESOURCE_EXHAUSTED", Message: "x"}},
		"a long wait":  {503, nil, rpc(503, "UNAVAILABLE", "x", `{"@type": "x/google.rpc.RetryInfo", "retryDelay": "9000000s"}`), llm.Error{Kind: llm.ErrUnavailable, Status: 503, Code: "UNAVAILABLE", Message: "x", RetryAfter: 24 * time.Hour}},
		"id in body":   {500, http.Header{"X-Request-Id": {"h"}}, rpc(500, "INTERNAL", "x", `{"@type": "x/google.rpc.RequestInfo", "requestId": "r-1"}`), llm.Error{Kind: llm.ErrUnavailable, Status: 500, Code: "INTERNAL", Message: "x", RequestID: "r-1"}},
		"id in header": {500, http.Header{"X-Request-Id": {"h"}}, rpc(500, "INTERNAL", "x"), llm.Error{Kind: llm.ErrUnavailable, Status: 500, Code: "INTERNAL", Message: "x", RequestID: "h"}},
		"the key":      {403, nil, rpc(403, "PERMISSION_DENIED", "key "+key+" is blocked"), llm.Error{Kind: llm.ErrAuth, Status: 403, Code: "PERMISSION_DENIED", Message: "key [secret] is blocked"}},
	} {
		t.Run(name, func(t *testing.T) {
			_, _, err := ask(t.Context(), asking(t, says(c.status, c.header, strings.NewReader(c.body))), hello())
			got := *asError(t, err, c.want.Kind)
			if got.Err == nil || strings.Contains(fmt.Sprintf("%v %+v", got.Err, got.Err), key) {
				t.Errorf("the cause is %v", got.Err)
			}
			got.Err = nil
			c.want.Provider, c.want.Model = "gemini", "m"
			if got != c.want {
				t.Errorf("error = %+v\nwant    %+v", got, c.want)
			}
		})
	}
}

// TestShapes reads an error in each of its shapes, alone and in the middle of an answer.
func TestShapes(t *testing.T) {
	const words = "an explanation"
	for shape := range geminitest.Shapes {
		for _, status := range []int{400, 401, 403, 404, 429, 500, 503} {
			for _, pieces := range [][]string{nil, {"a"}} {
				t.Run(fmt.Sprint(shape, " ", status, " ", pieces), func(t *testing.T) {
					server := geminitest.Serve(t, func(*llmtest.Call) *llmtest.Reply {
						return &llmtest.Reply{Pieces: pieces, Error: &llmtest.Fault{Status: status, Shape: shape, Message: words}}
					})
					_, _, err := ask(t.Context(), dial(t, server.URL, "", llmtest.Options{Key: key}), hello())
					kind, code := llm.KindOfStatus(status), status
					if len(pieces) > 0 && shape > 1 { // the shape has no kind
						kind, code = llm.ErrUnavailable, 0
					}
					if pieces != nil && shape == 5 { // text in a stream is an unknown field
						asError(t, err, llm.ErrTruncated)
						return
					}
					if e := asError(t, err, kind); e.Status != code || !strings.Contains(e.Message, words) {
						t.Errorf("error = %+v, want the status %d and %q", e, code, words)
					}
				})
			}
		}
	}
}
