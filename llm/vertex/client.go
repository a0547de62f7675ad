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
	"github.com/cortex-orchestrator/cortex/llm/internal/long"
)

// Config describes an endpoint. Project and Model are required.
type Config struct {
	Name     string // for errors; "" is "vertex"
	Project  string
	Location string // "" is "global"
	Model    string

	// CredentialsFile is a service account's key; "" selects application-default credentials.
	CredentialsFile string
	REST            bool   // JSON over HTTP instead of gRPC
	Endpoint        string // host:port, or a URL with REST; "" is Google's
	// Plaintext uses neither credentials nor TLS, for a server on this machine.
	Plaintext bool
	// Structured is how the schema is enforced; "" is [llm.StructuredSchema].
	Structured llm.Structured
	// Images says that the model accepts images. Other models get a line of text instead of each image.
	Images bool
	// MaxConns bounds the connections of REST, including those being opened; further calls wait for one. 0 is unlimited.
	MaxConns int
}

// Client is an [llm.Client] for Vertex AI. It is safe for concurrent use.
type Client struct {
	cfg  Config
	sdk  *genai.Client
	hang func() error // closes the connections

	closed   atomic.Bool
	calls    context.Context //nolint:containedctx // ends with the client, and the calls under way with it
	endCalls context.CancelFunc

	// signed has the signatures of the answers.
	signed signatures
}

var _ llm.Client = (*Client)(nil)

// Close closes the connections and ends the calls under way. It is idempotent.
func (c *Client) Close() error {
	if c.closed.Swap(true) {
		return nil
	}
	c.endCalls()
	return c.hang()
}

// Generate implements [llm.Client]. Errors of the endpoint are [llm.Error]s. A Request's Schema may be any JSON Schema; what Google's dialect cannot
// express is sent unchanged. CacheKey identifies the conversation to which the signatures of a model's answers belong; it is not sent.
func (c *Client) Generate(ctx context.Context, r *llm.Request) iter.Seq2[llm.Chunk, error] {
	return func(yield func(llm.Chunk, error) bool) {
		k, err := c.newCall(r)
		if err != nil {
			yield(llm.Chunk{}, err)
			return
		}
		defer k.close()
		running, cancel := context.WithCancelCause(context.WithValue(ctx, callKey{}, k))
		defer cancel(nil)
		defer context.AfterFunc(c.calls, func() { cancel(nil) })()
		k.complete = long.Rest(func() { cancel(errRest) })
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

// errRest is the cause of the end of a call whose answer is complete.
var errRest = errors.New("the answer is complete")

// stream makes the call and passes each piece of the answer to emit, until emit returns false.
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
		if errors.Is(err, iterator.Done) || err != nil && errors.Is(context.Cause(ctx), errRest) {
			break
		}
		if err != nil {
			return err
		}
		texts := k.texts(answer)
		if len(texts) == 0 {
			texts = []string{""} // the model is working
		}
		for _, text := range texts {
			if !emit(text) {
				return nil
			}
		}
		if k.finished {
			k.complete()
		}
		// The SDK would copy the whole answer for each piece, for a result that is not used.
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

// functionName is the function that the model calls in mode tools.
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
	case llm.StructuredSchema, llm.StructuredObject: // call.edit adds the schema itself
		m.ResponseMIMEType = "application/json"
	case llm.StructuredTools:
		m.Tools = []*genai.Tool{{FunctionDeclarations: []*genai.FunctionDeclaration{{
			Name: functionName, Description: "Takes your answer.",
		}}}}
		m.ToolConfig = &genai.ToolConfig{FunctionCallingConfig: &genai.FunctionCallingConfig{
			Mode: genai.FunctionCallingAny, AllowedFunctionNames: []string{functionName},
		}}
	}
	// The endpoint requires alternating roles: consecutive messages of one role become parts of one turn.
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

// valid returns s as valid UTF-8, which the protocol requires.
func valid(s string) string { return strings.ToValidUTF8(s, "\uFFFD") }
