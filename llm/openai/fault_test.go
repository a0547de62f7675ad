package openai_test

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/cortex-orchestrator/cortex/llm"
	"github.com/cortex-orchestrator/cortex/llm/llmtest"
	"github.com/cortex-orchestrator/cortex/llm/openai"
	"github.com/cortex-orchestrator/cortex/llm/openai/openaitest"
)

// TestErrors checks the errors of many endpoints.
func TestErrors(t *testing.T) {
	tests := []struct {
		name   string
		status int
		body   string
		want   error
		code   string
		says   string
	}{
		// Shapes.
		{"OpenAI", 429, `{"error":{"message":"slow down","type":"requests","param":null,"code":"rate_limit_exceeded"}}`, llm.ErrRateLimited, "rate_limit_exceeded", "slow down"},
		{"OpenAI without a code", 400, `{"error":{"message":"bad","type":"invalid_request_error","param":"x","code":null}}`, llm.ErrBadRequest, "invalid_request_error", "bad"},
		{"vLLM", 400, `{"object":"error","message":"bad","type":"BadRequestError","param":null,"code":400}`, llm.ErrBadRequest, "BadRequestError", "bad"},
		{"Ollama", 500, `{"error":"llama runner process has terminated"}`, llm.ErrUnavailable, "", "llama runner process has terminated"},
		{"Google", 400, `[{"error":{"code":400,"message":"bad","status":"INVALID_ARGUMENT"}}]`, llm.ErrBadRequest, "INVALID_ARGUMENT", "bad"},
		{"OpenRouter", 502, `{"error":{"code":502,"message":"Provider returned error","metadata":{"provider_name":"X","raw":"{\"e\":\"GPU on fire\"}"}},"user_id":"u"}`, llm.ErrUnavailable, "", "GPU on fire"},
		{"Azure", 400, `{"error":{"message":"bad","type":null,"param":"prompt","code":"content_filter","status":400,"innererror":{"code":"ResponsibleAIPolicyViolation"}}}`, llm.ErrRefused, "content_filter", "bad"},
		{"page", 503, "<html><head><title>503 Service Temporarily Unavailable</title></head></html>", llm.ErrUnavailable, "", "503 Service Temporarily Unavailable"},
		{"page without a title", 502, "<html></html>", llm.ErrUnavailable, "", "page"},
		{"text", 500, "Internal Server Error\n", llm.ErrUnavailable, "", "Internal Server Error"},
		{"nothing", 503, "", llm.ErrUnavailable, "", "Service Unavailable"},
		{"number", 500, "7", llm.ErrUnavailable, "", "7"},
		{"detail", 422, `{"detail":[{"loc":["body","x"],"msg":"field required","type":"missing"},{"msg":"no"}]}`, llm.ErrBadRequest, "", "field required, no"},
		{"Cloudflare", 403, `{"success":false,"errors":[{"code":1020,"message":"denied"}]}`, llm.ErrAuth, "", "denied"},
		{"list of messages", 400, `{"error":{"message":["one","two"]}}`, llm.ErrBadRequest, "", "one, two"},

		// Kinds that the status does not show.
		{"quota", 429, `{"error":{"message":"You exceeded your current quota","type":"insufficient_quota","code":"insufficient_quota"}}`, llm.ErrQuota, "insufficient_quota", ""},
		{"billing", 400, `{"error":{"message":"Billing hard limit has been reached","code":"billing_hard_limit_reached"}}`, llm.ErrQuota, "billing_hard_limit_reached", ""},
		{"credits", 402, `{"error":{"code":402,"message":"Insufficient credits"}}`, llm.ErrQuota, "", ""},
		{"quota of a minute", 429, `[{"error":{"code":429,"message":"You exceeded your current quota","status":"RESOURCE_EXHAUSTED","details":[{"retryDelay":"34s"}]}}]`, llm.ErrRateLimited, "RESOURCE_EXHAUSTED", ""},
		{"quota of a day", 429, `[{"error":{"code":429,"message":"You exceeded your current quota","status":"RESOURCE_EXHAUSTED"}}]`, llm.ErrQuota, "", ""},
		{"too long", 400, `{"error":{"message":"x","type":"invalid_request_error","code":"context_length_exceeded"}}`, llm.ErrTooLong, "context_length_exceeded", ""},
		{"too long for vLLM", 400, `{"object":"error","message":"This model's maximum context length is 4096 tokens. However, you requested 5000 tokens","type":"BadRequestError","code":400}`, llm.ErrTooLong, "", ""},
		{"too long for newer vLLM", 400, `{"error":{"message":"The decoder prompt (length 5000) is longer than the maximum model length of 4096.","type":"BadRequestError","code":400}}`, llm.ErrTooLong, "", ""},
		{"too long for llama.cpp", 400, `{"error":{"code":400,"message":"request (4390 tokens) exceeds the available context size (4096 tokens), try increasing it","type":"exceed_context_size_error"}}`, llm.ErrTooLong, "", ""},
		{"too long for llama.cpp, as it fails", 500, `{"error":{"code":500,"message":"Context size has been exceeded.","type":"server_error"}}`, llm.ErrTooLong, "", ""},
		{"too long for Ollama", 400, `{"error":"the input length exceeds the context length"}`, llm.ErrTooLong, "", ""},
		{"too long for LM Studio", 400, `{"error":"Trying to keep the first 5000 tokens when context the overflows. However, the model is loaded with context length of only 4096 tokens, which is not enough."}`, llm.ErrTooLong, "", ""},
		{"too long for newer LM Studio", 400, `{"error":"The number of tokens to keep from the initial prompt is greater than the context length."}`, llm.ErrTooLong, "", ""},
		{"too long for OpenRouter", 400, `{"error":{"code":400,"message":"This endpoint's maximum context length is 4096 tokens."}}`, llm.ErrTooLong, "", ""},
		{"too long for whom OpenRouter asked", 400, `{"error":{"code":400,"message":"Provider returned error","metadata":{"raw":"prompt is too long: 5000 tokens > 4096 maximum"}}}`, llm.ErrTooLong, "", ""},
		{"too long for Google", 400, `[{"error":{"code":400,"message":"The input token count (5000) exceeds the maximum number of tokens allowed (4096).","status":"INVALID_ARGUMENT"}}]`, llm.ErrTooLong, "", ""},
		{"too long for Mistral", 400, `{"object":"error","message":"Prompt contains 5000 tokens and 0 draft tokens, too large for model with 4096 maximum context length","type":"invalid_request_prompt","code":null}`, llm.ErrTooLong, "", ""},
		{"more than a minute may have", 429, `{"error":{"message":"Request too large for gpt-x on tokens per min (TPM): Limit 30000, Requested 40000.","type":"tokens","code":"rate_limit_exceeded"}}`, llm.ErrTooLong, "", ""},
		{"token limit too high", 400, `{"error":{"message":"max_tokens is too large: 100000. This model supports at most 16384 completion tokens","type":"invalid_request_error","param":"max_tokens","code":"invalid_value"}}`, llm.ErrBadRequest, "", ""},
		{"too long for SGLang", 400, `{"object":"error","message":"The input (5000 tokens) is longer than the model's context length (4096 tokens).","type":"BadRequestError","code":400}`, llm.ErrTooLong, "", ""},
		{"too long for xAI", 400, `{"code":"Client specified an invalid argument","error":"This model's maximum prompt length is 131072 but the request contains 200000 tokens."}`, llm.ErrTooLong, "", ""},
		{"too long for Moonshot", 400, `{"error":{"message":"Invalid request: Your request exceeded model token limit: 8192 (requested: 9000)","type":"invalid_request_error"}}`, llm.ErrTooLong, "", ""},
		{"too long for TGI", 422, "{\"error\":{\"message\":\"Input validation error: `inputs` tokens + `max_new_tokens` must be <= 4096. Given: 5000 `inputs` tokens and 100 `max_new_tokens`\",\"type\":\"validation\"}}", llm.ErrTooLong, "", ""},
		{"too long for DashScope", 400, `{"error":{"code":"invalid_parameter_error","message":"Range of input length should be [1, 30720]","type":"invalid_request_error"}}`, llm.ErrTooLong, "", ""},
		{"too long for Z.ai", 400, `{"error":{"code":"1261","message":"Prompt exceeds max length"}}`, llm.ErrTooLong, "", ""},
		{"token limit beyond vLLM's window", 400, `{"object":"error","message":"'max_tokens' or 'max_completion_tokens' is too large: 50000. This model's maximum context length is 32768 tokens and your request has 100 input tokens (50000 > 32768 - 100).","type":"BadRequestError","code":400}`, llm.ErrBadRequest, "", ""},
		{"no room for the token limit at vLLM", 400, `{"object":"error","message":"'max_tokens' or 'max_completion_tokens' is too large: 8192. This model's maximum context length is 32768 tokens and your request has 30000 input tokens (8192 > 32768 - 30000).","type":"BadRequestError","code":400}`, llm.ErrTooLong, "", ""},
		{"thoughts took all", 400, `{"error":{"message":"Could not finish the message because max_tokens or model output limit was reached.","type":"invalid_request_error","code":null}}`, llm.ErrLength, "", ""},
		{"no JSON from the model", 400, `{"error":{"message":"Failed to generate JSON.","type":"invalid_request_error","code":"json_validate_failed"}}`, llm.ErrEmpty, "", ""},
		{"no call from the model", 400, `{"error":{"message":"Failed to call a function.","type":"invalid_request_error","code":"tool_use_failed"}}`, llm.ErrEmpty, "", ""},
		{"retired model", 400, `{"error":{"message":"The model has been decommissioned.","type":"invalid_request_error","code":"model_decommissioned"}}`, llm.ErrNoModel, "", ""},
		{"no capacity", 498, `{"error":{"message":"Flex tier capacity exceeded, try again later","type":"capacity_exceeded"}}`, llm.ErrUnavailable, "", ""},
		{"location", 400, `[{"error":{"code":400,"message":"User location is not supported for the API use.","status":"FAILED_PRECONDITION"}}]`, llm.ErrAuth, "", ""},
		{"no model", 404, `{"error":{"message":"The model does not exist","type":"invalid_request_error","code":"model_not_found"}}`, llm.ErrNoModel, "", ""},
		{"no model at Ollama", 404, `{"error":"model \"x\" not found, try pulling it first"}`, llm.ErrNoModel, "", "try pulling it first"},
		{"no model at vLLM", 404, `{"object":"error","message":"The model x does not exist.","type":"NotFoundError","code":404}`, llm.ErrNoModel, "", ""},
		{"no model at OpenRouter", 400, `{"error":{"message":"x is not a valid model ID","code":400}}`, llm.ErrNoModel, "", ""},
		{"no model at Azure", 404, `{"error":{"code":"DeploymentNotFound","message":"The API deployment for this resource does not exist."}}`, llm.ErrNoModel, "", ""},
		{"refused prompt", 400, `{"error":{"message":"Invalid prompt: your prompt was flagged as potentially violating our usage policy.","type":"invalid_request_error","code":"invalid_prompt"}}`, llm.ErrRefused, "", ""},
		{"moderation", 403, `{"error":{"message":"Your input was flagged","code":403,"metadata":{"reasons":["x"]}}}`, llm.ErrRefused, "", ""},
		{"country", 403, `{"error":{"message":"Country, region, or territory not supported","code":"unsupported_country_region_territory"}}`, llm.ErrAuth, "", ""},
		{"wrong key at Google", 400, `[{"error":{"code":400,"message":"API key not valid. Please pass a valid API key.","status":"INVALID_ARGUMENT"}}]`, llm.ErrAuth, "", ""},
		{"wrong key, whatever it says", 401, `{"error":{"message":"maximum context length","code":"invalid_api_key"}}`, llm.ErrAuth, "", ""},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			base := raw(t, tt.status, map[string]string{"X-Request-Id": "req-1"}, tt.body)
			e := failure(t, generate(t, newClient(t, openai.Config{Name: "mine", BaseURL: base}), hi()), tt.want)
			if e.Status != tt.status || e.RequestID != "req-1" || e.Provider != "mine" || e.Model != llmtest.Model {
				t.Errorf("the error is %+v", e)
			}
			if (tt.code != "" && e.Code != tt.code) || !strings.Contains(e.Message, tt.says) {
				t.Errorf("the error has the code %q and says %q, want %q and %q", e.Code, e.Message, tt.code, tt.says)
			}
		})
	}
}

