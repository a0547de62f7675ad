package gemini_test

import (
	"bytes"
	"errors"
	"io"
	"log"
	"net/http"
	"strings"
	"testing"
	"testing/iotest"

	"github.com/cortex-orchestrator/cortex/llm"
	"github.com/cortex-orchestrator/cortex/llm/gemini"
)

// printed returns what package log prints until the end of the test; it should stay empty.
func printed(t *testing.T) *bytes.Buffer {
	t.Helper()
	var b bytes.Buffer
	old := log.Writer()
	log.SetOutput(&b)
	t.Cleanup(func() { log.SetOutput(old) })
	return &b
}

func candidate(fields string) string {
	return `data: {"candidates":[{"content":{"parts":[{"text":"a."}]},` + fields + "}]}\n\n"
}

// TestStreams reads valid and invalid streams.
func TestStreams(t *testing.T) {
	crlf := func(s string) string { return strings.ReplaceAll(s, "\n", "\r\n") }
	for name, c := range map[string]struct {
		body string
		text string
		kind error  // nil: the answer is complete
		says string // in the error's message
	}{
		"plain":                     {part("a") + end, "a.", nil, ""},
		"line ends as Google's":     {crlf(part("a") + end), "a.", nil, ""},
		"no space":                  {strings.ReplaceAll(part("a")+end, "data: ", "data:"), "a.", nil, ""},
		"data over several lines":   {"data: {\"candidates\":\ndata: [{\"content\":{\"parts\":[\ndata:\ndata: {\"text\":\"a\"}]}}]}\n\n" + end, "a.", nil, ""},
		"comments and fields":       {": hello\n\nevent: x\nid: 1\nretry: 5\n" + part("a") + ":\n\nunheard: of\n\n" + end, "a.", nil, ""},
		"no empty line at the end":  {strings.TrimRight(part("a")+end, "\n"), "a.", nil, ""},
		"one line end at the end":   {strings.TrimRight(part("a")+end, "\n") + "\n", "a.", nil, ""},
		"empty data":                {"data:\n\ndata: \n\n" + part("a") + end, "a.", nil, ""},
		"empty responses":           {"data: {}\n\n" + part("a") + "data: {}\n\n" + end + "data: {}\n\n", "a.", nil, ""},
		"text behind the end":       {part("a") + end + part("b"), "a.b", nil, ""},
		"error behind the end":      {part("a") + end + "data: {\"error\":{\"code\":503,\"message\":\"x\"}}\n\n", "a.", llm.ErrUnavailable, "x"},
		"garbage behind the end":    {part("a") + end + "data: {\n\n", "a.", nil, ""},
		"closed before the end":     {part("a"), "a", llm.ErrTruncated, "without a finish reason"},
		"closed before anything":    {"", "", llm.ErrTruncated, ""},
		"closed after a comment":    {": wait\n\n", "", llm.ErrTruncated, ""},
		"closed inside of a line":   {part("a") + end[:len(end)-9], "a", llm.ErrTruncated, "unexpected EOF"},
		"closed inside of an event": {part("a") + "data: {\"candidates\":\n", "a", llm.ErrTruncated, "unexpected EOF"},
		"no candidates":             {"data: {\"usageMetadata\":{\"promptTokenCount\":3}}\n\n", "", llm.ErrEmpty, "without a candidate"},
		"candidates are empty":      {"data: {\"candidates\":[]}\n\n", "", llm.ErrEmpty, "without a candidate"},

		"error":                 {part("a") + "data: {\"error\":{\"code\":429,\"message\":\"slow down\",\"status\":\"RESOURCE_EXHAUSTED\"}}\n\n", "a", llm.ErrRateLimited, "slow down"},
		"error event":           {part("a") + "event: error\ndata: {\"error\":{\"code\":500,\"message\":\"oh\"}}\n\n", "a", llm.ErrUnavailable, "oh"},
		"error as it is":        {part("a") + "{\n  \"error\": {\n\n \"code\": 400, \"message\": \"no\", \"status\": \"INVALID_ARGUMENT\"}\n}\n", "a", llm.ErrBadRequest, "no"},
		"error in an array":     {part("a") + "[{\"error\":{\"code\":403,\"message\":\"no\",\"status\":\"PERMISSION_DENIED\"}}]", "a", llm.ErrAuth, "no"},
		"error as text":         {part("a") + "data: {\"error\":\"backend gone\"}\n\n", "a", llm.ErrUnavailable, "backend gone"},
		"error of nothing":      {part("a") + "data: {\"error\":{}}\n\n", "a", llm.ErrUnavailable, ""},
		"error with odd fields": {"data: {\"error\":{\"code\":\"no\",\"message\":\"odd\",\"details\":7}}\n\n", "", llm.ErrUnavailable, "odd"},
		"no error":              {"data: {\"error\":null}\n\n" + part("a") + end, "a.", nil, ""},
		"at once, as JSON":      {"[{\n  \"error\": {\"code\": 503, \"message\": \"overloaded\", \"status\": \"UNAVAILABLE\"}\n}]", "", llm.ErrUnavailable, "overloaded"},
		"page":                  {"<html>\n<head><title>Sign in &amp; go</title></head></html>", "", llm.ErrUnavailable, "no stream of events: Sign in & go"},
		"answer without events": {strings.TrimPrefix(end, "data: "), "", llm.ErrUnavailable, "no stream of events"},
		"no JSON":               {part("a") + "data: {oops\n\n" + end, "a", llm.ErrUnavailable, "no stream of events: {oops"},

		"values of no use":          {`data: {"candidates":[{"content":{"parts":[{"text":"a","thoughtSignature":7}]},"avgLogprobs":"NaN","citationMetadata":"x","tokenCount":"5","continuationToken":{}}],"createTime":"yesterday","modelStatus":[]}` + "\n\n" + end, "a.", nil, ""},
		"parts that are null":       {`data: {"candidates":[{"content":{"parts":[null,{"text":"a"}]}}]}` + "\n\n" + end, "a.", nil, ""},
		"candidate that is null":    {part("a") + "data: {\"candidates\":[null]}\n\n", "a", llm.ErrUnavailable, "not of the form"},
		"candidates as object":      {part("a") + "data: {\"candidates\":{}}\n\n", "a", llm.ErrUnavailable, ""},
		"text as number":            {part("a") + `data: {"candidates":[{"content":{"parts":[{"text":7}]}}]}` + "\n\n", "a", llm.ErrUnavailable, "not of the form"},
		"another candidate":         {`data: {"candidates":[{"index":1,"content":{"parts":[{"text":"b"}]},"finishReason":"STOP"}]}` + "\n\n" + part("a") + end, "a.", nil, ""},
		"only another candidate":    {`data: {"candidates":[{"index":1,"content":{"parts":[{"text":"b"}]},"finishReason":"STOP"}]}` + "\n\n", "", llm.ErrEmpty, ""},
		"only white space":          {part(` \n`) + candidateOf(`{"text":" "}`, "STOP"), " \n ", llm.ErrEmpty, "no text"},
		"unspecified":               {candidate(`"finishReason":"FINISH_REASON_UNSPECIFIED"`), "a.", llm.ErrTruncated, ""},
		"to be continued":           {candidate(`"finishReason":"CONTINUATION","continuationToken":"dG9rZW4="`), "a.", llm.ErrTruncated, "the rest"},
		"length":                    {candidate(`"finishReason":"MAX_TOKENS"`), "a.", llm.ErrLength, "token limit"},
		"safety":                    {candidate(`"finishReason":"SAFETY","finishMessage":"too spicy"`), "a.", llm.ErrRefused, "too spicy"},
		"recitation":                {candidate(`"finishReason":"RECITATION"`), "a.", llm.ErrRefused, ""},
		"language":                  {candidate(`"finishReason":"LANGUAGE"`), "a.", llm.ErrRefused, ""},
		"blocklist":                 {candidate(`"finishReason":"BLOCKLIST"`), "a.", llm.ErrRefused, ""},
		"prohibited":                {candidate(`"finishReason":"PROHIBITED_CONTENT"`), "a.", llm.ErrRefused, ""},
		"personal data":             {candidate(`"finishReason":"SPII"`), "a.", llm.ErrRefused, ""},
		"model armor":               {candidate(`"finishReason":"MODEL_ARMOR"`), "a.", llm.ErrRefused, ""},
		"malformed call":            {candidate(`"finishReason":"MALFORMED_FUNCTION_CALL","finishMessage":"print("`), "a.", llm.ErrEmpty, "print("},
		"unexpected call":           {candidate(`"finishReason":"UNEXPECTED_TOOL_CALL"`), "a.", llm.ErrEmpty, ""},
		"unreadable response":       {candidate(`"finishReason":"MALFORMED_RESPONSE"`), "a.", llm.ErrEmpty, "cannot be read"},
		"no image":                  {candidate(`"finishReason":"NO_IMAGE"`), "a.", llm.ErrTruncated, ""},
		"other image":               {candidate(`"finishReason":"IMAGE_OTHER"`), "a.", llm.ErrTruncated, ""},
		"a filter of tomorrow":      {candidate(`"finishReason":"AUDIO_SAFETY"`), "a.", llm.ErrRefused, "filter"},
		"a filter, in small":        {candidate(`"finishReason":"safety"`), "a.", llm.ErrRefused, "filter"},
		"a filter, without text":    {candidateOf("", "SAFETY"), "", llm.ErrRefused, "filter"},
		"signatures":                {candidate(`"finishReason":"MISSING_THOUGHT_SIGNATURE"`), "a.", llm.ErrBadRequest, "signatures"},
		"never seen, with text":     {candidate(`"finishReason":"GREW_TIRED"`), "a.", nil, ""},
		"never seen, without":       {candidateOf("", "GREW_TIRED"), "", llm.ErrEmpty, ""},
		"other, with text":          {candidate(`"finishReason":"OTHER"`), "a.", llm.ErrTruncated, "the endpoint ended"},
		"other, without":            {candidateOf("", "OTHER"), "", llm.ErrEmpty, ""},
		"prompt blocked":            {`data: {"promptFeedback":{"blockReason":"SAFETY","blockReasonMessage":"too hot"}}` + "\n\n", "", llm.ErrRefused, "too hot"},
		"prompt not blocked":        {`data: {"promptFeedback":{"blockReason":"BLOCKED_REASON_UNSPECIFIED"}}` + "\n\n" + part("a") + end, "a.", nil, ""},
		"a call nobody asked for":   {`data: {"candidates":[{"content":{"parts":[{"functionCall":{"name":"f"}}]},"finishReason":"STOP"}]}` + "\n\n", "", llm.ErrEmpty, ""},
		"thoughts and unknown ones": {`data: {"candidates":[{"content":{"parts":[{"text":"hm","thought":true},{"hologram":{}},{"thoughtSignature":"eA=="},{"text":"a"}]}}]}` + "\n\n" + end, "a.", nil, ""},
	} {
		t.Run(name, func(t *testing.T) {
			logged := printed(t)
			calls := 0
			serve := says(200, nil, strings.NewReader(c.body))
			client := asking(t, func(r *http.Request) (*http.Response, error) {
				calls++
				return serve(r)
			})
			text, done, err := ask(t.Context(), client, hello())
			if text != c.text {
				t.Errorf("text = %q, want %q", text, c.text)
			}
			if calls != 1 {
				t.Errorf("the server got %d calls, want 1", calls)
			}
			if logged.Len() > 0 {
				t.Errorf("package log printed %q", logged)
			}
			if c.kind == nil {
				if err != nil || !done.Done || done.Model != "m-1" && done.Model != "m" {
					t.Errorf("the answer ends with %+v, error %v, want Done", done, err)
				}
				return
			}
			if e := asError(t, err, c.kind); !strings.Contains(e.Message, c.says) {
				t.Errorf("the error says %q, want %q in it", e.Message, c.says)
			}
		})
	}
}

