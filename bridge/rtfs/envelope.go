package rtfs

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"strings"
	"time"
	"unicode/utf8"

	"github.com/cortex-orchestrator/cortex/bridge/kit"
	"github.com/cortex-orchestrator/cortex/internal/httpserver"
	"github.com/cortex-orchestrator/cortex/internal/nesting"
	"github.com/cortex-orchestrator/cortex/internal/shorten"
)

// Bounds of a request.
const (
	maxBody  = 1 << 20 // bytes
	maxDepth = 64
	maxHeavy = 16 << 20         // bytes that it takes when it is decoded, as far as that can be estimated
	callTime = 10 * time.Second // that a method may take; clients wait as long
)

// The codes of errors. Only the first of RTFS's own is in its specification.
const (
	codeParse      = -32700
	codeRequest    = -32600
	codeMethod     = -32601
	codeParams     = -32602
	codeInternal   = -32603
	codeRefused    = -32001 // a registration
	codeUnknown    = -32002 // an agent
	codeFull       = -32003
	maxErrorLength = 500 // bytes of a message
)

// request is a request of JSON-RPC 2.0. Members that are not known are ignored.
type request struct {
	Version json.RawMessage `json:"jsonrpc"`
	ID      json.RawMessage `json:"id"`
	Method  json.RawMessage `json:"method"`
	Params  json.RawMessage `json:"params"`
}

// response answers a request. The client library reads the id as a text, and gets the one that it has sent.
type response struct {
	Version string          `json:"jsonrpc"`
	ID      json.RawMessage `json:"id"`
	Result  any             `json:"result,omitempty"`
	Error   *rpcError       `json:"error,omitempty"`
}

// rpcError is an error of JSON-RPC.
type rpcError struct {
	Code    int32  `json:"code"`
	Message string `json:"message"`
}

func (e *rpcError) Error() string { return e.Message }

func newError(code int32, format string, args ...any) *rpcError {
	return &rpcError{code, shorten.Line(fmt.Sprintf(format, args...), maxErrorLength)}
}

func badParams(err error) *rpcError { return newError(codeParams, "params: %v", err) }

// decode reads params, an object. What is missing or null is an empty one.
func decode(params json.RawMessage, to any) error {
	if len(params) == 0 || string(params) == "null" {
		params = json.RawMessage("{}")
	}
	if params[0] != '{' {
		return badParams(errors.New("an object is needed"))
	}
	if err := json.Unmarshal(params, to); err != nil {
		return badParams(errors.New(jsonError(err)))
	}
	return nil
}

// jsonError returns the text of an error of package json without its prefixes.
func jsonError(err error) string {
	if kind, ok := errors.AsType[*json.UnmarshalTypeError](err); ok {
		return fmt.Sprintf("%s must not be a %s", kind.Field, kind.Value)
	}
	return strings.TrimPrefix(err.Error(), "json: ")
}

// readBody returns a request's body. If it is none, readBody has answered.
func readBody(w http.ResponseWriter, r *http.Request) ([]byte, bool) {
	body, err := httpserver.ReadBody(w, r, maxBody)
	if err != nil {
		http.Error(w, "the request has more than 1 MiB, or did not arrive", http.StatusRequestEntityTooLarge)
		return nil, false
	}
	return body, true
}

// serveRPC answers a request to the registry. Each error has the status 200, since the client library reads no others.
func (b *bridge) serveRPC(w http.ResponseWriter, r *http.Request) {
	body, ok := readBody(w, r)
	if !ok {
		return
	}
	var q *request
	err := b.inTurn(r.Context(), r.RemoteAddr, body, func() (err error) {
		q, err = readRequest(body)
		return err
	})
	answer := &response{Version: "2.0", ID: json.RawMessage("null")}
	if err != nil {
		answer.Error = b.fault("", err)
	} else {
		var method string
		_ = json.Unmarshal(q.Method, &method) // readRequest has looked
		// A registration is not left half done when its client goes.
		ctx, end := context.WithTimeout(context.WithoutCancel(r.Context()), callTime)
		defer end()
		give, err := b.enter(ctx, method, r)
		defer give()
		var result any
		if err == nil {
			result, err = b.call(ctx, method, q.Params, r.RemoteAddr, b.base(r))
		}
		if q.ID == nil { // a notification gets no response
			w.WriteHeader(http.StatusNoContent)
			return
		}
		answer.ID, answer.Result = q.ID, result
		if err != nil {
			answer.Result, answer.Error = nil, b.fault(method, err)
		}
	}
	writeJSON(w, answer)
}

// inTurn calls what decodes a text of a client. Large ones of a machine are decoded one after the other, see [httpserver.NewTurns].
func (b *bridge) inTurn(ctx context.Context, address string, text []byte, decode func() error) error {
	if len(text) > httpserver.LargeBody {
		from := kit.Host(address)
		if !b.turns.Take(ctx, from, 1) {
			return newError(codeFull, "too many large requests are under way: try again in a moment")
		}
		defer b.turns.Give(from, 1)
	}
	return decode()
}

// enter waits for room for the answer of a method, which give gives back when that is written.
func (b *bridge) enter(ctx context.Context, method string, r *http.Request) (give func(), err error) {
	if method != prefixOf+"discover" {
		return func() {}, nil
	}
	from := kit.Host(r.RemoteAddr)
	if !b.room.Take(ctx, from, finding) {
		return func() {}, newError(codeFull, "too many searches are under way: try again in a moment")
	}
	return func() { b.room.Give(from, finding) }, nil
}

// readRequest reads a request.
func readRequest(body []byte) (*request, error) {
	body = bytes.TrimSpace(body)
	switch {
	case !utf8.Valid(body):
		return nil, newError(codeParse, "the request is not valid UTF-8")
	case nesting.Depth(body) > maxDepth || nesting.Weight(body) > maxHeavy:
		return nil, newError(codeRequest, "the request is nested too deep, or has too many values")
	case !json.Valid(body):
		return nil, newError(codeParse, "the request is not JSON")
	case body[0] != '{':
		return nil, newError(codeRequest, "the request is no object: batches are not served")
	}
	q := &request{}
	if err := json.Unmarshal(body, q); err != nil {
		return nil, newError(codeRequest, "the request is none of JSON-RPC 2.0: %s", jsonError(err))
	}
	switch {
	case string(q.Version) != `"2.0"`:
		return nil, newError(codeRequest, "jsonrpc must be \"2.0\"")
	case len(q.Method) == 0 || q.Method[0] != '"':
		return nil, newError(codeRequest, "method must be a text")
	case len(q.ID) > 0 && strings.ContainsRune("{[tf", rune(q.ID[0])):
		return nil, newError(codeRequest, "id must be a text, a number or null")
	}
	return q, nil
}

// fault returns what is told of an error.
func (b *bridge) fault(method string, err error) *rpcError {
	if known, ok := errors.AsType[*rpcError](err); ok {
		return known
	}
	b.at.Logger.Warn("a request to the RTFS registry failed", "method", method, "err", err)
	return newError(codeInternal, "Cortex cannot do it now: %v", err)
}

// writeJSON answers with a value.
func writeJSON(w http.ResponseWriter, value any) {
	text, err := json.Marshal(value)
	if err != nil {
		http.Error(w, "the answer cannot be written", http.StatusInternalServerError)
		return
	}
	w.Header().Set("Content-Type", "application/json")
	_, _ = w.Write(append(text, '\n')) // the client may have gone
}
