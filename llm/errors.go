package llm

import (
	"context"
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"html"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/cortex-orchestrator/cortex/prompt"
)

// What can go wrong with a model. Clients wrap these around the vendor's error.
var (
	ErrUnavailable     = errors.New("model unavailable") // down, overloaded, too slow, or not reached; trying again is right
	ErrRateLimited     = errors.New("rate limited")      // too many requests; trying again later is right
	ErrTruncated       = errors.New("answer cut off")    // the stream broke off; trying again is right
	ErrEmpty           = errors.New("empty answer")      // the model wrote nothing; the Decider asks once more
	ErrQuota           = errors.New("quota used up")     // trying again does not help
	ErrAuth            = errors.New("not authorized")    // wrong or missing key, or it may not do this
	ErrNoModel         = errors.New("no such model")     // the endpoint does not know the model
	ErrBadRequest      = errors.New("request refused")   // the endpoint does not accept the request
	ErrTooLong         = errors.New("prompt too long")   // for the model's window
	ErrLength          = errors.New("answer too long")   // the token limit ended it
	ErrRefused         = errors.New("model refused")     // a safety filter or the model itself
	ErrBudget          = errors.New("budget used up")    // what may be spent is spent
	ErrInvalidDecision = errors.New("invalid decision")  // what the model wrote is no decision, also after repairs
)

// maxMessage bounds what an Error shows of a vendor's words, in characters.
const maxMessage = 300

// Error is an error of an endpoint. errors.Is finds its Kind and its cause.
type Error struct {
	Kind       error         // one of this package's
	Provider   string        // "openai"
	Model      string        // as it was asked for
	Status     int           // HTTP; 0 when there was none
	Code       string        // the vendor's word for it
	RequestID  string        // by which the vendor finds the call
	Message    string        // the vendor's explanation, a stranger's text; see Redact
	RetryAfter time.Duration // when the endpoint says how long to wait; else 0
	Usage      Usage         // what the call cost all the same
	Err        error         // the cause; may be nil
}

// Error implements error: one line, with the vendor's words cleaned and cut. Without such words the cause speaks.
func (e *Error) Error() string {
	var b strings.Builder
	if who := strings.TrimSpace(e.Provider + " " + prompt.Clean(e.Model, 64)); who != "" {
		b.WriteString(who + ": ")
	}
	kind, message := e.Kind, e.Message
	if kind == nil {
		kind = errUnknown
	}
	if message == "" && e.Err != nil {
		message = e.Err.Error()
	}
	b.WriteString(kind.Error())
	switch code := prompt.Clean(e.Code, 64); {
	case e.Status != 0 && code != "":
		fmt.Fprintf(&b, " (%d %s)", e.Status, code)
	case e.Status != 0:
		fmt.Fprintf(&b, " (%d)", e.Status)
	case code != "":
		fmt.Fprintf(&b, " (%s)", code)
	}
	if m := prompt.Clean(message, maxMessage); m != "" {
		b.WriteString(": " + m)
	}
	if wait := e.RetryAfter; wait > 0 {
		if wait > time.Second { // a person needs no parts of one
			wait = (wait.Round(time.Millisecond) + time.Second - 1).Truncate(time.Second)
		}
		fmt.Fprintf(&b, "; try again in %v", wait)
	}
	return b.String()
}

// errUnknown is the kind of an Error that was given none.
var errUnknown = errors.New("model failed")

// Unwrap returns the kind and the cause, as far as there are any.
func (e *Error) Unwrap() []error {
	var errs []error
	if e.Kind != nil {
		errs = append(errs, e.Kind)
	}
	if e.Err != nil {
		errs = append(errs, e.Err)
	}
	return errs
}

// Redact takes each secret out of e's texts, also where it is written as in a URL, in JSON, in HTML or in base64, and replaces the cause by its text if
// anything in it shows one: endpoints like to repeat the key that they did not accept. That the cause was ctx's end can
// still be seen. Redact changes e, so it is for whoever makes it; it returns e.
func (e *Error) Redact(secrets ...string) *Error {
	var forms []string
	for _, s := range secrets {
		if s != "" {
			forms = append(forms, formsOf(s)...)
		}
	}
	// The longest first: of a secret that begins with another one nothing must be left.
	slices.SortFunc(forms, func(a, b string) int { return len(b) - len(a) })
	clean := func(text string) string {
		for _, s := range forms {
			text = strings.ReplaceAll(text, s, "[secret]")
		}
		return text
	}
	e.Message, e.Code, e.RequestID = clean(e.Message), clean(e.Code), clean(e.RequestID)
	if e.Err != nil && shows(e.Err, forms) {
		e.Err = &redacted{text: clean(e.Err.Error()), cause: ctxError(e.Err)}
	}
	return e
}

// formsOf returns the ways in which an endpoint may repeat a secret that it was sent.
func formsOf(s string) []string {
	quoted := strconv.Quote(s)
	forms := []string{s, url.QueryEscape(s), url.PathEscape(s), html.EscapeString(s), quoted[1 : len(quoted)-1]}
	if b, err := json.Marshal(s); err == nil {
		forms = append(forms, string(b[1:len(b)-1]))
	}
	// Without padding a text in base64 is part of the one with it. Basic authentication has a name, mostly none, before it.
	for _, plain := range []string{s, ":" + s} {
		forms = append(forms, base64.RawStdEncoding.EncodeToString([]byte(plain)), base64.RawURLEncoding.EncodeToString([]byte(plain)))
	}
	return forms
}

// shows reports whether printing err, or anything that it wraps, shows one of the texts.
func shows(err error, texts []string) bool {
	printed := fmt.Sprintf("%v %+v %#v", err, err, err)
	if slices.ContainsFunc(texts, func(s string) bool { return strings.Contains(printed, s) }) {
		return true
	}
	return slices.ContainsFunc(unwrap(err), func(e error) bool { return shows(e, texts) })
}

// redacted stands for an error that has a secret in it.
type redacted struct {
	text  string
	cause error // ctx's error, or nil
}

func (r *redacted) Error() string { return r.text }
func (r *redacted) Unwrap() error { return r.cause }

// ctxError returns the error of a context that err wraps, or nil.
func ctxError(err error) error {
	for _, end := range []error{context.Canceled, context.DeadlineExceeded} {
		if errors.Is(err, end) {
			return end
		}
	}
	return nil
}

// UsageOf returns what was spent on something that ended with err: the usage that an [Error] in it carries, or the sum
// over the calls of a decision that failed. Of several errors that err wraps side by side it is the sum.
func UsageOf(err error) Usage {
	if s, ok := err.(interface{ Spent() Usage }); ok { //nolint:errorlint // the outermost that knows counts, so the walk is ours
		return s.Spent()
	}
	var sum Usage
	for _, e := range unwrap(err) {
		sum = sum.Add(UsageOf(e))
	}
	return sum
}

// unwrap returns the errors that err wraps directly; one of them may be nil.
func unwrap(err error) []error {
	switch x := err.(type) { //nolint:errorlint // this is what walks the chain
	case interface{ Unwrap() []error }:
		return x.Unwrap()
	case interface{ Unwrap() error }:
		return []error{x.Unwrap()}
	}
	return nil
}

// Spent returns e.Usage, for [UsageOf].
func (e *Error) Spent() Usage { return e.Usage }
