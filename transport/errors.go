package transport

import (
	"context"
	"errors"
	"fmt"
)

var (
	// ErrClosed is returned by every call on a closed Transport or Subscription.
	ErrClosed = errors.New("transport closed")
	// ErrInvalid is returned by Publish for an event that violates the contract; the text says how.
	ErrInvalid = errors.New("invalid event")
	// ErrTooLarge is returned by Publish for an event over [MaxText], [MaxCard] or [MaxPayload]. It is also an ErrInvalid.
	ErrTooLarge = errors.New("too large")
	// ErrUnavailable is returned when the transport cannot accept an event now: the server is unavailable, or its queue is full. A later retry is
	// appropriate.
	ErrUnavailable = errors.New("transport unavailable")
	// ErrFull is returned by Publish when an inbox is so full that it refuses new work; nothing was stored. It is also an ErrUnavailable. The
	// orchestrator's inbox still accepts what work in progress needs, such as results and deadlines; an agent's inbox, which the agent may never read,
	// accepts nothing more.
	ErrFull = fmt.Errorf("%w: the inbox is full", ErrUnavailable)
	// ErrForbidden is returned when the server does not permit an operation to this connection: its credentials are for something else, or it has none.
	ErrForbidden = errors.New("not allowed")
	// ErrNotFound is returned by calls that name something that does not exist.
	ErrNotFound = errors.New("not found")
	// ErrIncompatible is returned when dialing a server that lacks a required feature.
	ErrIncompatible = errors.New("incompatible server")
)

// Permanent marks an error of a [Handler] as final: the event is not delivered again, and becomes a [DeadLetter]. Permanent(nil) is nil.
func Permanent(err error) error {
	if err == nil {
		return nil
	}
	return &permanentError{err}
}

// IsPermanent reports whether err, or an error it wraps, was marked by [Permanent].
func IsPermanent(err error) bool {
	if err == nil {
		return false // the usual case
	}
	var p *permanentError
	return errors.As(err, &p)
}

type permanentError struct{ err error }

func (e *permanentError) Error() string { return e.err.Error() }
func (e *permanentError) Unwrap() error { return e.err }

// Temporary marks an error of a [Handler] as temporary: the event is delivered again until it succeeds. Temporary(nil) is nil.
func Temporary(err error) error {
	if err == nil {
		return nil
	}
	return &temporaryError{err}
}

// IsTemporary reports whether err is temporary: it, or an error that it wraps, was marked by [Temporary], is an [ErrUnavailable] or an [ErrClosed],
// or is the error of a context. An error marked by [Permanent] is not.
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
