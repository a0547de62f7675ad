package transport

import (
	"errors"
	"fmt"
	"unicode/utf8"

	"github.com/a2aproject/a2a-go/v2/a2a"
)

func validatePayload(p Payload) error {
	if _, ok := PayloadKind(p); !ok {
		return fmt.Errorf("%T is no payload", p)
	}
	switch p := p.(type) {
	case *a2a.Message:
		return validateMessage(p)
	case *a2a.Task:
		return validateTask(p)
	case *a2a.TaskStatusUpdateEvent:
		return validateStatus(p.Status)
	case *a2a.TaskArtifactUpdateEvent:
		return validateArtifact(p.Artifact)
	case *Card:
		return p.validate()
	case *AgentEvent:
		return p.validate()
	case *Share:
		return p.validate()
	case *Tender:
		return p.validate()
	case *Bid:
		return p.validate()
	case *Post:
		return p.validate()
	case *Opaque:
		for _, s := range []string{p.Kind, p.Version} {
			if err := CheckID(s); s != "" && err != nil {
				return fmt.Errorf("opaque payload: kind or version %w", err)
			}
		}
	}
	return nil
}

func validateTask(t *a2a.Task) error {
	if t.ID == "" {
		return errors.New("task without id")
	}
	for _, m := range t.History {
		if m == nil {
			return errors.New("task with an empty place in its history")
		}
		if err := validateContents("history", m.Parts); err != nil {
			return err
		}
	}
	for _, a := range t.Artifacts {
		if err := validateArtifact(a); err != nil {
			return err
		}
	}
	return validateStatus(t.Status)
}

func validateStatus(s a2a.TaskStatus) error {
	if s.Message != nil {
		if err := validateContents("status", s.Message.Parts); err != nil {
			return err
		}
	}
	return validateState(s.State)
}

func validateArtifact(a *a2a.Artifact) error {
	if a == nil {
		return errors.New("artifact is missing")
	}
	return validateContents("artifact", a.Parts)
}

// validateContents rejects parts that a2a encodes but cannot decode.
func validateContents(what string, parts a2a.ContentParts) error {
	for _, part := range parts {
		ok := part != nil
		if ok {
			switch c := part.Content.(type) {
			case nil:
				ok = false
			case a2a.Raw:
				ok = c != nil
			case a2a.Data:
				ok = c.Value != nil
			case a2a.URL:
				ok = c != ""
			}
		}
		if !ok {
			return fmt.Errorf("%s has a part without content", what)
		}
	}
	return nil
}

func validateMessage(m *a2a.Message) error {
	if err := validateContents("message", m.Parts); err != nil {
		return err
	}
	size, blank := 0, true
	for _, part := range m.Parts {
		text, ok := part.Content.(a2a.Text)
		if !ok {
			blank = false
			continue
		}
		if !utf8.ValidString(string(text)) {
			return errors.New("message is not valid UTF-8")
		}
		size += len(text)
		blank = blank && len(text) == 0
	}
	switch {
	case blank:
		return errors.New("message is empty")
	case size > MaxText:
		return fmt.Errorf("%w: message is %d bytes, at most %d are allowed", ErrTooLarge, size, MaxText)
	}
	return nil
}

// validateState is needed because a2a decodes any string as a state.
func validateState(s a2a.TaskState) error {
	switch s {
	case a2a.TaskStateAuthRequired, a2a.TaskStateCanceled, a2a.TaskStateCompleted, a2a.TaskStateFailed, a2a.TaskStateInputRequired,
		a2a.TaskStateRejected, a2a.TaskStateSubmitted, a2a.TaskStateWorking:
		return nil
	}
	return fmt.Errorf("unknown task state %.40q", s)
}
