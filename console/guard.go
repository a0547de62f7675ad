package console

import (
	"net"
	"net/http"
	"net/netip"
	"strings"
)

// policy allows what the pages need, and nothing from elsewhere.
const policy = "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self' data:; connect-src 'self'; form-action 'self'; " +
	"base-uri 'none'; frame-ancestors 'none'"

// guard sets the headers of every answer, and refuses requests that do not come from where they may. Without keys these are programs on this machine
// that use its own name: a page elsewhere can give itself a name that leads here, and would then be of the same origin. With keys the name may be that
// of a proxy, and a page under another name has no cookie.
func (c *Console) guard(h http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		head := w.Header()
		head.Set("Content-Security-Policy", policy)
		head.Set("X-Content-Type-Options", "nosniff")
		head.Set("Referrer-Policy", "no-referrer")
		head.Set("Cross-Origin-Opener-Policy", "same-origin")
		head.Set("Cross-Origin-Resource-Policy", "same-origin")
		head.Set("Cache-Control", "no-store")
		if c.cfg.Identify == nil && !isLocal(r) {
			http.Error(w, "this Cortex has no keys: its console is only for programs on its own machine, at http://127.0.0.1 or http://localhost", http.StatusForbidden)
			return
		}
		h.ServeHTTP(w, r)
	})
}

// isLocal reports whether a request comes from this machine and names it, and not by way of a proxy that says so.
func isLocal(r *http.Request) bool {
	for name := range r.Header {
		if name == "Forwarded" || name == "Via" || name == "X-Real-Ip" || strings.HasPrefix(name, "X-Forwarded-") || strings.HasPrefix(name, "X-Envoy-") {
			return false
		}
	}
	from, err := netip.ParseAddrPort(r.RemoteAddr)
	if err != nil || !from.Addr().Unmap().IsLoopback() {
		return false
	}
	host := r.Host
	if h, _, err := net.SplitHostPort(host); err == nil {
		host = h
	}
	if strings.EqualFold(host, "localhost") {
		return true
	}
	is, err := netip.ParseAddr(strings.Trim(host, "[]"))
	return err == nil && is.Unmap().IsLoopback()
}
