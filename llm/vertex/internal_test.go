package vertex

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"strings"
	"testing"
	"testing/iotest"

	"cloud.google.com/go/vertexai/genai"
	"google.golang.org/api/option"

	"github.com/cortex-orchestrator/cortex/llm"
)

// roundTrip is a function that answers requests.
type roundTrip func(*http.Request) (*http.Response, error)

func (f roundTrip) RoundTrip(r *http.Request) (*http.Response, error) { return f(r) }

// stubbed returns a client over REST whose requests f answers.
func stubbed(t testing.TB, mode llm.Structured, f roundTrip) *Client {
	t.Helper()
	cfg := Config{Name: "vertex", Project: "p", Location: "global", Model: "m", Structured: mode}
	c := &Client{cfg: cfg, calls: make(map[*call]context.CancelFunc), hang: func() error { return nil }}
	var err error
	withoutWarning(func() {
		c.sdk, err = genai.NewClient(context.Background(), "p", "global", genai.WithREST(), option.WithHTTPClient(&http.Client{Transport: rewriting{f}}))
	})
	if err != nil {
		t.Fatal(err)
	}
	return c
}

func answers(read func(io.Reader) io.Reader, body []byte) roundTrip {
	return func(r *http.Request) (*http.Response, error) {
		_, _ = io.Copy(io.Discard, r.Body)
		return &http.Response{StatusCode: 200, Body: io.NopCloser(read(bytes.NewReader(body))), Header: http.Header{}, Request: r}, nil
	}
}

func generate(c *Client) (text string, done bool, err error) {
	r := &llm.Request{CacheKey: "c", Messages: []llm.Message{{Role: llm.RoleUser, Text: "hi"}}, Schema: llm.DecisionSchema(&llm.Turn{})}
	for chunk, err := range c.Generate(context.Background(), r) {
		if err != nil {
			return text, done, err
		}
		text += chunk.Text
		done = done || chunk.Done
	}
	return text, done, nil
}

