package eval

import (
	"encoding/json"
	"fmt"
	"reflect"
	"slices"
	"strings"

	"github.com/cortex-orchestrator/cortex/llm"
)

// Verdict says which parts of a decision are right. A part that a case does not ask for is right.
type Verdict struct {
	Kind      bool `json:"kind"`
	Agents    bool `json:"agents"`
	Order     bool `json:"order"`
	Arguments bool `json:"arguments"` // words and structured input of delegations, and the task that is continued
	Say       bool `json:"say"`       // words of the answer
	// Wrong says for people what is not right, in the order of the fields; empty when all is.
	Wrong []string `json:"wrong,omitempty"`
}

// Right reports whether everything is right.
func (v *Verdict) Right() bool { return len(v.Wrong) == 0 }

// judge compares a decision with what a case wants.
func judge(c *Case, d *llm.Decision) Verdict {
	var v Verdict
	note := func(why string) bool {
		if why != "" {
			v.Wrong = append(v.Wrong, why)
		}
		return why == ""
	}
	v.Kind = slices.Contains(c.Want.Kinds, d.Kind)
	if !v.Kind {
		note(fmt.Sprintf("kind %s, not %s", d.Kind, joinKinds(c.Want.Kinds)))
	}
	named, why := assign(c.Want.Agents, d)
	if !d.Kind.Delegates() && slices.Contains(c.Want.Kinds, d.Kind) {
		why = "" // it may answer itself, or delegate
	}
	v.Agents = note(why)
	if !v.Agents || !d.Kind.Delegates() { // nothing to be compared
		v.Order, v.Arguments = v.Agents, v.Agents
	} else {
		v.Order = note(wrongOrder(c, d))
		v.Arguments = note(wrongArguments(c, d, named))
	}
	v.Say = note(wrongWords(c, d))
	return v
}

func joinKinds(kinds []llm.Kind) string {
	var names []string
	for _, k := range kinds {
		names = append(names, string(k))
	}
	return strings.Join(names, " or ")
}

// assign finds the delegation of each wanted agent: their indices, or why they do not fit.
func assign(want []string, d *llm.Decision) (named map[string][]int, why string) {
	named = map[string][]int{}
	left := slices.Clone(want)
	// Those with the fewest choices first, so that "a|b" does not take the place of "a".
	slices.SortStableFunc(left, func(a, b string) int { return strings.Count(a, "|") - strings.Count(b, "|") })
	var got []string
	used := make([]bool, len(d.Delegations))
	for _, either := range left {
		for i := range d.Delegations {
			if !used[i] && slices.Contains(strings.Split(either, "|"), d.Delegations[i].Agent) {
				used[i] = true
				named[d.Delegations[i].Agent] = append(named[d.Delegations[i].Agent], i)
				break
			}
		}
	}
	missing := len(want)
	for i := range used {
		got = append(got, d.Delegations[i].Agent)
		if used[i] {
			missing--
		}
	}
	if missing > 0 || slices.Contains(used, false) {
		return named, fmt.Sprintf("agents [%s], not [%s]", strings.Join(got, " "), strings.Join(want, " "))
	}
	return named, ""
}

// wrongOrder returns what is wrong with the dependencies.
func wrongOrder(c *Case, d *llm.Decision) string {
	index := map[string]int{}
	for i := range d.Delegations {
		index[d.Delegations[i].ID] = i
	}
	var needs func(i, j, depth int) bool // whether i depends on j
	needs = func(i, j, depth int) bool {
		for _, id := range d.Delegations[i].DependsOn {
			if k, ok := index[id]; ok && depth > 0 && (k == j || needs(k, j, depth-1)) {
				return true
			}
		}
		return false
	}
	for i := range d.Delegations {
		for j := range d.Delegations {
			want := slices.ContainsFunc(c.Want.Order, func(pair [2]string) bool {
				return pair == [2]string{d.Delegations[j].Agent, d.Delegations[i].Agent}
			})
			if got := needs(i, j, len(d.Delegations)); i != j && got != want {
				if want {
					return fmt.Sprintf("%s does not wait for %s", d.Delegations[i].Agent, d.Delegations[j].Agent)
				}
				return fmt.Sprintf("%s waits for %s", d.Delegations[i].Agent, d.Delegations[j].Agent)
			}
		}
	}
	return ""
}

// wrongArguments returns what is wrong with the tasks and the structured input.
func wrongArguments(c *Case, d *llm.Decision, named map[string][]int) string {
	var wrong []string
	for agent, words := range c.Want.Words {
		var text strings.Builder
		for _, i := range named[agent] {
			text.WriteString(d.Delegations[i].Task + "\n" + string(d.Delegations[i].Input) + "\n")
		}
		for _, w := range words {
			if len(named[agent]) > 0 && !has(text.String(), w) {
				wrong = append(wrong, fmt.Sprintf("the task of %s lacks %q", agent, w))
			}
		}
	}
	for agent, fields := range c.Want.Input {
		for _, i := range named[agent] {
			var input map[string]any
			if err := json.Unmarshal(d.Delegations[i].Input, &input); err != nil {
				input = nil // there is none, or it is no object
			}
			for field, value := range fields {
				switch got, ok := input[field]; {
				case !ok:
					wrong = append(wrong, fmt.Sprintf("the input of %s has no %s: want %v", agent, field, value))
				case !equal(got, value):
					wrong = append(wrong, fmt.Sprintf("the input of %s has %s %v, not %v", agent, field, got, value))
				}
			}
		}
	}
	for i := range c.Waiting {
		got := slices.ContainsFunc(d.Delegations, func(x llm.Delegation) bool { return x.ID == c.waitingID(i) })
		switch {
		case c.Want.Continues && !got:
			wrong = append(wrong, "the waiting task is not continued")
		case !c.Want.Continues && got:
			wrong = append(wrong, "the waiting task is continued")
		}
	}
	slices.Sort(wrong)
	return strings.Join(wrong, "; ")
}

// equal compares values of JSON; texts are equal whatever their case.
func equal(got, want any) bool {
	g, isText := got.(string)
	w, wantsText := want.(string)
	if !isText || !wantsText {
		return reflect.DeepEqual(got, want)
	}
	return slices.ContainsFunc(strings.Split(w, "|"), func(w string) bool { return strings.EqualFold(strings.TrimSpace(g), w) })
}

// wrongWords returns what is wrong with the words of the decision.
func wrongWords(c *Case, d *llm.Decision) string {
	var wrong []string
	if d.Kind.Answers() && slices.Contains(c.Want.Kinds, d.Kind) {
		for _, w := range c.Want.Say {
			if !has(d.Say, w) {
				wrong = append(wrong, fmt.Sprintf("the answer lacks %q", w))
			}
		}
	}
	all := d.Say
	for i := range d.Delegations {
		all += "\n" + d.Delegations[i].Task + "\n" + string(d.Delegations[i].Input)
	}
	for _, w := range c.Want.Not {
		if has(all, w) {
			wrong = append(wrong, fmt.Sprintf("it has %q", w))
		}
	}
	return strings.Join(wrong, "; ")
}

// has reports whether text has one of the words that "|" separates, whatever their case.
func has(text, either string) bool {
	text = strings.ToLower(text)
	return slices.ContainsFunc(strings.Split(strings.ToLower(either), "|"), func(w string) bool { return strings.Contains(text, w) })
}
