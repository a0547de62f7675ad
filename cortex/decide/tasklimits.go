package decide

import (
	"fmt"
	"sync"
	"time"

	"github.com/a2aproject/a2a-go/v2/a2a"

	"github.com/cortex-orchestrator/cortex/cortex/conversation"
)

// countMargin is how long after its deadline a task without a result is still counted. Later, another orchestrator may own the conversation and have
// seen the result.
const countMargin = time.Minute

// taskLimits counts the tasks under way with each agent, in all conversations of an orchestrator, for the policy's at_once limit. It also knows which
// conversations to notify when an agent is gone, how many tasks each requester has, and how many are in the agent's inbox.
//
// A decision is counted before it is in the log (admit). Once its entry is stored, the counts of a conversation are those of its fold (follow), so
// decisions that were not stored and tasks that have settled stop counting. After a restart, the tasks of a conversation count from when it is
// loaded. taskLimits is safe for concurrent use.
type taskLimits struct {
	mu      sync.Mutex
	byAgent map[string]map[a2a.TaskID]counted
	byAsker map[asker]int
	byConv  map[conversation.Key]map[a2a.TaskID]string
	sent    map[string]int // by agent: tasks marked as sent
	swept   time.Time
}

// counted is a task that counts for its agent and its requester.
type counted struct {
	until     time.Time
	requester string // the sender that began the chain of its turn
	sent      bool   // to its agent's inbox, by this process
}

type asker struct{ agent, requester string }

func newTaskLimits() *taskLimits {
	return &taskLimits{
		byAgent: map[string]map[a2a.TaskID]counted{}, byAsker: map[asker]int{}, byConv: map[conversation.Key]map[a2a.TaskID]string{},
		sent: map[string]int{},
	}
}

// with returns the conversations that have tasks with an agent.
func (p *taskLimits) with(agent string) []conversation.Key {
	p.mu.Lock()
	defer p.mu.Unlock()
	var all []conversation.Key
	for k, tasks := range p.byConv {
		for _, id := range tasks {
			if id == agent {
				all = append(all, k)
				break
			}
		}
	}
	return all
}

// under returns how many tasks an agent has.
func (p *taskLimits) under(agent string, now time.Time) int {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.count(agent, now)
}

// of returns how many tasks of a requester an agent has.
func (p *taskLimits) of(agent, requester string) int {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.byAsker[asker{agent, requester}]
}

// markSent records that a task is in its agent's inbox.
func (p *taskLimits) markSent(agent string, id a2a.TaskID) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if at, ok := p.byAgent[agent][id]; ok && !at.sent {
		at.sent = true
		p.byAgent[agent][id] = at
		p.sent[agent]++
	}
}

// sentTo returns how many tasks of an agent are marked as sent.
func (p *taskLimits) sentTo(agent string) int {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.sent[agent]
}

func (p *taskLimits) count(agent string, now time.Time) int {
	n := 0
	for _, t := range p.byAgent[agent] {
		if t.until.After(now) {
			n++
		}
	}
	return n
}

// admit counts new tasks of a conversation if no agent's limit is exceeded. Otherwise it counts none, and returns the reason for each agent at its
// limit. most returns the limit of an agent; 0 is unlimited.
func (p *taskLimits) admit(k conversation.Key, requester string, tasks map[a2a.TaskID]string, until, now time.Time, most func(agent string) int) map[string]string {
	p.mu.Lock()
	defer p.mu.Unlock()
	wanted := map[string]int{}
	for _, agent := range tasks {
		wanted[agent]++
	}
	full := map[string]string{}
	for agent, n := range wanted {
		limit := most(agent)
		has := p.count(agent, now)
		if limit == 0 || has+n <= limit {
			continue
		}
		full[agent] = underWay(has, limit)
		if has < limit {
			full[agent] += fmt.Sprintf(", and %d more would be too many", n)
		}
	}
	if len(full) == 0 {
		for id, agent := range tasks {
			p.put(k, id, agent, until, requester)
		}
	}
	return full
}

func underWay(has, limit int) string {
	return fmt.Sprintf("it has %d of %d tasks under way", has, limit)
}

// follow replaces the counts for conv by the tasks that are under way in it.
func (p *taskLimits) follow(conv *conversation.Conversation, now time.Time) {
	p.mu.Lock()
	defer p.mu.Unlock()
	k := conv.Key()
	for id, agent := range p.byConv[k] {
		if t := conv.Tasks[id]; t == nil || !t.Running() && t.Phase != conversation.Blocked {
			p.drop(agent, id)
			delete(p.byConv[k], id)
		}
	}
	last := now
	put := func(t *conversation.Task, until time.Time) {
		requester := ""
		if turn := conv.Turn(t.Turn); turn != nil {
			requester = conv.Requester(turn)
		}
		p.put(k, t.ID, t.Agent, until.Add(countMargin), requester)
	}
	for _, t := range conv.Tasks {
		if !t.Running() {
			continue
		}
		until := t.Deadline
		if until.IsZero() {
			until = now
		}
		if until.After(last) {
			last = until
		}
		put(t, until)
	}
	for _, t := range conv.Tasks {
		if t.Phase == conversation.Blocked { // it waits for other tasks, and will be sent without a decision
			put(t, last)
		}
	}
	p.sweep(now)
}

func (p *taskLimits) put(k conversation.Key, id a2a.TaskID, agent string, until time.Time, requester string) {
	if p.byConv[k] == nil {
		p.byConv[k] = map[a2a.TaskID]string{}
	}
	at := counted{until: until, requester: requester}
	switch before, ok := p.byConv[k][id]; {
	case ok && before == agent && p.byAgent[agent][id].requester == requester:
		at.sent = p.byAgent[agent][id].sent
		p.byAgent[agent][id] = at
		return
	case ok: // another agent tries it now
		p.drop(before, id)
	}
	if p.byAgent[agent] == nil {
		p.byAgent[agent] = map[a2a.TaskID]counted{}
	}
	p.byAgent[agent][id], p.byConv[k][id] = at, agent
	p.byAsker[asker{agent, requester}]++
}

func (p *taskLimits) drop(agent string, id a2a.TaskID) {
	at, ok := p.byAgent[agent][id]
	if !ok {
		return
	}
	by := asker{agent, at.requester}
	if p.byAsker[by]--; p.byAsker[by] == 0 {
		delete(p.byAsker, by)
	}
	if at.sent {
		if p.sent[agent]--; p.sent[agent] == 0 {
			delete(p.sent, agent)
		}
	}
	delete(p.byAgent[agent], id) // the next sweep removes an empty map: another task is likely
}

// sweep removes expired tasks, at most once per countMargin.
func (p *taskLimits) sweep(now time.Time) {
	if now.Sub(p.swept) < countMargin {
		return
	}
	p.swept = now
	for k, tasks := range p.byConv {
		for id, agent := range tasks {
			if !p.byAgent[agent][id].until.After(now) {
				p.drop(agent, id)
				delete(tasks, id)
			}
		}
		if len(tasks) == 0 {
			delete(p.byConv, k)
		}
	}
	for agent, tasks := range p.byAgent {
		if len(tasks) == 0 {
			delete(p.byAgent, agent)
		}
	}
}
