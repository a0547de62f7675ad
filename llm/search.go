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

// checkSearch returns the words of a search, cleaned and truncated, or why the search is not allowed.
func (w *wishes) checkSearch(words string) (string, error) {
	words = shorten.To(prompt.Clean(words, maxWords), maxWords)
	switch {
	case w.turn.Last:
		return "", fmt.Errorf("kind %q, but no step is left in this turn; answer the user", KindSearch)
	case w.turn.Search == nil:
		return "", errors.New(`there is nothing to search: all agents that can be given work are listed`)
	case len(w.words) == prompt.MaxSearches:
		return "", fmt.Errorf("you have searched %d times for this decision; decide with the agents that you know", prompt.MaxSearches)
	case strings.TrimSpace(words) == "":
		return "", fmt.Errorf(`kind %q, but "search" is empty; it says in a few words what the agent should be able to do`, KindSearch)
	}
	return words, nil
}

// find searches for words and returns the message with the result, in about room bytes.
func (w *wishes) find(tmpl *prompt.Templates, words string, room int) (string, error) {
	w.words = append(w.words, words)
	found := w.turn.Search(words)
	f := &prompt.Found{Fits: len(found) > 0 && found[0].Fits, Left: prompt.MaxSearches - len(w.words)}
	most := maxClosest
	if f.Fits {
		most = maxFound
		found = slices.DeleteFunc(slices.Clone(found), func(a Found) bool { return !a.Fits })
	}
	var all []prompt.Agent
	for _, a := range found[:min(len(found), most)] {
		all = append(all, prompt.Excerpt(a.Agent, a.Skills, foundBytes))
		if findAgent(w.turn.Agents, a.ID) == nil {
			w.turn.Agents = append(slices.Clip(w.turn.Agents), a.Agent)
		}
	}
	room = min(room, max(foundRoom-w.told, leastFound))
	for n := len(all); ; n-- {
		f.Agents = all[:n]
		text, err := tmpl.Found(f)
		if err != nil || len(text) <= room || n <= 1 {
			w.told += len(text)
			return text, err
		}
	}
}
