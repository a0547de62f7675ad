package llm_test

import (
	"context"
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"html"
	"net/url"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/cortex-orchestrator/cortex/llm"
)

func TestErrorText(t *testing.T) {
	cause := errors.New("dial tcp: connection refused")
	tests := []struct {
		name string
		err  llm.Error
		want string
	}{
		{"everything", llm.Error{
			Kind: llm.ErrRateLimited, Provider: "openai", Model: "m-1", Status: 429, Code: "slow_down", RequestID: "r",
			Message: "Too many.", RetryAfter: 1500 * time.Millisecond, Err: cause,
		}, "openai m-1: rate limited (429 slow_down): Too many.; try again in 2s"},
		{"kind only", llm.Error{Kind: llm.ErrEmpty}, "empty answer"},
		{"no kind", llm.Error{Provider: "openai", Message: "odd"}, "openai: model failed: odd"},
		{"zero", llm.Error{}, "model failed"},
		{"model without provider", llm.Error{Kind: llm.ErrAuth, Model: "m-1"}, "m-1: not authorized"},
		{"status", llm.Error{Kind: llm.ErrAuth, Status: 401}, "not authorized (401)"},
		{"code", llm.Error{Kind: llm.ErrAuth, Code: "denied"}, "not authorized (denied)"},
		{"code that shows nothing", llm.Error{Kind: llm.ErrAuth, Status: 401, Code: "\x1b[2J"}, "not authorized (401)"},
		{"the cause speaks when the vendor does not", llm.Error{Kind: llm.ErrUnavailable, Err: cause}, "model unavailable: dial tcp: connection refused"},
		{"minutes", llm.Error{Kind: llm.ErrRateLimited, RetryAfter: 2 * time.Minute}, "rate limited; try again in 2m0s"},
		{"a rounding error more", llm.Error{Kind: llm.ErrRateLimited, RetryAfter: time.Minute + 1}, "rate limited; try again in 1m0s"},
		{"part of a second", llm.Error{Kind: llm.ErrRateLimited, RetryAfter: 20 * time.Millisecond}, "rate limited; try again in 20ms"},
		{
			"a stranger's text is one clean line",
			llm.Error{Kind: llm.ErrBadRequest, Model: "m\n1", Code: "a\r\nb", Message: "one\n\x1b]0;title\atwo\u202e"},
			"m 1: request refused (a b): one two",
		},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			if got := tt.err.Error(); got != tt.want {
				t.Errorf("Error() = %q, want %q", got, tt.want)
			}
		})
	}
}

func TestErrorTextIsBounded(t *testing.T) {
	long := strings.Repeat("x", 1<<20)
	for _, e := range []llm.Error{
		{Kind: llm.ErrBadRequest, Model: long, Code: long, Message: long},
		{Kind: llm.ErrBadRequest, Err: errors.New(long)},
	} {
		if n := len(e.Error()); n > 600 {
			t.Errorf("an error text of %d bytes", n)
		}
	}
}

func TestErrorIsItsKindAndItsCause(t *testing.T) {
	err := fmt.Errorf("ask: %w", &llm.Error{Kind: llm.ErrUnavailable, Err: context.DeadlineExceeded})
	for _, want := range []error{llm.ErrUnavailable, context.DeadlineExceeded} {
		if !errors.Is(err, want) {
			t.Errorf("errors.Is(%v, %v) = false", err, want)
		}
	}
	if errors.Is(err, llm.ErrAuth) {
		t.Errorf("errors.Is(%v, ErrAuth) = true", err)
	}
	if got := (&llm.Error{}).Unwrap(); len(got) != 0 {
		t.Errorf("Unwrap() of an error without kind and cause = %v", got)
	}
	if got := (&llm.Error{Kind: llm.ErrAuth}).Unwrap(); len(got) != 1 {
		t.Errorf("Unwrap() of an error without cause = %v", got)
	}
}

// hidden is an error whose text does not show what it carries.
type hidden struct{ Body string }

func (*hidden) Error() string { return "bad answer" }

// behind wraps an error and shows only its own text.
type behind struct{ err error }

func (behind) Error() string     { return "something failed" }
func (b behind) Unwrap() []error { return []error{nil, b.err} }

func TestRedact(t *testing.T) {
	const key = "sk-1/2+3"
	query := &url.Error{Op: "Get", URL: "https://api.example/?key=" + url.QueryEscape(key), Err: context.Canceled}
	path := &url.Error{Op: "Get", URL: "https://api.example/" + url.PathEscape(key), Err: context.Canceled}
	for name, cause := range map[string]error{
		"in its text":        errors.New("key " + key + " is wrong"),
		"in a URL's query":   query,
		"in a URL's path":    path,
		"behind another":     behind{errors.New(key)},
		"deep behind others": fmt.Errorf("outer: %w", behind{behind{errors.New(key)}}),
		"in a field":         &hidden{Body: "you sent " + key},
	} {
		t.Run(name, func(t *testing.T) {
			e := &llm.Error{
				Kind: llm.ErrAuth, Message: "Wrong key " + key + ".", Code: key, RequestID: "r-" + key,
				Err: fmt.Errorf("call: %w", cause),
			}
			if got := e.Redact("", key); got != e {
				t.Errorf("Redact returned another error")
			}
			for _, s := range []string{key, url.QueryEscape(key), url.PathEscape(key)} {
				if where := find(e, s); where != "" {
					t.Errorf("the secret is still shown: %s", where)
				}
			}
			if !errors.Is(e, llm.ErrAuth) {
				t.Error("the kind is gone")
			}
			if want := errors.Is(cause, context.Canceled); errors.Is(e, context.Canceled) != want {
				t.Errorf("errors.Is(%v, context.Canceled) = %v, want %v", e, !want, want)
			}
			if want := "not authorized ([secret]): Wrong key [secret]."; e.Error() != want {
				t.Errorf("Error() = %q, want %q", e.Error(), want)
			}
		})
	}
}

