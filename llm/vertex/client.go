package vertex

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"iter"
	"math"
	"strings"
	"sync/atomic"

	"cloud.google.com/go/vertexai/genai"
	"google.golang.org/api/iterator"

	"github.com/cortex-orchestrator/cortex/llm"
	"github.com/cortex-orchestrator/cortex/llm/internal/google"
)

// Config says which endpoint is asked. Project and Model are required.
type Config struct {
	Name     string // what errors call it; "" is "vertex"
	Project  string
	Location string // "" is "global"
	Model    string

	// CredentialsFile is a service account's key; "" uses application-default credentials.
	CredentialsFile string
	REST            bool   // JSON over HTTP instead of gRPC
	Endpoint        string // host:port, or a URL with REST; "" is Google's
	// Plaintext sends no credentials and uses no TLS: for a server on this machine.
	Plaintext bool
	// Structured is how the model is held to the schema; "" is [llm.StructuredSchema].
	Structured llm.Structured
	// Images says that the model takes images. Others are told in a line of text what is left out.
	Images bool
	// MaxConns bounds the connections of REST, those among them that are being made; calls wait for one. 0 is no bound.
	MaxConns int
}

// Client is an [llm.Client]. It is safe for concurrent use.
type Client struct {
	cfg  Config
	sdk  *genai.Client
	hang func() error // ends the connections

	closed   atomic.Bool
	calls    context.Context //nolint:containedctx // ends with the client, and the calls under way with it
	endCalls context.CancelFunc

	// signed are the signatures of the answers that were given.
	signed signatures
}

var _ llm.Client = (*Client)(nil)

// Close ends the connections and the calls under way. It is idempotent.
func (c *Client) Close() error {
	if c.closed.Swap(true) {
		return nil
	}
	c.endCalls()
	return c.hang()
}

// Generate implements [llm.Client]. Errors of the endpoint are [llm.Error]s. A Request's Schema may be any JSON Schema;
// what the endpoint's own dialect cannot say is sent as it is. CacheKey names the conversation to which the signatures of
// a model's answers belong; it is not sent.
func (c *Client) Generate(ctx context.Context, r *llm.Request) iter.Seq2[llm.Chunk, error] {
	return func(yield func(llm.Chunk, error) bool) {
		k, err := c.newCall(r)
		if err != nil {
			yield(llm.Chunk{}, err)
			return
		}
		defer k.close()
		running, cancel := context.WithCancel(withCall(ctx, k))
		defer cancel()
		defer context.AfterFunc(c.calls, cancel)()
		if c.closed.Load() || ctx.Err() != nil {
			yield(llm.Chunk{}, k.failed(ctx, context.Canceled))
			return
		}
		left := false
		err = c.stream(running, k, r, func(text string) bool {
			left = !yield(llm.Chunk{Text: text}, nil)
			return !left
		})
		switch {
		case left:
		case err != nil:
			yield(llm.Chunk{}, k.failed(ctx, err))
		default:
			k.remember()
			yield(llm.Chunk{Done: true, Model: k.model, Usage: k.usage}, nil)
		}
	}
}

// stream makes the call and hands over each piece of the answer, until emit is false.
func (c *Client) stream(ctx context.Context, k *call, r *llm.Request, emit func(string) bool) error {
	chat, last := c.chat(k, r)
	var answers *genai.GenerateContentResponseIterator
	for {
		var answer *genai.GenerateContentResponse
		var err error
		if p := google.Caught(func() {
			if answers == nil {
				answers = chat.SendMessageStream(ctx, last...)
			}
			answer, err = answers.Next()
		}); p != nil {
			err = fmt.Errorf("the SDK does not understand the answer: %v", p)
		}
		if errors.Is(err, iterator.Done) {
			break
		}
		if err != nil {
			return err
		}
		texts := k.texts(answer)
		if len(texts) == 0 {
			texts = []string{""} // the model is alive
		}
		for _, text := range texts {
			if !emit(text) {
				return nil
			}
		}
		// The SDK copies all of the answer at each of its pieces, for a result that is not used.
		if merged := answers.MergedResponse(); merged != nil {
			merged.Candidates = nil
		}
		if err := k.tooMuch(); err != nil {
			return err
		}
	}
	rest, err := k.end()
	if err == nil && rest != "" {
		emit(rest)
	}
	return err
}

// functionName is what the model calls in mode tools.
const functionName = "decide"

// chat returns the conversation of r up to its last message, and that message.
func (c *Client) chat(k *call, r *llm.Request) (*genai.ChatSession, []genai.Part) {
	m := c.sdk.GenerativeModel(c.cfg.Model)
	if r.System != "" {
		m.SystemInstruction = genai.NewUserContent(genai.Text(valid(r.System)))
	}
	if r.MaxTokens > 0 {
		m.SetMaxOutputTokens(int32(min(r.MaxTokens, math.MaxInt32)))
	}
	if r.Temperature != nil {
		m.SetTemperature(float32(*r.Temperature))
	}
	switch k.mode {
	case llm.StructuredSchema, llm.StructuredObject: // the schema itself: see call.edit
		m.ResponseMIMEType = "application/json"
	case llm.StructuredTools:
		m.Tools = []*genai.Tool{{FunctionDeclarations: []*genai.FunctionDeclaration{{
			Name: functionName, Description: "Takes your answer.",
		}}}}
		m.ToolConfig = &genai.ToolConfig{FunctionCallingConfig: &genai.FunctionCallingConfig{
			Mode: genai.FunctionCallingAny, AllowedFunctionNames: []string{functionName},
		}}
	}
	// The endpoint wants the two to take turns: messages of one role in a row are parts of one turn.
	var turns []*genai.Content
	var types []string
	if c.cfg.Images {
		types = google.Images
	}
	for _, message := range r.Messages {
		role := "user"
		if message.Role == llm.RoleAssistant {
			role = "model"
		}
		if n := len(turns); n == 0 || turns[n-1].Role != role {
			turns = append(turns, &genai.Content{Role: role})
		}
		turn := turns[len(turns)-1]
		for _, p := range message.Showing(types...).Parts {
			if p.Image != nil {
				turn.Parts = append(turn.Parts, genai.Blob{MIMEType: p.Image.Type, Data: p.Image.Data})
				continue
			}
			turn.Parts = append(turn.Parts, genai.Text(cmp.Or(valid(p.Text), google.EmptyText)))
		}
	}
	chat := m.StartChat()
	n := len(turns) - 1
	chat.History = turns[:n:n]
	return chat, turns[n].Parts
}

// valid returns s in UTF-8: the protocol has no way to say anything else, and the call would fail for it.
func valid(s string) string { return strings.ToValidUTF8(s, "\uFFFD") }
