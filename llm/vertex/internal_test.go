package vertex

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"strings"
	"testing"
	"time"

	"cloud.google.com/go/vertexai/genai"
	"google.golang.org/api/option"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"github.com/cortex-orchestrator/cortex/llm"
	"github.com/cortex-orchestrator/cortex/llm/internal/google"
)

// roundTrip is a function that answers requests.
type roundTrip func(*http.Request) (*http.Response, error)

func (f roundTrip) RoundTrip(r *http.Request) (*http.Response, error) { return f(r) }

// stubbed returns a client over REST whose requests f answers.
func stubbed(t testing.TB, mode llm.Structured, f roundTrip) *Client {
	t.Helper()
	cfg := Config{Name: "vertex", Project: "p", Location: "global", Model: "m", Structured: mode}
	c := &Client{cfg: cfg, calls: context.Background(), hang: func() error { return nil }}
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
	r := &llm.Request{CacheKey: "c", Messages: []llm.Message{llm.User("hi")}, Schema: llm.DecisionSchema(&llm.Turn{})}
	for chunk, err := range c.Generate(context.Background(), r) {
		if err != nil {
			return text, done, err
		}
		text += chunk.Text
		done = done || chunk.Done
	}
	return text, done, nil
}

// TestPanicOfTheSDK checks that a panic of the SDK becomes an error with its text.
func TestPanicOfTheSDK(t *testing.T) {
	c := stubbed(t, llm.StructuredSchema, func(*http.Request) (*http.Response, error) { panic("unknown Part.Data type") })
	if _, _, err := generate(c); !errors.Is(err, llm.ErrUnavailable) || !strings.Contains(err.Error(), "unknown Part.Data type") {
		t.Errorf("Generate = %v, want %v with the SDK's words", err, llm.ErrUnavailable)
	}
}

// TestWithin checks that a search for credentials that hangs does not block Dial.
func TestWithin(t *testing.T) {
	over := make(chan struct{})
	defer close(over)
	ctx, cancel := context.WithCancel(t.Context())
	_, err := google.Within(ctx, func() (int, error) {
		cancel()
		<-over
		return 1, nil
	})
	if !errors.Is(err, context.Canceled) {
		t.Errorf("Within = %v, want %v", err, context.Canceled)
	}
}

// TestHosts checks the host names for locations.
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

// TestDeadlineOfTheServer checks that a deadline that the server notices first is the caller's, if it has one.
func TestDeadlineOfTheServer(t *testing.T) {
	k := &call{client: &Client{cfg: Config{Model: "m"}}}
	k.trailer.Store(true)
	said := status.Error(codes.DeadlineExceeded, "deadline exceeded")
	soon, cancel := context.WithTimeout(t.Context(), 900*time.Millisecond)
	defer cancel()
	if err := k.failed(soon, said); !errors.Is(err, context.DeadlineExceeded) {
		t.Errorf("just before the deadline: %v, want %v", err, context.DeadlineExceeded)
	}
	late, cancel := context.WithTimeout(t.Context(), time.Hour)
	defer cancel()
	for _, ctx := range []context.Context{t.Context(), late} {
		if err := k.failed(ctx, said); !errors.Is(err, llm.ErrUnavailable) || errors.Is(err, context.DeadlineExceeded) {
			t.Errorf("the server's own deadline: %v, want %v", err, llm.ErrUnavailable)
		}
	}
}

func TestSignatureBounds(t *testing.T) {
	var s signatures
	key := func(i int) signed { return signed(fmt.Appendf(make([]byte, 0, 32), "%032d", i)) }
	s.put(key(0), nil)
	s.put(key(1), make([]byte, maxSignature+1))
	if s.by.Len() != 0 {
		t.Errorf("%d signatures kept that are none, or too large", s.by.Len())
	}
	for i := range maxSignatures + 10 {
		s.put(key(i), []byte{1})
		s.get(key(0)) // stays in use
	}
	if s.by.Len() != maxSignatures || s.by.Size() != maxSignatures {
		t.Errorf("%d signatures of %d bytes, want %d", s.by.Len(), s.by.Size(), maxSignatures)
	}
	if s.get(key(0)) == nil || s.get(key(1)) != nil {
		t.Error("what was used last was forgotten first")
	}
	for i := range 200 {
		s.put(key(i), bytes.Repeat([]byte{2}, maxSignature))
	}
	if s.by.Size() > maxSignatureBytes {
		t.Errorf("%d bytes kept, want at most %d", s.by.Size(), maxSignatureBytes)
	}
}
