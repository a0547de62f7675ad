package vertex

import (
	"bytes"
	"io"
	"net/http"

	pb "cloud.google.com/go/aiplatform/apiv1beta1/aiplatformpb"
	"google.golang.org/protobuf/encoding/protojson"

	"github.com/cortex-orchestrator/cortex/llm/internal/google"
)

// The protocol's JSON. Enumerations are sent as the SDK sends them.
var (
	reading = protojson.UnmarshalOptions{AllowPartial: true, DiscardUnknown: true}
	writing = protojson.MarshalOptions{AllowPartial: true, UseEnumNumbers: true}
)

// rewriting lets the call of a request's context edit the request and observe its answer, as intercept does for gRPC.
type rewriting struct{ next http.RoundTripper }

// RoundTrip implements [http.RoundTripper]. It returns an unsuccessful response as an [llm.Error], including a redirect, which would otherwise be
// followed with the credentials.
func (t rewriting) RoundTrip(r *http.Request) (*http.Response, error) {
	k := callOf(r.Context())
	if k == nil || r.Body == nil {
		return t.next.RoundTrip(r)
	}
	body, err := io.ReadAll(r.Body)
	_ = r.Body.Close()
	if err != nil {
		return nil, err
	}
	var request pb.GenerateContentRequest
	if err := reading.Unmarshal(body, &request); err != nil {
		return nil, err
	}
	k.edit(&request)
	if body, err = writing.Marshal(&request); err != nil {
		return nil, err
	}
	r = r.Clone(r.Context())
	r.Body, r.ContentLength = io.NopCloser(bytes.NewReader(body)), int64(len(body))
	r.GetBody = func() (io.ReadCloser, error) { return io.NopCloser(bytes.NewReader(body)), nil }
	answer, err := t.next.RoundTrip(r)
	if err != nil {
		return nil, err
	}
	if answer.StatusCode != http.StatusOK {
		body, _ := io.ReadAll(io.LimitReader(answer.Body, google.MaxFault)) // a partial body is sufficient
		_ = answer.Body.Close()
		k.failure = k.explained(google.FaultOf(body), answer.StatusCode, answer.Header)
		return nil, k.failure
	}
	k.body = answer.Body
	answer.Body = newArray(answer.Body, k)
	answer.Header.Del("Content-Length")
	answer.ContentLength = -1
	return answer, nil
}
