package console

import (
	"bytes"
	"encoding/json"
	"fmt"
	"math"
	"net/http"
	"slices"
	"strings"
	"time"

	"github.com/a2aproject/a2a-go/v2/a2a"

	"github.com/cortex-orchestrator/cortex/client"
	"github.com/cortex-orchestrator/cortex/cortex/conversation"
	"github.com/cortex-orchestrator/cortex/internal/shorten"
	"github.com/cortex-orchestrator/cortex/internal/view"
	"github.com/cortex-orchestrator/cortex/prompt"
)

// shortWait is how long a message may wait for Cortex without a row in the waterfall, unless that is much of all.
const shortWait = 100 * time.Millisecond

// waterfallWidth is the width of the bars of a waterfall, in units of its pictures, which are as wide as there is room.
const waterfallWidth = 1000

// fallData is the page of a turn.
type fallData struct {
	*turnData
	Rows   []fallRow
	Ticks  []tick
	Begins time.Time
	Total  time.Duration
	Steps  []*stepData
	Raw    []rawEntry
}

// fallRow is a row of the waterfall.
type fallRow struct {
	Label  string
	Agent  string // of an attempt
	Text   string // what it was to do
	Anchor string // of what is said of it below
	Inner  bool
	Class  string // of its bar
	X, W   float64
	Took   string
	Note   string
}

type tick struct {
	X    float64
	Text string
}

// Percent is where the mark is, of the width.
func (t tick) Percent() float64 { return math.Round(1000*t.X/waterfallWidth) / 10 }

// trouble is what went wrong in a turn.
type trouble struct {
	Label, Anchor string // of what
	What, Why     string
}

// Has reports whether a row of the waterfall has a class.
func (d *fallData) Has(class string) bool {
	return slices.ContainsFunc(d.Rows, func(r fallRow) bool { return strings.Contains(r.Class, class) })
}

// InChat reports whether the page shows a turn that comes without being loaded again.
func (d *fallData) InChat() bool { return false }

// Failed reports whether the turn has an answer which says that it failed.
func (d *fallData) Failed() bool { return d.Answer != nil && d.Answer.Failed }

// Troubles returns what went wrong, in the order of the waterfall.
func (d *fallData) Troubles() []trouble {
	var all []trouble
	for i, s := range d.Turn.Steps {
		if s.Failure != "" {
			all = append(all, trouble{fmt.Sprint("Decision ", i+1), fmt.Sprint("step-", i+1), "failed", s.Failure})
		}
	}
	for _, t := range d.Tasks {
		anchor := "task-" + string(t.TaskID)
		for i, a := range t.Attempts {
			if a.Why != "" {
				all = append(all, trouble{d.Alike(a.Agent), anchor, fmt.Sprintf("was given up in attempt %d", i+1), a.Why})
			}
		}
		if t.State == a2a.TaskStateFailed || t.State == a2a.TaskStateRejected {
			all = append(all, trouble{d.Alike(t.Agent), anchor, client.StateName(t.State), t.Result})
		}
	}
	return all[:min(len(all), maxTroubles)]
}

// maxTroubles bounds the troubles that are shown above a waterfall; all are in it.
const maxTroubles = 8

// stepData is a decision.
type stepData struct {
	*view.Step
	Number    int
	Alike     func(string) string
	HasPrompt bool // a model was asked, and its prompt can be shown
}

// By describes what decided.
func (s *stepData) By() string {
	if s.Decision == nil {
		return ""
	}
	return view.By(s.Decision)
}

// Title describes the decision in a few words.
func (s *stepData) Title() string {
	if s.Decision == nil {
		return "decision failed"
	}
	switch kind := s.Decision.Kind; {
	case kind.Delegates() && len(s.Decision.Delegations) == 1:
		return "give it to an agent"
	case kind.Delegates():
		return fmt.Sprintf("give out %d tasks", len(s.Decision.Delegations))
	case kind.Asks():
		return "ask back"
	case kind.Refuses():
		return "refuse"
	case kind.Answers():
		return "answer"
	}
	return string(s.Decision.Kind)
}

// rawEntry is an entry of the log as JSON.
type rawEntry struct {
	Seq  uint64
	Kind string
	JSON string
}

