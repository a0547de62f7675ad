package rockbot

import (
	"cmp"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"strings"
	"time"

	amqp "github.com/rabbitmq/amqp091-go"

	"github.com/cortex-orchestrator/cortex/bridge/kit"
	"github.com/cortex-orchestrator/cortex/client"
	"github.com/cortex-orchestrator/cortex/cortex/conversation"
	"github.com/cortex-orchestrator/cortex/internal/shorten"
)

// Bounds of the tasks of callers.
const (
	maxAsks    = 1024 // that have no answer yet
	maxOwnAsks = 128  // likewise, of one caller
	maxRounds  = 20   // messages of one task
	maxSaid    = 1 << 20
)

// unknownSource is who asks without a name.
const unknownSource = "unknown"

// ask is a task that a caller has given to an agent of Cortex, or to Cortex itself. The exported fields are its note.
type ask struct {
	Source      string    `json:"source"`
	Task        string    `json:"task"` // the caller's
	Correlation string    `json:"correlation"`
	ReplyTo     string    `json:"reply_to"`
	Theirs      string    `json:"theirs,omitempty"` // context of the caller
	As          string    `json:"as"`               // who was asked
	Agent       string    `json:"agent,omitempty"`
	Skill       string    `json:"skill,omitempty"`
	Context     string    `json:"context"` // conversation of Cortex
	Rounds      []round   `json:"rounds"`
	At          time.Time `json:"at"` // of the newest round, or of its answer
	Answered    bool      `json:"answered,omitempty"`
	Asked       bool      `json:"asked,omitempty"` // the answer was a question

	version conversation.Version
	came    time.Time
	sent    bool // Cortex has the newest message; asks.mu guards it
}

// round is one message of a caller, and the turn that it began.
type round struct {
	Key  string `json:"key"`  // of the caller's message
	Turn string `json:"turn"` // message of Cortex
}

func askKey(contextID, as, source, task string) string {
	return contextID + "." + space.Hex("ask", as, source, task)
}

func (q *ask) key() string { return askKey(q.Context, q.As, q.Source, q.Task) }

// turn returns the turn of the newest round.
func (q *ask) turn() client.Turn {
	return client.Turn{ContextID: q.Context, From: sender(q.Source), MessageID: q.Rounds[len(q.Rounds)-1].Turn}
}

// given returns the context that the caller is told.
func (q *ask) given() string { return cmp.Or(q.Theirs, q.Context) }

// isType reports whether a message is of a type. Upper and lower case do not differ.
func isType(d *amqp.Delivery, kind string) bool { return strings.EqualFold(d.Type, kind) }

// askOf returns the task of a request with its first round.
func (as *asks) askOf(d *amqp.Delivery, r *request, f *face) (*ask, error) {
	reply, err := replyTopic(d.ReplyTo)
	switch {
	case err != nil:
		return nil, err
	case r.TaskID == "" || len(r.TaskID) > maxKey:
		return nil, fmt.Errorf("taskId has %d bytes, want 1 to %d", len(r.TaskID), maxKey)
	case len(deref(r.ContextID)) > maxKey:
		return nil, fmt.Errorf("contextId has %d bytes, at most %d are allowed", len(*r.ContextID), maxKey)
	case r.Message == nil:
		return nil, errors.New("message is null")
	case strings.TrimSpace(r.Message.text()) == "" && len(data(r.Message.Parts)) == 0:
		return nil, errors.New("message says nothing")
	}
	source := cmp.Or(shorten.To(kit.Valid(header(d, "rb-source")), maxName), unknownSource)
	q := &ask{
		Source: source, Task: r.TaskID, Correlation: cmp.Or(d.CorrelationId, r.TaskID), ReplyTo: reply, Theirs: deref(r.ContextID), As: f.name, Agent: f.agent,
	}
	q.Context = contextOf(f.name, source, "task "+r.TaskID)
	if q.Theirs == q.Context { // it was given with a question
		q.Theirs = ""
	} else if q.Theirs != "" {
		q.Context = contextOf(f.name, source, q.Theirs)
	}
	q.Rounds = []round{{Key: keyOf(d), Turn: space.ID("message", f.name, source, r.TaskID)}}
	return q, nil
}

// ownContext is what the ids of conversations with callers begin with.
const ownContext = "rockbot-"

// contextOf returns the conversation in Cortex for that of a caller with somebody: nobody else's.
func contextOf(as, source, theirs string) string {
	return ownContext + space.ID("context", as, source, theirs)
}

// replyTopic returns where an answer goes. Other topics than those of responses are refused: who asks could have Cortex say something there.
func replyTopic(topic string) (string, error) {
	switch {
	case topic == "":
		return responseTopic, nil
	case topic != responseTopic && !strings.HasPrefix(topic, responseTopic+".") || strings.ContainsAny(topic, "*#"):
		return "", fmt.Errorf("reply-to is %.100q, and answers go to %s.NAME", topic, responseTopic)
	}
	return topic, nil
}

// knows reports whether a message of the caller has come before.
func (q *ask) knows(key string) bool {
	for _, r := range q.Rounds {
		if r.Key == key {
			return true
		}
	}
	return false
}

// continues reports whether a message is the reply to the question of a task.
func (q *ask) continues(r *request) bool {
	return q.Asked && deref(r.ContextID) != "" && deref(r.ContextID) == q.given()
}

func (q *ask) contextID() *string { return nullable(q.given()) }

// keyOf returns what tells a message of a caller from others: its id, or its digest.
func keyOf(d *amqp.Delivery) string {
	if d.MessageId != "" {
		return shorten.To(d.MessageId, maxKey)
	}
	sum := sha256.Sum256(d.Body)
	return hex.EncodeToString(sum[:])
}
