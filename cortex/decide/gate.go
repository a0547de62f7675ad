package decide

import (
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/a2aproject/a2a-go/v2/a2a"

	"github.com/cortex-orchestrator/cortex/cortex/conversation"
	"github.com/cortex-orchestrator/cortex/cortex/decide/catalog"
	"github.com/cortex-orchestrator/cortex/cortex/policy"
	"github.com/cortex-orchestrator/cortex/cortex/storage"
	"github.com/cortex-orchestrator/cortex/llm"
	"github.com/cortex-orchestrator/cortex/prompt"
)

// The gate holds two kinds of rules about calls of skills: how often one is called (calls), and what becomes of a call that repeats another (repeat). What
// is counted is in notes of the store, so that it holds for all replicas and after a restart. A call is counted before the entry that decides it is stored;
// its id follows from the event that it is decided for, so that it counts once however often that is handled. Tasks that are tried again, or continue
// after a question, are no new calls.

// gateTries is how often a note is written that other processes write, too. In this one they are written in turn; one that is nearer to the server may be
// faster many times in a row.
const gateTries = 200

// errNoNotes says that there is nowhere to count.
var errNoNotes = conversation.Failure("Nothing was done: rules of the policy limit how often this is called, and this store cannot count it.")

// errFaster says that a note changes all the time.
var errFaster = errors.New("count calls: others were faster, again and again")

// callsNote is the content of a note: the calls within the span of a rule, the oldest first.
type callsNote struct {
	Until time.Time  `json:"until"` // when the note is of no use any more
	Calls []callNote `json:"calls"`
}

type callNote struct {
	ID   string     `json:"id"`
	Time time.Time  `json:"time"`
	Task a2a.TaskID `json:"task,omitempty"` // that does what may not be repeated; "" where calls are only counted
}

// within reports whether c was made in the span of time before now. Another process, whose clock is ahead, may have dated it later; a date that is later
// by more than the span is of a clock that was wrong, and does not count, or it would until that time comes.
func (c callNote) within(span time.Duration, now time.Time) bool { return now.Sub(c.Time).Abs() < span }

// gated is a delegation that rules count.
type gated struct {
	del    *llm.Delegation
	id     string
	task   a2a.TaskID
	limits []policy.Calls
	repeat *policy.Repeat
}

// gated returns those delegations of a decision that rules count. Tasks that continue are none: they were counted when they began.
func (d *decision) gated(decided *llm.Decision) []gated {
	if !d.policy.Counted() || !decided.Kind.Delegates() {
		return nil
	}
	ids := d.conv.TaskIDs(d.entry.Seq, d.turn, decided)
	var all []gated
	for i := range decided.Delegations {
		del := &decided.Delegations[i]
		if w := d.conv.Tasks[a2a.TaskID(del.ID)]; w != nil && w.SentSeq != 0 {
			continue
		}
		g := gated{
			del: del, id: hashOf(d.conv.Tenant, d.conv.ContextID, conversation.EventKey(d.entry.Cause), del.ID, del.Agent), task: ids[del.ID],
			limits: d.policy.Calls(d.turn.From, del.Agent, d.skillOf(del)), repeat: d.policy.Repeat(d.turn.From, del.Agent, d.skillOf(del)),
		}
		if len(g.limits) > 0 || g.repeat != nil {
			all = append(all, g)
		}
	}
	return all
}

// gate checks the calls of a decision by the rules, and counts them if they are sent. It returns why agents cannot be given them now, by agent; or an
// answer, the first results, in place of a decision that repeats only what is done; or an error, which is a [conversation.Failure] for a refused repetition.
func (d *decision) gate(ctx context.Context, decided *llm.Decision, sent bool) (full map[string]string, say string, err error) {
	all := d.gated(decided)
	if len(all) == 0 {
		return nil, "", nil
	}
	if d.m.cfg.Notes == nil {
		return nil, "", errNoNotes
	}
	if why := d.twice(all); why != "" {
		d.m.denied.Limit.Add(1)
		return nil, "", conversation.Failure(why)
	}
	for range gateTries {
		if say, err = d.repeated(ctx, all, len(decided.Delegations)); say != "" || err != nil {
			return nil, say, err
		}
		if full, err = d.countCalls(ctx, all, false); len(full) > 0 || err != nil || !sent {
			return full, "", err
		}
		claimed, err := d.claim(ctx, all)
		if err == nil && !claimed {
			continue // another one has just asked for the same: now it is seen
		}
		if err == nil {
			full, err = d.countCalls(ctx, all, true)
		}
		if len(full) > 0 || err != nil {
			d.unmake(all)
		} else {
			d.carryOut(all)
		}
		return full, "", err
	}
	return nil, "", errFaster
}