// Bounds of the raw entries that a page shows.
const (
	maxRaw     = 60
	maxRawText = 48 << 10
)

// turnPage shows how one turn came about.
func (c *Console) turnPage(w http.ResponseWriter, r *http.Request, who Person) error {
	id, err := contextOf(r)
	if err != nil {
		return err
	}
	name, asJSON := r.PathValue("turn"), wantsJSON(r)
	leave, err := c.enterPage(r.Context(), w, who, 2*maxShown)
	if err != nil {
		return err
	}
	defer leave()
	var shown []rawEntry
	turns, err := c.fold(r.Context(), id, view.Keep{Only: name, Text: maxText}, func(e *conversation.Entry, _ []*view.Turn) {
		if e.Turn == name && len(shown) < maxRaw && !asJSON {
			shown = append(shown, rawOf(e))
		}
	})
	if err != nil {
		return err
	}
	var t *view.Turn
	for _, one := range append(turns.List, c.pending.without(id, c.cfg.Now(), turns.Has)...) {
		if one.ID == name {
			t = one
		}
	}
	if t == nil {
		return wrong{http.StatusNotFound, "there is no such turn in this conversation"}
	}
	if asJSON {
		return answerList(w, func(yield func(*conversation.Entry, error) bool) { // one by one: an entry has the message that it is about
			n := 0
			for e, err := range c.cfg.Store.Load(r.Context(), c.cfg.Client.Tenant, id, 0) {
				if err == nil && e.Turn != name {
					continue
				}
				if n++; n > maxRaw || !yield(e, err) || err != nil {
					return
				}
			}
		})
	}
	d := &fallData{turnData: c.turnData(t, turns, who), Raw: shown}
	d.lay(d.Now)
	for i, s := range t.Steps {
		d.Steps = append(d.Steps, &stepData{s, i + 1, d.Alike, c.cfg.Prompt != nil && !view.ByRule(s.Decision)})
	}
	c.show(w, r, http.StatusOK, &page{Name: "turn", Title: prompt.Clean(t.Text, 60), Section: "chat", Refresh: again(r, t.Open()), Data: d})
	return nil
}

// rawOf formats an entry. Control and format characters are written as escapes.
func rawOf(e *conversation.Entry) rawEntry {
	text, err := rawText(e, maxRawText)
	if err != nil {
		return rawEntry{e.Seq, "entry", prompt.Clean(err.Error(), maxLine)}
	}
	kind := "event"
	if e.Cause != nil {
		kind = view.KindOf(e.Cause)
	}
	return rawEntry{e.Seq, kind, text}
}

// rawText formats a value as JSON, of which it returns at most so many bytes.
func rawText(v any, most int) (string, error) {
	var b bytes.Buffer
	enc := view.NewJSON(&b)
	enc.SetEscapeHTML(false)
	if err := enc.Encode(v); err != nil {
		return "", err
	}
	return cutJSON(b.Bytes(), most), nil
}

// cutJSON indents JSON, of which it returns at most so many bytes, and how much was cut.
func cutJSON(text []byte, most int) string {
	shown, more := view.Indent(text, 0, most)
	if more == 0 {
		return prompt.CleanText(string(shown), most)
	}
	begin := shorten.To(string(shown), most-1) // the last character may be a part of one
	return prompt.CleanText(begin, most) + fmt.Sprintf("\n[… %d more bytes are cut off]", len(shown)-len(begin)+more)
}

