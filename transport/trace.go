package transport

import (
	"slices"
	"strings"
)

// maxTracestate bounds how much of a tracestate is passed on, in bytes: the minimum that W3C requires.
const maxTracestate = 512

// Trace returns the W3C trace context of e as transports pass it on. It omits an invalid traceparent together with its tracestate; an invalid or too
// long tracestate is omitted alone. Neither makes an event invalid.
func (e *Event) Trace() (parent, state string) {
	switch {
	case !isTraceparent(e.Traceparent):
		return "", ""
	case !isTracestate(e.Tracestate):
		return e.Traceparent, ""
	}
	return e.Traceparent, e.Tracestate
}

// isTraceparent reports whether s is version-traceid-parentid-flags in lower-case hex, with ids that are not zero. Versions after 00 may have more
// fields.
func isTraceparent(s string) bool {
	const size = len("00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01")
	if len(s) < size || len(s) > MaxID || s[2] != '-' || s[35] != '-' || s[52] != '-' {
		return false
	}
	for _, hex := range []string{s[:2], s[3:35], s[36:52], s[53:55]} {
		if strings.Trim(hex, "0123456789abcdef") != "" {
			return false
		}
	}
	if strings.Trim(s[3:35], "0") == "" || strings.Trim(s[36:52], "0") == "" {
		return false
	}
	switch version := s[:2]; {
	case version == "ff":
		return false
	case version == "00" || len(s) == size:
		return len(s) == size
	}
	return s[size] == '-' && CheckID(s) == nil
}

// isTracestate reports whether s is a list of at most 32 members key=value with distinct keys.
func isTracestate(s string) bool {
	if s == "" || len(s) > maxTracestate {
		return false
	}
	var keys [32]string
	n := 0
	for member := range strings.SplitSeq(s, ",") {
		member = strings.Trim(member, " \t")
		if member == "" { // W3C permits it
			continue
		}
		key, value, ok := strings.Cut(member, "=")
		if !ok || n == len(keys) || !isTraceKey(key) || !isTraceValue(value) {
			return false
		}
		if slices.Contains(keys[:n], key) {
			return false
		}
		keys[n] = key
		n++
	}
	return n > 0
}

// isTraceKey reports whether s is a vendor's key, or tenant@vendor.
func isTraceKey(s string) bool {
	tenant, vendor, ok := strings.Cut(s, "@")
	if !ok {
		return len(s) <= 256 && isTraceName(s) && s[0] >= 'a'
	}
	return len(tenant) <= 241 && isTraceName(tenant) && len(vendor) <= 14 && isTraceName(vendor) && vendor[0] >= 'a'
}

func isTraceName(s string) bool {
	for i := range len(s) {
		switch c := s[i]; {
		case c >= 'a' && c <= 'z', c >= '0' && c <= '9':
		case i > 0 && strings.IndexByte("_-*/", c) >= 0:
		default:
			return false
		}
	}
	return s != ""
}

func isTraceValue(s string) bool {
	// It does not end with a space: see isTracestate.
	return s != "" && len(s) <= 256 && !strings.ContainsFunc(s, func(r rune) bool { return r < ' ' || r > '~' || r == '=' })
}
