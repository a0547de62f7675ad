package vertex

import (
	"bytes"
	"encoding/json"
	"net/http"
	"strings"
	"time"

	// REST names the types of an error's details, which have to be known to be read.
	_ "google.golang.org/genproto/googleapis/rpc/errdetails"

	"google.golang.org/genproto/googleapis/rpc/code"
	rpcstatus "google.golang.org/genproto/googleapis/rpc/status"
	"google.golang.org/grpc/codes"
	"google.golang.org/protobuf/types/known/anypb"

	"github.com/cortex-orchestrator/cortex/llm"
)

// fault is an error in Google's JSON.
type fault struct {
	Code    int               `json:"code"` // HTTP
	Message string            `json:"message"`
	Status  string            `json:"status"` // gRPC's code
	Details []json.RawMessage `json:"details"`
}

// fromREST is the error of an HTTP response. Google says it in an object or, where an array was asked for, in an array;
// proxies in front of it say what they like.
func (k *call) fromREST(status int, header http.Header, body []byte) *llm.Error {
	type wrapped struct{ Error *fault }
	var in []wrapped
	body = bytes.TrimSpace(body)
	if !bytes.HasPrefix(body, []byte("[")) {
		in = make([]wrapped, 1)
		if json.Unmarshal(body, &in[0]) != nil {
			in = nil
		}
	} else if json.Unmarshal(body, &in) != nil {
		in = nil
	}
	f := &fault{}
	if len(in) > 0 && in[0].Error != nil {
		f = in[0].Error
	}
	f.Code = status
	if f.Message == "" {
		f.Message = http.StatusText(status)
		if len(body) > 0 && !bytes.HasPrefix(body, []byte("<")) { // a page
			f.Message += ": " + strings.ToValidUTF8(string(body[:min(len(body), 1000)]), "")
		}
	}
	e := k.fromFault(f)
	if e.RetryAfter == 0 {
		e.RetryAfter = llm.RetryAfter(header, time.Now())
	}
	return e
}

// fromFault is the error that f says.
func (k *call) fromFault(f *fault) *llm.Error {
	kind := kindOfCode(codes.Code(code.Code_value[f.Status]))
	if f.Code >= 300 {
		kind = llm.KindOfStatus(f.Code)
	}
	e := k.fail(kind, f.Message, nil)
	e.Status, e.Code = f.Code, f.Status
	s := &rpcstatus.Status{Code: int32(codes.Unknown), Message: f.Message}
	for _, raw := range f.Details {
		var detail anypb.Any
		if err := reading.Unmarshal(raw, &detail); err == nil { // else it is of a type that is not known
			s.Details = append(s.Details, &detail)
		}
	}
	refine(e, s)
	if e.Message == "" {
		e.Message = "the endpoint failed without a word"
	}
	return e
}
