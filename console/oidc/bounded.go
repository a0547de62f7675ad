package oidc

import (
	"errors"
	"fmt"
	"io"
	"net/http"

	"github.com/cortex-orchestrator/cortex/internal/nesting"
)

// bounded is a transport whose answers have at most maxAnswer bytes, and take at most maxHeavy: package oidc reads all of them into memory, and many people,
// and many who are none, may log in at the same time.
type bounded struct{ http.RoundTripper }

// RoundTrip implements [http.RoundTripper].
func (b bounded) RoundTrip(r *http.Request) (*http.Response, error) {
	answer, err := b.RoundTripper.RoundTrip(r)
	if err == nil {
		answer.Body = &body{ReadCloser: answer.Body, left: maxAnswer}
	}
	return answer, err
}

// body is the body of an answer.
type body struct {
	io.ReadCloser
	left  int // bytes
	scale nesting.Scale
}

// errHeavy is for answers of few bytes that take much memory.
var errHeavy = errors.New("the answer has too many values")

// Read implements [io.Reader].
func (b *body) Read(p []byte) (int, error) {
	if b.left < 0 {
		return 0, fmt.Errorf("the answer has more than %d bytes", maxAnswer)
	}
	n, err := b.ReadCloser.Read(p[:min(len(p), b.left+1)])
	b.left -= n
	if b.scale.Write(p[:n]); b.scale.Weight > maxHeavy {
		return 0, errHeavy
	}
	return n, err
}
