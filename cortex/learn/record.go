package learn

import (
	"context"
	"encoding/json"
	"errors"
	"maps"
	"math"
	"time"

	"github.com/a2aproject/a2a-go/v2/a2a"

	"github.com/cortex-orchestrator/cortex/cortex/conversation"
	"github.com/cortex-orchestrator/cortex/cortex/storage"
	"github.com/cortex-orchestrator/cortex/transport"
)

// Record is how an agent that bids for tasks has done those of one skill, as far as Cortex has seen. Old tasks count less than new ones.
type Record struct {
	Done    float64   `json:"done,omitempty"`    // tasks completed, whose results were accepted
	Failed  float64   `json:"failed,omitempty"`  // tasks failed, rejected by a check, or not done in time
	Seconds float64   `json:"seconds,omitempty"` // from sending a completed task to its result, of all together
	Cost    float64   `json:"cost,omitempty"`    // reported with the results, of all together
	Time    time.Time `json:"time"`              // of the newest task
}

// Bounds of records.
const (
	maxRecorded     = 64 // tasks that a record counts: beyond it, all of them count proportionally less
	recordHalf      = 30 * 24 * time.Hour
	maxRecordSkills = 64   // of an agent; the longest unused one gives way
	maxRecords      = 8192 // agents
)

// outcome is what a task teaches of its agent.
type outcome struct {
	skill string
	Record
}

// add returns r with later outcomes.
func (r Record) add(o Record) Record {
	keep := 1.0
	if age := o.Time.Sub(r.Time); age > 0 && !r.Time.IsZero() {
		keep = math.Exp2(-float64(age) / float64(recordHalf))
	}
	n := Record{r.Done*keep + o.Done, r.Failed*keep + o.Failed, r.Seconds*keep + o.Seconds, r.Cost*keep + o.Cost, r.Time}
	if o.Time.After(n.Time) {
		n.Time = o.Time
	}
	if all := n.Done + n.Failed; all > maxRecorded {
		scale := maxRecorded / all
		n.Done, n.Failed, n.Seconds, n.Cost = n.Done*scale, n.Failed*scale, n.Seconds*scale, n.Cost*scale
	}
	return n
}

// skills are the records of an agent, by skill.
type skills map[string]Record

// with returns a copy of s with an outcome.
func (s skills) with(o outcome) skills {
	n := maps.Clone(s)
	if n == nil {
		n = skills{}
	}
	if _, ok := n[o.skill]; !ok && len(n) >= maxRecordSkills {
		oldest := ""
		for skill, r := range n {
			if b, ok := n[oldest]; !ok || r.Time.Before(b.Time) || r.Time.Equal(b.Time) && skill < oldest {
				oldest = skill
			}
		}
		delete(n, oldest)
	}
	n[o.skill] = n[o.skill].add(o.Record)
	return n
}

// Record returns how an agent has done tasks of a skill. It does not wait.
func (s *Learner) Record(agent, skill string) Record {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.records[agent][skill]
}

// record notes how the tasks ended that entry, which was just applied, ends: those of agents that bid.
func (s *Learner) record(conv *conversation.Conversation, entry *conversation.Entry) {
	for _, t := range conv.Tasks {
		if n := len(t.Tried); n > 0 && t.Tried[n-1].EndedSeq == entry.Seq && t.Tried[n-1].Market && !t.Tried[n-1].Waited {
			s.note(t.Tried[n-1].Agent, outcome{t.Skill, Record{Failed: 1, Time: entry.Time}})
		}
		if t.SettledSeq != entry.Seq || !t.Terms.Market || entry.HasWaited(t) {
			continue
		}
		switch t.Phase {
		case conversation.Completed:
			took := min(max(t.Settled.Sub(t.Sent), 0), transport.MaxBidSeconds*time.Second)
			s.note(t.Agent, outcome{t.Skill, Record{Done: 1, Seconds: took.Seconds(), Cost: costOf(entry.Cause), Time: entry.Time}})
		case conversation.Failed:
			if t.SentSeq != 0 {
				s.note(t.Agent, outcome{t.Skill, Record{Failed: 1, Time: entry.Time}})
			}
		}
	}
}

