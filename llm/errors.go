package llm

import (
	"cmp"
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

// The kinds of errors of a model. Clients wrap them around the provider's error.
var (
	ErrUnavailable     = errors.New("model unavailable") // down, overloaded, too slow, or unreachable; a retry is appropriate
	ErrRateLimited     = errors.New("rate limited")      // too many requests; a later retry is appropriate
	ErrTruncated       = errors.New("answer cut off")    // the stream broke off; a retry is appropriate
	ErrEmpty           = errors.New("empty answer")      // the model wrote nothing; the Decider asks once more
	ErrQuota           = errors.New("quota used up")     // a retry does not help
	ErrAuth            = errors.New("not authorized")    // the key is wrong or missing, or lacks permission
	ErrNoModel         = errors.New("no such model")     // the endpoint does not know the model
	ErrBadRequest      = errors.New("request refused")   // the endpoint rejects the request
	ErrTooLong         = errors.New("prompt too long")   // for the model's window
	ErrLength          = errors.New("answer too long")   // the token limit ended it
	ErrRefused         = errors.New("model refused")     // by a safety filter or the model itself
	ErrBudget          = errors.New("budget used up")    // nothing may be spent any more
	ErrInvalidDecision = errors.New("invalid decision")  // the reply is no decision, even after corrections
)

// maxMessage bounds how much of a provider's message an Error shows, in characters.
const maxMessage = 300

// Error is an error of an endpoint. errors.Is matches its Kind and its cause.
type Error struct {
	Kind       error         // one of this package's errors
	Provider   string        // "openai"
	Model      string        // as requested
	Status     int           // of HTTP; 0 when there was none
	Code       string        // the provider's error code
	RequestID  string        // identifies the call for the provider
	Message    string        // the provider's explanation, an external text; see Redact
	RetryAfter time.Duration // how long the endpoint asks to wait; 0 when it does not
	Usage      Usage         // what the call cost nevertheless
	Err        error         // the cause; may be nil
}

// Error implements error. The text is one line, with the provider's message cleaned and truncated, or the cause when there is no message.
func (e *Error) Error() string {
	var b strings.Builder
	if who := strings.TrimSpace(e.Provider + " " + prompt.Clean(e.Model, 64)); who != "" {
		b.WriteString(who + ": ")
	}
	kind, message := cmp.Or(e.Kind, errUnknown), e.Message
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
		if wait > time.Second { // fractions of a second do not matter to people
			wait = (wait.Round(time.Millisecond) + time.Second - 1).Truncate(time.Second)
		}
		fmt.Fprintf(&b, "; try again in %v", wait)
	}
	return b.String()
}

// errUnknown is the kind of an Error without a Kind.
var errUnknown = errors.New("model failed")

// Unwrap returns the kind and the cause, if set.
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

// Redact removes each secret from e's texts, including its encodings for URLs, JSON, HTML and base64. It replaces the cause by its text if anything
// in the cause shows a secret: endpoints tend to repeat the key that they reject. errors.Is still finds an end of ctx as the cause. Redact modifies
// e, so only the creator of e may call it; it returns e.
func (e *Error) Redact(secrets ...string) *Error {
	var forms []string
	for _, s := range secrets {
		if s != "" {
			forms = append(forms, formsOf(s)...)
		}
	}
	// The longest first: of a secret that begins with another one, nothing must remain.
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

// formsOf returns the forms in which an endpoint may repeat a secret.
func formsOf(s string) []string {
	quoted := strconv.Quote(s)
	forms := []string{s, url.QueryEscape(s), url.PathEscape(s), html.EscapeString(s), quoted[1 : len(quoted)-1]}
	if b, err := json.Marshal(s); err == nil {
		forms = append(forms, string(b[1:len(b)-1]))
	}
	// Base64 without padding is a prefix of base64 with it. Basic authentication has a user name, usually empty, before the secret.
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

// redacted replaces an error that contains a secret.
type redacted struct {
	text  string
	cause error // ctx's error, or nil
}

func (r *redacted) Error() string { return r.text }
func (r *redacted) Unwrap() error { return r.cause }

// ctxError returns the context's error that err wraps, or nil.
func ctxError(err error) error {
	for _, end := range []error{context.Canceled, context.DeadlineExceeded} {
		if errors.Is(err, end) {
			return end
		}
	}
	return nil
}

// UsageOf returns the cost of what failed with err: the usage of an [Error] in it, or the sum over the calls of a failed decision. If err wraps
// several errors in parallel, it returns their sum.
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

// RepairsOf returns how often the model was corrected before [Decider.Decide] failed with err.
func RepairsOf(err error) int {
	if s, ok := errors.AsType[*spentError](err); ok {
		return s.repairs
	}
	return 0
}

// unwrap returns the errors that err wraps directly, some of which may be nil.
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