// twice returns why a decision cannot be carried out that itself has a call twice which may not be repeated, or "".
func (d *decision) twice(all []gated) string {
	seen := map[string]bool{}
	for i := range all {
		if all[i].repeat == nil {
			continue
		}
		key := d.repeatKey(all[i].del)
		if seen[key] {
			return fmt.Sprintf("Nothing was done: %s would be asked for the same twice, and a rule allows no repetition within %v.",
				prompt.Clean(all[i].del.Agent, maxAsked), all[i].repeat.Within)
		}
		seen[key] = true
	}
	return ""
}

// repeated returns the first results if all of a decision's n delegations repeat calls that are done, and "" if none does. The error refuses the decision.
func (d *decision) repeated(ctx context.Context, all []gated, n int) (say string, err error) {
	var results []string
	for i := range all {
		result, err := d.repeats(ctx, &all[i])
		if err != nil {
			return "", err
		}
		if result != "" {
			results = append(results, result)
		}
	}
	switch {
	case len(results) == n:
		return strings.Join(results, "\n\n") + "\n\n(This was done before, and not again: the result is that of then.)", nil
	case len(results) > 0:
		d.m.denied.Limit.Add(1)
		return "", conversation.Failure("Nothing was done: a part of it was done before, and a rule allows no repetition: ask for the rest alone.")
	}
	return "", nil
}

// countCalls returns why agents cannot be given their calls now, by agent; if they can, and count is set, it counts the calls.
func (d *decision) countCalls(ctx context.Context, all []gated, count bool) (full map[string]string, err error) {
	full = map[string]string{}
	more := map[string]int{} // calls of this decision, by note
	for i := range all {
		for _, l := range all[i].limits {
			key := d.limitKey(&all[i], l)
			fits, err := d.m.call(ctx, d.conv.Tenant, key, callNote{ID: all[i].id}, l.Most-more[key], l.Per, count)
			if err != nil {
				return nil, err
			}
			if !fits {
				full[all[i].del.Agent] = fmt.Sprintf("a rule allows %d calls in %v", l.Most, l.Per)
			}
			if !count {
				more[key]++
			}
		}
	}
	return full, nil
}

// claim notes the calls that may not be repeated. It returns false, and notes none, if another one has been noted since they were looked for: of several
// that ask for the same at the same time, in other conversations and replicas, one gets it.
func (d *decision) claim(ctx context.Context, all []gated) (bool, error) {
	if len(all) > 0 && d.m.cfg.Notes == nil {
		return false, errNoNotes
	}
	for i := range all {
		r := all[i].repeat
		if r == nil {
			continue
		}
		ours, err := d.m.call(ctx, d.conv.Tenant, d.repeatKey(all[i].del), callNote{ID: all[i].id, Task: all[i].task}, 1, r.Within, true)
		if err != nil {
			return false, err
		}
		if !ours {
			d.unmake(all[:i])
			return false, nil
		}
	}
	return true, nil
}

// unmake has what may be counted of a decision given back that is not carried out, see [Maker.GiveBack].
func (d *decision) unmake(all []gated) {
	d.carryOut(all) // once each
	for i := range all {
		g := &all[i]
		if g.repeat != nil {
			d.entry.Unmade = append(d.entry.Unmade, conversation.Call{Note: d.repeatKey(g.del), ID: g.id})
		}
		for _, l := range g.limits {
			d.entry.Unmade = append(d.entry.Unmade, conversation.Call{Note: d.limitKey(g, l), ID: g.id})
		}
	}
}

// carryOut keeps what is counted of a decision.
func (d *decision) carryOut(all []gated) {
	d.entry.Unmade = slices.DeleteFunc(d.entry.Unmade, func(c conversation.Call) bool {
		return slices.ContainsFunc(all, func(g gated) bool { return g.id == c.ID })
	})
}

// giveBackTime bounds how long giving back one call may take.
const giveBackTime = 10 * time.Second

