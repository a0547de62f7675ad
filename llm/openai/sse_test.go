package openai

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"io"
	"net/http"
	"strings"
	"testing"
	"testing/iotest"

	"github.com/google/go-cmp/cmp"

	"github.com/cortex-orchestrator/cortex/llm"
)

const (
	hello  = `{"choices":[{"index":0,"delta":{"content":"Hel"}}]}`
	world  = `{"choices":[{"index":0,"delta":{"content":"lo."}}]}`
	finish = `{"choices":[{"index":0,"delta":{},"finish_reason":"stop"}]}`
)

// alive is the frame of a keep-alive.
const alive = `{"choices":[]}`

// frames returns a stream.
func frames(data ...string) string {
	var b strings.Builder
	for _, d := range data {
		b.WriteString("data: " + d + "\n\n")
	}
	return b.String()
}

func repaired(body io.Reader) (string, error) {
	return drained(newRepair(io.NopCloser(body), new(chatFormat), http.Header{}, "http://localhost/v1/chat/completions"))
}

// drained returns the parts of an answer as a stream.
func drained(r *repair) (string, error) {
	var out strings.Builder
	for {
		p, err := r.next()
		if errors.Is(err, io.EOF) {
			return out.String() + frames("[DONE]"), nil
		}
		if err != nil {
			return out.String(), err
		}
		data, err := json.Marshal(p)
		if err != nil {
			panic(err)
		}
		out.WriteString(frames(string(data)))
	}
}