// lay lays out the waterfall.
func (d *fallData) lay(now time.Time) {
	d.Begins = d.Began
	if !d.Asked.IsZero() && d.Asked.Before(d.Began) && d.Began.Sub(d.Asked) < 24*time.Hour { // by another clock, perhaps
		d.Begins = d.Asked
	}
	end := d.Began
	late := func(t time.Time) {
		if t.After(end) {
			end = t
		}
	}
	if d.Open() {
		late(now)
	} else {
		late(d.Answer.Time)
	}
	for _, s := range d.Turn.Steps {
		late(s.Ended)
	}
	for _, t := range d.Tasks {
		for _, a := range t.Attempts {
			late(a.Ended)
		}
	}
	d.Total = max(end.Sub(d.Begins), time.Millisecond)
	at := func(t time.Time) float64 {
		return math.Round(10*waterfallWidth*float64(t.Sub(d.Begins))/float64(d.Total)) / 10
	}
	bar := func(row fallRow, from, to time.Time) {
		if to.IsZero() {
			to, row.Class = now, row.Class+" is-running"
		}
		row.X = min(max(at(from), 0), waterfallWidth)
		row.W = min(max(at(to)-row.X, 3), waterfallWidth-row.X+3) // a bar can always be seen
		row.X = min(row.X, waterfallWidth-3)
		row.Took = took(to.Sub(from))
		d.Rows = append(d.Rows, row)
	}
	if wait := d.Began.Sub(d.Begins); wait >= shortWait || wait > d.Total/20 {
		bar(fallRow{Label: "waits for Cortex", Class: "is-wait"}, d.Begins, d.Began)
	}
	given := make(map[string]bool)
	for i, s := range d.Turn.Steps {
		step := &stepData{Step: s}
		row := fallRow{Label: step.Title(), Anchor: fmt.Sprint("step-", i+1), Class: "is-decision"}
		if s.Decision == nil {
			row.Class = "is-failed"
		}
		bar(row, s.Began, s.Ended)
		var next time.Time
		if i+1 < len(d.Turn.Steps) {
			next = d.Turn.Steps[i+1].Began
		}
		for _, t := range d.Tasks {
			if given[string(t.TaskID)] || !next.IsZero() && t.Sent.After(next) {
				continue
			}
			given[string(t.TaskID)] = true
			d.task(t, bar)
		}
	}
	if d.Open() && len(d.Turn.Steps) == 0 {
		bar(fallRow{Label: "decides", Class: "is-decision"}, d.Began, time.Time{})
	}
	d.Ticks = ticksOf(d.Total)
}

// task adds the rows of a task: one for each attempt.
func (d *fallData) task(t *view.TurnTask, bar func(fallRow, time.Time, time.Time)) {
	if len(t.Attempts) == 0 {
		note := "not sent"
		switch {
		case t.Held:
			note = "needs a yes"
		case t.Blocked:
			note = "waits"
		}
		d.Rows = append(d.Rows, fallRow{Label: d.Alike(t.Agent), Agent: t.Agent, Text: t.Text, Anchor: "task-" + string(t.TaskID), Inner: true, Took: note})
		return
	}
	for i, a := range t.Attempts {
		row := fallRow{Label: d.Alike(a.Agent), Agent: a.Agent, Text: t.Text, Anchor: "task-" + string(t.TaskID), Inner: true}
		if len(t.Attempts) > 1 {
			row.Note = fmt.Sprintf("attempt %d", i+1)
		}
		switch {
		case a.Unfetched:
			row.Class = "is-wait"
		case a.Why != "", i == len(t.Attempts)-1 && (t.State == "TASK_STATE_FAILED" || t.State == "TASK_STATE_REJECTED"):
			row.Class = "is-failed"
		}
		bar(row, a.Sent, a.Ended)
	}
}

// ticksOf returns the marks of a time axis.
func ticksOf(total time.Duration) []tick {
	step := time.Millisecond
	for _, factor := range []int{2, 5, 10, 20, 50, 100, 200, 500, 1000, 2000, 5000, 10_000, 30_000, 60_000, 300_000, 600_000, 1_800_000, 3_600_000, 21_600_000, 86_400_000, 604_800_000} {
		if total/step <= 4 {
			break
		}
		step = time.Duration(factor) * time.Millisecond
	}
	var all []tick
	for at := time.Duration(0); at <= total && len(all) < 12; at += step {
		all = append(all, tick{waterfallWidth * float64(at) / float64(total), took(at)})
	}
	return all
}

// pretty indents JSON, as far as it is shown as a text.
func pretty(b []byte) string {
	var v any
	if json.Unmarshal(b, &v) != nil {
		return string(b)
	}
	out, err := json.Marshal(v)
	if err != nil {
		return string(b)
	}
	return cutJSON(out, maxText/2)
}
