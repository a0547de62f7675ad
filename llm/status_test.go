package llm_test

import (
	"errors"
	"net/http"
	"strconv"
	"testing"
	"time"

	"github.com/cortex-orchestrator/cortex/llm"
)

func TestKindOfStatus(t *testing.T) {
	for status, want := range map[int]error{
		0:   llm.ErrUnavailable, // no answer
		200: llm.ErrUnavailable, // an answer that was none
		302: llm.ErrBadRequest,
		400: llm.ErrBadRequest,
		401: llm.ErrAuth,
		402: llm.ErrQuota,
		403: llm.ErrAuth,
		404: llm.ErrNoModel,
		405: llm.ErrBadRequest,
		408: llm.ErrUnavailable,
		409: llm.ErrUnavailable,
		410: llm.ErrNoModel,
		413: llm.ErrTooLong,
		418: llm.ErrBadRequest,
		422: llm.ErrBadRequest,
		425: llm.ErrUnavailable,
		429: llm.ErrRateLimited,
		498: llm.ErrUnavailable, // no capacity
		500: llm.ErrUnavailable,
		502: llm.ErrUnavailable,
		503: llm.ErrUnavailable,
		504: llm.ErrUnavailable,
		529: llm.ErrUnavailable,
		599: llm.ErrUnavailable,
	} {
		t.Run(strconv.Itoa(status), func(t *testing.T) {
			if got := llm.KindOfStatus(status); !errors.Is(got, want) {
				t.Errorf("KindOfStatus(%d) = %v, want %v", status, got, want)
			}
		})
	}
}

func TestRetryAfter(t *testing.T) {
	now := time.Date(2026, 11, 20, 21, 0, 0, 250_000_000, time.UTC)
	const day = 24 * time.Hour
	tests := []struct {
		name, after, millis string
		want                time.Duration
	}{
		{"nothing", "", "", 0},
		{"seconds", "2", "", 2 * time.Second},
		{"seconds with space", " 2 ", "", 2 * time.Second},
		{"a part of a second", "0.5", "", 500 * time.Millisecond},
		{"zero", "0", "", 0},
		{"negative", "-5", "", 0},
		{"more than a day", "1000000", "", day},
		{"more than a duration", "1e300", "", day},
		{"more than a number", "1e999", "", 0},
		{"infinity", "Inf", "", 0},
		{"no number", "NaN", "", 0},
		{"words", "soon", "", 0},
		{"date", "Fri, 20 Nov 2026 21:00:03 GMT", "", 2750 * time.Millisecond},
		{"date of RFC 850", "Friday, 20-Nov-26 21:00:03 GMT", "", 2750 * time.Millisecond},
		{"date of asctime", "Fri Nov 20 21:00:03 2026", "", 2750 * time.Millisecond},
		{"date in the past", "Fri, 20 Nov 2026 20:59:00 GMT", "", 0},
		{"date far away", "Fri, 20 Nov 9026 21:00:00 GMT", "", day},
		{"milliseconds", "", "1500", 1500 * time.Millisecond},
		{"milliseconds come first", "7", "20", 20 * time.Millisecond},
		{"no milliseconds at once is an answer", "7", "0", 0},
		{"milliseconds that cannot be read", "7", "later", 7 * time.Second},
		{"milliseconds that are no number", "7", "nan", 7 * time.Second},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			h := http.Header{}
			if tt.after != "" {
				h.Set("Retry-After", tt.after)
			}
			if tt.millis != "" {
				h.Set("retry-after-ms", tt.millis)
			}
			if got := llm.RetryAfter(h, now); got != tt.want {
				t.Errorf("RetryAfter(%v) = %v, want %v", h, got, tt.want)
			}
		})
	}
	if got := llm.RetryAfter(nil, now); got != 0 {
		t.Errorf("RetryAfter(nil) = %v, want 0", got)
	}
}