// TestWrongURL checks base URLs that do not lead to an endpoint.
func TestWrongURL(t *testing.T) {
	for _, body := range []string{
		"<html><title>404 Not Found</title></html>", "404 page not found\n", `{"detail":"Not Found"}`, "",
		`{"error":{"code":404,"message":"File Not Found","type":"not_found_error"}}`, `{"error":{"code":"404","message":"Resource not found"}}`,
		`{"error":{"message":"Invalid URL (POST /chat/completions)","type":"invalid_request_error","param":null,"code":null}}`,
	} {
		base := raw(t, 404, nil, body)
		for _, tt := range []struct{ base, says string }{{base, "is base_url right?"}, {strings.TrimSuffix(base, "/v1"), "base_url probably lacks /v1"}} {
			e := failure(t, generate(t, newClient(t, openai.Config{BaseURL: tt.base}), hi()), llm.ErrBadRequest)
			if !strings.Contains(e.Message, tt.says) || !strings.Contains(e.Message, tt.base+"/chat/completions") {
				t.Errorf("of %q the error says %q, want the URL and %q", body, e.Message, tt.says)
			}
		}
	}
	// LM Studio sends it with status 200, as do many servers with web pages.
	lmStudio := raw(t, 200, nil, `{"error":"Unexpected endpoint or method. (POST /chat/completions)"}`)
	failure(t, generate(t, newClient(t, openai.Config{BaseURL: strings.TrimSuffix(lmStudio, "/v1")}), hi()), llm.ErrBadRequest)
	page := strings.TrimSuffix(raw(t, 200, nil, "<!doctype html><title>Chat</title>"), "/v1")
	if e := failure(t, generate(t, newClient(t, openai.Config{BaseURL: page}), hi()), llm.ErrUnavailable); !strings.Contains(e.Message, "base_url probably lacks /v1") {
		t.Errorf("of a page the error says %q", e.Message)
	}
}