// candidateOf returns an event with one part and a finish reason.
func candidateOf(part, finish string) string {
	return `data: {"candidates":[{"content":{"parts":[` + part + `]},"finishReason":"` + finish + "\"}]}\n\n"
}

// TestBrokenBody breaks the connection.
func TestBrokenBody(t *testing.T) {
	reset := errors.New("connection reset by peer")
	for name, c := range map[string]struct {
		before string
		kind   error
	}{
		"at once":               {"", llm.ErrTruncated},
		"between two events":    {part("a"), llm.ErrTruncated},
		"inside of an event":    {part("a") + `data: {"candi`, llm.ErrTruncated},
		"before the empty line": {strings.TrimSpace(part("a")), llm.ErrTruncated},
		"after the end":         {part("a") + end, nil},
	} {
		t.Run(name, func(t *testing.T) {
			logged := printed(t)
			body := io.MultiReader(strings.NewReader(c.before), iotest.ErrReader(reset))
			text, done, err := ask(t.Context(), asking(t, says(200, nil, body)), hello())
			if want := strings.Contains(c.before, `"a"`); strings.HasPrefix(text, "a") != want {
				t.Errorf("text = %q", text)
			}
			if c.kind == nil {
				if err != nil || !done.Done {
					t.Errorf("ends with %+v, %v, want Done", done, err)
				}
			} else if asError(t, err, c.kind); !errors.Is(err, reset) {
				t.Errorf("the error %v does not wrap the cause", err)
			}
			if logged.Len() > 0 {
				t.Errorf("package log printed %q", logged)
			}
		})
	}
}

