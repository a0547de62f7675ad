package oidc

import (
	"fmt"
	"io"
	"net/http"
)

// bounded is a transport whose answers have at most maxAnswer bytes: package oidc reads all of them into memory.
type bounded struct{ http.RoundTripper }

// RoundTrip implements [http.RoundTripper].
func (b bounded) RoundTrip(r *http.Request) (*http.Response, error) {
	answer, err := b.RoundTripper.RoundTrip(r)
	if err == nil {
		answer.Body = &body{answer.Body, maxAnswer}
	}
	return answer, err
}

// body is the body of an answer.
type body struct {
	io.ReadCloser
	left int // bytes
}

// Read implements [io.Reader].
func (b *body) Read(p []byte) (int, error) {
	if b.left < 0 {
		return 0, fmt.Errorf("the answer has more than %d bytes", maxAnswer)
	}
	n, err := b.ReadCloser.Read(p[:min(len(p), b.left+1)])
	b.left -= n
	return n, err
}