// metaUsage is the key of a result's part under which agents report what it used.
const metaUsage = "cortex_usage"

// costOf returns the cost that an agent reports with its result, within the bounds of a bid.
func costOf(e *transport.Event) float64 {
	var said *a2a.Message
	switch p := e.Payload.(type) {
	case *a2a.Task:
		said = p.Status.Message
	case *a2a.TaskStatusUpdateEvent:
		said = p.Status.Message
	case *a2a.Message:
		said = p
	}
	if said == nil {
		return 0
	}
	for _, p := range said.Parts {
		if p == nil {
			continue
		}
		if usage, ok := p.Metadata[metaUsage].(map[string]any); ok {
			if cost, ok := transport.Float(usage["cost"]); ok && cost > 0 {
				return min(cost, transport.MaxBidCost)
			}
		}
	}
	return 0
}

// note adds an outcome to an agent's record, and queues it for the store.
func (s *Learner) note(agent string, o outcome) {
	s.mu.Lock()
	if _, ok := s.records[agent]; !ok && len(s.records) >= maxRecords {
		s.leaveOut(agent)
		s.mu.Unlock()
		return
	}
	s.records[agent] = s.records[agent].with(o)
	s.mu.Unlock()
	if s.notes != nil {
		s.offer(agent, &lesson{outcomes: []outcome{o}})
	}
}

// rememberRecords reads the records in the store.
func (s *Learner) rememberRecords(ctx context.Context) error {
	for n, err := range s.notes.Notes(ctx, s.tenant, storage.NoteRecord) {
		if err != nil {
			return err
		}
		s.setRecords(n.Key, s.readRecords(&n))
	}
	return nil
}

func (s *Learner) readRecords(n *storage.Note) skills {
	var all skills
	if len(n.Value) == 0 {
		return nil
	}
	if err := json.Unmarshal(n.Value, &all); err != nil {
		s.log.Warn("how an agent has done its tasks cannot be read", "agent", n.Key, "err", err)
	}
	return all
}

// setRecords sets an agent's records to those of its note, with the outcomes that are not written yet.
func (s *Learner) setRecords(agent string, all skills) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if p := s.pending[agent]; p != nil {
		for _, o := range p.outcomes {
			all = all.with(o)
		}
	}
	switch _, known := s.records[agent]; {
	case len(all) == 0:
		delete(s.records, agent)
	case known || len(s.records) < maxRecords:
		s.records[agent] = all
	default:
		s.leaveOut(agent)
	}
}

// leaveOut counts outcomes for which there is no room, and logs some. mu is held.
func (s *Learner) leaveOut(agent string) {
	s.unnoted++
	if s.unnoted%100 == 1 {
		s.log.Warn("how an agent does its tasks is not noted: there are too many agents", "agent", agent, "max_agents", maxRecords, "so_far", s.unnoted)
	}
}

// doRecords adds outcomes to an agent's note, and reads it.
func (s *Learner) doRecords(ctx context.Context, agent string, outcomes []outcome) error {
	for range learnTries {
		n, err := s.notes.Note(ctx, s.tenant, storage.NoteRecord, agent)
		if err != nil {
			return err
		}
		all := s.readRecords(&n)
		for _, o := range outcomes {
			all = all.with(o)
		}
		if len(outcomes) > 0 {
			if n.Value, err = json.Marshal(all); err != nil {
				return err
			}
			n.Version, err = s.notes.PutNote(ctx, s.tenant, storage.NoteRecord, n)
			if errors.Is(err, storage.ErrConflict) {
				continue
			}
			if err != nil {
				return err
			}
		}
		s.setRecords(agent, all)
		if len(outcomes) > 0 {
			return s.tell(ctx, agent, n.Version)
		}
		return nil
	}
	return errors.New("others were faster at changing it")
}