// TestBounds checks that no answer, event or error is unbounded.
func TestBounds(t *testing.T) {
	kilobyte := strings.Repeat("x", 1<<10)
	piece := part(strings.Repeat(kilobyte, 1<<10))
	for name, c := range map[string]struct {
		status int
		body   func() io.Reader
		kind   error
		most   int // bytes that may be read
	}{
		"line":    {200, func() io.Reader { return io.MultiReader(strings.NewReader("data: "), forever("x")) }, llm.ErrUnavailable, 5 << 20},
		"comment": {200, func() io.Reader { return io.MultiReader(strings.NewReader(": "), forever("x")) }, llm.ErrUnavailable, 5 << 20},
		"event":   {200, func() io.Reader { return forever("data: " + kilobyte + "\n") }, llm.ErrUnavailable, 5 << 20},
		"answer":  {200, func() io.Reader { return forever(piece) }, llm.ErrUnavailable, 33 << 20},
		"waiting": {200, func() io.Reader { return forever(": " + kilobyte + "\n\n") }, llm.ErrUnavailable, 33 << 20},
		"page":    {200, func() io.Reader { return forever("<p>") }, llm.ErrUnavailable, 5 << 20},
		"error":   {500, func() io.Reader { return forever("<p>\n") }, llm.ErrUnavailable, 1 << 20},
	} {
		t.Run(name, func(t *testing.T) {
			body := &counter{r: c.body()}
			_, _, err := ask(t.Context(), asking(t, says(c.status, nil, body)), hello())
			asError(t, err, c.kind)
			if body.n > c.most {
				t.Errorf("%d bytes were read, want at most %d", body.n, c.most)
			}
			if len(err.Error()) > 1000 {
				t.Errorf("the error has %d bytes", len(err.Error()))
			}
		})
	}
}

