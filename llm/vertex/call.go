package vertex

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"hash"
	"io"
	"strings"
	"sync/atomic"

	pb "cloud.google.com/go/aiplatform/apiv1beta1/aiplatformpb"
	"cloud.google.com/go/vertexai/genai"
	"google.golang.org/protobuf/types/known/structpb"

	"github.com/cortex-orchestrator/cortex/llm"
	"github.com/cortex-orchestrator/cortex/llm/internal/google"
)

// Bounds of what is read of an answer, in bytes.
const (
	maxFrame  = 8 << 20 // one message
	maxAnswer = 32 << 20
)

var errTooLarge = fmt.Errorf("a message of more than %d bytes, or an answer of more than %d", maxFrame, maxAnswer)

// call is the data of one call. It is a value of the call's context, so that the hook below the SDK can reach it. Only the iterating goroutine uses
// it, except for trailer.
type call struct {
	client *Client
	key    string         // the conversation
	mode   llm.Structured // "" for plain text
	schema schema

	trailer  atomic.Bool // gRPC: the server has sent a status
	body     io.Closer   // REST: the body of the answer
	secret   string      // the token that was sent
	tokenErr error
	failure  *llm.Error // an error found by the hook, which the SDK cannot report

	messages  int    // number received
	size      int    // gRPC: their bytes
	candidate bool   // a message had an answer
	finished  bool   // a message had the finish reason
	complete  func() // ends the call soon, since it has finished
	code      string // the finish reason
	reason    string // the endpoint's explanation
	usage     llm.Usage
	model, id string
	signature []byte

	hash   hash.Hash // of the conversation's id and the text
	wrote  bool
	called bool            // the model called the function
	held   strings.Builder // text in mode tools, which is the answer only without a function call
}

func (c *Client) newCall(r *llm.Request) (*call, error) {
	k := &call{client: c, key: r.CacheKey, model: c.cfg.Model, hash: newSigned(r.CacheKey)}
	if len(r.Messages) == 0 || r.Messages[len(r.Messages)-1].Role == llm.RoleAssistant {
		return nil, k.fail(llm.ErrBadRequest, "the request does not end with a message of the user", nil)
	}
	if len(r.Schema) > 0 {
		k.mode = c.cfg.Structured
		if k.mode == llm.StructuredSchema || k.mode == llm.StructuredTools {
			var err error
			if k.schema, err = newSchema(r.Schema); err != nil {
				return nil, k.fail(llm.ErrBadRequest, "the schema cannot be sent: "+err.Error(), err)
			}
		}
	}
	return k, nil
}

type callKey struct{}

// callOf returns nil when ctx does not belong to a call of this package.
func callOf(ctx context.Context) *call {
	k, _ := ctx.Value(callKey{}).(*call)
	return k
}

func (k *call) close() {
	if k.body != nil {
		_ = k.body.Close()
	}
}

// edit adds to a request what the SDK has no fields for.
func (k *call) edit(r *pb.GenerateContentRequest) {
	switch {
	case k.mode == llm.StructuredSchema:
		if r.GenerationConfig == nil {
			r.GenerationConfig = &pb.GenerationConfig{}
		}
		r.GenerationConfig.ResponseSchema, r.GenerationConfig.ResponseJsonSchema = k.schema.vertex, k.schema.json
	case k.mode == llm.StructuredTools && len(r.Tools) == 1 && len(r.Tools[0].FunctionDeclarations) == 1:
		f := r.Tools[0].FunctionDeclarations[0]
		f.Parameters, f.ParametersJsonSchema = k.schema.vertex, k.schema.json
	}
	if k.key == "" {
		return
	}
	for _, content := range r.Contents {
		if content.Role != "model" {
			continue
		}
		for _, part := range content.Parts {
			h := newSigned(k.key)
			h.Write([]byte(part.GetText()))
			part.ThoughtSignature = k.client.signed.get(signed(h.Sum(nil)))
		}
	}
}