// TestShapes sends the same faults in each shape of the server, instead of an answer and in the middle of one.
func TestShapes(t *testing.T) {
	faults := []struct {
		fault llmtest.Fault
		want  error
	}{
		{llmtest.Fault{Status: 400}, llm.ErrBadRequest},
		{llmtest.Fault{Status: 401}, llm.ErrAuth},
		{llmtest.Fault{Status: 429}, llm.ErrRateLimited},
		{llmtest.Fault{Status: 500}, llm.ErrUnavailable},
		{llmtest.Fault{Status: 503}, llm.ErrUnavailable},
		{llmtest.Fault{Kind: llmtest.Quota}, llm.ErrQuota},
		{llmtest.Fault{Kind: llmtest.TooLong}, llm.ErrTooLong},
		{llmtest.Fault{Kind: llmtest.Unknown}, llm.ErrNoModel},
	}
	for shape := range openaitest.Shapes {
		for _, f := range faults {
			for _, pieces := range [][]string{nil, {"Once"}} {
				want := f.want
				if shape == openaitest.HTML {
					if f.fault.Kind != llmtest.Plain {
						continue // a proxy does not send it
					}
					if pieces != nil {
						want = llm.ErrTruncated
					}
				}
				if shape == openaitest.Ollama && f.fault.Status == 400 && pieces != nil {
					want = llm.ErrUnavailable // the kind is not in the shape
				}
				f.fault.Shape = shape
				t.Run(fmt.Sprintf("%d %s %d after %d pieces", shape, f.fault.Kind, f.fault.Status, len(pieces)), func(t *testing.T) {
					server := openaitest.Serve(t, func(*llmtest.Call) *llmtest.Reply { return &llmtest.Reply{Pieces: pieces, Error: &f.fault} })
					failure(t, generate(t, newClient(t, openai.Config{BaseURL: server.URL + "/v1"}), hi()), want)
				})
			}
		}
	}
}

