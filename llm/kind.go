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

// kindRow is what there is to know of a kind.
type kindRow struct {
	Kind
	answers   bool                         // it ends the turn, with Say as the answer
	fulfils   bool                         // it does what was asked for: the router learns from its turn
	delegates bool                         // each of Delegations becomes a task
	offered   func(*Turn) bool             // a model may write it
	check     func(*Turn, *Decision) error // see [Check]; nil: Decide does not return it
}

// kinds are the kinds, in the order in which a model is told of them. [DecisionSchema], [Check], what is streamed, what of an answer is shown
// again, the rules for those who get work, and what is learned follow from a row. What else a kind needs, a line in
// prompt/templates/system.tmpl and what it does in cortex/conversation, a test of that place asks for.
var kinds = []kindRow{
	{Kind: KindRespond, answers: true, fulfils: true, offered: always, check: checkAnswer},
	{Kind: KindDelegate, delegates: true, offered: func(t *Turn) bool { return !t.Last }, check: checkDelegations},
	{Kind: KindClarify, answers: true, offered: always, check: checkAnswer},
	{Kind: KindRefuse, answers: true, offered: always, check: checkAnswer},
	{Kind: KindSearch, offered: func(t *Turn) bool { return t.Choice && !t.Last }},
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

// row returns what there is to know of k; nothing of an unknown kind, such as one in the log of a newer build.
func (k Kind) row() kindRow {
	for _, row := range kinds {
		if row.Kind == k {
			return row
		}
	}
	return kindRow{Kind: k}
}

// Answers reports whether a decision of this kind ends the turn, with Say as the answer.
func (k Kind) Answers() bool { return k.row().answers }

// Fulfils reports whether a decision of this kind does what was asked for.
func (k Kind) Fulfils() bool { return k.row().fulfils }

// Delegates reports whether a decision of this kind gives work to agents: each of its Delegations becomes a task.
func (k Kind) Delegates() bool { return k.row().delegates }