// observe reads from an answer what the SDK would lose, and removes what the SDK would fail on.
func (k *call) observe(r *pb.GenerateContentResponse) {
	k.messages++
	if u := r.UsageMetadata; u.GetPromptTokenCount() > 0 || u.GetCandidatesTokenCount() > 0 || u.GetThoughtsTokenCount() > 0 {
		k.usage = llm.Usage{ // cumulative: the last one counts
			Input:  int(u.PromptTokenCount),
			Cached: int(u.CachedContentTokenCount),
			Output: int(u.CandidatesTokenCount) + int(u.ThoughtsTokenCount), Reasoning: int(u.ThoughtsTokenCount),
		}
	}
	if r.ModelVersion != "" {
		k.model = r.ModelVersion
	}
	if r.ResponseId != "" {
		k.id = r.ResponseId
	}
	if r.PromptFeedback.GetBlockReason() == 0 {
		r.PromptFeedback = nil // the SDK treats any feedback as a block
	}
	if len(r.Candidates) > 1 {
		r.Candidates = r.Candidates[:1] // one was requested
	}
	for _, c := range r.Candidates {
		k.candidate = true
		if c.FinishReason != 0 {
			k.finished, k.code, k.reason = true, nameOf(c.FinishReason), c.GetFinishMessage()
		}
		for _, part := range c.Content.GetParts() {
			k.observePart(part)
		}
	}
}

func (k *call) observePart(p *pb.Part) {
	if _, isCall := p.Data.(*pb.Part_FunctionCall); isCall && !p.Thought {
		return // its signature is only needed with a function call, and none is sent
	}
	if len(p.ThoughtSignature) > 0 {
		k.signature = p.ThoughtSignature
		p.ThoughtSignature = nil
	}
	if _, isText := p.Data.(*pb.Part_Text); !isText || p.Thought {
		p.Data, p.Thought = &pb.Part_Text{}, false
	}
}

// texts returns the pieces of the answer in a. In mode tools these are the arguments of the first function call.
func (k *call) texts(a *genai.GenerateContentResponse) []string {
	var texts []string
	for _, c := range a.Candidates {
		if c.Content == nil {
			continue
		}
		for _, part := range c.Content.Parts {
			switch part := part.(type) {
			case genai.Text:
				switch {
				case part == "":
				case k.mode == llm.StructuredTools:
					if !k.called {
						k.held.WriteString(string(part))
					}
				default:
					k.hash.Write([]byte(part))
					texts = append(texts, string(part))
				}
			case genai.FunctionCall:
				if k.mode == llm.StructuredTools && !k.called {
					k.called = true
					texts = append(texts, k.schema.arguments(part.Args))
				}
			}
		}
	}
	k.wrote = k.wrote || len(texts) > 0
	return texts
}

// tooMuch bounds the text that is held back.
func (k *call) tooMuch() error {
	if k.held.Len() > llm.MaxDecision {
		return k.fail(llm.ErrLength, fmt.Sprintf("the model wrote more than %d bytes and called no function", llm.MaxDecision), nil)
	}
	return nil
}

// end returns the rest of an answer whose stream has ended, or the error of an unusable one.
func (k *call) end() (rest string, err error) {
	if !k.called {
		rest = k.held.String()
	}
	_, kind := google.Ending(k.code)
	switch {
	case k.messages == 0, k.candidate && !k.finished:
		return "", k.fail(llm.ErrTruncated, "the stream ended before the answer did", nil)
	case !k.wrote && rest == "" && (kind == nil || errors.Is(kind, llm.ErrTruncated)): // an empty answer was not cut off
		kind = llm.ErrEmpty
	case kind == nil:
		return rest, nil
	}
	e := k.fail(kind, k.reason, nil)
	if k.code != pb.Candidate_STOP.String() {
		e.Code = k.code
	}
	return "", e
}

// remember stores the signature of the answer.
func (k *call) remember() {
	if k.mode != llm.StructuredTools && k.key != "" {
		k.client.signed.put(signed(k.hash.Sum(nil)), k.signature)
	}
}

// schema is a request's schema in the protocol: in Google's dialect, or unchanged where that is not sufficient.
type schema struct {
	vertex *pb.Schema
	json   *structpb.Value
}

func newSchema(raw json.RawMessage) (schema, error) {
	if s, err := convert(raw, 0); err == nil {
		return schema{vertex: s}, nil
	}
	var v structpb.Value
	if err := v.UnmarshalJSON(raw); err != nil {
		return schema{}, err
	}
	return schema{json: &v}, nil
}