func TestRetryAfter(t *testing.T) {
	in := func(d time.Duration) string { return fmt.Sprint(time.Now().Add(d).UnixMilli()) }
	for _, tt := range []struct {
		name   string
		status int
		header map[string]string
		body   string
		want   time.Duration
		less   time.Duration // some may pass
	}{
		{"none", 429, nil, "", 0, 0},
		{"seconds", 503, map[string]string{"Retry-After": "7"}, "", 7 * time.Second, 0},
		{"millis first", 429, map[string]string{"Retry-After": "7", "Retry-After-Ms": "250"}, "", 250 * time.Millisecond, 0},
		{"header before resets", 429, map[string]string{"Retry-After": "7", "X-Ratelimit-Reset-Tokens": "9s"}, "", 7 * time.Second, 0},
		{"the limit that is reached", 429, map[string]string{"X-Ratelimit-Remaining-Requests": "0", "X-Ratelimit-Reset-Requests": "1m2s", "X-Ratelimit-Remaining-Tokens": "9", "X-Ratelimit-Reset-Tokens": "3s"}, "", 62 * time.Second, 0},
		{"both are reached", 429, map[string]string{"X-Ratelimit-Remaining-Requests": "0", "X-Ratelimit-Reset-Requests": "20ms", "X-Ratelimit-Remaining-Tokens": "0", "X-Ratelimit-Reset-Tokens": "3s"}, "", 3 * time.Second, 0},
		{"most likely tokens", 429, map[string]string{"X-Ratelimit-Reset-Requests": "8h", "X-Ratelimit-Reset-Tokens": "3s"}, "", 3 * time.Second, 0},
		{"seconds without a unit", 429, map[string]string{"X-Ratelimit-Reset": "2.5"}, "", 2500 * time.Millisecond, 0},
		{"a time", 429, map[string]string{"X-Ratelimit-Reset": in(time.Minute)}, "", time.Minute, 10 * time.Second},
		{"a time in seconds", 429, map[string]string{"X-Ratelimit-Reset": fmt.Sprint(time.Now().Add(time.Minute).Unix())}, "", time.Minute, 10 * time.Second},
		{"gone by", 429, map[string]string{"X-Ratelimit-Reset": in(-time.Minute)}, "", 0, 0},
		{"nonsense", 429, map[string]string{"X-Ratelimit-Reset": "soon"}, "", 0, 0},
		{"for ever", 429, map[string]string{"X-Ratelimit-Reset": "1e300"}, "", 24 * time.Hour, 0},
		{"for days", 429, map[string]string{"X-Ratelimit-Reset": "999h"}, "", 24 * time.Hour, 0},
		{"back in time", 503, nil, `{"error":{"code":503,"details":[{"retryDelay":"-5s"}]}}`, 0, 0},
		{"no rate limit", 500, map[string]string{"X-Ratelimit-Reset-Tokens": "3s"}, "", 0, 0},
		{"in the body", 503, nil, `{"error":{"code":503,"details":[{"@type":"type.googleapis.com/google.rpc.RetryInfo","retryDelay":"1.5s"}]}}`, 1500 * time.Millisecond, 0},
		{"in a stream", 200, map[string]string{"X-Ratelimit-Reset": "4"}, stream(`{"error":{"code":429,"message":"slow down"}}`), 4 * time.Second, 0},
	} {
		t.Run(tt.name, func(t *testing.T) {
			base := raw(t, tt.status, tt.header, tt.body)
			res := generate(t, newClient(t, openai.Config{BaseURL: base}), hi())
			var e *llm.Error
			if !errors.As(res.err, &e) || e.RetryAfter > tt.want || e.RetryAfter < tt.want-tt.less {
				t.Errorf("error %+v, want RetryAfter %v", res.err, tt.want)
			}
		})
	}
}