func TestRepair(t *testing.T) {
	whole := frames(hello, world, finish, "[DONE]")
	odd := func(choice, rest string) string {
		return frames(`{"choices":[{"index":0,`+choice+`}]`+rest+`}`, "[DONE]")
	}
	hi := odd(`"delta":{"content":"Hi"}`, "")
	heavy := `{"choices":[` + strings.Repeat("{},", 300_000) + `{}]}`
	tests := []struct {
		name, body string
		want       string
		err        error  // the kind
		says       string // in its message
	}{
		{name: "as it should be", body: whole, want: whole},
		{name: "comments", body: ": hi\n\n:\n\n" + strings.Repeat(": PROCESSING\n\n", 1000) + whole, want: strings.Repeat(frames(alive), 1002) + whole},
		{name: "other fields", body: "id: 1\nretry: 5\nevent: message\nmood: good\n" + whole, want: whole},
		{name: "byte order mark", body: "\ufeff" + whole, want: whole},
		{name: "blank lines first", body: "\n\r\n  \n" + whole, want: whole},
		{name: "no space behind data", body: strings.ReplaceAll(whole, "data: ", "data:"), want: whole},
		{name: "CRLF", body: strings.ReplaceAll(whole, "\n", "\r\n"), want: whole},
		{name: "CR", body: strings.ReplaceAll(whole, "\n", "\r"), want: whole},
		{name: "no empty lines", body: strings.ReplaceAll(whole, "\n\n", "\n"), want: whole},
		{name: "spaces around", body: strings.ReplaceAll(whole, "\n\n", " \t\n\n"), want: whole},
		{name: "several data lines", body: "data: {\ndata: \"choices\": [\ndata:  ]}\n\n" + whole, want: frames(`{"choices":[]}`) + whole},
		{name: "several data lines and no end", body: whole[:len(whole)-len("data: [DONE]\n\n")] + "data: {\ndata: \"a\"", want: whole},
		{name: "empty data", body: "data:\n\ndata: \n\n" + whole, want: whole},
		{name: "unknown events", body: "event: ping\ndata: {\"type\":\"ping\"}\n\nevent: pong\ndata: pong\n\ndata: 7\n\n" + whole, want: frames(alive, alive, alive) + whole},
		{name: "usage without choices", body: frames(`{"usage":{}}`) + whole, want: frames(`{"choices":[],"usage":{}}`) + whole},
		{name: "behind the end", body: whole + frames(`{"error":{"message":"late"}}`), want: whole},
		{name: "no end mark", body: frames(hello, finish), want: frames(hello, finish, "[DONE]")},
		{name: "no end mark and no line end", body: strings.TrimSpace(frames(hello, finish)), want: frames(hello, finish, "[DONE]")},
		{name: "no reason", body: frames(hello, "[DONE]"), want: frames(hello, "[DONE]")},
		{name: "empty reason", body: frames(`{"choices":[{"finish_reason":""}]}`), want: frames(`{"choices":[{"index":0,"delta":{}}]}`), err: llm.ErrTruncated},
		{name: "error of the wrong type", body: frames(`{"choices":[],"error":null}`, `{"choices":[],"error":""}`) + whole, want: frames(alive, alive) + whole},

		{name: "no error, said first", body: frames(`{"error":null,`+hello[1:], `{"error":null,`+finish[1:], "[DONE]"), want: frames(hello, finish, "[DONE]")},
		{name: "time as a fraction", body: odd(`"delta":{"content":"Hi"}`, `,"created":1763600000.25`), want: hi},
		{name: "id as a number", body: odd(`"delta":{"content":"Hi"}`, `,"id":7,"system_fingerprint":1`), want: hi},
		{name: "list of probabilities", body: odd(`"delta":{"content":"Hi"},"logprobs":[]`, ""), want: hi},
		{name: "index as text", body: frames(`{"choices":[{"index":"0","delta":{"content":"Hi"}}]}`, "[DONE]"), want: hi},
		{name: "tokens as fractions", body: odd(`"delta":{"content":"Hi"}`, `,"usage":{"prompt_tokens":10.0,"completion_tokens":"1","total_tokens":null}`), want: odd(`"delta":{"content":"Hi"}`, `,"usage":{"prompt_tokens":10,"completion_tokens":1}`)},
		{name: "content in parts", body: odd(`"delta":{"content":[{"type":"thinking","thinking":[{"type":"text","text":"hm"}]},{"type":"text","text":"H"},{"type":"text","text":"i"}]}`, ""), want: hi},

		{name: "a heavy frame", body: frames(hello, heavy) + whole, want: frames(hello), err: llm.ErrTruncated, says: "too big"},
		{name: "a heavy frame in lines", body: frames(hello) + strings.ReplaceAll(frames(heavy), "},{}", "},\ndata: {}") + whole, want: frames(hello), err: llm.ErrTruncated, says: "too big"},
		{name: "heavy frames in a line", body: frames(hello) + strings.Repeat(`data: {"choices":[{},{},{},{},{},{},{},{},{},{}]}`+"\r", 20_000) + "\n" + whole, want: frames(hello), err: llm.ErrTruncated, says: "too big"},
		{name: "a heavy answer", body: heavy, err: llm.ErrTruncated, says: "too big"},
		{name: "comments in a line", body: strings.Repeat(":\r", 200_000) + "\n" + whole, want: frames(alive) + whole},

		{name: "cut", body: frames(hello, world), want: frames(hello, world), err: llm.ErrTruncated, says: "after 2 frames"},
		{name: "cut in a frame", body: frames(hello) + `data: {"choices":[{"ind`, want: frames(hello), err: llm.ErrTruncated},
		{name: "cut in a word", body: frames(hello) + "dat", want: frames(hello), err: llm.ErrTruncated},
		{name: "empty body", body: "", err: llm.ErrTruncated, says: "no body"},
		{name: "blank body", body: "\n \n", err: llm.ErrTruncated, says: "no body"},
		{name: "comments alone", body: ": hi\n\n", want: frames(alive), err: llm.ErrTruncated},
		{name: "text", body: "upstream connect error", err: llm.ErrUnavailable, says: "upstream connect error"},
		{name: "text in a frame", body: "data: upstream connect error\n\n", want: frames(alive), err: llm.ErrUnavailable, says: "upstream connect error"},
		{name: "text behind frames", body: frames(hello) + "data: worker died\n\n", want: frames(hello, alive), err: llm.ErrTruncated, says: "worker died"},
		{name: "broken frame", body: frames(hello) + "data: {\"choices\":[}\n\n" + whole, want: frames(hello), err: llm.ErrUnavailable, says: "no JSON"},

		{name: "error", body: frames(hello, `{"error":{"message":"it broke","type":"server_error","param":null,"code":null}}`), want: frames(hello), err: llm.ErrUnavailable, says: "it broke"},
		{name: "error with spaces", body: `data:  {  "error" : { "message" : "it broke" } }` + "\n\n", err: llm.ErrUnavailable, says: "it broke"},
		{name: "error behind a comment", body: ": PROCESSING\n\n" + frames(`{"error":{"message":"it broke","code":502}}`), want: frames(alive), err: llm.ErrUnavailable, says: "it broke"},
		{name: "error event", body: "event: error\n" + frames(`{"error":{"message":"slow down","code":429}}`), err: llm.ErrRateLimited, says: "slow down"},
		{name: "error event with words", body: frames(hello) + "event: error\ndata: rate limit reached\n\n", want: frames(hello), err: llm.ErrRateLimited, says: "reached"},
		{name: "error event with words and no end", body: "event: error\ndata: it broke", err: llm.ErrUnavailable, says: "it broke"},
		{name: "error event with a message", body: frames(hello) + "event: error\n" + frames(`{"message":"it broke"}`), want: frames(hello), err: llm.ErrUnavailable, says: "it broke"},
		{name: "error of two data lines", body: "data: {\"error\":\ndata: {\"message\":\"it broke\"}}\n\n", err: llm.ErrUnavailable, says: "it broke"},
		{name: "error as text", body: frames(`{"error":"it broke"}`, "[DONE]"), err: llm.ErrUnavailable, says: "it broke"},
		{name: "error object", body: frames(`{"object":"error","message":"it broke","type":"BadRequestError","code":400}`, "[DONE]"), err: llm.ErrBadRequest, says: "it broke"},
		{name: "error type", body: frames(`{"type":"error","error":{"type":"overloaded_error","message":"Overloaded"}}`), err: llm.ErrUnavailable, says: "Overloaded"},
		{name: "error in a list", body: frames(`[{"error":{"code":503,"message":"it broke","status":"UNAVAILABLE"}}]`), err: llm.ErrUnavailable, says: "it broke"},
		{name: "error beside choices", body: frames(hello, `{"error":{"code":429,"message":"slow down"},"choices":[{"index":0,"delta":{"content":""},"finish_reason":"error"}]}`, "[DONE]"), want: frames(hello), err: llm.ErrRateLimited, says: "slow down"},
		{name: "error in a choice", body: frames(`{"choices":[{"index":0,"delta":{"content":""},"finish_reason":"error","error":{"code":502,"message":"it broke"}}]}`), err: llm.ErrUnavailable, says: "it broke"},
		{name: "error as the reason", body: frames(hello, `{"choices":[{"index":0,"delta":{},"finish_reason":"error"}]}`, "[DONE]"), want: frames(hello), err: llm.ErrUnavailable, says: "with an error"},
		{name: "error outside of a frame", body: frames(hello) + `{"error":{"message":"it broke"}}` + "\n", want: frames(hello), err: llm.ErrUnavailable, says: "it broke"},
		{name: "error as a body", body: "{\n  \"error\": {\n \"message\": \"it broke\"}\n}\n", err: llm.ErrUnavailable, says: "it broke"},
		{name: "error as a list as a body", body: "[{\n  \"error\": {\n \"message\": \"it broke\", \"code\": 400}\n}]\n", err: llm.ErrBadRequest, says: "it broke"},
		{name: "detail as a body", body: `{"detail":"it broke"}`, err: llm.ErrUnavailable, says: "it broke"},
		{name: "page", body: "\n<!DOCTYPE html>\n<html><head>\n<title>Log in &amp; go</title>", err: llm.ErrUnavailable, says: "(Log in & go)"},
		{name: "page in a stream", body: frames(hello) + "<html>\n<title>502</title></html>", want: frames(hello), err: llm.ErrTruncated, says: "<title>502</title>"},
		{name: "cut object", body: `{"choices":[{"ind`, err: llm.ErrTruncated},
		{name: "broken object", body: `{"choices":[}`, err: llm.ErrUnavailable, says: "no JSON"},
		{name: "object that breaks late", body: "{\"start\":\n" + strings.Repeat(" ", 40<<10) + "]", err: llm.ErrUnavailable, says: `{"start":`},
		{name: "empty object", body: `{}`, err: llm.ErrUnavailable},

		{
			name: "whole answer", want: frames(`{"model":"m","choices":[{"index":0,"delta":{"content":"Hello."},"finish_reason":"stop"}],"usage":{"total_tokens":3}}`, "[DONE]"),
			body: "{\"model\": \"m\",\n\"object\":\"chat.completion\",\"choices\":[{\"index\":0,\"message\":{\"content\":\"Hello.\"},\"finish_reason\":\"stop\"}],\"usage\":{\"total_tokens\":3}}",
		},
		{name: "whole answer without choices", body: `{"object":"chat.completion","choices":[]}`, want: frames(alive, "[DONE]")},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			for _, r := range []io.Reader{strings.NewReader(tt.body), iotest.OneByteReader(strings.NewReader(tt.body)), iotest.DataErrReader(strings.NewReader(tt.body))} {
				got, err := repaired(r)
				if diff := cmp.Diff(tt.want, got); diff != "" {
					t.Errorf("repaired (-want +got):\n%s", diff)
				}
				var e *llm.Error
				switch {
				case tt.err == nil:
					if err != nil {
						t.Errorf("repair of %q = error %v", tt.body, err)
					}
				case !errors.As(err, &e) || !errors.Is(err, tt.err):
					t.Errorf("repair of %q = error %v, want %v", tt.body, err, tt.err)
				case !strings.Contains(e.Message, tt.says):
					t.Errorf("repair of %q says %q, want %q in it", tt.body, e.Message, tt.says)
				}
			}
		})
	}
}

