package llm

import (
	"math"
	"net/http"
	"strconv"
	"strings"
	"time"
)

// KindOfStatus returns the most likely kind of error for an HTTP status. The provider's body is more precise: 429 may be a quota, 400 an unknown
// model or a prompt that is too long.
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
	case 3, 4: // redirects are not followed, since the key would be sent along: the URL is wrong
		return ErrBadRequest
	}
	return ErrUnavailable
}

// RetryAfter returns how long an endpoint asks to wait, at most a day, or 0: from retry-after-ms, or Retry-After in seconds, which may have decimals,
// or as a date (RFC 9110, section 10.2.3). It ignores invalid values.
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

// number parses a finite decimal number.
func number(s string) (float64, bool) {
	n, err := strconv.ParseFloat(strings.TrimSpace(s), 64)
	return n, err == nil && !math.IsInf(n, 0) && !math.IsNaN(n)
}

// bounded converts seconds to a duration from 0 to a day.
func bounded(seconds float64) time.Duration {
	const day = 24 * 60 * 60
	return time.Duration(max(0, min(seconds, day)) * float64(time.Second))
}
