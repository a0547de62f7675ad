package llmtest

import (
	"encoding/json"
	"net/http"
	"strconv"
	"testing"
	"time"

	"github.com/cortex-orchestrator/cortex/llm"
)

// Wire connects the client under test to a local server that speaks its provider's protocol. The server decodes each request into a [Call], calls the
// handler, and sends the [Reply] as the provider would: over a real socket, in the provider's frames, with its status codes and its error bodies. See
// [Run].
type Wire struct {
	// Dial starts a server for h and returns a client of it that asks for [Model]. Both end with the test.
	Dial func(t *testing.T, h Handler, o Options) llm.Client
	// Down, if possible, returns a client of a server that refuses connections: of a port that was closed after listening. nil omits that case.
	Down func(t *testing.T, o Options) llm.Client
	// Modes are the modes of structured output that the client has.
	Modes []llm.Structured
	// Lacks names what the protocol cannot express; the suite omits those cases, and logs that.
	Lacks []Feature

	patience time.Duration // the longest wait for what must happen; 0 is the constant of that name
}

// Handler returns the reply to a call. It runs in the server, and may be called concurrently.
type Handler func(c *Call) *Reply

// Options are the options of one client.
type Options struct {
	Mode llm.Structured // "": the client's own choice
	Key  string         // the API key, or token, for the client
	// Images says that the model accepts images.
	Images bool
}

// Model is the model that a Wire's client asks for.
const Model = "test-model"

// Feature is something that not every protocol can express.
type Feature string

// Features that a Wire can lack.
const (
	NoRetryAfter  Feature = "retry-after header"    // errors carry no headers
	NoRetryInfo   Feature = "retry info"            // errors carry no delay in their body
	NoKey         Feature = "api key"               // the client gets no key
	NoCacheKey    Feature = "cache key"             // requests have no field for it
	NoRefusal     Feature = "refusal"               // a model's refusal is not distinguished from its text
	NoPromptBlock Feature = "blocked prompt"        // the protocol reports a blocked prompt as an error
	NoUnknown     Feature = "unknown parts"         // answers have no parts
	NoCutFrame    Feature = "cut inside of a frame" // the transport delivers frames whole
	NoStatus      Feature = "http status"           // errors have a code of another kind; [llm.Error].Status may be 0
	NoReset       Feature = "ratelimit reset"       // the provider does not send x-ratelimit-reset-requests and -tokens
	NoFragments   Feature = "fragments of a call"   // a function call comes whole: Pieces are joined in mode tools
	NoImages      Feature = "images"                // the protocol has no way to send one
	NoUnlimited   Feature = "unlimited answers"     // a request must have a token limit
	NoGarbage     Feature = "garbage"               // the transport delivers nothing but well-formed messages
)

// Call is a request as the server decoded it.
type Call struct {
	Model    string
	System   string
	Messages []llm.Message
	// Mode is the requested mode of structured output; "" when none was, which includes [llm.StructuredPrompt].
	Mode llm.Structured
	// Schema came with Mode json_schema or tools. It may be in the provider's dialect: the suite accepts "nullable": true for a list of types with
	// "null", types in capitals, and "propertyOrdering" instead of the order of the keys. It ignores "additionalProperties".
	Schema      json.RawMessage
	CacheKey    string
	MaxTokens   int
	Temperature *float64
	Key         string // the API key, or the bearer token
	Stream      bool
	Gone        <-chan struct{} // closed when the client is gone, at the latest when the reply has ended
}

// Wait waits for r.Hold, for servers, and reports whether the client is still there.
func (c *Call) Wait(r *Reply) bool {
	if r.Hold == nil {
		return true
	}
	select {
	case <-r.Hold:
		return true
	case <-c.Gone:
		return false
	}
}

// Stay waits until the client is gone if r stays, for servers that have sent all of it.
func (c *Call) Stay(r *Reply) {
	if r.Stays {
		<-c.Gone
	}
}

