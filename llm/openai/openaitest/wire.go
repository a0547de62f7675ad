package openaitest

import (
	"net"
	"testing"

	"github.com/cortex-orchestrator/cortex/llm"
	"github.com/cortex-orchestrator/cortex/llm/llmtest"
)

// Wire returns what [llmtest.Run] needs to check a client of this protocol. client makes a client of the server at this URL, which lacks the /v1 that
// most clients need, for [llmtest.Model].
func Wire(client func(t *testing.T, url string, o llmtest.Options) llm.Client) llmtest.Wire {
	return llmtest.Wire{
		Dial: func(t *testing.T, h llmtest.Handler, o llmtest.Options) llm.Client {
			return client(t, Serve(t, h).URL, o)
		},
		Down: func(t *testing.T, o llmtest.Options) llm.Client {
			l, err := net.Listen("tcp", "127.0.0.1:0")
			if err != nil {
				t.Fatal(err)
			}
			if err := l.Close(); err != nil {
				t.Fatal(err)
			}
			return client(t, "http://"+l.Addr().String(), o)
		},
		Modes: []llm.Structured{llm.StructuredSchema, llm.StructuredTools, llm.StructuredObject, llm.StructuredPrompt},
	}
}
