package httpserver

import (
	"io"
	"net/http"
)

// ReadBody returns the body of a request of somebody who is not known yet, of at most so many bytes. Until it has arrived, its connection counts as one that
// waits for a request: who sends it slowly would keep a place like one for whom a handler works.
func ReadBody(w http.ResponseWriter, r *http.Request, most int64) ([]byte, error) {
	if c, ok := r.Context().Value(connKey{}).(*conn); ok {
		c.serving.Add(-1)
		defer func() {
			c.step()
			c.serving.Add(1)
		}()
	}
	return io.ReadAll(http.MaxBytesReader(w, r.Body, most))
}
