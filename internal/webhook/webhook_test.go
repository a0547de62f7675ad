package webhook_test

import (
	"context"
	"errors"
	"net/http"
	"net/http/httptest"
	"net/netip"
	"net/url"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/cortex-orchestrator/cortex/internal/publicnet"
	"github.com/cortex-orchestrator/cortex/internal/webhook"
)

func TestParse(t *testing.T) {
	c := webhook.New(&webhook.Options{Hosts: []string{"Hooks.Internal", "10.0.0.5:8080", "[::1]:9000", "fd00::1"}})
	for text, want := range map[string]bool{
		"https://example.com/hook?a=b": true, "https://example.com:8443": true, "https://8.8.8.8/": true, "https://[2606:4700::1111]/": true,
		"http://example.com/": false, "ftp://example.com/": false, "example.com": false, "//example.com/": false, "": false, "https:///x": false, "https:example.com": false,
		"https://user:pass@example.com/": false, "https://user@example.com/": false, "https://example.com/#x": false, "https://example.com:0/": false,
		"https://example.com:70000/": false, "https://example.com:x/": false, "https://exa mple.com/": false, "https://example.com/\r\nX: y": false,
		"https://localhost/": false, "https://LOCALHOST./": false, "https://a.localhost/": false, "https://127.0.0.1/": false, "https://[::1]/": false,
		"https://[::ffff:127.0.0.1]/": false, "https://[::ffff:7f00:1]/": false, "https://[fe80::1%25eth0]/": false, "https://169.254.169.254/latest": false,
		"https://10.0.0.5/": false, "https://192.168.0.1./": false,
		"http://hooks.internal/": true, "http://hooks.internal:1234/x": true, "https://HOOKS.internal./": true, "http://hooks.internal.evil.com/": false, "http://hooks.\u0130nternal/": false,
		"http://10.0.0.5:8080/": true, "http://10.0.0.5/": false, "http://[::1]:9000/": true, "http://[::1]/": false, "http://[fd00::1]:7/": true,
		"http://evil.com/hooks.internal": false, "http://hooks.internal@evil.com/": false, "http://user@hooks.internal/": false,
		"https://example.com/" + strings.Repeat("a", webhook.MaxURL): false,
	} {
		if _, err := c.Parse(text); (err == nil) != want {
			t.Errorf("Parse(%.80q) = %v, want allowed %t", text, err, want)
		}
	}
}

func TestCheckHost(t *testing.T) {
	for text, want := range map[string]bool{
		"hooks.internal": true, "10.0.0.5:8080": true, "[::1]:9000": true, "[::1]": true, "": false, "http://a": false, "a/b": false, "u@a": false, "*.a": false, ":80": false,
	} {
		if err := webhook.CheckHost(text); (err == nil) != want {
			t.Errorf("CheckHost(%q) = %v, want allowed %t", text, err, want)
		}
	}
}

// FuzzParse has URLs of strangers: what is allowed has TLS and no address of this network, and a request goes to the host that was checked.
func FuzzParse(f *testing.F) {
	for _, text := range []string{
		"https://example.com/", "https://[::ffff:127.0.0.1]/", "https://0x7f.1/", "https://127.0.0.1\\@example.com/", "https://example.com\t/", "https://⑫7.0.0.1/",
		"https://[64:ff9b::7f00:1]:443/x?y", "HTTPS://LOCALHOST", "https://a%2eb/", "https://example.com:443:80/", "https://[::1%25a]/", "http://a.internal:80",
	} {
		f.Add(text)
	}
	c := webhook.New(&webhook.Options{Hosts: []string{"a.internal:80"}})
	f.Fuzz(func(t *testing.T, text string) {
		u, err := c.Parse(text)
		if err != nil {
			return
		}
		free := strings.EqualFold(strings.TrimSuffix(u.Hostname(), "."), "a.internal") && u.Scheme == "http"
		if u.Scheme != "https" && !free || u.User != nil || len(text) > webhook.MaxURL {
			t.Errorf("%q is allowed", text)
		}
		if ip, err := netip.ParseAddr(strings.TrimSuffix(u.Hostname(), ".")); err == nil && !publicnet.Is(ip) {
			t.Errorf("%q is allowed, which is %s", text, ip)
		}
		again, err := url.Parse(u.String())
		if err != nil || again.Host != u.Host || again.Scheme != u.Scheme {
			t.Errorf("%q is sent to %v (%v)", text, again, err)
		}
		r, err := http.NewRequest(http.MethodPost, u.String(), nil) //nolint:noctx // it is not sent
		if err == nil && (r.URL.Hostname() != u.Hostname() || strings.ContainsAny(r.Host, "\r\n ")) {
			t.Errorf("%q is sent to %q", text, r.URL.Host)
		}
	})
}

// receive returns a receiver, and its host.
func receive(t *testing.T, h http.HandlerFunc) (at, host string) {
	t.Helper()
	s := httptest.NewServer(h)
	t.Cleanup(func() {
		s.CloseClientConnections()
		s.Close()
	})
	return s.URL, strings.TrimPrefix(s.URL, "http://")
}

