package llmtest

import (
	"encoding/json"
	"net/http"
	"strconv"
	"testing"
	"time"

	"github.com/cortex-orchestrator/cortex/llm"
)

// Wire connects the client under test to a local server that speaks its provider's protocol. The server decodes each
// request into a [Call], asks the handler, and says the [Reply] as the provider would say it: over a real socket, in the
// provider's frames, with its status codes and its error bodies. See [Run].
type Wire struct {
	// Dial starts a server for h and returns a client of it that asks for [Model]. Both end with the test.
	Dial func(t *testing.T, h Handler, o Options) llm.Client
	// Down, where there is such a thing, returns a client of a server that refuses the connection: of a port that was
	// listened on and closed again. nil leaves that case out.
	Down func(t *testing.T, o Options) llm.Client
	// Modes are the ways to structured output that the client has.
	Modes []llm.Structured
	// Lacks names what the protocol has no way to say; the suite leaves those cases out, and says so.
	Lacks []Feature

	patience time.Duration // the longest wait for what must come; 0 is the constant of that name
}

// Handler gives the reply to a call. It runs in the server, while other calls may be under way.
type Handler func(c *Call) *Reply

// Options are for one client.
type Options struct {
	Mode llm.Structured // "" is the client's own choice
	Key  string         // the API key, or token, that the client is given
	// Images says that the model takes images.
	Images bool
}

// Model is the model that a Wire's client asks for.
const Model = "test-model"

// Feature is something that not every protocol can say.
type Feature string

// The features that a Wire can lack.
const (
	NoRetryAfter  Feature = "retry-after header"    // errors carry no headers
	NoRetryInfo   Feature = "retry info"            // errors carry no delay in their body
	NoKey         Feature = "api key"               // the client is given no key
	NoCacheKey    Feature = "cache key"             // requests have no field for it
	NoRefusal     Feature = "refusal"               // a model's refusal is not told apart from its text
	NoPromptBlock Feature = "blocked prompt"        // a filter that looks at the prompt answers with an error instead
	NoUnknown     Feature = "unknown parts"         // answers have no parts
	NoCutFrame    Feature = "cut inside of a frame" // the transport delivers frames whole
	NoStatus      Feature = "http status"           // errors have a code of another kind; [llm.Error].Status may be 0
	NoReset       Feature = "ratelimit reset"       // the provider does not send x-ratelimit-reset-requests and -tokens
	NoFragments   Feature = "fragments of a call"   // a function call comes whole: Pieces are joined in mode tools
	NoImages      Feature = "images"                // the protocol has no way to send one
	NoGarbage     Feature = "garbage"               // the transport delivers nothing but well-formed messages
)

// Call is a request as the server understood it.
type Call struct {
	Model    string
	System   string
	Messages []llm.Message
	// Mode is how the server was asked for structured output; "" when it was not, which is also what it sees of
	// [llm.StructuredPrompt].
	Mode llm.Structured
	// Schema came with Mode json_schema or tools. It may stay in the provider's dialect: the suite takes "nullable": true
	// for a list of types with "null", types in capitals, and "propertyOrdering", which else is the order of the keys.
	// "additionalProperties" is not looked at.
	Schema      json.RawMessage
	CacheKey    string
	MaxTokens   int
	Temperature *float64
	Key         string // the API key, or the bearer token
	Stream      bool
	Gone        <-chan struct{} // closed when the client has gone away, at the latest when the reply has ended
}

// Reply is what the server does with a call. The zero value is an empty answer that ends well.
type Reply struct {
	// Pieces are the text, each sent and flushed alone. In mode tools they are fragments of the function's arguments.
	Pieces []string
	// Before is text that the model writes before it calls the function, in mode tools. Without Pieces and Second the
	// model calls no function there: then Before is its answer.
	Before string
	// Second is a second function call, in mode tools: its whole arguments.
	Second string
	// Thoughts is text that the model thought, marked as such in the protocol: no part of the answer.
	Thoughts string
	// Unknown sends, before the first piece, between two pieces and behind the last, what clients do not know yet: parts,
	// fields, event kinds, keep-alives, comments.
	Unknown bool
	// Finish is how the answer ends.
	Finish Finish
	Usage  llm.Usage
	Early  bool   // Usage is said with each piece already, as some endpoints do, and not only at the end
	Model  string // "" is Model

	// Error is said instead of the answer, or with Pieces, in the middle of it.
	Error *Fault
	// Cut closes the connection after the pieces, without the end of the answer; CutFrame in the middle of a frame.
	Cut, CutFrame bool
	// Orderly, with Cut, ends the response in good order, as that of a complete answer is ended: what a proxy does that has
	// lost its server. Only the protocol's own end of an answer is missing.
	Orderly bool
	// Garbage is sent instead of the answer, with status 200.
	Garbage string
	// Endless sends the beginning of a piece that has no end: 64 MiB without a line break, or the largest frame that the
	// transport has, as fast as the client reads, and then nothing more until the client has gone. The client has to end
	// this itself, by a bound: [llm.ErrUnavailable] or [llm.ErrTruncated].
	Endless bool
	// Hold, unless nil, is waited for after the first piece, or before the head of the response when there are no pieces.
	// The server also stops waiting when the client has gone.
	Hold <-chan struct{}
}

// Finish is how an answer ends.
type Finish string

// The ways an answer ends.
const (
	Stop      Finish = ""           // it is complete
	Length    Finish = "length"     // the token limit
	Filtered  Finish = "filtered"   // a safety filter stopped the answer
	Refused   Finish = "refused"    // the model refused, in the protocol's own way; Pieces are its words
	Blocked   Finish = "blocked"    // a filter did not let the prompt through
	BadCall   Finish = "bad call"   // the model's function call could not be read (Google); elsewhere like Stop. Without text: [llm.ErrEmpty]
	Nothing   Finish = "nothing"    // a response without any choice or candidate
	NeverSeen Finish = "never seen" // a reason that clients do not know yet; the text is complete
)

// Fault is an error of the endpoint.
type Fault struct {
	Kind       FaultKind
	Status     int    // HTTP; a gRPC server says the code that corresponds
	Message    string // "" is a sentence of the wire's; the key that the client sent replaces {key} in it
	RetryAfter time.Duration
	Form       RetryForm // how RetryAfter is said
	Location   string    // where else to ask, with a status of a redirection: a URL
	Shape      int       // which of the provider's shapes of error body; 0 is the usual one. See Shapes of the wire's package
}

// FaultKind is what went wrong.
type FaultKind string

// The kinds of fault.
const (
	Plain   FaultKind = ""         // what the status says
	Quota   FaultKind = "quota"    // 429, and trying again is of no use
	TooLong FaultKind = "too long" // 400: more than the model's window
	Unknown FaultKind = "model"    // 404: the model is not known
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

// Header sets the headers by which f says where else to ask, and how long to wait if it does so by a header.
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
