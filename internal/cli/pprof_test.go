package cli

import (
	"errors"
	"net/http"
	"net/http/httptest"
	"strings"
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

// TestOneScrapeEach has a person make two requests at the same time: the second one is refused, and that of somebody else is not.
func TestOneScrapeEach(t *testing.T) {
	inside, goOn := make(chan bool), make(chan bool)
	h := forPeople(http.HandlerFunc(func(http.ResponseWriter, *http.Request) {
		inside <- true
		<-goOn
	}), func(token string) (string, error) {
		if token == "" {
			return "", errors.New("none")
		}
		return "user:" + token, nil
	})
	ask := func(token string) int {
		r := httptest.NewRequestWithContext(t.Context(), http.MethodGet, "/metrics", nil)
		r.Header.Set("Authorization", "Bearer "+token)
		w := httptest.NewRecorder()
		h.ServeHTTP(w, r)
		return w.Code
	}
	codes := make(chan int, 2)
	for _, who := range []string{"ada", "bob"} {
		go func() { codes <- ask(who) }()
		<-inside
	}
	if got := ask("ada"); got != http.StatusServiceUnavailable {
		t.Errorf("the second request of a person = %d", got)
	}
	if got := ask(""); got != http.StatusUnauthorized {
		t.Errorf("the request of nobody = %d", got)
	}
	close(goOn)
	for range 2 {
		if got := <-codes; got != http.StatusOK {
			t.Errorf("the request of each = %d", got)
		}
	}
	go func() { <-inside }()
	if got := ask("ada"); got != http.StatusOK {
		t.Errorf("a request after the other = %d", got)
	}
}

// TestReadinessIsBriefForPages asks for the readiness from this machine by several names, and from another one: what is wrong is not for pages of a browser.
func TestReadinessIsBriefForPages(t *testing.T) {
	for _, code := range []int{http.StatusOK, http.StatusServiceUnavailable} {
		for _, c := range []struct {
			from, host string
			all        bool
		}{
			{"127.0.0.1:1234", "localhost:8420", true},
			{"127.0.0.1:1234", "127.0.0.1", true},
			{"127.0.0.1:1234", "evil.example:8420", false},
			{"10.0.0.7:1234", "cortex.internal:8420", true},
		} {
			r := httptest.NewRequestWithContext(t.Context(), http.MethodGet, "/readyz", nil)
			r.RemoteAddr, r.Host = c.from, c.host
			w := httptest.NewRecorder()
			briefly(func(w http.ResponseWriter, _ *http.Request) {
				w.WriteHeader(code)
				_, _ = w.Write([]byte("secret"))
			})(w, r)
			if got := strings.Contains(w.Body.String(), "secret"); w.Code != code || got != c.all {
				t.Errorf("a request of %s to %q = %d, %q; want %d, with what is wrong %t", c.from, c.host, w.Code, w.Body, code, c.all)
			}
		}
	}
}
