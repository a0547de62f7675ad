package console

import (
	"context"
	"net/http"
	"slices"
	"strings"
	"time"

	"github.com/a2aproject/a2a-go/v2/a2a"

	"github.com/cortex-orchestrator/cortex/cortex/conversation"
	"github.com/cortex-orchestrator/cortex/internal/view"
	"github.com/cortex-orchestrator/cortex/transport"
)

// Bounds of the page of what happens.
const (
	maxActivity = 100 // entries
	maxWatched  = 30  // conversations, those that changed last
	activityAge = 24 * time.Hour
)

// activityData is the page of what happens.
type activityData struct {
	Agent, Kind, Text string
	Paused            bool
	Kinds             []string
	Rows              []happening
	Now               time.Time
}

// happening is what an entry of a log says.
type happening struct {
	Time      time.Time `json:"time"`
	ContextID string    `json:"contextId"`
	Turn      string    `json:"turn"`
	Seq       uint64    `json:"seq"`
	Kind      string    `json:"kind"` // message, decision, answer, question, result, failure or event
	Who       string    `json:"who"`
	Text      string    `json:"text"`
	Agents    []string  `json:"agents,omitempty"`
}

var kinds = []string{"message", "decision", "answer", "question", "result", "failure", "event"}

// happeningsOf describes an entry: its cause, and what was decided.
func happeningsOf(contextID string, e *conversation.Entry) []happening {
	var all []happening
	add := func(at time.Time, kind, who, text string, agents ...string) {
		all = append(all, happening{at, contextID, e.Turn, e.Seq, kind, who, text, agents})
	}
	switch p := e.Cause.Payload.(type) {
	case *a2a.Message:
		add(e.Time, "message", e.Cause.From, transport.Text(p.Parts))
	default:
		if r, ok := conversation.ResultOf(e.Cause); ok {
			kind := "result"
			if r.State == a2a.TaskStateFailed || r.State == a2a.TaskStateRejected {
				kind = "failure"
			}
			add(e.Time, kind, e.Cause.From, r.Text, e.Cause.From)
		} else {
			add(e.Time, "event", e.Cause.From, view.KindOf(e.Cause))
		}
	}
	at := e.Time
	if e.Sent.After(at) {
		at = e.Sent
	}
	switch d := e.Decision; {
	case e.Failure != "":
		add(at, "failure", transport.Cortex, e.Failure)
	case d == nil:
	case d.Kind.Delegates():
		var agents, texts []string
		for _, one := range d.Delegations {
			agents, texts = append(agents, one.Agent), append(texts, one.Agent+": "+one.Task)
		}
		kind := "decision"
		if e.Consent != "" {
			kind = "question"
		}
		add(at, kind, transport.Cortex, strings.Join(texts, "; "), agents...)
	case d.Kind.Asks():
		add(at, "question", transport.Cortex, d.Say)
	default:
		add(at, "answer", transport.Cortex, d.Say)
	}
	return all
}

func (c *Console) activity(w http.ResponseWriter, r *http.Request, _ Person) error {
	q := r.URL.Query()
	d := &activityData{Agent: q.Get("agent"), Kind: q.Get("kind"), Text: q.Get("text"), Paused: q.Has("pause"), Kinds: kinds, Now: c.cfg.Now()}
	var err error
	if d.Rows, err = c.happenings(r.Context(), d); err != nil {
		return err
	}
	if wantsJSON(r) {
		return answerJSON(w, d.Rows)
	}
	c.show(w, r, http.StatusOK, &page{Name: "activity", Title: "Activity", Section: "activity", Data: d})
	return nil
}

// happenings returns what has happened last in the conversations that changed last, the newest first.
func (c *Console) happenings(ctx context.Context, d *activityData) ([]happening, error) {
	all := []happening{}
	n := 0
	for info, err := range c.cfg.Store.Contexts(ctx, c.cfg.Client.Tenant) {
		if err != nil {
			return nil, err
		}
		if n++; n > maxWatched || d.Now.Sub(info.Updated) > activityAge {
			break
		}
		if len(all) >= maxActivity && info.Updated.Before(all[maxActivity-1].Time) {
			break // all others are older
		}
		for e, err := range c.cfg.Store.Load(ctx, c.cfg.Client.Tenant, info.ContextID, 0) {
			if err != nil {
				break // what is damaged is said where the conversation is
			}
			for _, h := range happeningsOf(info.ContextID, e) {
				if d.wants(&h) {
					all = append(all, h)
				}
			}
		}
		slices.SortStableFunc(all, func(a, b happening) int { return b.Time.Compare(a.Time) })
		all = all[:min(len(all), maxActivity)]
	}
	return all, nil
}

// wants reports whether a row passes the filters.
func (d *activityData) wants(h *happening) bool {
	return (d.Kind == "" || h.Kind == d.Kind) &&
		(d.Agent == "" || h.Who == d.Agent || slices.Contains(h.Agents, d.Agent)) &&
		(d.Text == "" || strings.Contains(strings.ToLower(h.Text+" "+h.ContextID+" "+h.Who), strings.ToLower(d.Text)))
}