type forever string

func (f forever) Read(p []byte) (int, error) {
	n := copy(p, f)
	for n > 0 && n < len(p) {
		m := copy(p[n:], f)
		n += m
	}
	return n, nil
}

type counter struct {
	r io.Reader
	n int
}

func (c *counter) Read(p []byte) (int, error) {
	n, err := c.r.Read(p)
	c.n += n
	return n, err
}

// TestCallersPanic checks that a panic in the loop's body is not caught.
func TestCallersPanic(t *testing.T) {
	c := asking(t, says(200, nil, strings.NewReader(part("a")+end)))
	defer func() {
		if p := recover(); p != "mine" {
			t.Errorf("recovered %v, want what the loop panicked with", p)
		}
	}()
	for range c.Generate(t.Context(), hello()) {
		panic("mine")
	}
}

// TestUsage checks that the last counts of tokens are used.
func TestUsage(t *testing.T) {
	body := `data: {"usageMetadata":{"promptTokenCount":900,"candidatesTokenCount":900}}` + "\n\n" + part("a") +
		`data: {"usageMetadata":{"promptTokenCount":10,"toolUsePromptTokenCount":5,"cachedContentTokenCount":4,"candidatesTokenCount":3,"thoughtsTokenCount":2,"totalTokenCount":20}}` + "\n\n"
	want := llm.Usage{Input: 15, Cached: 4, Output: 5, Reasoning: 2}
	if _, done, err := ask(t.Context(), asking(t, says(200, nil, strings.NewReader(body+end))), hello()); err != nil || done.Usage != want {
		t.Errorf("usage = %+v, %v, want %+v", done.Usage, err, want)
	}
	_, _, err := ask(t.Context(), asking(t, says(200, nil, strings.NewReader(body))), hello())
	if got := llm.UsageOf(err); !errors.Is(err, llm.ErrTruncated) || got != want {
		t.Errorf("usage of the cut answer = %+v, %v, want %+v", got, err, want)
	}
	body = `data: {"usageMetadata":{"promptTokenCount":-10,"cachedContentTokenCount":40,"candidatesTokenCount":-3}}` + "\n\n"
	if _, done, err := ask(t.Context(), asking(t, says(200, nil, strings.NewReader(body+end))), hello()); err != nil || done.Usage != (llm.Usage{}) {
		t.Errorf("usage = %+v, %v, want none", done.Usage, err)
	}
}

// TestArguments checks that the arguments of a call are unchanged, in their order and their numbers.
func TestArguments(t *testing.T) {
	tools := func(cfg *gemini.Config) { cfg.Structured = llm.StructuredTools }
	r := hello()
	r.Schema = llm.DecisionSchema(&llm.Turn{})
	call := func(args string) string {
		return `data: {"candidates":[{"content":{"parts":[{"text":"I call. "},{"functionCall":{"name":"decide"` + args + `}}]},"finishReason":"STOP"}]}` + "\n\n"
	}
	for args, want := range map[string]string{
		`, "args": {"kind": "respond", "b": 12345678901234567890, "a": "<&>"}`: `{"kind":"respond","b":12345678901234567890,"a":"<&>"}`,
		``:               `{}`,
		`, "args": null`: `{}`,
		`, "args": {}`:   `{}`,
		`, "args": [7]`:  `[7]`, // no decision, which the caller notices
	} {
		if text, done, err := ask(t.Context(), asking(t, says(200, nil, strings.NewReader(call(args)+part("and more"))), tools), r); text != want || !done.Done {
			t.Errorf("arguments %q: text = %q, Done %v, error %v, want %q", args, text, done.Done, err, want)
		}
	}
}
