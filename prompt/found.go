package prompt

// MaxSearches is how often a decision may search for agents.
const MaxSearches = 3

// Found is what a search for agents brought.
type Found struct {
	Agents []Agent // the best first
	Fits   bool    // they fit; else they are those that come closest
	Left   int     // how often the decision may still search
}

type foundView struct {
	Agents []agentView
	Fits   bool
	Left   int
}

// Found returns the message that tells a model what its search for agents brought. The number of agents is the caller's to
// bound. The only error is that of a replaced template that fails.
func (t *Templates) Found(f *Found) (string, error) {
	return t.execute("found.tmpl", foundView{Agents: viewAgents(f.Agents), Fits: f.Fits, Left: f.Left})
}