// TestRepairReaderFails checks a connection that breaks, or is cancelled, instead of ending.
func TestRepairReaderFails(t *testing.T) {
	broken := errors.New("connection reset by peer")
	for _, tt := range []struct {
		name, body string
		err        error
		want       error
	}{
		{"broken", frames(hello), broken, llm.ErrTruncated},
		{"broken in a frame", frames(hello) + "data: {", broken, llm.ErrTruncated},
		{"broken at once", "", broken, llm.ErrTruncated},
		{"broken in an object", `{"choices"`, broken, llm.ErrTruncated},
		{"broken behind the reason", frames(hello, finish), broken, nil},
		{"canceled", frames(hello), context.Canceled, context.Canceled},
		{"canceled behind the reason", frames(hello, finish), context.Canceled, nil}, // of the caller's context, Generate knows
		{"canceled in an object", `{"choices"`, context.Canceled, context.Canceled},
		{"deadline", frames(hello), context.DeadlineExceeded, context.DeadlineExceeded},
	} {
		t.Run(tt.name, func(t *testing.T) {
			_, err := repaired(io.MultiReader(strings.NewReader(tt.body), iotest.ErrReader(tt.err)))
			if !errors.Is(err, tt.want) {
				t.Errorf("error %v, want %v", err, tt.want)
			}
			if isContext := errors.Is(tt.err, tt.want); errors.Is(err, llm.ErrTruncated) == isContext && tt.want != nil {
				t.Errorf("error %v; is it the end of a context: %t", err, isContext)
			}
			if tt.want == llm.ErrTruncated && !errors.Is(err, broken) {
				t.Errorf("error %v does not wrap its cause", err)
			}
		})
	}
}

