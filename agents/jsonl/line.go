package jsonl

import (
	"encoding/json"
	"errors"
	"fmt"

	"github.com/a2aproject/a2a-go/v2/a2a"
)

// Version is the version of the protocol, and Name is how programs are told of it.
const (
	Version = 1
	Name    = "jsonl 1"
)

// Bounds of what a program writes.
const (
	MaxLine  = 1 << 20   // bytes of a line
	MaxLines = 100_000   // about one task
	MaxRate  = 2_000     // lines per second, of a program
	MaxAsks  = 16        // open at a time, of one task
	MaxState = 256 << 10 // bytes
)

// Types of lines to the program.
const (
	TypeTask   = "task"
	TypeCancel = "cancel"
	TypeReply  = "reply"
)

// Types of lines from the program.
const (
	TypeProgress      = "progress"
	TypeText          = "text"
	TypeArtifact      = "artifact"
	TypeFile          = "file"
	TypeAsk           = "ask"
	TypeResult        = "result"
	TypeInputRequired = "input_required"
	TypeRejected      = "rejected"
	TypeError         = "error"
)

// Task is a line that gives the program a task, see the package's documentation.
type Task struct {
	Type        string           `json:"type"`
	Version     int              `json:"version"`
	ID          string           `json:"id"`
	Context     string           `json:"context,omitempty"`
	Skill       string           `json:"skill,omitempty"`
	Text        string           `json:"text,omitempty"`
	Input       any              `json:"input,omitempty"`
	Parts       a2a.ContentParts `json:"parts,omitempty"`
	Files       []File           `json:"files,omitempty"`
	Folder      string           `json:"folder,omitempty"`
	Deadline    string           `json:"deadline,omitempty"`
	Delivery    int              `json:"delivery"`
	Reply       bool             `json:"reply,omitempty"`
	History     []Round          `json:"history,omitempty"`
	State       json.RawMessage  `json:"state,omitempty"`
	Traceparent string           `json:"traceparent,omitempty"`
	Tracestate  string           `json:"tracestate,omitempty"`
}

// File is a file for the program.
type File struct {
	Name string `json:"name"`
	Type string `json:"type,omitempty"`
	Size int64  `json:"size"`
	Path string `json:"path"`
}

// Round is what was said before a question, and the question.
type Round struct {
	Text     string `json:"text"`
	Question string `json:"question"`
}

// Cancel is a line that ends a task.
type Cancel struct {
	Type   string `json:"type"`
	ID     string `json:"id"`
	Reason string `json:"reason,omitempty"`
}

// Reply is a line that answers an ask.
type Reply struct {
	Type   string `json:"type"`
	ID     string `json:"id"`
	Ask    string `json:"ask"`
	Text   string `json:"text,omitempty"`
	Data   any    `json:"data,omitempty"`
	Files  []File `json:"files,omitempty"`
	Failed bool   `json:"failed,omitempty"`
}

// Line is a line from the program.
type Line struct {
	Type string `json:"type"`
	ID   string `json:"id"`

	Text        *string         `json:"text"`
	Data        json.RawMessage `json:"data"`
	Name        string          `json:"name"`
	Description string          `json:"description"`
	MediaType   string          `json:"media_type"`
	Path        string          `json:"path"`
	Append      bool            `json:"append"`
	State       json.RawMessage `json:"state"`

	Ask   string          `json:"ask"`
	Agent string          `json:"agent"`
	Skill string          `json:"skill"`
	Input json.RawMessage `json:"input"`
}

// Words returns the text of l, which may be missing.
func (l *Line) Words() string {
	if l.Text == nil {
		return ""
	}
	return *l.Text
}

// Ends reports whether l ends its task.
func (l *Line) Ends() bool {
	switch l.Type {
	case TypeResult, TypeInputRequired, TypeRejected, TypeError:
		return true
	}
	return false
}

// Parse reads a line. With an error the line, if there is one, says which task it is about.
func Parse(b []byte) (*Line, error) {
	var l *Line
	if err := json.Unmarshal(b, &l); err != nil {
		if of, ok := errors.AsType[*json.UnmarshalTypeError](err); ok && of.Field != "" {
			var about struct{ ID string }
			_ = json.Unmarshal(b, &about) // the id itself may be wrong
			return &Line{ID: about.ID}, fmt.Errorf("%s cannot be a %s", of.Field, of.Value)
		}
		return nil, errors.New("it is no JSON object")
	}
	if l == nil {
		return nil, errors.New("it is no JSON object")
	}
	for _, value := range []*json.RawMessage{&l.Data, &l.State, &l.Input} {
		if string(*value) == "null" {
			*value = nil
		}
	}
	return l, l.check()
}

// check says what l lacks.
func (l *Line) check() error {
	var missing string
	switch l.Type {
	case "":
		missing = "type"
	case TypeProgress, TypeText, TypeRejected, TypeError, TypeInputRequired:
		if l.Text == nil {
			missing = "text"
		}
		if len(l.State) > MaxState {
			return fmt.Errorf("its state has more than %d bytes", MaxState)
		}
	case TypeArtifact:
		switch {
		case l.Name == "":
			missing = "name"
		case l.Text == nil && l.Data == nil:
			missing = "text or data"
		case l.Append && l.Text == nil:
			missing = "text, since only text can be appended"
		}
	case TypeFile:
		if l.Path == "" {
			missing = "path"
		}
	case TypeAsk:
		switch {
		case l.Ask == "":
			missing = "ask, which the reply will have"
		case l.Text == nil && l.Input == nil:
			missing = "text"
		}
	case TypeResult:
	default:
		return fmt.Errorf("there is no type %.40q", l.Type)
	}
	if missing != "" {
		return fmt.Errorf("it has no %s", missing)
	}
	return nil
}
