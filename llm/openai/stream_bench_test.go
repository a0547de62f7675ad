package openai_test

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"net/http"
	"testing"

	sdk "github.com/sashabaranov/go-openai"

	"github.com/cortex-orchestrator/cortex/llm/openai"
)

// BenchmarkStream reads an answer of 500 deltas from memory: with the client and its repair, and with the SDK alone.
func BenchmarkStream(b *testing.B) {
	var frames []string
	for i := range 500 {
		frames = append(frames, fmt.Sprintf(`{"id":"chatcmpl-0123456789","object":"chat.completion.chunk","created":1795170000,"model":"m","service_tier":"default",`+
			`"system_fingerprint":"fp_0123456789","choices":[{"index":0,"delta":{"content":" word%d"},"logprobs":null,"finish_reason":null}],"usage":null}`, i))
	}
	body := []byte(stream(append(frames, `{"choices":[{"index":0,"delta":{},"finish_reason":"stop"}]}`)...))
	answer := &http.Client{Transport: roundTrip(func(r *http.Request) (*http.Response, error) {
		return &http.Response{StatusCode: 200, Header: http.Header{}, Body: io.NopCloser(bytes.NewReader(body)), Request: r}, nil
	})}
	b.Run("client", func(b *testing.B) {
		c, err := openai.New(openai.Config{Model: "m", HTTPClient: answer})
		if err != nil {
			b.Fatal(err)
		}
		b.ReportAllocs()
		b.SetBytes(int64(len(body)))
		for b.Loop() {
			for _, err := range c.Generate(b.Context(), hi()) {
				if err != nil {
					b.Fatal(err)
				}
			}
		}
	})
	b.Run("sdk", func(b *testing.B) {
		cfg := sdk.DefaultConfig("")
		cfg.HTTPClient = answer
		c := sdk.NewClientWithConfig(cfg)
		b.ReportAllocs()
		b.SetBytes(int64(len(body)))
		for b.Loop() {
			s, err := c.CreateChatCompletionStream(b.Context(), sdk.ChatCompletionRequest{Model: "m"})
			for err == nil {
				_, err = s.Recv()
			}
			if !errors.Is(err, io.EOF) {
				b.Fatal(err)
			}
		}
	})
}