// TestNetwork checks calls without a response.
func TestNetwork(t *testing.T) {
	op := func(op string, err error) error {
		return &net.OpError{Op: op, Net: "tcp", Addr: &net.TCPAddr{IP: net.IPv4(127, 0, 0, 1), Port: 11434}, Err: err}
	}
	for _, tt := range []struct {
		name string
		err  error
		want string
	}{
		{"refused", op("dial", syscall.ECONNREFUSED), "connection refused: is the server at http://ollama.test:11434 running?"},
		{"name", op("dial", &net.DNSError{Err: "no such host", Name: "ollama.test", IsNotFound: true}), "no such host as ollama.test: is base_url right"},
		{"name in time", op("dial", &net.DNSError{Err: "i/o timeout", IsTimeout: true, UnwrapErr: context.DeadlineExceeded}), "no such host as ollama.test"},
		{"time", op("dial", context.DeadlineExceeded), "could not be reached in time"},
		{"proxy", op("proxyconnect", op("dial", syscall.ECONNREFUSED)), "the proxy that the environment sets"},
		{"reset", op("read", syscall.ECONNRESET), "broke off before there was an answer: read tcp 127.0.0.1:11434: connection reset by peer"},
		{"alert", op("remote error", tls.AlertError(40)), "TLS: with ollama.test:11434: remote error"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			c := newClient(t, openai.Config{BaseURL: "http://ollama.test:11434/v1", HTTPClient: &http.Client{Transport: roundTrip(func(*http.Request) (*http.Response, error) {
				return nil, tt.err
			})}})
			e := failure(t, generate(t, c, hi()), llm.ErrUnavailable)
			if !strings.Contains(e.Message, tt.want) || e.Err == nil || e.Status != 0 {
				t.Errorf("the error is %+v, want one that says %q", e, tt.want)
			}
			if errors.Is(e, context.DeadlineExceeded) {
				t.Error("the error is that of a context, which has not ended")
			}
		})
	}
}