// endless is a body without an end.
type endless struct {
	start string
	piece []byte
	read  int
}

func (e *endless) Read(p []byte) (int, error) {
	if e.start != "" {
		n := copy(p, e.start)
		e.start = e.start[n:]
		return n, nil
	}
	n := copy(p, e.piece)
	e.read += n
	return n, nil
}

func TestRepairBounds(t *testing.T) {
	const small = 1 << 20 // instead of the bound of a body
	x := bytes.Repeat([]byte("x"), 4096)
	for _, tt := range []struct {
		name  string
		body  *endless
		bound int
	}{
		{"line", &endless{start: frames(hello) + "data: {", piece: x}, maxLine},
		{"field name", &endless{start: frames(hello), piece: x}, maxLine},
		{"comment", &endless{start: frames(hello) + ":", piece: x}, maxLine},
		{"data lines", &endless{start: frames(hello) + "data: {\n", piece: []byte("data: xxxxxxxxxxxxxxxxxxxxxxxxxxxx\n")}, 2 * maxLine},
		{"object", &endless{start: "{\n\"a\":\"", piece: x}, maxLine},
		{"comments", &endless{start: frames(hello), piece: []byte(":xxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxx\n\n")}, small},
		{"blank lines", &endless{start: frames(hello), piece: bytes.Repeat([]byte("\n"), 4096)}, small},
	} {
		t.Run(tt.name, func(t *testing.T) {
			r := newRepair(io.NopCloser(tt.body), new(chatFormat), http.Header{}, "")
			if r.limit.N != maxBody {
				t.Fatalf("the bound of a body is %d, want %d", r.limit.N, maxBody)
			}
			r.limit.N = int64(tt.bound) + maxLine // the rest would take long
			if tt.bound == small {
				r.limit.N = small
			}
			_, err := drained(r)
			kind := llm.ErrTruncated
			if tt.bound == small {
				kind = llm.ErrLength
			}
			if !errors.Is(err, kind) || !errors.Is(err, errTooBig) {
				t.Errorf("error %v, want %v and %v", err, kind, errTooBig)
			}
			if most := tt.bound + 64<<10; tt.body.read > most {
				t.Errorf("%d bytes were read, at most %d should be", tt.body.read, most)
			}
		})
	}
}

