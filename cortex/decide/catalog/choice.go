package catalog

import (
	"slices"
	"strings"

	"github.com/cortex-orchestrator/cortex/cortex/conversation"
	"github.com/cortex-orchestrator/cortex/llm"
	"github.com/cortex-orchestrator/cortex/prompt"
)

// listChoice adds a shortlist to t: the list that earlier prompts had, and the changes to it. Agents that were shown before stay, as long as they can
// be given work. It returns what is new.
func listChoice(c *conversation.Conversation, t *llm.Turn, turn *conversation.Turn, s *shortlist, anew bool) *conversation.Roster {
	t.Choice = true
	t.Search, t.Lookup = s.search, s.find
	if anew {
		return s.begin(t)
	}
	t.Listed = c.Listed
	tellChanges(c, t, turn)
	now := conversation.Change{Turn: turn.ID, Step: len(turn.Steps), Update: s.news(shown(&t.Input))}
	if now.Size() == 0 {
		s.fill(t)
		return nil
	}
	size := updateSize(&now.Update)
	if c.ListedSize+size > listingBytes {
		untell(t)
		return s.begin(t)
	}
	put(&t.Update, t.Steps, now)
	s.fill(t)
	return &conversation.Roster{Joined: now.Joined, Left: now.Left, Size: size}
}

// begin lists the shortlist and nothing else in t.
func (s *shortlist) begin(t *llm.Turn) *conversation.Roster {
	t.Listed = s.excerpts()
	s.fill(t)
	return &conversation.Roster{All: true, Choice: true, Joined: t.Listed, Size: updateSize(&prompt.Update{Joined: t.Listed})}
}

// news returns the changes for a reader who knows these agents.
func (s *shortlist) news(known map[string]*prompt.Agent) prompt.Update {
	var u prompt.Update
	for _, c := range s.list {
		if _, ok := known[c.ID]; !ok {
			a, _ := s.find(c.ID)
			u.Joined = append(u.Joined, s.excerpt(a))
		}
	}
	for id, k := range known {
		a, ok := s.find(id)
		_, busy := s.Candidates.busy[id]
		switch {
		case ok && (k.Of != s.catalog.digest(&a) || k.Seen != a.Seen):
			u.Joined = append(u.Joined, s.excerpt(a))
		case !ok && !busy:
			u.Left = append(u.Left, id)
		}
	}
	slices.SortFunc(u.Joined, func(a, b prompt.Agent) int { return strings.Compare(a.ID, b.ID) })
	slices.Sort(u.Left)
	return u
}

// fill sets the agents that t shows, and those that are unavailable although a reader would expect them.
func (s *shortlist) fill(t *llm.Turn) {
	t.Agents, t.Unavailable = nil, slices.Clone(s.busy)
	for id := range shown(&t.Input) {
		if a, ok := s.find(id); ok {
			t.Agents = append(t.Agents, a)
		} else if u, busy := s.Candidates.busy[id]; busy && !slices.Contains(t.Unavailable, u) {
			t.Unavailable = append(t.Unavailable, u)
		}
	}
	slices.SortFunc(t.Agents, func(a, b prompt.Agent) int { return strings.Compare(a.ID, b.ID) })
	s.list = slices.DeleteFunc(s.list, func(c conversation.Shortlisted) bool { _, ok := Find(t.Agents, c.ID); return !ok })
	slices.SortFunc(t.Unavailable, func(a, b prompt.Unavailable) int { return strings.Compare(a.ID, b.ID) })
	t.More = max(0, len(s.agents)-len(t.Agents))
}

// updateSize returns the approximate size of u in a prompt, in bytes.
func updateSize(u *prompt.Update) int {
	n := len("<cortex:agents-update>\n</cortex:agents-update>\n") + 100
	for i := range u.Joined {
		n += prompt.Size(&u.Joined[i])
	}
	for _, id := range u.Left {
		n += len(`- id ""`) + len(id) + 1
	}
	return n
}
