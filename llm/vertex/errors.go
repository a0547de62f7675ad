package vertex

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"time"

	pb "cloud.google.com/go/aiplatform/apiv1beta1/aiplatformpb"
	"cloud.google.com/go/vertexai/genai"
	"google.golang.org/genproto/googleapis/rpc/code"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/encoding/protojson"

	// The types of an error's details have to be registered to be decoded.
	_ "google.golang.org/genproto/googleapis/rpc/errdetails"

	"github.com/cortex-orchestrator/cortex/llm"
	"github.com/cortex-orchestrator/cortex/llm/internal/google"
)

// fail returns an error with the call's data so far.
func (k *call) fail(kind error, message string, cause error) *llm.Error {
	return &llm.Error{
		Kind: kind, Provider: k.client.cfg.Name, Model: k.client.cfg.Model,
		RequestID: k.id, Message: message, Usage: k.usage, Err: cause,
	}
}

// failed converts the error that ended k. ctx is the caller's.
func (k *call) failed(ctx context.Context, err error) error {
	ended := ctx.Err()
	if deadline, ok := ctx.Deadline(); ok && ended == nil && status.Code(err) == codes.DeadlineExceeded && time.Until(deadline) < time.Second {
		ended = context.DeadlineExceeded // the server's clock was ahead
	}
	if ended != nil {
		return fmt.Errorf("%s: %w", k.client.cfg.Name, ended)
	}
	e := k.translate(err)
	if errors.Is(e.Err, context.Canceled) || errors.Is(e.Err, context.DeadlineExceeded) {
		e.Err = nil // the error of a context that the caller does not have
	}
	return e.Redact(k.secret)
}

func (k *call) translate(err error) *llm.Error {
	var own *llm.Error
	var blocked *genai.BlockedError
	var network *url.Error
	switch {
	case k.client.closed.Load():
		return k.fail(llm.ErrUnavailable, "the client was closed", nil)
	case k.failure != nil:
		return k.failure
	case errors.As(err, &own):
		return own
	case errors.As(err, &blocked):
		return k.blocked(blocked)
	case k.tokenErr != nil:
		return k.tokenFailed()
	}
	if s, ok := status.FromError(err); ok {
		return k.fromGRPC(s, err)
	}
	message := err.Error()
	if errors.As(err, &network) {
		message = network.Err.Error() // without the URL
	}
	return k.fail(llm.ErrUnavailable, message, err)
}

// blocked returns the error of a filter of the prompt or of the answer.
func (k *call) blocked(b *genai.BlockedError) *llm.Error {
	e := k.fail(llm.ErrRefused, k.reason, nil)
	if f := b.PromptFeedback; f != nil {
		e.Message = "the prompt was blocked"
		if f.BlockReasonMessage != "" {
			e.Message += ": " + f.BlockReasonMessage
		}
		e.Code = pb.GenerateContentResponse_PromptFeedback_BlockedReason(f.BlockReason).String()
	} else if b.Candidate != nil {
		e.Code = k.code
	}
	return e
}

func (k *call) tokenFailed() *llm.Error {
	kind := kindOfTokenError(k.tokenErr)
	message := "no token for the credentials: " + k.tokenErr.Error()
	if errors.Is(kind, llm.ErrAuth) {
		message = "no token for the credentials; " + advice + ": " + k.tokenErr.Error()
	}
	return k.fail(kind, message, k.tokenErr)
}

// unreadable begins the error about an answer that cannot be decoded.
const unreadable = "the endpoint's answer cannot be read: "

// fromGRPC converts a status: the server's, or one that gRPC creates for a broken connection.
func (k *call) fromGRPC(s *status.Status, cause error) *llm.Error {
	if !k.trailer.Load() {
		switch s.Code() {
		case codes.ResourceExhausted:
			return k.fail(llm.ErrUnavailable, unreadable+s.Message(), cause)
		case codes.Unavailable, codes.Internal, codes.Unknown, codes.Canceled:
			kind := llm.ErrUnavailable
			if k.messages > 0 {
				kind = llm.ErrTruncated
			}
			return k.fail(kind, s.Message(), cause)
		}
	}
	f := &google.Fault{Message: s.Message(), Status: code.Code(s.Code()).String()}
	for _, d := range s.Proto().GetDetails() {
		var detail map[string]any
		if b, err := protojson.Marshal(d); err == nil && json.Unmarshal(b, &detail) == nil { // otherwise its type is unknown
			f.Details = append(f.Details, detail)
		}
	}
	e := k.explained(f, 0, nil)
	e.Err = cause
	return e
}

// explained converts f.
func (k *call) explained(f *google.Fault, status int, header http.Header) *llm.Error {
	e := f.Explain(status, header, time.Now())
	e.Provider, e.Model, e.Usage = k.client.cfg.Name, k.client.cfg.Model, k.usage
	e.RequestID, e.Message = cmp.Or(e.RequestID, k.id), cmp.Or(e.Message, "the endpoint failed without a word")
	return e
}
