package console

import (
	"cmp"
	"context"
	"net/http"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/a2aproject/a2a-go/v2/a2a"

	"github.com/cortex-orchestrator/cortex/cortex/conversation"
	"github.com/cortex-orchestrator/cortex/internal/view"
	"github.com/cortex-orchestrator/cortex/transport"
)

// Bounds of the page of what happens.
const (
	maxActivity = 100      // entries
	maxHappened = 16 << 10 // of a text, in bytes: a feed remembers many
	maxWatched  = 30       // conversations, those that changed last
	activityAge = 24 * time.Hour
)

// activityData is the page of what happens.
type activityData struct {
	filter
	Paused bool
	Kinds  []string
	Rows   []happening
	Events string // where what comes is streamed; "": the page is loaded again
	Other  string // the page that is not paused, or is
	Now    time.Time
}

// filter chooses happenings.
type filter struct{ Agent, Kind, Text string }

// filterOf reads a filter from the query of a URL.
func filterOf(q url.Values) filter { return filter{q.Get("agent"), q.Get("kind"), q.Get("text")} }

// query is the query of a URL that filterOf reads.
func (f filter) query() url.Values {
	q := make(url.Values)
	for key, value := range map[string]string{"agent": f.Agent, "kind": f.Kind, "text": f.Text} {
		if value != "" {
			q.Set(key, value)
		}
	}
	return q
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
	// Version is that of the entry, which may tell of two happenings.
	Version conversation.Version `json:"version"`
	// Erased are the versions of entries that are erased now: nothing else has happened then.
	Erased []conversation.Version `json:"-"`
}

var kinds = []string{"message", "decision", "answer", "question", "result", "failure", "event"}

// happeningsOf describes an entry: its cause, and what was decided.
func happeningsOf(contextID string, e *conversation.Entry) []happening {
	if e.Cause == nil {
		return nil // nothing is known of it
	}
	var all []happening
	add := func(at time.Time, kind, who, text string, agents ...string) {
		if len(text) > maxHappened {
			text = strings.Clone(strings.ToValidUTF8(text[:maxHappened], "")) + "…"
		}
		all = append(all, happening{at, contextID, e.Turn, e.Seq, kind, who, text, agents, e.Version, nil})
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

func (c *Console) activity(w http.ResponseWriter, r *http.Request, who Person) error {
	leave, err := c.enterPage(r.Context(), w, who, 2*maxShown)
	if err != nil {
		return err
	}
	defer leave()
	d := &activityData{filter: filterOf(r.URL.Query()), Paused: r.URL.Query().Has("pause"), Kinds: kinds, Now: c.cfg.Now()}
	most := ^conversation.Version(0)
	if c.feed != nil { // what comes after the position is streamed
		info, err := c.feed.journal.Journal(r.Context())
		if err != nil {
			return err
		}
		most = info.Last
		q := d.query()
		q.Set("after", strconv.FormatUint(uint64(most), 10))
		d.Events = "/activity/events?" + q.Encode()
	}
	if d.Rows, err = c.happenings(r.Context(), d, most); err != nil {
		return err
	}
	if wantsJSON(r) {
		return answerJSON(w, d.Rows)
	}
	other := d.query()
	if !d.Paused {
		other.Set("pause", "")
	}
	d.Other = "/activity?" + other.Encode()
	c.show(w, r, http.StatusOK, &page{Name: "activity", Title: "Activity", Section: "activity", Data: d, Refresh: again(r, !d.Paused)})
	return nil
}

// happenings returns what has happened last in the conversations that changed last, up to a version, the newest first.
func (c *Console) happenings(ctx context.Context, d *activityData, most conversation.Version) ([]happening, error) {
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
			if e.Version > most {
				break
			}
			for _, h := range happeningsOf(info.ContextID, e) {
				if d.wants(&h) {
					all = append(all, h)
				}
			}
			if len(all) > 2*maxActivity {
				all = latest(all)
			}
		}
		all = latest(all)
	}
	return all, nil
}

// latest returns those that are shown, without the memory of the others.
func latest(all []happening) []happening {
	slices.SortStableFunc(all, newest)
	most := min(len(all), maxActivity)
	clear(all[most:])
	return all[:most]
}

// newest orders happenings, the newest first. What was decided on comes after its cause, which has the same version.
func newest(a, b happening) int {
	if by := b.Time.Compare(a.Time); by != 0 {
		return by
	}
	return cmp.Compare(b.Version, a.Version)
}

// wants reports whether a happening passes the filter.
func (f *filter) wants(h *happening) bool {
	return (f.Kind == "" || h.Kind == f.Kind) &&
		(f.Agent == "" || h.Who == f.Agent || slices.Contains(h.Agents, f.Agent)) &&
		(f.Text == "" || strings.Contains(strings.ToLower(h.Text+" "+h.ContextID+" "+h.Who), strings.ToLower(f.Text)))
}