// Whatever a server sends: no panic, one end, and no success without the end of the array and a reason for the end of the
// answer. How the bytes are cut into reads makes no difference.
func FuzzArray(f *testing.F) {
	for _, seed := range []string{
		`[{"candidates":[{"content":{"parts":[{"text":"hi"}]},"finishReason":1}],"usageMetadata":{"promptTokenCount":3}}]`,
		"[{\"candidates\": [{\"content\": {\"role\": \"model\", \"parts\": [{\"text\": \"a\"}]}}]}\r\n,\r\n{\"candidates\": [{\"finishReason\": \"STOP\"}]}\n]",
		`[{"candidates":[{"content":{"parts":[{"functionCall":{"name":"decide","args":{"kind":"respond","say":"x"}}}]},"finishReason":1}]}]`,
		`[{"candidates":[{"content":{"parts":[{"thoughtSignature":"QUJD"},{"executableCode":{"language":1,"code":"x"}},{"text":"x","thought":true}]}}]}]`,
		`[{"error":{"code":429,"message":"m","status":"RESOURCE_EXHAUSTED","details":[{"@type":"type.googleapis.com/google.rpc.RetryInfo","retryDelay":"2s"}]}}]`,
		`[{"promptFeedback":{"blockReason":4}}]`,
		`[{"candidates":[null]}]`, `[null]`, `[[]]`, `{}`, `[`, `]`, `[,]`, `[{}`, `[{},`, "\n", "[" + strings.Repeat("[", 50),
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

// A panic of the SDK is an error that shows its words.
func TestPanicOfTheSDK(t *testing.T) {
	c := stubbed(t, llm.StructuredSchema, func(*http.Request) (*http.Response, error) { panic("unknown Part.Data type") })
	if _, _, err := generate(c); !errors.Is(err, llm.ErrUnavailable) || !strings.Contains(err.Error(), "unknown Part.Data type") {
		t.Errorf("Generate = %v, want %v with the SDK's words", err, llm.ErrUnavailable)
	}
}

// A search for credentials that hangs does not keep Dial.
func TestWithin(t *testing.T) {
	over := make(chan struct{})
	defer close(over)
	ctx, cancel := context.WithCancel(t.Context())
	_, err := within(ctx, func() (int, error) {
		cancel()
		<-over
		return 1, nil
	})
	if !errors.Is(err, context.Canceled) {
		t.Errorf("within = %v, want %v", err, context.Canceled)
	}
}

// Location becomes part of the host's name, but for the global one.
func TestHosts(t *testing.T) {
	for location, want := range map[string]string{"global": "aiplatform.googleapis.com:443", "europe-west4": "europe-west4-aiplatform.googleapis.com:443"} {
		var got string
		f := roundTrip(func(r *http.Request) (*http.Response, error) {
			got = r.URL.Scheme + "://" + r.URL.Host
			return nil, errors.New("enough")
		})
		c := stubbed(t, "", f)
		var err error
		withoutWarning(func() {
			c.sdk, err = genai.NewClient(t.Context(), "p", location, genai.WithREST(), option.WithHTTPClient(&http.Client{Transport: rewriting{f}}))
		})
		if err != nil {
			t.Fatal(err)
		}
		if _, _, err := generate(c); err == nil || got != "https://"+want {
			t.Errorf("location %s is at %s, want %s", location, got, want)
		}
	}
}

// A message that is too large ends the answer before it is held in memory as a whole.
func TestMessageBound(t *testing.T) {
	body := []byte(`[{"candidates":[{"content":{"parts":[{"text":"hi"}]}}]},` + strings.Repeat(" ", 2*maxFrame))
	var read int
	counting := func(r io.Reader) io.Reader {
		return readerFunc(func(p []byte) (int, error) {
			n, err := r.Read(p)
			read += n
			return n, err
		})
	}
	text, done, err := generate(stubbed(t, "", answers(counting, body)))
	if text != "hi" || done || !errors.Is(err, llm.ErrUnavailable) {
		t.Errorf("Generate = %q, %v, %v, want hi and %v", text, done, err, llm.ErrUnavailable)
	}
	if read > maxFrame+1<<12 {
		t.Errorf("%d bytes were read, want at most %d for a message", read, maxFrame)
	}
}

type readerFunc func(p []byte) (int, error)

func (f readerFunc) Read(p []byte) (int, error) { return f(p) }

// Text in mode tools is held back only so far.
func TestHeldBound(t *testing.T) {
	piece := `{"candidates":[{"content":{"parts":[{"text":"` + strings.Repeat("a", 1<<18) + `"}]}}]}`
	body := []byte("[" + strings.Repeat(piece+",", 6) + `{"candidates":[{"finishReason":1}]}]`)
	if text, done, err := generate(stubbed(t, llm.StructuredTools, answers(func(r io.Reader) io.Reader { return r }, body))); text != "" || done || !errors.Is(err, llm.ErrLength) {
		t.Errorf("Generate = %d bytes, %v, %v, want %v", len(text), done, err, llm.ErrLength)
	}
}

func TestSignatureBounds(t *testing.T) {
	var s signatures
	key := func(i int) signed { return signed(fmt.Appendf(make([]byte, 0, 32), "%032d", i)) }
	s.put(key(0), nil)
	s.put(key(1), make([]byte, maxSignature+1))
	if len(s.by) != 0 {
		t.Errorf("%d signatures kept that are none, or too large", len(s.by))
	}
	for i := range maxSignatures + 10 {
		s.put(key(i), []byte{1})
		s.get(key(0)) // stays in use
	}
	if len(s.by) != maxSignatures || s.order.Len() != maxSignatures || s.bytes != maxSignatures {
		t.Errorf("%d signatures of %d bytes, want %d", len(s.by), s.bytes, maxSignatures)
	}
	if s.get(key(0)) == nil || s.get(key(1)) != nil {
		t.Error("what was used last was forgotten first")
	}
	for i := range 200 {
		s.put(key(i), bytes.Repeat([]byte{2}, maxSignature))
	}
	if s.bytes > maxSignatureBytes || len(s.by) != s.order.Len() {
		t.Errorf("%d bytes kept, want at most %d", s.bytes, maxSignatureBytes)
	}
	sum := 0
	for e := s.order.Front(); e != nil; e = e.Next() {
		sum += len(e.Value.(*signature).bytes)
	}
	if sum != s.bytes {
		t.Errorf("%d bytes counted, %d there", s.bytes, sum)
	}
}