// Reply is the server's reaction to a call. The zero value is an empty answer that ends well.
type Reply struct {
	// Pieces are the text, each sent and flushed separately. In mode tools they are fragments of the function's arguments.
	Pieces []string
	// Before is text that the model writes before it calls the function, in mode tools. Without Pieces and Second the model does not call the function:
	// then Before is its answer.
	Before string
	// Second is a second function call, in mode tools: its whole arguments.
	Second string
	// Thoughts is a text that the protocol marks as thoughts: not part of the answer.
	Thoughts string
	// Unknown sends, before the first piece, between two pieces and after the last, what clients do not know: parts, fields, event kinds, keep-alives,
	// comments.
	Unknown bool
	// Finish is how the answer ends.
	Finish Finish
	Usage  llm.Usage
	Early  bool   // Usage is sent with each piece, as some endpoints do, and not only at the end
	Model  string // "" is Model

	// Error is sent instead of the answer, or with Pieces, in the middle of it.
	Error *Fault
	// Cut closes the connection after the pieces, without the end of the answer; CutFrame in the middle of a frame.
	Cut, CutFrame bool
	// Orderly, with Cut, ends the response properly like that of a complete answer, as a proxy does that has lost its server. Only the protocol's own
	// end of an answer is missing.
	Orderly bool
	// Garbage is sent instead of the answer, with status 200.
	Garbage string
	// Endless sends the beginning of a piece without an end: 64 MiB without a line break, or the largest frame of the transport, as fast as the client
	// reads, and then nothing until the client is gone. The client has to end this itself, by a bound: [llm.ErrUnavailable] or [llm.ErrTruncated].
	Endless bool
	// Stays keeps the connection open behind the complete answer until the client is gone.
	Stays bool
	// Hold, unless nil, is waited for after the first piece, or before the head of the response when there are no pieces. The wait also ends when the
	// client is gone.
	Hold <-chan struct{}
}

// Finish is how an answer ends.
type Finish string

// The ways an answer ends.
const (
	Stop      Finish = ""           // it is complete
	Length    Finish = "length"     // by the token limit
	Filtered  Finish = "filtered"   // a safety filter stopped the answer
	Refused   Finish = "refused"    // the model refused, in the protocol's own way; Pieces are its text
	Blocked   Finish = "blocked"    // a filter blocked the prompt
	BadCall   Finish = "bad call"   // the model's function call could not be read (Google); elsewhere like Stop. Without text: [llm.ErrEmpty]
	Nothing   Finish = "nothing"    // a response without any choice or candidate
	NeverSeen Finish = "never seen" // a reason that clients do not know; the text is complete
)

// Fault is an error of the endpoint.
type Fault struct {
	Kind       FaultKind
	Status     int    // HTTP; a gRPC server sends the corresponding code
	Message    string // "" is a message of the wire's; {key} in it is replaced by the client's key
	RetryAfter time.Duration
	Form       RetryForm // how RetryAfter is sent
	Location   string    // the URL of a redirection
	Shape      int       // the shape of the error body; 0 is the provider's usual one. See Shapes of the wire's package
}

// FaultKind is the kind of a fault.
type FaultKind string

// The kinds of fault.
const (
	Plain   FaultKind = ""         // as the status says
	Quota   FaultKind = "quota"    // 429, and retries do not help
	TooLong FaultKind = "too long" // 400: more than the model's window
	Unknown FaultKind = "model"    // 404: unknown model
)

// RetryForm is a way to say how long to wait.
type RetryForm string

// The ways.
const (
	RetrySeconds RetryForm = "seconds" // Retry-After: 2
	RetryDate    RetryForm = "date"    // Retry-After: Fri, 20 Nov 2026 …
	RetryMillis  RetryForm = "millis"  // retry-after-ms
	RetryInfo    RetryForm = "info"    // in the body: google.rpc.RetryInfo
	RetryReset   RetryForm = "reset"   // x-ratelimit-reset-requests: 2s
	RetryTokens  RetryForm = "tokens"  // x-ratelimit-reset-tokens: 2s
)

// Header sets the headers for f's Location, and for RetryAfter if its Form is a header.
func (f *Fault) Header(h http.Header, now time.Time) {
	if f.Location != "" {
		h.Set("Location", f.Location)
	}
	if f.RetryAfter <= 0 {
		return
	}
	switch f.Form {
	case RetrySeconds, "":
		h.Set("Retry-After", strconv.FormatInt(int64(f.RetryAfter/time.Second), 10))
	case RetryDate:
		h.Set("Retry-After", now.Add(f.RetryAfter).UTC().Format(http.TimeFormat))
	case RetryMillis:
		h.Set("Retry-After-Ms", strconv.FormatInt(f.RetryAfter.Milliseconds(), 10))
	case RetryReset:
		h.Set("X-Ratelimit-Remaining-Requests", "0")
		h.Set("X-Ratelimit-Reset-Requests", f.RetryAfter.String())
	case RetryTokens:
		h.Set("X-Ratelimit-Remaining-Tokens", "0")
		h.Set("X-Ratelimit-Reset-Tokens", f.RetryAfter.String())
	}
}
