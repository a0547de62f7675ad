package llm

import (
	"math"
	"net/http"
	"strconv"
	"strings"
	"time"
)

// KindOfStatus returns the kind of error that an HTTP status most likely is. What a vendor says in its body is more exact:
// a quota hides behind 429, an unknown model and a prompt that is too long behind 400.
func KindOfStatus(status int) error {
	const noCapacity = 498 // Groq's, for its cheapest tier
	switch status {
	case http.StatusUnauthorized, http.StatusForbidden:
		return ErrAuth
	case http.StatusPaymentRequired:
		return ErrQuota
	case http.StatusNotFound, http.StatusGone: // gone: the model was retired
		return ErrNoModel
	case http.StatusRequestEntityTooLarge:
		return ErrTooLong
	case http.StatusTooManyRequests:
		return ErrRateLimited
	case http.StatusRequestTimeout, http.StatusConflict, http.StatusTooEarly, noCapacity:
		return ErrUnavailable
	}
	switch status / 100 {
	case 3, 4: // a redirect is not followed, since the key would go with it: the address is wrong
		return ErrBadRequest
	}
	return ErrUnavailable
}

// RetryAfter returns how long an endpoint asks to wait, at most a day, or 0: retry-after-ms, else Retry-After in seconds,
// whole or not, or as a date (RFC 9110, section 10.2.3). What cannot be read counts as not said.
func RetryAfter(h http.Header, now time.Time) time.Duration {
	if ms, ok := number(h.Get("Retry-After-Ms")); ok {
		return bounded(ms / 1e3)
	}
	v := strings.TrimSpace(h.Get("Retry-After"))
	if s, ok := number(v); ok {
		return bounded(s)
	}
	if at, err := http.ParseTime(v); err == nil {
		return bounded(at.Sub(now).Seconds())
	}
	return 0
}

// number reads a decimal number. ParseFloat also knows infinity and what is no number; nobody waits for those.
func number(s string) (float64, bool) {
	n, err := strconv.ParseFloat(strings.TrimSpace(s), 64)
	return n, err == nil && !math.IsInf(n, 0) && !math.IsNaN(n)
}

// bounded is so many seconds, from none to a day.
func bounded(seconds float64) time.Duration {
	const day = 24 * 60 * 60
	return time.Duration(max(0, min(seconds, day)) * float64(time.Second))
}
