package vertex

import (
	"context"
	"errors"
	"fmt"
	"net/url"
	"regexp"
	"slices"
	"time"

	pb "cloud.google.com/go/aiplatform/apiv1beta1/aiplatformpb"
	"cloud.google.com/go/vertexai/genai"
	"github.com/googleapis/gax-go/v2/apierror"
	"google.golang.org/genproto/googleapis/rpc/code"
	rpcstatus "google.golang.org/genproto/googleapis/rpc/status"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"github.com/cortex-orchestrator/cortex/llm"
)

// fail returns an error of k with what is known by now.
func (k *call) fail(kind error, message string, cause error) *llm.Error {
	return &llm.Error{
		Kind: kind, Provider: k.client.cfg.Name, Model: k.client.cfg.Model,
		RequestID: k.id, Message: message, Usage: k.usage, Err: cause,
	}
}

// failed translates what ended k. ctx is the caller's.
func (k *call) failed(ctx context.Context, err error) error {
	ended := ctx.Err()
	if deadline, ok := ctx.Deadline(); ok && ended == nil && status.Code(err) == codes.DeadlineExceeded && time.Until(deadline) < time.Second {
		ended = context.DeadlineExceeded // the server's clock was first
	}
	if ended != nil {
		return fmt.Errorf("%s: %w", k.client.cfg.Name, ended)
	}
	e := k.translate(err)
	if errors.Is(e.Err, context.Canceled) || errors.Is(e.Err, context.DeadlineExceeded) {
		e.Err = nil // a context that the caller does not know
	}
	return e.Redact(k.secret)
}

func (k *call) translate(err error) *llm.Error {
	var own *llm.Error
	var blocked *genai.BlockedError
	var broken *panicked
	var network *url.Error
	switch {
	case k.client.isClosed():
		return k.fail(llm.ErrUnavailable, "the client was closed", nil)
	case k.failure != nil:
		return k.failure
	case errors.As(err, &own):
		return own
	case errors.As(err, &broken):
		return k.fail(llm.ErrUnavailable, err.Error(), err)
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

// blocked is the error of a filter, of the prompt or of the answer.
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

// unreadable is said of an answer before the reason why.
const unreadable = "the endpoint's answer cannot be read: "

// fromGRPC is the error of a status: the server's, or one that gRPC gives to a connection that broke.
func (k *call) fromGRPC(s *status.Status, cause error) *llm.Error {
	kind := kindOfCode(s.Code())
	if !k.trailer.Load() {
		switch s.Code() {
		case codes.ResourceExhausted:
			return k.fail(llm.ErrUnavailable, unreadable+s.Message(), cause)
		case codes.Unavailable, codes.Internal, codes.Unknown, codes.Canceled:
			kind = llm.ErrUnavailable
			if k.messages > 0 {
				kind = llm.ErrTruncated
			}
			return k.fail(kind, s.Message(), cause)
		}
	}
	e := k.fail(kind, s.Message(), cause)
	e.Code = code.Code(s.Code()).String()
	refine(e, s.Proto())
	return e
}

// kindOfCode returns the kind of error that a gRPC code most likely is.
func kindOfCode(c codes.Code) error {
	switch c {
	case codes.Unauthenticated, codes.PermissionDenied:
		return llm.ErrAuth
	case codes.NotFound:
		return llm.ErrNoModel
	case codes.ResourceExhausted:
		return llm.ErrRateLimited
	case codes.InvalidArgument, codes.FailedPrecondition, codes.OutOfRange, codes.AlreadyExists, codes.Unimplemented:
		return llm.ErrBadRequest
	}
	return llm.ErrUnavailable
}

// What Google says of a quota that does not come back soon, or at all, of a prompt that is too long, and of an account that it
// does not serve: for where it is, or for want of a way to pay.
var (
	lastingQuota = regexp.MustCompile(`(?i)per.?day|daily|limit: 0\b|limit '0'`)
	tooLong      = regexp.MustCompile(`(?i)(input|prompt) tokens?\b|token count|context (length|window)|prompt is too long|payload size exceeds the limit`)
	notServed    = regexp.MustCompile(`(?i)user location is not supported|enable billing`)
)

// refine reads from the details of a status what is more exact than its code.
func refine(e *llm.Error, s *rpcstatus.Status) {
	said := []string{e.Message}
	if fault, ok := apierror.FromError(status.ErrorProto(s)); ok {
		details := fault.Details()
		if d := details.RetryInfo.GetRetryDelay().AsDuration(); d > 0 {
			e.RetryAfter = min(d, 24*time.Hour)
		}
		if id := details.RequestInfo.GetRequestId(); id != "" {
			e.RequestID = id
		}
		for _, v := range details.QuotaFailure.GetViolations() {
			said = append(said, v.GetSubject(), v.GetDescription(), v.GetQuotaMetric(), v.GetQuotaId())
		}
		meta := details.ErrorInfo.GetMetadata()
		said = append(said, meta["quota_metric"], meta["quota_limit"])
		if meta["quota_limit_value"] == "0" {
			said = append(said, "limit: 0")
		}
	}
	switch {
	case errors.Is(e.Kind, llm.ErrRateLimited) && slices.ContainsFunc(said, lastingQuota.MatchString):
		e.Kind = llm.ErrQuota
	case errors.Is(e.Kind, llm.ErrBadRequest) && tooLong.MatchString(e.Message):
		e.Kind = llm.ErrTooLong
	case errors.Is(e.Kind, llm.ErrBadRequest) && notServed.MatchString(e.Message):
		e.Kind = llm.ErrAuth
	}
}

// panicked is what the SDK does with an answer that it does not understand.
type panicked struct{ words string }

func (p *panicked) Error() string { return "the SDK does not understand the answer: " + p.words }

// caught calls f, which calls the SDK.
func caught(f func() error) (err error) {
	defer func() {
		if p := recover(); p != nil {
			err = &panicked{fmt.Sprint(p)}
		}
	}()
	return f()
}
