package agents

import (
	"cmp"
	"fmt"
	"strings"
	"unicode/utf8"

	"github.com/a2aproject/a2a-go/v2/a2a"

	"github.com/cortex-orchestrator/cortex/internal/shorten"
	"github.com/cortex-orchestrator/cortex/transport"
)

// MaxResultText bounds the text of a result, in bytes. A longer one is cut, with a note, and comes whole as a file beside it where the transport stores
// files.
const MaxResultText = 256 << 10

// wholeName is the name of the file with a text that is cut.
const wholeName = "result.txt"

// maxErrorText bounds the text of a failure, in bytes.
const maxErrorText = 4 << 10

// binaryType is the media type of bytes of an unknown type.
const binaryType = "application/octet-stream"

// Result is what a [Handler] returns. Text that is not valid UTF-8 is sent as bytes.
type Result struct {
	// Parts are the answer, or the question.
	Parts a2a.ContentParts
	// InputRequired makes the result a question to the user. The task stays open; the reply arrives as a task with the
	// same id.
	InputRequired bool
	// AuthRequired makes the result a request to the user to log in somewhere, or to grant access there, and then to reply. The task
	// stays open as with InputRequired.
	AuthRequired bool
}

// Text returns a result with a text.
func Text(text string) *Result { return &Result{Parts: a2a.ContentParts{a2a.NewTextPart(text)}} }

// InputRequired returns a result that asks the user a question, whose answer the task needs.
func InputRequired(question string) *Result {
	r := Text(question)
	r.InputRequired = true
	return r
}

// AuthRequired returns a result that asks the user to log in somewhere, or to grant access there, which the task needs; request says where
// and how.
func AuthRequired(request string) *Result {
	r := Text(request)
	r.AuthRequired = true
	return r
}

// stateName returns a state for people, such as "failed" for TASK_STATE_FAILED.
func stateName(s a2a.TaskState) string {
	return strings.ToLower(strings.ReplaceAll(strings.TrimPrefix(string(s), "TASK_STATE_"), "_", " "))
}

// Rejected marks an error of a [Handler]: the agent refuses the task and has not begun it. Rejected(nil) is nil.
func Rejected(err error) error {
	if err == nil {
		return nil
	}
	return &rejectedError{err}
}

type rejectedError struct{ err error }

func (e *rejectedError) Error() string { return e.err.Error() }
func (e *rejectedError) Unwrap() error { return e.err }

// cleanParts returns parts for sending: without empty parts, with at most maxText bytes of text, and with invalid UTF-8 as bytes.
// It does not change parts.
func cleanParts(parts a2a.ContentParts, maxText int) a2a.ContentParts {
	out := make(a2a.ContentParts, 0, len(parts))
	for _, p := range parts {
		if p == nil || p.Content == nil {
			continue
		}
		text, ok := p.Content.(a2a.Text)
		if !ok {
			if hasValue(p.Content) {
				out = append(out, p)
			}
			continue
		}
		if text == "" || maxText <= 0 {
			continue
		}
		q := *p
		if utf8.ValidString(string(text)) {
			q.Content = a2a.Text(cut(string(text), maxText))
			maxText -= len(text)
		} else {
			q.Content = a2a.Raw(text)
			q.MediaType = cmp.Or(q.MediaType, binaryType)
		}
		out = append(out, &q)
	}
	return out
}

// whole returns a file with the texts of parts when they are too long for a result, or nil.
func whole(parts a2a.ContentParts) *a2a.Part {
	n := 0
	var texts []string
	for _, p := range parts {
		if p == nil {
			continue
		}
		if text, ok := p.Content.(a2a.Text); ok && text != "" && utf8.ValidString(string(text)) {
			texts = append(texts, string(text))
			n += len(text)
		}
	}
	if n <= MaxResultText {
		return nil
	}
	return &a2a.Part{Content: a2a.Raw(strings.Join(texts, "\n")), Filename: wholeName, MediaType: "text/plain"}
}

// hasValue reports whether content has a value.
func hasValue(c a2a.PartContent) bool {
	switch c := c.(type) {
	case a2a.Raw:
		return c != nil
	case a2a.URL:
		return c != ""
	case a2a.Data:
		return c.Value != nil
	}
	return true
}

// partSize is what a part takes besides its content, in bytes.
const partSize = 96

// sizeOf returns the size of parts in bytes, with names, types and metadata. Data counts as JSON.
func sizeOf(parts a2a.ContentParts) int {
	n := 0
	for _, p := range parts {
		n += partSize + len(p.Filename) + len(p.MediaType)
		if len(p.Metadata) > 0 {
			n += sizeOfValue(p.Metadata)
		}
		switch c := p.Content.(type) {
		case a2a.Text:
			n += len(c)
		case a2a.Raw:
			n += len(c)
		case a2a.URL:
			n += len(c)
		case a2a.Data:
			n += sizeOfValue(c.Value)
		}
	}
	return n
}

// sizeOfValue returns the size of v as JSON, and 0 if v cannot be encoded, which the transport refuses.
func sizeOfValue(v any) int {
	b, err := transport.EncodeValue(v)
	if err != nil {
		return 0
	}
	return len(b)
}

// cut returns s, or its beginning with a note when it has more than limit bytes.
func cut(s string, limit int) string {
	if len(s) <= limit {
		return s
	}
	return fmt.Sprintf("%s\n[cut: the first %d of %d bytes]", shorten.To(s, limit), limit, len(s))
}

// errorText returns the text of err for the user.
func errorText(err error) string {
	text := cmp.Or(strings.TrimSpace(strings.ToValidUTF8(err.Error(), "�")), fmt.Sprintf("the agent gave no reason (%T)", err))
	return cut(text, maxErrorText)
}