// GiveBack removes what was counted for an entry and is not carried out, as far as it can. It is called when the entry is stored: what another process
// has counted for the same event is not this one's to remove.
func (m *Maker) GiveBack(ctx context.Context, conv *conversation.Conversation, entry *conversation.Entry) {
	if m.cfg.Notes == nil {
		return
	}
	for _, call := range entry.Unmade {
		ctx, stop := context.WithTimeout(context.WithoutCancel(ctx), giveBackTime)
		err := m.uncall(ctx, conv.Tenant, call.Note, func(c callNote) bool { return c.ID == call.ID })
		stop()
		if err != nil {
			m.log.WarnContext(ctx, "a call that was not made still counts", "context_id", conv.ContextID, "err", err)
		}
	}
}

func (d *decision) skillOf(del *llm.Delegation) string {
	if a, ok := catalog.Find(d.all, del.Agent); ok {
		return del.SkillOf(a.Card)
	}
	return del.Skill
}

// repeats returns the result of the call that g repeats, or "" if it repeats none. The error refuses it.
func (d *decision) repeats(ctx context.Context, g *gated) (result string, err error) {
	if g.repeat == nil {
		return "", nil
	}
	_, n, err := d.m.callsOf(ctx, d.conv.Tenant, d.repeatKey(g.del))
	if err != nil {
		return "", err
	}
	now := d.m.cfg.Now()
	at := slices.IndexFunc(n.Calls, func(c callNote) bool { return c.within(g.repeat.Within, now) && c.ID != g.id })
	if at < 0 {
		return "", nil
	}
	when := n.Calls[at].Time
	if g.repeat.First {
		if t := d.first(g.del, now.Add(-g.repeat.Within)); t != nil {
			if text := strings.TrimSpace(t.Result); text != "" {
				return text, nil
			}
			return "Done.", nil
		}
	}
	return "", conversation.Failure(fmt.Sprintf("Nothing was done: %s was asked for the same at %s UTC, and a rule allows no repetition within %v.",
		prompt.Clean(g.del.Agent, maxAsked), when.UTC().Format("15:04:05"), g.repeat.Within))
}

// first returns the completed task of the conversation that a delegation repeats, or nil. What somebody else asked for there is not repeated.
func (d *decision) first(del *llm.Delegation, after time.Time) *prompt.Task {
	its := callText(del.Task, del.Input)
	is := func(t *prompt.Task) bool {
		return t.Agent == del.Agent && t.State == a2a.TaskStateCompleted && t.Sent.After(after) && (t.Skill == del.Skill || del.Skill == "" || t.Skill == "") && callText(t.Text, t.Input) == its
	}
	whose := d.conv.Requester(d.turn)
	for _, t := range d.conv.TaskList() {
		turn := d.conv.Turn(t.Turn)
		if p := conversation.PromptTask(t); turn != nil && d.conv.Requester(turn) == whose && is(&p) {
			return &p
		}
	}
	for _, turn := range d.conv.Turns {
		if turn.Past == nil || d.conv.Requester(turn) != whose {
			continue
		}
		for i := range turn.Past.Steps {
			for j := range turn.Past.Steps[i].Tasks {
				if t := &turn.Past.Steps[i].Tasks[j]; is(t) {
					return t
				}
			}
		}
	}
	return nil
}

// limitKey returns the key of the note in which calls are counted for a limit.
func (d *decision) limitKey(g *gated, l policy.Calls) string {
	who, skill := "", ""
	switch l.By {
	case policy.ByAsker:
		who = d.turn.From
	case policy.ByPerson:
		who = d.conv.Requester(d.turn)
	}
	if l.Skill {
		skill = d.skillOf(g.del)
	}
	return hashOf("limit", g.del.Agent, skill, l.By, who, l.Per.String())
}

// repeatKey returns the key of the note about calls with the same text and input as a delegation.
func (d *decision) repeatKey(del *llm.Delegation) string {
	return hashOf("repeat", del.Agent, d.skillOf(del), d.conv.Requester(d.turn), callText(del.Task, del.Input))
}

// callText returns the text and the input of a call, so that equal ones are equal: white space, and the order of keys, do not matter.
func callText(text string, input json.RawMessage) string {
	var v any
	r := json.NewDecoder(bytes.NewReader(input))
	r.UseNumber()
	if len(input) > 0 && r.Decode(&v) == nil {
		if b, err := json.Marshal(v); err == nil {
			input = b
		}
	}
	return strings.Join(strings.Fields(text), " ") + "\x00" + string(input)
}