func TestTLS(t *testing.T) {
	never := http.HandlerFunc(func(http.ResponseWriter, *http.Request) { t.Error("the request was sent") })
	secure := httptest.NewUnstartedServer(never)
	secure.Config.ErrorLog = nil
	secure.StartTLS()
	defer secure.Close()
	plain := httptest.NewServer(never)
	defer plain.Close()
	for url, want := range map[string]string{
		secure.URL: "TLS: the certificate of",
		strings.Replace(plain.URL, "http:", "https:", 1): "should base_url begin with http://?",
	} {
		e := failure(t, generate(t, newClient(t, openai.Config{BaseURL: url, Key: "sk-secret"}), hi()), llm.ErrBadRequest)
		if !strings.Contains(e.Message, want) {
			t.Errorf("the error says %q, want %q", e.Message, want)
		}
	}
}

// TestClientTimeout checks that a timeout of the given HTTP client is not mistaken for the end of the caller's context.
func TestClientTimeout(t *testing.T) {
	for _, pieces := range [][]string{nil, {"Once"}} {
		hold := make(chan struct{})
		server := openaitest.Serve(t, func(*llmtest.Call) *llmtest.Reply { return &llmtest.Reply{Pieces: pieces, Hold: hold} })
		c := newClient(t, openai.Config{BaseURL: server.URL + "/v1", HTTPClient: &http.Client{Timeout: 50 * time.Millisecond}})
		if e := failure(t, generate(t, c, hi()), llm.ErrUnavailable); errors.Is(e, context.DeadlineExceeded) {
			t.Errorf("the error %v is that of a context, which has not ended", e)
		}
		close(hold)
	}
}
