package console

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/a2aproject/a2a-go/v2/a2a"

	"github.com/cortex-orchestrator/cortex/agentcard"
	"github.com/cortex-orchestrator/cortex/client"
	"github.com/cortex-orchestrator/cortex/cortex/registry"
	"github.com/cortex-orchestrator/cortex/cortex/router"
	"github.com/cortex-orchestrator/cortex/cortex/storage"
	"github.com/cortex-orchestrator/cortex/internal/view"
	"github.com/cortex-orchestrator/cortex/prompt"
	"github.com/cortex-orchestrator/cortex/transport"
)

// Bounds of pages about agents.
const (
	perPage      = 100 // agents
	maxLessons   = 50
	maxInstances = 50
	maxSkills    = 100
)

// agentsData is the page of all agents.
type agentsData struct {
	Query, Tag, State string
	Rows              []agentRow
	Found, Known      int
	After             string // the last one, if there are more
	Paged             bool
	States            []string
	Wrong             string
	Counted           bool // all conversations of the last day
}

// agentRow is an agent in the list.
type agentRow struct {
	ID, Mark, About, State, Seen, Version string
	Instances                             int
	Skills                                []string
	Work                                  *view.Work // nil: it was given nothing
	Share                                 string
}

func (c *Console) agents(w http.ResponseWriter, r *http.Request, who Person) error {
	q := r.URL.Query()
	d := &agentsData{
		Query: q.Get("text"), Tag: q.Get("tag"), State: q.Get("state"), Paged: q.Get("after") != "",
		States: []string{"active", "draining", "registered", "unknown", "refused"},
	}
	query := registry.Query{Text: d.Query}
	if d.Tag != "" {
		query.Tags = []string{d.Tag}
	}
	if d.State != "" {
		query.States = []registry.State{registry.State(d.State)}
	}
	all := c.cfg.Agents()
	err := query.Validate()
	var found []*registry.Record
	if err == nil {
		found, err = all.Find(query)
	}
	if err != nil && wantsJSON(r) {
		return wrong{http.StatusBadRequest, err.Error()}
	}
	if err != nil {
		d.Wrong = err.Error()
	}
	alike := c.alike(all)
	if wantsJSON(r) {
		leave, err := c.enterPage(r.Context(), w, who, 2*maxShown)
		if err != nil {
			return err
		}
		defer leave()
		set := view.NewLookalikes(all.Agents())
		return answerList(w, func(yield func(view.RecordJSON, error) bool) {
			for i := range found {
				if !yield(view.RecordsJSON(found[i:i+1], set)[0], nil) {
					return
				}
			}
		})
	}
	d.Found, d.Known = len(found), len(all.Agents())
	if after := q.Get("after"); after != "" {
		i, _ := slices.BinarySearchFunc(found, after, func(r *registry.Record, id string) int { return strings.Compare(r.ID, id) })
		if i < len(found) && found[i].ID == after {
			i++
		}
		found = found[i:]
	}
	if len(found) > perPage {
		found = found[:perPage]
		d.After = found[perPage-1].ID
	}
	work, counted, err := c.work(r.Context())
	if err != nil {
		return err
	}
	d.Counted = counted
	now := c.cfg.Now()
	for _, r := range found {
		row := agentRow{
			Work: work[r.ID], Share: shareText(work[r.ID]),
			ID: r.ID, Mark: alike.mark(r), About: r.Card.Description, State: view.AgentState(r, now), Seen: view.SeenText(r, now), Version: r.Version,
			Instances: len(r.Instances),
		}
		if r.Refused != "" {
			row.State, row.About = "refused", r.Refused
		}
		for i := range r.Card.Skills[:min(len(r.Card.Skills), 4)] {
			row.Skills = append(row.Skills, agentcard.SkillID(&r.Card.Skills[i]))
		}
		d.Rows = append(d.Rows, row)
	}
	c.show(w, r, http.StatusOK, &page{Name: "agents", Title: "Agents", Section: "agents", Data: d})
	return nil
}

// names knows which agents look alike, of one snapshot. It is safe for concurrent use.
type names struct {
	of *registry.Snapshot

	mu  sync.Mutex
	set *view.Lookalikes
}

