package a2a

import (
	"net/http"

	"github.com/a2aproject/a2a-go/v2/a2a"
)

// An error for a caller that is to come again later, since too much is asked of Cortex, has Exhausted under StatusKey in the metadata of its ErrorInfo. The
// SDK has no such error and answers as for a failure within the server; HTTP+JSON and gRPC give it this status of google.rpc.Code instead. Nothing was
// stored of what the caller sent, so it is not for what may have been.
const (
	StatusKey = "status"
	Exhausted = "RESOURCE_EXHAUSTED"
)

// exhausted returns the error.
func exhausted(why string) error {
	return a2a.NewError(a2a.ErrServerError, why).WithErrorInfoMeta(map[string]string{StatusKey: Exhausted})
}

// isExhausted reports whether failed, an error of HTTP+JSON, is such a one.
func isExhausted(failed map[string]any) bool {
	details, _ := failed["details"].([]any)
	for _, of := range details {
		info, _ := of.(map[string]any)
		metadata, _ := info["metadata"].(map[string]any)
		if info["domain"] == a2a.ProtocolDomain && metadata[StatusKey] == Exhausted {
			return true
		}
	}
	return false
}

// beExhausted gives failed the status.
func beExhausted(failed map[string]any) (code int) {
	failed["code"], failed["status"] = http.StatusTooManyRequests, Exhausted
	return http.StatusTooManyRequests
}
