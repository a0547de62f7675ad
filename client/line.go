package client

import (
	"time"

	"github.com/a2aproject/a2a-go/v2/a2a"
)

// LineKind is the kind of a Line.
type LineKind string

// The kinds of line.
const (
	LineUser   LineKind = "user"   // what the user said
	LineAnswer LineKind = "answer" // what Cortex answered
	LineTask   LineKind = "task"   // what an agent was asked; Who is the agent
	LineResult LineKind = "result" // what it returned; Who is the agent
	LineNote   LineKind = "note"   // anything else
)

// Line is one contribution to a conversation. Who may be empty for the user and for Cortex. Text may have several lines; it ends with one line for
// each of Files. ID is the id of an answer's message.
type Line struct {
	Time time.Time
	Kind LineKind
	ID   string
	Who  string
	Text string

	Files []*a2a.Part
}