// alike returns the names of a snapshot, which are made once for it.
func (c *Console) alike(s *registry.Snapshot) *names {
	if is := c.known.Load(); is != nil && is.of == s {
		return is
	}
	is := &names{of: s, set: view.NewLookalikes(s.Agents())}
	c.known.Store(is)
	return is
}

func (n *names) mark(r *registry.Record) string {
	n.mu.Lock()
	defer n.mu.Unlock()
	return n.set.MarkOf(r)
}

// named returns an agent's id, with a warning if it may be mistaken for another one. The agent may be gone.
func (n *names) named(id string) string {
	n.mu.Lock()
	defer n.mu.Unlock()
	n.set.Add(id)
	return n.set.Named(id)
}

// agentData is the page of an agent.
type agentData struct {
	*registry.Record
	Mark, State, Seen string
	Skills            []skillData
	MoreSkills        int
	Shown             []registry.Instance
	Cut               []string // what was cut of its card when it was read
	Raw               string
	Lessons           []router.Evidence
	MoreLessons       int
	Learns            bool // lessons can be read
	Wrong             string
	Given             url.Values
	Operator          bool
	Routable          bool
	Tasks             []view.Task // the last ones
	Work              *view.Work
	Share             string
	Now               time.Time
}

// skillData is a skill, with the form by which it can be tried.
type skillData struct {
	a2a.AgentSkill
	Key           string
	Confirm       bool
	Input, Output string
	Fields        []field
	Confidence    *float64
}

// record returns the agent that a URL names.
func (c *Console) record(r *http.Request) (*registry.Record, error) {
	rec, ok := c.cfg.Agents().Get(r.PathValue("agent"))
	if !ok {
		return nil, wrong{http.StatusNotFound, fmt.Sprintf("no agent %s is known now: it may be gone", prompt.Clean(r.PathValue("agent"), maxWord))}
	}
	return rec, nil
}

func (c *Console) agent(w http.ResponseWriter, r *http.Request, who Person) error {
	rec, err := c.record(r)
	if err != nil {
		return err
	}
	if wantsJSON(r) {
		return answerJSON(w, view.RecordsJSON([]*registry.Record{rec}, view.NewLookalikes(c.cfg.Agents().Agents()))[0])
	}
	return c.showAgent(w, r, who, rec, http.StatusOK, "", nil)
}

func (c *Console) showAgent(w http.ResponseWriter, r *http.Request, who Person, rec *registry.Record, code int, wrong string, given url.Values) error {
	now := c.cfg.Now()
	d := &agentData{
		Record: rec, Mark: c.alike(c.cfg.Agents()).mark(rec), State: view.AgentState(rec, now), Seen: view.SeenText(rec, now), Wrong: wrong, Given: given,
		Operator: who.Operator, Routable: rec.Routable() && rec.Refused == "", Shown: rec.Instances[:min(len(rec.Instances), maxInstances)],
	}
	for i := range rec.Card.Skills {
		if i == maxSkills {
			d.MoreSkills = len(rec.Card.Skills) - maxSkills
			break
		}
		s := rec.Card.Skills[i]
		key := agentcard.SkillID(&s)
		spec := rec.Spec.Abilities[key]
		d.Skills = append(d.Skills, skillData{
			AgentSkill: s, Key: key, Confirm: spec.Confirm, Input: pretty(spec.InputSchema), Output: pretty(spec.OutputSchema), Fields: fieldsOf(spec.InputSchema),
			Confidence: spec.Confidence,
		})
	}
	if raw, err := rawText(rec.Card, maxText); err == nil {
		d.Raw = raw
	}
	if err := c.lessons(r.Context(), d); err != nil {
		return err
	}
	work, _, err := c.work(r.Context())
	if err != nil {
		return err
	}
	d.Work, d.Share, d.Now = work[rec.ID], shareText(work[rec.ID]), now
	reading, stop := context.WithTimeout(r.Context(), workTime)
	defer stop()
	if d.Tasks, err = view.TasksOf(reading, c.reader(), rec.ID, now.Add(-workAge), maxRecent); err != nil {
		return err
	}
	c.show(w, r, code, &page{Name: "agent", Title: prompt.Clean(rec.ID, maxWord), Section: "agents", Data: d})
	return nil
}