// TestRepairAtOnce checks that a frame is passed on as soon as it is complete.
func TestRepairAtOnce(t *testing.T) {
	in, out := io.Pipe()
	defer out.Close()
	r := newRepair(in, new(chatFormat), http.Header{}, "")
	for range 3 {
		go out.Write([]byte("data: " + hello + "\n")) // the empty line comes with the next frame
		p, err := r.next()
		if got, _ := json.Marshal(p); err != nil || string(got) != hello {
			t.Fatalf("next = %q, %v", got, err)
		}
	}
}

// FuzzRepair checks for arbitrary bodies that reading ends, that the result consists of frames that the SDK can read, and that only a complete answer
// ends without an error.
func FuzzRepair(f *testing.F) {
	for _, seed := range []string{
		frames(hello, world, finish, "[DONE]"), frames(hello), frames(finish), "data: {\ndata: }\n\n", `{"error":{"message":"x"}}`, `[{"error":"x"}]`,
		"event: error\ndata: x\n\n", ": c\rdata: {}\r\n\r\n", "<html><title>x</title>", "\ufeffdata: [DONE]", `{"choices":[{"message":{"content":"x"}}]}`,
		`data: {"choices":[{"finish_reason":"error"}]}`, "data: [[[[", "data: \x00\xff\n\n", `{"error":{"details":[{"retryDelay":"1s"}],"code":429}}`,
	} {
		f.Add([]byte(seed), uint8(0))
		f.Add([]byte(seed), uint8(1))
	}
	f.Fuzz(func(t *testing.T, body []byte, step uint8) {
		var in io.Reader = bytes.NewReader(body)
		if step > 0 {
			in = &steps{r: in, n: int(step)}
		}
		out, err := repaired(in)
		var failed *llm.Error
		if err != nil && (!errors.As(err, &failed) || failed.Kind == nil) {
			t.Fatalf("error %T %v, want an *llm.Error", err, err)
		}
		ended, reason := false, false
		for frame := range strings.SplitSeq(strings.TrimSuffix(out, "\n\n"), "\n\n") {
			data, ok := strings.CutPrefix(frame, "data: ")
			switch {
			case frame == "" && out == "":
			case !ok || ended || strings.ContainsAny(data, "\r\n"):
				t.Fatalf("frame %q of %q", frame, out)
			case data == "[DONE]":
				ended = true
			case !json.Valid([]byte(data)) || data[0] != '{':
				t.Fatalf("frame %q is no object", frame)
			default:
				reason = reason || strings.Contains(strings.ToLower(data), "finish_reason") || strings.Contains(data, `\u`)
			}
		}
		if ended != (err == nil) {
			t.Fatalf("[DONE]: %t, error %v", ended, err)
		}
		if ended && !reason && !bytes.Contains(body, []byte("[DONE]")) && !isObject(body) {
			t.Fatalf("%q ends well as %q", body, out)
		}
	})
}

// isObject reports whether body is a whole answer.
func isObject(body []byte) bool {
	body = bytes.TrimSpace(bytes.TrimPrefix(bytes.TrimLeft(body, " \t\r\n\v\f"), []byte("\ufeff")))
	return len(body) > 0 && body[0] == '{'
}

// steps reads n bytes at a time.
type steps struct {
	r io.Reader
	n int
}

func (s *steps) Read(p []byte) (int, error) { return s.r.Read(p[:min(len(p), s.n)]) }
