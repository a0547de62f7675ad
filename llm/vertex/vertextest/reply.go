package vertextest

import (
	"cmp"
	"context"
	"strings"

	pb "cloud.google.com/go/aiplatform/apiv1beta1/aiplatformpb"
	"google.golang.org/protobuf/types/known/structpb"

	"github.com/cortex-orchestrator/cortex/llm"
	"github.com/cortex-orchestrator/cortex/llm/llmtest"
)

// wire is one of the two protocols. The server's handler returns the errors of its methods.
type wire interface {
	begin() error // sends the head of the response
	send(m *pb.GenerateContentResponse) error
	unknown(m *pb.GenerateContentResponse) error // m with unknown fields and values
	fail(f *llmtest.Fault) error
	cut(inFrame bool) error
	endless() error
	garbage(text string) error
	end() error
}

// say sends r over w.
func say(ctx context.Context, w wire, c *llmtest.Call, r *llmtest.Reply) error {
	s := &script{c: c, r: r, w: w}
	pieces := r.Pieces
	if c.Mode == llm.StructuredTools {
		pieces = nil
	}
	if len(pieces) == 0 {
		c.Wait(r)
	}
	switch {
	case ctx.Err() != nil:
		return ctx.Err()
	case r.Garbage != "":
		return w.garbage(r.Garbage)
	case r.Endless:
		return w.endless()
	case r.Error != nil && len(r.Pieces) == 0:
		return w.fail(r.Error)
	case r.Cut && len(r.Pieces) == 0 && r.Before == "" && r.Thoughts == "":
		return w.cut(false)
	}
	s.do(w.begin)
	s.unknown()
	if r.Thoughts != "" {
		s.part(&pb.Part{Data: text(r.Thoughts), Thought: true})
	}
	if c.Mode == llm.StructuredTools {
		s.calls()
	}
	for i, piece := range pieces {
		s.part(&pb.Part{Data: text(piece)})
		s.unknown()
		if i == 0 && s.err == nil {
			c.Wait(r)
			s.err = ctx.Err() // the client does not wait for the rest
		}
	}
	switch {
	case s.err != nil:
		return s.err
	case r.Error != nil:
		return w.fail(r.Error)
	case r.Cut && r.Orderly:
		return nil
	case r.Cut || r.CutFrame:
		return w.cut(r.CutFrame)
	}
	s.last()
	c.Stay(r)
	s.do(w.end)
	return s.err
}

// script is a reply being sent.
type script struct {
	c   *llmtest.Call
	r   *llmtest.Reply
	w   wire
	err error
}

func text(s string) *pb.Part_Text { return &pb.Part_Text{Text: s} }

func (s *script) do(f func() error) {
	if s.err == nil {
		s.err = f()
	}
}

func (s *script) message(parts ...*pb.Part) *pb.GenerateContentResponse {
	m := &pb.GenerateContentResponse{ModelVersion: cmp.Or(s.r.Model, llmtest.Model), ResponseId: "response-1", UsageMetadata: &pb.GenerateContentResponse_UsageMetadata{}}
	if s.r.Early {
		m.UsageMetadata = s.usage()
	} else if s.r.Usage.Input > 0 { // usage is sent with each message; only the last one is complete
		m.UsageMetadata.PromptTokenCount, m.UsageMetadata.CandidatesTokenCount = 1, 1
	}
	if len(parts) > 0 {
		m.Candidates = []*pb.Candidate{{Content: &pb.Content{Role: "model", Parts: parts}}}
	}
	return m
}

func (s *script) usage() *pb.GenerateContentResponse_UsageMetadata {
	u := s.r.Usage
	m := &pb.GenerateContentResponse_UsageMetadata{
		PromptTokenCount: int32(u.Input), CachedContentTokenCount: int32(u.Cached),
		CandidatesTokenCount: int32(u.Output), TotalTokenCount: int32(u.Tokens()),
	}
	if s.r.Thoughts != "" {
		m.ThoughtsTokenCount = int32(u.Reasoning)
		m.CandidatesTokenCount -= m.ThoughtsTokenCount
	}
	return m
}

func (s *script) part(p *pb.Part) {
	s.do(func() error { return s.w.send(s.message(p)) })
}

