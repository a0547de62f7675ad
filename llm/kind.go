package llm

// Kind is the kind of a Decision.
type Kind string

// The kinds of decision. Each is a row of kinds.
const (
	KindRespond  Kind = "respond"  // Say is the answer
	KindDelegate Kind = "delegate" // the delegations are sent; Say may inform the user
	KindClarify  Kind = "clarify"  // Say is a question to the user
	KindRefuse   Kind = "refuse"   // Say explains why not
	// KindSearch searches for agents that the prompt does not show. The Decider handles it itself, with Turn.Search: models may write it, but Decide
	// never returns it.
	KindSearch Kind = "search"
	// KindRead reads in a result or a file of which the prompt shows the beginning. The Decider handles it as KindSearch, with the texts of the Turn and
	// with Turn.Open.
	KindRead Kind = "read"
)

// kindRow has the properties of a kind.
type kindRow struct {
	Kind
	outcome   string                       // what a turn is that it ends, in a word
	answers   bool                         // ends the turn, with Say as the answer
	fulfils   bool                         // does what was requested: the router learns from its turn
	delegates bool                         // each of Delegations becomes a task
	offered   func(*Turn) bool             // reports whether a model may write it
	check     func(*Turn, *Decision) error // see [Check]; nil: Decide does not return it
}

// kinds are the kinds, in the order in which a model is told about them. The rows determine [DecisionSchema], [Check], what is streamed, what is
// shown of an answer later, the rules for delegations, and what is learned. A new kind also needs a line in prompt/templates/system.tmpl, or in
// facts.tmpl when it is not always offered, and its effect in cortex/conversation; tests of those places require them.
var kinds = []kindRow{
	{Kind: KindRespond, outcome: "answered", answers: true, fulfils: true, offered: always, check: checkAnswer},
	{Kind: KindDelegate, delegates: true, offered: func(t *Turn) bool { return !t.Last }, check: checkDelegations},
	{Kind: KindClarify, outcome: "asked", answers: true, offered: always, check: checkAnswer},
	{Kind: KindRefuse, outcome: "refused", answers: true, offered: always, check: checkAnswer},
	{Kind: KindSearch, offered: func(t *Turn) bool { return t.Choice && !t.Last }},
	{Kind: KindRead, offered: func(t *Turn) bool { return t.Readable() }},
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

// row returns the properties of k; the zero value for an unknown kind, such as one in the log of a newer version.
func (k Kind) row() kindRow {
	for _, row := range kinds {
		if row.Kind == k {
			return row
		}
	}
	return kindRow{Kind: k}
}

// Outcome returns what a turn is that ends with a decision of this kind, in a word: "answered", "asked" (the user was asked back) or "refused". For a
// kind that ends no turn it is "".
func (k Kind) Outcome() string { return k.row().outcome }

// Asks reports whether a decision of this kind asks the user back.
func (k Kind) Asks() bool { return k.Outcome() == "asked" }

// Refuses reports whether a decision of this kind refuses the request.
func (k Kind) Refuses() bool { return k.Outcome() == "refused" }

// Answers reports whether a decision of this kind ends the turn, with Say as the answer.
func (k Kind) Answers() bool { return k.row().answers }

// Fulfils reports whether a decision of this kind does what was requested.
func (k Kind) Fulfils() bool { return k.row().fulfils }

// Delegates reports whether a decision of this kind gives work to agents: each of its Delegations becomes a task.
func (k Kind) Delegates() bool { return k.row().delegates }
