package conversation

import (
	"slices"

	"github.com/cortex-orchestrator/cortex/prompt"
)

// dropSettledTasks drops the settled tasks of turns that the previous entry answered: nothing refers to them any more.
func (c *Conversation) dropSettledTasks() {
	for _, turn := range c.Turns {
		if !turn.Open() && turn.AnswerSeq == c.Seq {
			for _, t := range c.TasksOf(turn) {
				if t.Phase.Over() {
					delete(c.Tasks, t.ID)
				}
			}
		}
	}
	for id, t := range c.Tasks { // a question that was settled after its turn
		if t.Phase.Over() && t.SettledSeq == c.Seq {
			if turn := c.Turn(t.Turn); turn == nil || !turn.Open() {
				delete(c.Tasks, id)
			}
		}
	}
}

// answered returns the answered turns in the order of their answers.
func (c *Conversation) answered() []*Turn {
	turns := slices.DeleteFunc(slices.Clone(c.Turns), (*Turn).Open)
	slices.SortStableFunc(turns, func(a, b *Turn) int { return int(a.AnswerSeq) - int(b.AnswerSeq) })
	return turns
}

// History returns the answered turns of the window, which prompts show. The caller must not change it.
func (c *Conversation) History() []*Turn {
	if c.historyCache == nil {
		c.historyCache, c.promptHistory = slices.DeleteFunc(c.answered(), func(t *Turn) bool { return t.Past == nil }), nil
		c.historyWeight = 0
		for _, t := range c.historyCache {
			c.promptHistory = append(c.promptHistory, t.past())
			c.historyWeight += t.weight()
		}
	}
	return c.historyCache
}

// appendToHistory adds a turn that was just answered, usually the newest, to History.
func (c *Conversation) appendToHistory(t *Turn) {
	if n := len(c.historyCache); n == 0 || c.historyCache[n-1].AnswerSeq >= t.AnswerSeq {
		c.historyCache = nil
		return
	}
	c.historyCache, c.promptHistory = append(c.historyCache, t), append(c.promptHistory, t.past())
	c.historyWeight += t.weight()
}

// past returns Past for the history, with room for what prompts make of it.
func (t *Turn) past() prompt.Turn {
	if t.Past.Kept == nil {
		t.Past.Kept = new(prompt.Kept)
	}
	return *t.Past
}

// cutWindow drops the older half of the window when it has too many turns or they are too long. The length of the newest turn does not count
// yet, so that the next decision can have the older ones summarised.
func (c *Conversation) cutWindow() {
	turns := c.History()
	n := len(turns)
	if n < 2 || (n <= maxWindow && weightOf(turns[:n-1]) <= maxWeight) {
		return
	}
	c.drop(turns[:n/2])
	c.Omitted += n / 2
}

// NearlyFull reports whether the window should be summarised now, before cutWindow drops turns. The first summarised turns of the window have a
// summary already and do not count. It is true when the newest turn has filled another eighth of the window, from the sixth on, and only at
// the first decision of turn, unless another turn was answered since. So a failing summary is not retried at every decision.
func (c *Conversation) NearlyFull(turn *Turn, summarised int) bool {
	turns := c.History()[summarised:]
	n := len(turns)
	if n == 0 || (turn.Decisions > 0 && turns[n-1].Answered.Before(turn.Began)) {
		return false
	}
	full := eighths(turns)
	return full >= 6 && full > eighths(turns[:n-1])
}

// eighths returns how many eighths of the window turns fill. The newest turn, which the next question is most likely about, has no weight
// as long as cutWindow would keep it.
func eighths(turns []*Turn) int {
	n := len(turns)
	if n == 0 {
		return 0
	}
	full := max(n*8/maxWindow, weightOf(turns[:n-1])*8/maxWeight)
	if weightOf(turns) > maxWeight {
		full = max(full, 8)
	}
	return full
}

func weightOf(turns []*Turn) (n int) {
	for _, t := range turns {
		n += turnWeight(t)
	}
	return n
}

// applySummary replaces turns by an entry's summary. They are the oldest turns of the window as it was when the summary was made, which is
// before the entry's decision.
func (c *Conversation) applySummary(e *Entry) {
	s := e.Summary
	if s == nil {
		return
	}
	turns := c.History()
	n := max(0, min(s.Turns, len(turns)))
	c.drop(turns[:n])
	if s.Text == "" {
		c.Omitted += n
		return
	}
	c.Summary = s.Text
	c.Omitted += max(0, min(e.Omitted, n))
}

// drop removes turns from the window. It keeps the turn that was answered last, whose answer may still be requested, and turns with a
// question that waits for a yes.
func (c *Conversation) drop(turns []*Turn) {
	for _, t := range turns {
		t.Past = nil
	}
	c.historyCache = nil
	answered := c.answered()
	c.Turns = slices.DeleteFunc(c.Turns, func(t *Turn) bool {
		return !t.Open() && t.Past == nil && t.AnswerSeq != answered[len(answered)-1].AnswerSeq && len(c.heldIn(t.ID)) == 0
	})
	c.Relist = c.Relist || len(turns) > 0
}

// Weight estimates the memory that c takes, in bytes.
func (c *Conversation) Weight() int {
	others := len(c.Turns) - len(c.History())
	n := 1024 + 100*len(c.Seen) + c.seenBytes + len(c.Summary) + c.rosterWeight + c.historyWeight
	for i := len(c.Turns) - 1; i >= 0 && others > 0; i-- { // this is called at every event: the turns of the history are not looked at again
		if t := c.Turns[i]; t.Open() || t.Past == nil {
			n += t.weight()
			others--
		}
	}
	for _, id := range c.Shared {
		n += 16 + len(id)
	}
	for _, chain := range c.Chains {
		n += 256 + 64*len(chain.PerAgent)
		for i := range chain.Board {
			n += 128 + len(chain.Board[i].Agent) + len(chain.Board[i].Name) + len(chain.Board[i].Text)
		}
	}
	for _, t := range c.Tasks {
		n += 512 + taskWeight(PromptTask(t)) + len(t.Terms.Output) + 256*len(t.Tried) + filesWeight(t.Files) + filesWeight(t.Along)
	}
	return n
}

// weight estimates the memory that t takes; what prompts keep of an answered turn is about as large as its texts.
func (t *Turn) weight() int {
	n := turnWeight(t)
	if t.Past != nil {
		n *= 2
	}
	for i := range t.Steps {
		n += len(t.Steps[i].Say) + len(t.Steps[i].Reason)
		if swarm := t.Steps[i].Swarm; swarm != nil {
			n += len(swarm.Task)
		}
	}
	return 512 + n + len(t.Reason) + len(t.Trace.State) + filesWeight(t.Files) + filesWeight(t.Out)
}

func taskWeight(t prompt.Task) int {
	n := len(t.Text) + len(t.Result) + len(t.Input)
	for _, a := range t.Artifacts {
		n += len(a.Name) + len(a.Text)
	}
	return n + headsWeight(t.Files)
}

func turnWeight(t *Turn) int {
	n := len(t.User) + len(t.Answer)
	if t.Direct != nil {
		n += len(t.Direct.Text) + len(t.Direct.Input)
	}
	if t.Past == nil {
		return n
	}
	if t.weighed != t.Past { // this is called at every event of the conversation
		t.weighed, t.pastWeight = t.Past, headsWeight(t.Past.Files)
		for _, s := range t.Past.Steps {
			for _, task := range s.Tasks {
				t.pastWeight += taskWeight(task)
			}
		}
	}
	return n + t.pastWeight
}
