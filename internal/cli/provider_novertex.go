//go:build !vertex

package cli

// withVertex says how to get what this build leaves out.
func withVertex(p *provider) *provider {
	p.leftOut = &lackError{
		what: "this build leaves it out: --llm gemini asks the same models with the same credentials; " +
			"the older SDK comes with `go install -tags vertex github.com/cortex-orchestrator/cortex@latest`",
		short: "needs a build with -tags vertex; gemini asks the same",
	}
	return p
}
