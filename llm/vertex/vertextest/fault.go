package vertextest

import (
	"encoding/json"
	"net/http"
	"strings"

	"google.golang.org/genproto/googleapis/rpc/errdetails"
	"google.golang.org/grpc/codes"
	"google.golang.org/protobuf/encoding/protojson"
	"google.golang.org/protobuf/protoadapt"
	"google.golang.org/protobuf/types/known/anypb"
	"google.golang.org/protobuf/types/known/durationpb"

	"github.com/cortex-orchestrator/cortex/llm/llmtest"
)

// grpcCodes maps HTTP statuses to gRPC codes. Others are codes.Unavailable.
var grpcCodes = map[int]codes.Code{
	http.StatusBadRequest:          codes.InvalidArgument,
	http.StatusUnauthorized:        codes.Unauthenticated,
	http.StatusForbidden:           codes.PermissionDenied,
	http.StatusNotFound:            codes.NotFound,
	http.StatusConflict:            codes.Aborted,
	http.StatusTooManyRequests:     codes.ResourceExhausted,
	http.StatusInternalServerError: codes.Internal,
	http.StatusRequestTimeout:      codes.DeadlineExceeded,
	http.StatusGatewayTimeout:      codes.DeadlineExceeded,
}

// names are the codes' names in Google's JSON.
var names = map[codes.Code]string{
	codes.InvalidArgument: "INVALID_ARGUMENT", codes.Unauthenticated: "UNAUTHENTICATED", codes.PermissionDenied: "PERMISSION_DENIED",
	codes.NotFound: "NOT_FOUND", codes.Aborted: "ABORTED", codes.ResourceExhausted: "RESOURCE_EXHAUSTED", codes.Internal: "INTERNAL",
	codes.DeadlineExceeded: "DEADLINE_EXCEEDED", codes.Unavailable: "UNAVAILABLE",
}

// codeOf returns gRPC's code for f.
func codeOf(f *llmtest.Fault) codes.Code {
	if c, ok := grpcCodes[f.Status]; ok {
		return c
	}
	return codes.Unavailable
}

// messageOf returns the message of f for a client with this key.
func messageOf(f *llmtest.Fault, key string) string {
	m := f.Message
	switch {
	case m != "":
	case f.Kind == llmtest.Quota:
		m = "You exceeded your current quota, please check your plan and billing details."
	case f.Kind == llmtest.TooLong:
		m = "The input token count (1200000) exceeds the maximum number of tokens allowed (1048576)."
	case f.Kind == llmtest.Unknown:
		m = "Publisher Model `projects/p/locations/global/publishers/google/models/test-model` was not found or your project does not have access to it."
	default:
		m = "The service cannot do this: " + http.StatusText(f.Status)
	}
	return strings.ReplaceAll(m, "{key}", key)
}

// detailsOf returns the details of f.
func detailsOf(f *llmtest.Fault) []protoadapt.MessageV1 {
	details := []protoadapt.MessageV1{&errdetails.RequestInfo{RequestId: "request-1"}}
	if f.Kind == llmtest.Quota {
		details = append(details, &errdetails.QuotaFailure{Violations: []*errdetails.QuotaFailure_Violation{{
			QuotaMetric: "aiplatform.googleapis.com/generate_requests",
			QuotaId:     "GenerateRequestsPerDayPerProjectPerModel",
		}}})
	}
	if f.RetryAfter > 0 && f.Form == llmtest.RetryInfo {
		details = append(details, &errdetails.RetryInfo{RetryDelay: durationpb.New(f.RetryAfter)})
	}
	return details
}

// Shapes is the number of shapes of an error's body over REST: Google's in an array, Google's alone, another service's, a proxy's page, and none.
const Shapes = 5

// bodyOf returns f as the body of an HTTP response.
func bodyOf(f *llmtest.Fault, key string) string {
	switch f.Shape {
	case 0:
		return "[" + objectOf(f, key) + "\n]\n"
	case 1:
		return objectOf(f, key)
	case 2:
		return `{"error":"denied","error_description":` + quote(messageOf(f, key)) + `}`
	case 3:
		return "<html><head><title>" + http.StatusText(f.Status) + "</title></head></html>"
	}
	return ""
}

// objectOf returns f in Google's JSON. One of its details has an unknown type.
func objectOf(f *llmtest.Fault, key string) string {
	details := []json.RawMessage{[]byte(`{"@type":"type.googleapis.com/google.rpc.NeverSeen","why":[1,2]}`)}
	for _, d := range detailsOf(f) {
		packed, err := anypb.New(protoadapt.MessageV2Of(d))
		if err != nil {
			panic(err)
		}
		details = append(details, []byte(protojson.Format(packed)))
	}
	body, err := json.Marshal(map[string]any{"error": map[string]any{
		"code": f.Status, "message": messageOf(f, key), "status": names[codeOf(f)], "details": details,
	}})
	if err != nil {
		panic(err)
	}
	return string(body)
}

func quote(s string) string {
	b, err := json.Marshal(s)
	if err != nil {
		panic(err)
	}
	return string(b)
}
