package vertex

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"runtime"
	"strings"
	"testing"
	"testing/iotest"

	"github.com/cortex-orchestrator/cortex/llm"
)

// FuzzArray checks that for any response there is no panic, one end, and success only with the end of the array and a finish reason. The boundaries
// of reads make no difference.
func FuzzArray(f *testing.F) {
	for _, seed := range []string{
		`[{"candidates":[{"content":{"parts":[{"text":"hi"}]},"finishReason":1}],"usageMetadata":{"promptTokenCount":3}}]`,
		"[{\"candidates\": [{\"content\": {\"role\": \"model\", \"parts\": [{\"text\": \"a\"}]}}]}\r\n,\r\n{\"candidates\": [{\"finishReason\": \"STOP\"}]}\n]",
		`[{"candidates":[{"content":{"parts":[{"functionCall":{"name":"decide","args":{"kind":"respond","say":"x"}}}]},"finishReason":1}]}]`,
		`[{"candidates":[{"content":{"parts":[{"thoughtSignature":"QUJD"},{"executableCode":{"language":1,"code":"x"}},{"text":"x","thought":true}]}}]}]`,
		`[{"error":{"code":429,"message":"m","status":"RESOURCE_EXHAUSTED","details":[{"@type":"type.googleapis.com/google.rpc.RetryInfo","retryDelay":"2s"}]}}]`,
		`[{"promptFeedback":{"blockReason":4}}]`,
		`[{"CANDIDATES":[{"finishReason":"BORED"}]}]`, `[{"candidates":[null]}]`, `[null]`, `[[]]`, `{}`, `[`, `]`, `[,]`, `[{}`, `[{},`, "\n", "[" + strings.Repeat("[", 50),
		`[{"candidates":[{"finishReason":1}]}`, `[{"candidates":[{"citationMetadata":{"citations":[{"publicationDate":{"year":99999}}]},"finishReason":1}]}]`,
	} {
		f.Add([]byte(seed))
	}
	var answer roundTrip
	var clients []*Client
	for _, mode := range []llm.Structured{llm.StructuredSchema, llm.StructuredTools} {
		clients = append(clients, stubbed(f, mode, func(r *http.Request) (*http.Response, error) { return answer(r) }))
	}
	f.Fuzz(func(t *testing.T, body []byte) {
		for _, c := range clients {
			answer = answers(func(r io.Reader) io.Reader { return r }, body)
			text, done, err := generate(c)
			answer = answers(iotest.OneByteReader, body)
			slowText, slowDone, slowErr := generate(c)
			if text != slowText || done != slowDone || fmt.Sprint(err) != fmt.Sprint(slowErr) {
				t.Fatalf("at once %q, %v, %v; byte by byte %q, %v, %v", text, done, err, slowText, slowDone, slowErr)
			}
			if done == (err != nil) {
				t.Fatalf("Done is %v and the error %v", done, err)
			}
			if err != nil {
				var failed *llm.Error
				if !errors.As(err, &failed) {
					t.Fatalf("the error is a %T: %v", err, err)
				}
				continue
			}
			var whole []struct {
				Candidates []struct{ FinishReason any }
			}
			if err := json.NewDecoder(bytes.NewReader(body)).Decode(&whole); err != nil {
				t.Fatalf("Done, but the array has no end: %v", err)
			}
			finished := false
			for _, m := range whole {
				finished = finished || len(m.Candidates) > 0 && m.Candidates[0].FinishReason != nil
			}
			if !finished || text == "" {
				t.Fatalf("Done with %q, but without a reason", text)
			}
		}
	})
}

// TestMessageBound checks that a message that is too large ends the answer before it is completely in memory.
func TestMessageBound(t *testing.T) {
	body := []byte(`[{"candidates":[{"content":{"parts":[{"text":"hi"}]}}]},` + strings.Repeat(" ", 2*maxFrame))
	var read int
	text, done, err := generate(stubbed(t, "", answers(counting(&read), body)))
	if text != "hi" || done || !errors.Is(err, llm.ErrUnavailable) {
		t.Errorf("Generate = %q, %v, %v, want hi and %v", text, done, err, llm.ErrUnavailable)
	}
	if read > maxFrame+1<<12 {
		t.Errorf("%d bytes were read, want at most %d for a message", read, maxFrame)
	}
}

