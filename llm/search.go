package llm

import (
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/cortex-orchestrator/cortex/internal/shorten"
	"github.com/cortex-orchestrator/cortex/prompt"
)

// Bounds of the searches for agents in one decision.
const (
	maxWords   = 200     // bytes of the words of a search
	maxFound   = 8       // agents shown of those that fit
	maxClosest = 5       // agents shown when none fits
	foundBytes = 500     // of an agent in the result
	foundRoom  = 5 << 10 // bytes of all results of a decision
	leastFound = 400     // bytes of one result when there is no more room: it then shows one agent
)

// search has the searches for agents of one decision.
type search struct {
	turn  Turn     // with the agents that were found so far
	words []string // of the searches so far
	told  int      // bytes of the results so far
}

// accept returns the decision of a reply without thoughts, and the words if it is a search.
func (s *search) accept(text string) (d *Decision, words string, err error) {
	if d, words, err = parseReply(text); err == nil && d.Kind == KindSearch {
		if words, err = s.check(words); err == nil {
			return d, words, nil
		}
	}
	if err != nil {
		return nil, "", fmt.Errorf("%w: %w", ErrInvalidDecision, err)
	}
	nameWaiting(&s.turn, d.Delegations)
	correctAgents(&s.turn, d.Delegations)
	if err := Check(&s.turn, d); err != nil {
		return nil, "", err
	}
	return d, "", nil
}

// nameWaiting replaces the names by which the prompt calls waiting tasks by their ids.
func nameWaiting(t *Turn, ds []Delegation) {
	for i := range ds {
		id := string(t.WaitingID(ds[i].ID))
		if id == "" {
			continue
		}
		for j := range ds {
			for k, need := range ds[j].DependsOn {
				if need == ds[i].ID {
					ds[j].DependsOn[k] = id
				}
			}
		}
		ds[i].ID = id
	}
}

// check returns the words of a search, cleaned and truncated, or why the search is not allowed.
func (s *search) check(words string) (string, error) {
	words = shorten.To(prompt.Clean(words, maxWords), maxWords)
	switch {
	case s.turn.Last:
		return "", fmt.Errorf("kind %q, but no step is left in this turn; answer the user", KindSearch)
	case s.turn.Search == nil:
		return "", errors.New(`there is nothing to search: all agents that can be given work are listed`)
	case len(s.words) == prompt.MaxSearches:
		return "", fmt.Errorf("you have searched %d times for this decision; decide with the agents that you know", prompt.MaxSearches)
	case strings.TrimSpace(words) == "":
		return "", fmt.Errorf(`kind %q, but "search" is empty; it says in a few words what the agent should be able to do`, KindSearch)
	}
	return words, nil
}

// answer searches for words and returns the message with the result, in about room bytes.
func (s *search) answer(tmpl *prompt.Templates, words string, room int) (string, error) {
	s.words = append(s.words, words)
	found := s.turn.Search(words)
	f := &prompt.Found{Fits: len(found) > 0 && found[0].Fits, Left: prompt.MaxSearches - len(s.words)}
	most := maxClosest
	if f.Fits {
		most = maxFound
		found = slices.DeleteFunc(slices.Clone(found), func(a Found) bool { return !a.Fits })
	}
	var all []prompt.Agent
	for _, a := range found[:min(len(found), most)] {
		all = append(all, prompt.Excerpt(a.Agent, a.Skills, foundBytes))
		if findAgent(s.turn.Agents, a.ID) == nil {
			s.turn.Agents = append(slices.Clip(s.turn.Agents), a.Agent)
		}
	}
	room = min(room, max(foundRoom-s.told, leastFound))
	for n := len(all); ; n-- {
		f.Agents = all[:n]
		text, err := tmpl.Found(f)
		if err != nil || len(text) <= room || n <= 1 {
			s.told += len(text)
			return text, err
		}
	}
}
