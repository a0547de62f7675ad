//go:build !vertex

package llms

// withVertex explains how to get the provider, which this build leaves out.
func withVertex(p *Provider) *Provider {
	p.leftOut = &LackError{
		what: "this build leaves it out: --llm gemini asks the same models with the same credentials; " +
			"the older SDK comes with `go install -tags vertex github.com/cortex-orchestrator/cortex@latest`",
		Short: "needs -tags vertex, or pick gemini",
	}
	return p
}