// TestAnswerBoundREST checks that an endless answer over REST is ended.
func TestAnswerBoundREST(t *testing.T) {
	message := `{"candidates":[{"content":{"parts":[{"text":"hi"}]}}]},` + strings.Repeat(" ", maxFrame/2)
	body := []byte("[" + strings.Repeat(message, 2*maxAnswer/len(message)))
	var read int
	_, done, err := generate(stubbed(t, "", answers(counting(&read), body)))
	if done || !errors.Is(err, llm.ErrUnavailable) {
		t.Errorf("Generate = %v, %v, want %v", done, err, llm.ErrUnavailable)
	}
	if read > maxAnswer {
		t.Errorf("%d bytes were read, want at most %d for an answer", read, maxAnswer)
	}
}

// counting returns a wrapper of readers that adds the bytes read to n.
func counting(n *int) func(io.Reader) io.Reader {
	return func(r io.Reader) io.Reader {
		return readerFunc(func(p []byte) (int, error) {
			m, err := r.Read(p)
			*n += m
			return m, err
		})
	}
}

// TestAnswerIsNotJoined checks that the SDK does not copy the whole answer for each piece.
func TestAnswerIsNotJoined(t *testing.T) {
	const pieces, size = 2000, 1 << 10
	body := []byte("[" + strings.Repeat(`{"candidates":[{"content":{"parts":[{"text":"`+strings.Repeat("a", size)+`"}]}}]},`, pieces) + `{"candidates":[{"finishReason":1}]}]`)
	c := stubbed(t, "", answers(func(r io.Reader) io.Reader { return r }, body))
	var before, after runtime.MemStats
	runtime.ReadMemStats(&before)
	read := 0
	for chunk, err := range c.Generate(t.Context(), &llm.Request{Messages: []llm.Message{llm.User("hi")}}) {
		if err != nil {
			t.Fatal(err)
		}
		read += len(chunk.Text)
	}
	runtime.ReadMemStats(&after)
	if spent := after.TotalAlloc - before.TotalAlloc; read != pieces*size || spent > 200*pieces*size {
		t.Errorf("%d bytes of memory for an answer of %d", spent, read)
	}
}

// TestBodyIsClosed checks that the body of an answer is closed when the caller leaves the loop.
func TestBodyIsClosed(t *testing.T) {
	closed := false
	body := `[{"candidates":[{"content":{"parts":[{"text":"hi"}]}}]},{"candidates":[{"finishReason":1}]}]`
	c := stubbed(t, "", func(r *http.Request) (*http.Response, error) {
		return &http.Response{StatusCode: 200, Body: closer{strings.NewReader(body), &closed}, Header: http.Header{}, Request: r}, nil
	})
	for range c.Generate(t.Context(), &llm.Request{Messages: []llm.Message{llm.User("hi")}}) {
		break
	}
	if !closed {
		t.Error("the body is left open")
	}
}

type closer struct {
	io.Reader
	closed *bool
}

func (c closer) Close() error {
	*c.closed = true
	return nil
}

// TestManyLargeMessages checks that the bound of a message does not apply to the answer.
func TestManyLargeMessages(t *testing.T) {
	piece := strings.Repeat("a", 1<<20)
	var body strings.Builder
	body.WriteString("[")
	for range 10 {
		body.WriteString(`{"candidates":[{"content":{"parts":[{"text":"` + piece + `"}]}}]},`)
	}
	body.WriteString(`{"candidates":[{"finishReason":1}]}]`)
	text, done, err := generate(stubbed(t, "", answers(func(r io.Reader) io.Reader { return r }, []byte(body.String()))))
	if len(text) != 10<<20 || !done || err != nil {
		t.Errorf("Generate = %d bytes, %v, %v, want %d", len(text), done, err, 10<<20)
	}
}

type readerFunc func(p []byte) (int, error)

func (f readerFunc) Read(p []byte) (int, error) { return f(p) }

// TestHeldBound checks that the text held back in mode tools is bounded.
func TestHeldBound(t *testing.T) {
	piece := `{"candidates":[{"content":{"parts":[{"text":"` + strings.Repeat("a", 1<<18) + `"}]}}]}`
	body := []byte("[" + strings.Repeat(piece+",", 6) + `{"candidates":[{"finishReason":1}]}]`)
	if text, done, err := generate(stubbed(t, llm.StructuredTools, answers(func(r io.Reader) io.Reader { return r }, body))); text != "" || done || !errors.Is(err, llm.ErrLength) {
		t.Errorf("Generate = %d bytes, %v, %v, want %v", len(text), done, err, llm.ErrLength)
	}
}