func hashOf(parts ...string) string {
	sum := sha256.New()
	for _, p := range parts {
		fmt.Fprintf(sum, "%d:%s", len(p), p)
	}
	return base64.RawURLEncoding.EncodeToString(sum.Sum(nil)[:18])
}

// callsOf returns a note, and the calls in it.
func (m *Maker) callsOf(ctx context.Context, tenant, key string) (note storage.Note, n callsNote, err error) {
	note, err = m.cfg.Notes.Note(ctx, tenant, storage.NoteCalls, key)
	if err == nil && len(note.Value) > 0 {
		err = json.Unmarshal(note.Value, &n)
	}
	if err != nil {
		err = fmt.Errorf("count calls: %w", err)
	}
	return note, n, err
}

// call reports whether one more call fits a limit, which counts those of the last span of time; with count it is counted, as a call of this moment: the
// decision may have taken longer than the span, and so may the redelivery of its event, whose id is counted already then.
func (m *Maker) call(ctx context.Context, tenant, key string, c callNote, most int, per time.Duration, count bool) (fits bool, err error) {
	if count {
		unlock, err := m.counting.Lock(ctx, key)
		if err != nil {
			return false, err
		}
		defer unlock()
	}
	for range gateTries {
		note, n, err := m.callsOf(ctx, tenant, key)
		if err != nil {
			return false, err
		}
		c.Time = m.cfg.Now()
		n.Calls = slices.DeleteFunc(n.Calls, func(o callNote) bool { return o.ID == c.ID || !o.within(per, c.Time) })
		if len(n.Calls) >= most || !count {
			return len(n.Calls) < most, nil
		}
		n.Calls = append(n.Calls, c)
		n.Until = c.Time.Add(2 * per) // the other calls are dated less than per from now
		note.Key = key
		if note.Value, err = json.Marshal(n); err != nil {
			return false, err
		}
		_, err = m.cfg.Notes.PutNote(ctx, tenant, storage.NoteCalls, note)
		if errors.Is(err, storage.ErrConflict) {
			continue
		}
		if err != nil {
			return false, fmt.Errorf("count calls: %w", err)
		}
		return true, nil
	}
	return false, errFaster
}

// uncall removes a call from a note, if it is there.
func (m *Maker) uncall(ctx context.Context, tenant, key string, is func(callNote) bool) error {
	unlock, err := m.counting.Lock(ctx, key)
	if err != nil {
		return err
	}
	defer unlock()
	for range gateTries {
		note, err := m.cfg.Notes.Note(ctx, tenant, storage.NoteCalls, key)
		if err != nil {
			return fmt.Errorf("count calls: %w", err)
		}
		var n callsNote
		if len(note.Value) == 0 || json.Unmarshal(note.Value, &n) != nil {
			return nil
		}
		left := slices.DeleteFunc(slices.Clone(n.Calls), is)
		if len(left) == len(n.Calls) {
			return nil
		}
		n.Calls, note.Key = left, key
		if note.Value, err = json.Marshal(n); err != nil {
			return err
		}
		if _, err = m.cfg.Notes.PutNote(ctx, tenant, storage.NoteCalls, note); !errors.Is(err, storage.ErrConflict) {
			return err
		}
	}
	return errFaster
}

// Release forgets the calls of tasks that entry seq, the last one, has ended without a result, so that they may be asked for again. Doing so twice is
// harmless. It does nothing unless a rule is about repeated calls. The same call of another task stays: a task that waited for a yes and did not get it has made none.
func (m *Maker) Release(ctx context.Context, conv *conversation.Conversation, seq uint64) {
	p := m.policy()
	if !p.Counted() || m.cfg.Notes == nil {
		return
	}
	for _, t := range conv.Tasks {
		turn := conv.Turn(t.Turn)
		if t.SettledSeq != seq || !t.Phase.Over() || t.Phase == conversation.Completed || turn == nil {
			continue
		}
		agent := t.Agent
		if len(t.Tried) > 0 {
			agent = t.Tried[0].Agent
		}
		if p.Repeat(turn.From, agent, t.Skill) == nil {
			continue
		}
		d := &decision{m: m, conv: conv, turn: turn, policy: p, all: m.cfg.Agents(conv.Tenant)}
		key := d.repeatKey(d.delegationOf(t, agent))
		if err := m.uncall(ctx, conv.Tenant, key, func(c callNote) bool { return c.Task == t.ID }); err != nil {
			m.log.Warn("a call that was not done still counts", "context_id", conv.ContextID, "task_id", t.ID, "err", err)
		}
	}
}
