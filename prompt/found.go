package prompt

// MaxSearches is how often a decision may search for agents.
const MaxSearches = 3

// Found is the result of a search for agents.
type Found struct {
	Agents []Agent // the best first
	Fits   bool    // false: none fits, and Agents are the closest
	Left   int     // the number of searches left to the decision
}

type foundView struct {
	Agents []agentView
	Fits   bool
	Left   int
}

// Found renders the message to a model with the result of its search for agents. The caller bounds the number of agents. It returns an error only
// when a replaced template fails.
func (t *Templates) Found(f *Found) (string, error) {
	return t.execute("found.tmpl", foundView{Agents: viewAgents(f.Agents), Fits: f.Fits, Left: f.Left})
}