// find returns how err, or something in it, shows s.
func find(err error, s string) string {
	if err == nil {
		return ""
	}
	if text := fmt.Sprintf("%v %+v %#v", err, err, err); strings.Contains(text, s) {
		return text
	}
	switch x := err.(type) {
	case interface{ Unwrap() error }:
		return find(x.Unwrap(), s)
	case interface{ Unwrap() []error }:
		for _, e := range x.Unwrap() {
			if text := find(e, s); text != "" {
				return text
			}
		}
	}
	return ""
}

func TestRedactKeepsADeadline(t *testing.T) {
	e := (&llm.Error{Kind: llm.ErrUnavailable, Err: fmt.Errorf("key-1: %w", context.DeadlineExceeded)}).Redact("key-1")
	if !errors.Is(e, context.DeadlineExceeded) {
		t.Errorf("errors.Is(%v, context.DeadlineExceeded) = false", e)
	}
}

func TestRedactTakesTheWholeOfALongerSecret(t *testing.T) {
	e := (&llm.Error{Kind: llm.ErrAuth, Message: "not key-12345"}).Redact("key-1", "key-12345")
	if want := "not [secret]"; e.Message != want {
		t.Errorf("Message = %q, want %q", e.Message, want)
	}
}

// An endpoint may repeat a key in whatever its answer is written.
func TestRedactOtherForms(t *testing.T) {
	key := `sk-a/b+c=<d>&"e"0123456789~?`
	basic := base64.StdEncoding.EncodeToString([]byte(":" + key))
	quoted, err := json.Marshal(key)
	if err != nil {
		t.Fatal(err)
	}
	for name, form := range map[string]string{
		"base64":              base64.StdEncoding.EncodeToString([]byte(key)),
		"base64 of URLs":      base64.URLEncoding.EncodeToString([]byte(key)),
		"basic authorization": basic,
		"JSON":                string(quoted[1 : len(quoted)-1]),
		"Go":                  fmt.Sprintf("%q", key),
		"HTML":                html.EscapeString(key),
	} {
		e := (&llm.Error{Kind: llm.ErrAuth, Message: "You sent " + form + ".", Err: errors.New("key " + form)}).Redact(key)
		secret := strings.Trim(form, `="`)
		if find(e, secret) != "" || strings.Contains(e.Message, secret) || !strings.Contains(e.Message, "[secret]") {
			t.Errorf("%s: %q is still in %#v", name, secret, e)
		}
	}
}

func TestRedactLeavesWhatHasNoSecret(t *testing.T) {
	cause := errors.New("connection refused")
	e := (&llm.Error{Kind: llm.ErrUnavailable, Message: "down", Err: cause}).Redact("key-1")
	if e.Message != "down" || !errors.Is(e, cause) {
		t.Errorf("Redact changed %v", e)
	}
}

func TestUsageOf(t *testing.T) {
	one := &llm.Error{Kind: llm.ErrLength, Usage: llm.Usage{Input: 10, Cached: 2, Output: 3, Cost: 0.5}}
	two := &llm.Error{Kind: llm.ErrRefused, Usage: llm.Usage{Input: 1, Output: 1, Cost: 0.25}}
	sum := llm.Usage{Input: 11, Cached: 2, Output: 4, Cost: 0.75}
	tests := []struct {
		name string
		err  error
		want llm.Usage
	}{
		{"none", nil, llm.Usage{}},
		{"foreign", errors.New("x"), llm.Usage{}},
		{"plain", one, one.Usage},
		{"wrapped", fmt.Errorf("ask: %w", one), one.Usage},
		{"side by side", errors.Join(one, two), sum},
		{"beside others", fmt.Errorf("a: %w, b: %w, c: %w", one, context.Canceled, two), sum},
		{"a sum hides what it is made of", total{errors.Join(one, two), llm.Usage{Input: 99}}, llm.Usage{Input: 99}},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			if diff := cmp.Diff(tt.want, llm.UsageOf(tt.err)); diff != "" {
				t.Errorf("UsageOf (-want +got):\n%s", diff)
			}
		})
	}
}

type total struct {
	error
	usage llm.Usage
}

func (t total) Unwrap() error    { return t.error }
func (t total) Spent() llm.Usage { return t.usage }
