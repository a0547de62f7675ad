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

// TestMetricsAreNotForPages asks for metrics from this machine by several names, and from another one.
func TestMetricsAreNotForPages(t *testing.T) {
	for _, c := range []struct {
		from, host string
		want       int
	}{
		{"127.0.0.1:1234", "localhost:8420", http.StatusOK},
		{"[::1]:1234", "[::1]:8420", http.StatusOK},
		{"127.0.0.1:1234", "evil.example:8420", http.StatusForbidden},
		{"10.0.0.7:1234", "cortex.internal:8420", http.StatusOK},
	} {
		r := httptest.NewRequestWithContext(t.Context(), http.MethodGet, "/metrics", nil)
		r.RemoteAddr, r.Host = c.from, c.host
		w := httptest.NewRecorder()
		fromOutside(http.HandlerFunc(func(http.ResponseWriter, *http.Request) {})).ServeHTTP(w, r)
		if w.Code != c.want {
			t.Errorf("a request of %s to %q = %d, want %d", c.from, c.host, w.Code, c.want)
		}
	}
}
