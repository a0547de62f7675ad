package vertex

import (
	"bytes"
	"encoding/json"
	"errors"
	"io"

	pb "cloud.google.com/go/aiplatform/apiv1beta1/aiplatformpb"

	"github.com/cortex-orchestrator/cortex/llm"
	"github.com/cortex-orchestrator/cortex/llm/internal/google"
	"github.com/cortex-orchestrator/cortex/llm/internal/long"
)

// array reads the answer over REST, a JSON array of messages that grows while the model writes. As soon as a message arrives, the call observes it,
// and the reader gets the result. An array without an end is an error, and so is a message with an error.
type array struct {
	call  *call
	body  io.Closer
	bound *bounded
	json  *json.Decoder

	begun, more bool
	ready       bytes.Buffer // for the reader
	err         error        // follows ready
}

func newArray(body io.ReadCloser, k *call) *array {
	bound := &bounded{r: body, message: maxFrame, answer: maxAnswer}
	return &array{call: k, body: body, bound: bound, json: json.NewDecoder(bound)}
}

// Read implements [io.Reader].
func (a *array) Read(p []byte) (int, error) {
	for a.ready.Len() == 0 && a.err == nil {
		a.err = a.next()
	}
	if a.ready.Len() > 0 {
		return a.ready.Read(p)
	}
	return 0, a.err
}

// Close implements [io.Closer].
func (a *array) Close() error { return a.body.Close() }

// next reads the next message. It returns io.EOF when the array has ended.
func (a *array) next() error {
	if !a.begun {
		switch t, err := a.json.Token(); {
		case err != nil:
			return a.broken(err)
		case t != json.Delim('['):
			return a.strange("it is no array")
		}
		a.begun = true
		a.ready.WriteByte('[')
		return nil
	}
	if !a.json.More() {
		if _, err := a.json.Token(); err != nil {
			return a.broken(err)
		}
		a.ready.WriteByte(']')
		return io.EOF
	}
	var raw json.RawMessage
	if err := a.json.Decode(&raw); err != nil {
		return a.broken(err)
	}
	a.bound.message = maxFrame
	return a.message(raw)
}

func (a *array) message(raw json.RawMessage) error {
	if long.Heavy(raw) {
		return a.broken(errTooLarge)
	}
	var seen struct {
		Error      *google.Fault
		Candidates []struct{ FinishReason any }
	}
	// What does not decode here is no valid message either; but errors have many shapes.
	if err := json.Unmarshal(raw, &seen); seen.Error != nil {
		return a.fail(a.call.explained(seen.Error, seen.Error.Code, nil))
	} else if err != nil {
		return a.strange(err.Error())
	}
	var m pb.GenerateContentResponse
	if err := reading.Unmarshal(raw, &m); err != nil {
		return a.strange(err.Error())
	}
	a.call.observe(&m)
	// m lacks finish reasons that it has no number for.
	if len(seen.Candidates) > 0 && len(m.Candidates) > 0 && !a.call.finished {
		if reason, ok := seen.Candidates[0].FinishReason.(string); ok && reason != "" && reason != pb.Candidate_FINISH_REASON_UNSPECIFIED.String() {
			a.call.finished, a.call.code, a.call.reason = true, reason, m.Candidates[0].GetFinishMessage()
		}
	}
	edited, err := writing.Marshal(&m)
	if err != nil {
		return a.strange(err.Error())
	}
	if a.more {
		a.ready.WriteByte(',')
	}
	a.more = true
	a.ready.Write(edited)
	return nil
}

func (a *array) fail(e *llm.Error) error {
	a.call.failure = e
	return e
}

// strange returns the error for an answer in another protocol.
func (a *array) strange(why string) error {
	return a.fail(a.call.fail(llm.ErrUnavailable, unreadable+why, nil))
}

// broken returns the error for an incomplete answer.
func (a *array) broken(err error) error {
	var syntax *json.SyntaxError
	switch {
	case errors.As(err, &syntax), errors.Is(err, errTooLarge):
		return a.strange(err.Error())
	case errors.Is(err, io.EOF):
		err = io.ErrUnexpectedEOF
	}
	return a.fail(a.call.fail(llm.ErrTruncated, "the answer broke off: "+err.Error(), err))
}

// bounded is a reader with the bytes that remain for a message, and for the answer.
type bounded struct {
	r               io.Reader
	message, answer int
}

func (b *bounded) Read(p []byte) (int, error) {
	left := min(b.message, b.answer)
	if left <= 0 {
		return 0, errTooLarge
	}
	n, err := b.r.Read(p[:min(len(p), left)])
	b.message -= n
	b.answer -= n
	return n, err
}
