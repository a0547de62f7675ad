package transport

import (
	"context"
	"errors"
	"fmt"
)

var (
	// ErrClosed is returned by every call on a closed Transport or Subscription.
	ErrClosed = errors.New("transport closed")
	// ErrInvalid is returned by Publish for an event that breaks the contract; the text says which rule.
	ErrInvalid = errors.New("invalid event")
	// ErrTooLarge is returned by Publish for an event over [MaxText], [MaxCard] or [MaxPayload]. It is also an ErrInvalid.
	ErrTooLarge = errors.New("too large")
	// ErrUnavailable is returned when the transport cannot take responsibility for an event now: the server is away,
	// or its queue is full. Trying again later is right.
	ErrUnavailable = errors.New("transport unavailable")
	// ErrFull is returned by Publish when an inbox holds so much that new work is refused: nothing was taken. It is also an
	// ErrUnavailable. The orchestrator's inbox takes what work in progress needs, such as results and deadlines, all the same; that of
	// an agent, which may never read it, takes nothing more.
	ErrFull = fmt.Errorf("%w: the inbox is full", ErrUnavailable)
	// ErrForbidden is returned when the server does not let this connection do what it was asked to: its credentials are for
	// something else, or it has none.
	ErrForbidden = errors.New("not allowed")
	// ErrNotFound is returned by calls that name something that is not there.
	ErrNotFound = errors.New("not found")
	// ErrIncompatible is returned when dialing a server that lacks what the guarantees need.
	ErrIncompatible = errors.New("incompatible server")
)

// Permanent marks an error of a [Handler] as final: the event is not delivered again, it is kept as a [DeadLetter].
// Permanent(nil) is nil.
func Permanent(err error) error {
	if err == nil {
		return nil
	}
	return &permanentError{err}
}

// IsPermanent reports whether err, or an error it wraps, was marked by [Permanent].
func IsPermanent(err error) bool {
	if err == nil {
		return false // as most are
	}
	var p *permanentError
	return errors.As(err, &p)
}

type permanentError struct{ err error }

func (e *permanentError) Error() string { return e.err.Error() }
func (e *permanentError) Unwrap() error { return e.err }

// Temporary marks an error of a [Handler] as one of the moment: the event is tried again for as long as it takes. Temporary(nil) is nil.
func Temporary(err error) error {
	if err == nil {
		return nil
	}
	return &temporaryError{err}
}

// IsTemporary reports whether err may pass by itself: it, or an error it wraps, was marked by [Temporary], is an [ErrUnavailable] or an
// [ErrClosed], or says that a context has ended. One that was marked by [Permanent] is not.
func IsTemporary(err error) bool {
	if IsPermanent(err) {
		return false
	}
	var t *temporaryError
	return errors.As(err, &t) || errors.Is(err, ErrUnavailable) || errors.Is(err, ErrClosed) ||
		errors.Is(err, context.Canceled) || errors.Is(err, context.DeadlineExceeded)
}

type temporaryError struct{ err error }

func (e *temporaryError) Error() string { return e.err.Error() }
func (e *temporaryError) Unwrap() error { return e.err }
