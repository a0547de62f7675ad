package llmtest

import (
	"bytes"
	"encoding/json"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"
)

// Serve starts a server of a wire. It ends with the test, and so do its connections.
func Serve(t testing.TB, h http.Handler) *httptest.Server {
	s := httptest.NewServer(h)
	t.Cleanup(func() {
		s.CloseClientConnections()
		s.Close()
	})
	return s
}

// Decode decodes the body of a request, in which, as at the providers, a field that v lacks is an error.
func Decode(body []byte, v any) error {
	d := json.NewDecoder(bytes.NewReader(body))
	d.DisallowUnknownFields()
	return d.Decode(v)
}

// Write sends f with this body instead of an answer.
func (f *Fault) Write(w http.ResponseWriter, body []byte, contentType string) {
	f.Header(w.Header(), time.Now())
	w.Header().Set("Content-Type", contentType)
	w.WriteHeader(f.Status)
	_, _ = w.Write(body)
}

// Endless sends begin and what [Reply].Endless says, for servers.
func (c *Call) Endless(w http.ResponseWriter, begin string) {
	const most = 64 << 20
	block := strings.Repeat("0123456789abcdef", 4<<10)
	_, err := io.WriteString(w, begin)
	for sent := 0; sent < most && err == nil; sent += len(block) {
		_, err = io.WriteString(w, block)
	}
	_ = http.NewResponseController(w).Flush()
	<-c.Gone
}