// unknown sends parts of Gemini that the SDK does not know, and others that the protocol does not know.
func (s *script) unknown() {
	if !s.r.Unknown {
		return
	}
	parts := []*pb.Part{
		{ThoughtSignature: []byte("alone")},
		{ThoughtSignature: []byte("of a thought"), Thought: true},
		{Data: &pb.Part_ExecutableCode{ExecutableCode: &pb.ExecutableCode{Language: pb.ExecutableCode_PYTHON, Code: "print(1)"}}},
		{Data: &pb.Part_CodeExecutionResult{CodeExecutionResult: &pb.CodeExecutionResult{Outcome: pb.CodeExecutionResult_OUTCOME_OK, Output: "1"}}},
		{Data: &pb.Part_FunctionResponse{FunctionResponse: &pb.FunctionResponse{Name: "f"}}},
		{Data: &pb.Part_InlineData{InlineData: &pb.Blob{MimeType: "image/png", Data: []byte{1, 2, 3}}}},
		{Data: &pb.Part_FunctionCall{FunctionCall: &pb.FunctionCall{Name: "thought_of"}}, Thought: true},
		{},
	}
	for _, p := range parts {
		s.part(p)
	}
	s.do(func() error { return s.w.send(s.message()) })
	s.do(func() error {
		m := s.message(parts...)
		m.PromptFeedback = &pb.GenerateContentResponse_PromptFeedback{} // feedback without a block
		m.Candidates = append(m.Candidates, &pb.Candidate{Index: 1, Content: &pb.Content{Parts: []*pb.Part{{Data: text("another answer")}}}})
		return s.w.unknown(m)
	})
}

// calls sends the function calls of mode tools. Incomplete ones are not sent, since calls are sent as a whole.
func (s *script) calls() {
	if s.r.Before != "" {
		s.part(&pb.Part{Data: text(s.r.Before)})
	}
	for _, args := range []string{strings.Join(s.r.Pieces, ""), s.r.Second} {
		var v structpb.Struct
		if v.UnmarshalJSON([]byte(args)) == nil {
			s.part(&pb.Part{
				Data:             &pb.Part_FunctionCall{FunctionCall: &pb.FunctionCall{Name: "decide", Args: &v}},
				ThoughtSignature: signature(args),
			})
		}
	}
	s.unknown()
}

// finishes maps the ends of an answer to finish reasons.
var finishes = map[llmtest.Finish]pb.Candidate_FinishReason{
	llmtest.Stop:      pb.Candidate_STOP,
	llmtest.Length:    pb.Candidate_MAX_TOKENS,
	llmtest.Filtered:  pb.Candidate_SAFETY,
	llmtest.BadCall:   pb.Candidate_MALFORMED_FUNCTION_CALL,
	llmtest.NeverSeen: neverSeen,
}

// neverSeen is an unknown reason, sent as a name where the protocol has names.
const neverSeen pb.Candidate_FinishReason = 4711

// last sends the message with the finish reason, the usage and the signature.
func (s *script) last() {
	end := &pb.Part{Data: text("")}
	if s.c.Mode != llm.StructuredTools && len(s.r.Pieces) > 0 {
		end.ThoughtSignature = signature(strings.Join(s.r.Pieces, ""))
	}
	m := s.message(end)
	m.UsageMetadata = s.usage()
	switch s.r.Finish {
	case llmtest.Nothing:
		m.Candidates = nil
	case llmtest.Blocked:
		m.Candidates = nil
		m.PromptFeedback = &pb.GenerateContentResponse_PromptFeedback{
			BlockReason: pb.GenerateContentResponse_PromptFeedback_PROHIBITED_CONTENT, BlockReasonMessage: "The prompt has prohibited content.",
		}
	default:
		m.Candidates[0].FinishReason = finishes[s.r.Finish]
		if s.r.Finish != llmtest.Stop {
			m.Candidates[0].FinishMessage = new("The answer ended early.")
		}
	}
	s.do(func() error { return s.w.send(m) })
	if s.r.Unknown {
		s.do(func() error { return s.w.send(&pb.GenerateContentResponse{}) })
	}
}