func post(t *testing.T, c *webhook.Client, to string) *webhook.Error {
	t.Helper()
	err := c.Post(t.Context(), to, http.Header{}, []byte("{}"))
	if err == nil {
		return nil
	}
	var why *webhook.Error
	if !errors.As(err, &why) {
		t.Fatalf("Post() = %v", err)
	}
	return why
}

func TestPost(t *testing.T) {
	var elsewhere atomic.Int32
	other, _ := receive(t, func(http.ResponseWriter, *http.Request) { elsewhere.Add(1) })
	status := http.StatusNoContent
	at, host := receive(t, func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Location", other)
		w.Header().Set("Retry-After", "7")
		if r.Header.Get("User-Agent") != "cortex/test" {
			t.Errorf("%v", r.Header)
		}
		w.WriteHeader(status)
	})
	c := webhook.New(&webhook.Options{Hosts: []string{host}, Agent: "cortex/test"})
	defer c.Close()
	if err := post(t, c, at); err != nil {
		t.Errorf("204: %v", err)
	}
	for _, status = range []int{301, 302, 303, 307, 308} {
		if err := post(t, c, at); err == nil || !strings.Contains(err.Why, "redirects are not followed") || elsewhere.Load() != 0 {
			t.Errorf("%d: %v, and %d requests to where it points", status, err, elsewhere.Load())
		}
	}
	status = http.StatusServiceUnavailable
	if err := post(t, c, at); err == nil || err.After != 7*time.Second || err.Gone {
		t.Errorf("503: %+v", err)
	}
	status = http.StatusGone
	if err := post(t, c, at); err == nil || !err.Gone {
		t.Errorf("410: %+v", err)
	}
}

// TestEndless has receivers that never end: their header, their answer, or the wait for it.
func TestEndless(t *testing.T) {
	stop, ended := make(chan struct{}), make(chan struct{})
	var said atomic.Int64 // of the answer without end
	at, host := receive(t, func(w http.ResponseWriter, r *http.Request) {
		switch r.URL.Path {
		case "/silent":
			select {
			case <-stop:
			case <-r.Context().Done():
			}
		case "/header":
			w.Header().Set("X", strings.Repeat("x", 1<<20))
		case "/body":
			for r.Context().Err() == nil {
				n, err := w.Write(make([]byte, 1<<16))
				if said.Add(int64(n)); err != nil {
					break
				}
			}
			close(ended)
		}
	})
	t.Cleanup(func() { close(stop) })
	c := webhook.New(&webhook.Options{Hosts: []string{host}, Timeout: 200 * time.Millisecond})
	patient := webhook.New(&webhook.Options{Hosts: []string{host}, Timeout: 30 * time.Second})
	defer c.Close()
	defer patient.Close()
	if err := post(t, c, at+"/silent"); err == nil || !strings.Contains(err.Why, "no answer within") {
		t.Errorf("silence: %v", err)
	}
	if err := post(t, patient, at+"/header"); err == nil {
		t.Error("a header without end is taken")
	}
	if err := post(t, patient, at+"/body"); err != nil {
		t.Errorf("an answer without end, which says 200: %v", err)
	}
	<-ended
	if n := said.Load(); n > 64<<20 {
		t.Errorf("%d bytes are read", n)
	}
}

// TestDialed has names that lead to this machine: the address is checked that is dialed, whatever the name promised.
func TestDialed(t *testing.T) {
	var reached atomic.Int32
	s := httptest.NewTLSServer(http.HandlerFunc(func(http.ResponseWriter, *http.Request) { reached.Add(1) }))
	defer s.Close()
	port := s.URL[strings.LastIndexByte(s.URL, ':'):]
	c := webhook.New(&webhook.Options{Hosts: []string{"hooks.internal:8443"}})
	defer c.Close()
	for _, name := range []string{"localhost", "127.0.0.1", "[::ffff:127.0.0.1]"} {
		if err := webhook.Dial(c, name+port); !errors.Is(err, webhook.ErrPrivate) {
			t.Errorf("%s: %v", name, err)
		}
	}
	if reached.Load() != 0 {
		t.Error("it was reached")
	}
	used := map[string]string{}
	webhook.Swap(c, func(r *http.Request) { used[r.URL.Host] = "public" }, func(r *http.Request) { used[r.URL.Host] = "free" })
	_ = c.Post(t.Context(), "https://example.com/", http.Header{}, nil)
	_ = c.Post(t.Context(), "https://hooks.internal:8443/", http.Header{}, nil)
	_ = c.Post(t.Context(), "https://hooks.internal/", http.Header{}, nil)
	if used["example.com"] != "public" || used["hooks.internal:8443"] != "free" || used["hooks.internal"] != "public" {
		t.Errorf("what is dialed is checked so: %v", used)
	}
	ctx, end := context.WithCancel(t.Context())
	end()
	if err := c.Post(ctx, "https://example.com/", http.Header{}, nil); !errors.Is(err, context.Canceled) {
		t.Errorf("a post that is ended: %v", err)
	}
}