// lessons reads what was learned of an agent, which not everybody may.
func (c *Console) lessons(ctx context.Context, d *agentData) error {
	notes, ok := c.cfg.Store.(storage.Notes)
	if !ok {
		return nil
	}
	n, err := notes.Note(ctx, c.cfg.Client.Tenant, storage.NoteEvidence, d.ID)
	if errors.Is(err, transport.ErrForbidden) {
		return nil
	}
	if err != nil {
		return err
	}
	d.Learns = true
	var all []router.Evidence
	if json.Unmarshal(n.Value, &all) != nil {
		return nil // nothing, or what a newer version has learned
	}
	slices.SortFunc(all, func(a, b router.Evidence) int { return b.Time.Compare(a.Time) })
	d.Lessons = all[:min(len(all), maxLessons)]
	d.MoreLessons = len(all) - len(d.Lessons)
	return nil
}

// try asks an agent directly, in a conversation of its own.
func (c *Console) try(w http.ResponseWriter, r *http.Request, who Person) error {
	rec, err := c.record(r)
	if err != nil {
		return err
	}
	if err := r.ParseForm(); err != nil {
		return wrong{http.StatusBadRequest, "the form cannot be read"}
	}
	skill := r.PostForm.Get("skill")
	spec := rec.Spec.Abilities[skill]
	to := &transport.Direct{Agent: rec.ID, Skill: skill}
	text := strings.TrimSpace(r.PostForm.Get("text"))
	if fields := fieldsOf(spec.InputSchema); fields != nil {
		if to.Input, err = inputOf(fields, r.PostForm); err != nil {
			return c.showAgent(w, r, who, rec, http.StatusBadRequest, err.Error(), r.PostForm)
		}
		if text == "" {
			text = prompt.Clean(skill+" "+string(to.Input), maxLine)
		}
	}
	if text == "" {
		return c.showAgent(w, r, who, rec, http.StatusBadRequest, "Say what is to be done.", r.PostForm)
	}
	own := c.as(who)
	m := &client.Message{ContextID: own.NextID(), ID: r.PostForm.Get("message"), Parts: a2a.ContentParts{a2a.NewTextPart(text)}, To: to}
	turn, err := own.Send(r.Context(), m)
	if errors.Is(err, transport.ErrInvalid) {
		return c.showAgent(w, r, who, rec, http.StatusBadRequest, err.Error(), r.PostForm)
	}
	if err != nil {
		return err
	}
	now := c.cfg.Now()
	c.pending.add(turn.ContextID, &view.Turn{ID: own.ID(turn), MessageID: turn.MessageID, From: own.User, Asked: now, Began: now, Text: text})
	http.Redirect(w, r, "/c/"+url.PathEscape(turn.ContextID)+"?sent="+url.QueryEscape(turn.MessageID), http.StatusSeeOther)
	return nil
}

// forget removes what was learned of an agent, from the store and from running orchestrators.
func (c *Console) forget(w http.ResponseWriter, r *http.Request, who Person) error {
	if !who.Operator {
		return errOperator
	}
	id := r.PathValue("agent")
	if err := transport.CheckID(id); err != nil {
		return errNoPage
	}
	notes, ok := c.cfg.Store.(storage.Notes)
	if !ok {
		return wrong{http.StatusNotFound, "this store keeps no notes, and so nothing is learned"}
	}
	if err := notes.DeleteNote(r.Context(), c.cfg.Client.Tenant, storage.NoteEvidence, id, 0); err != nil {
		return err
	}
	if err := c.cfg.Client.Transport.Publish(r.Context(), transport.Control(c.cfg.Client.Tenant, transport.Cortex), &transport.Event{
		ID: c.cfg.Client.NextID(), Time: time.Now(), From: "user", Tenant: c.cfg.Client.Tenant, Payload: &transport.Forget{AgentID: id},
	}); err != nil {
		return fmt.Errorf("it is forgotten in the store, but the running Cortex could not be notified: %w", err)
	}
	http.Redirect(w, r, "/agents/"+url.PathEscape(id), http.StatusSeeOther)
	return nil
}
