package cli

import (
	"net/http"
	"net/http/httptest"
	"testing"
)

// TestProfilesAreForThisMachine asks for profiles by several names of the host.
func TestProfilesAreForThisMachine(t *testing.T) {
	for host, want := range map[string]int{
		"127.0.0.1:6060": http.StatusOK, "localhost:6060": http.StatusOK, "[::1]:6060": http.StatusOK, "localhost": http.StatusOK,
		"evil.example:6060": http.StatusForbidden, "evil.example": http.StatusForbidden, "10.0.0.1:6060": http.StatusForbidden, "": http.StatusForbidden,
	} {
		r := httptest.NewRequestWithContext(t.Context(), http.MethodGet, "/debug/pprof/cmdline", nil)
		r.Host = host
		w := httptest.NewRecorder()
		profiles().ServeHTTP(w, r)
		if w.Code != want {
			t.Errorf("a request to %q = %d, want %d", host, w.Code, want)
		}
	}
}
