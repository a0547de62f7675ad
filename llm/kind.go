package llm

// Kind is what a Decision is.
type Kind string

// The kinds of decision. What there is to know of each is a row of kinds.
const (
	KindRespond  Kind = "respond"  // Say is the answer
	KindDelegate Kind = "delegate" // Delegations are to be done; Say may tell the user
	KindClarify  Kind = "clarify"  // Say asks the user back
	KindRefuse   Kind = "refuse"   // Say tells why not
	// KindSearch asks for agents beside those that the prompt shows, by words. A Decider answers it itself, from Turn.Search:
	// it is what a model may write, and never what Decide returns.
	KindSearch Kind = "search"
)

// kinds are the kinds, in the order in which a model is told of them. [DecisionSchema], [Check], what is streamed and what of an answer is shown
// again follow from a row. What else a kind needs, a line in prompt/templates/system.tmpl and what it does in cortex/conversation, a
// test of that place asks for.
var kinds = []struct {
	Kind
	answers bool                         // it ends the turn, with Say as the answer
	offered func(*Turn) bool             // a model may write it
	check   func(*Turn, *Decision) error // see [Check]; nil: Decide does not return it
}{
	{KindRespond, true, always, checkAnswer},
	{KindDelegate, false, func(t *Turn) bool { return !t.Last }, checkDelegations},
	{KindClarify, true, always, checkAnswer},
	{KindRefuse, true, always, checkAnswer},
	{KindSearch, false, func(t *Turn) bool { return t.Choice && !t.Last }, nil},
}

func always(*Turn) bool { return true }

// Kinds returns the kinds of decision that a [Decider] may return.
func Kinds() []Kind {
	var all []Kind
	for _, k := range kinds {
		if k.check != nil {
			all = append(all, k.Kind)
		}
	}
	return all
}

// Answers reports whether a decision of this kind ends the turn, with Say as the answer.
func (k Kind) Answers() bool {
	for _, row := range kinds {
		if row.Kind == k {
			return row.answers
		}
	}
	return false
}
