package cli

import (
	"fmt"
	"strings"

	"github.com/cortex-orchestrator/cortex/cortex/conversation"
	"github.com/cortex-orchestrator/cortex/internal/view"
	"github.com/cortex-orchestrator/cortex/prompt"
	"github.com/cortex-orchestrator/cortex/transport"
)

// endWords says how rounds ended.
var endWords = map[conversation.SwarmEnd]string{
	conversation.SwarmAgreed: "the results agree", conversation.SwarmRounds: "it was the last, and the results do not agree",
	conversation.SwarmTokens: "the tokens were used up, and the results do not agree", conversation.SwarmAlone: "fewer than two had a result to compare",
	conversation.SwarmQuestion: "one of the agents asks something",
}

// maxWhyPost bounds how much of a post is shown, in characters.
const maxWhyPost = 200

// whyPosted writes what an agent has posted on the board of its task, if that is the cause of an entry.
func whyPosted(out *strings.Builder, e *conversation.Entry, alike *view.Lookalikes) {
	p, ok := e.Cause.Payload.(*transport.Post)
	if !ok {
		return
	}
	who := prompt.Clean(alike.Named(e.Cause.From), 128)
	if e.Rejected != "" {
		fmt.Fprintf(out, "   board: a post of %s was not taken: %s\n", who, prompt.Clean(e.Rejected, conversation.MaxWhy))
		return
	}
	fmt.Fprintf(out, "   board: %s posted %s: %s\n", who, prompt.Clean(p.Name, transport.MaxPostName), prompt.Clean(p.Text, maxWhyPost))
}

// whyPatterns writes which agents have bid for the delegations of a decision, and what their bids counted for.
func whyPatterns(out *strings.Builder, e *conversation.Entry, alike *view.Lookalikes) {
	if e.Patterns == nil {
		return
	}
	if s := e.Patterns.Swarm; s != nil {
		fmt.Fprintf(out, "   round %d of at most %d, with up to %d tokens in all\n", s.Round, s.Rounds, s.Tokens)
	}
	if e.Patterns.Ended != "" {
		fmt.Fprintf(out, "   the rounds ended: %s\n", endWords[e.Patterns.Ended])
	}
	name := func(agent string) string { return prompt.Clean(alike.Named(agent), 128) }
	for i := range e.Patterns.Auctions {
		a := &e.Patterns.Auctions[i]
		others := max(len(a.Bids)-1, 0)
		bids := map[bool]string{true: "bid", false: "bids"}[others == 1]
		fmt.Fprintf(out, "   %s won over %d other %s; decided for before: %s\n", name(a.Winner), others, bids, name(a.Chosen))
		for j := range a.Bids {
			b := &a.Bids[j]
			if b.Why != "" {
				fmt.Fprintf(out, "     %s: %s\n", name(b.Agent), prompt.Clean(b.Why, conversation.MaxWhy))
				continue
			}
			fmt.Fprintf(out, "     %s: %.2f (states %.2f, cost %.4g, %.4g s; did %.3g of %.3g)\n", name(b.Agent), b.Score, b.Confidence, b.Cost, b.Seconds, b.Done, b.Done+b.Failed)
		}
	}
}
