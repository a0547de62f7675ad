package repl

import "testing"

// TestReasonsAreSaidOnce checks that the reason of a failure, or an agent's question, is not shown beside the answer that has it, and is where the
// answer has other words.
func TestReasonsAreSaidOnce(t *testing.T) {
	t.Parallel()
	term := open(t, 80)
	term.say("divide")
	term.order(order{Do: "task", ID: "t1", Agent: "agent_calc", Text: "1/0"})
	term.order(order{Do: "failed", ID: "t1", Text: "division by zero has no result"})
	term.shows("failed: division by zero has no result") // until the answer comes
	term.order(order{Do: "answer", Text: "That failed: division by zero has no result."})
	term.shows(" s  failed\nThat failed: division by zero has no result.\n>")
	term.prompts("")

	term.say("ask")
	term.order(order{Do: "task", ID: "t2", Agent: "agent_map", Text: "the way"})
	term.order(order{Do: "asks", ID: "t2", Text: "Where from?"})
	term.order(order{Do: "answer", Text: "agent_map asks: Where from?"})
	term.shows("\n? agent_map  asks")
	term.shows(" s\nagent_map asks: Where from?\nreply>")

	term.say("again")
	term.order(order{Do: "task", ID: "t3", Agent: "agent_calc", Text: "2/0"})
	term.order(order{Do: "task", ID: "t4", Agent: "agent_echo", Text: "well"})
	term.order(order{Do: "failed", ID: "t3", Text: "no result"})
	term.order(order{Do: "completed", ID: "t4"})
	term.order(order{Do: "answer", Text: "It could not be done."})
	term.shows(" s  failed: no result\n✓ agent_echo  well")
	term.shows("\nIt could not be done.\n>")
	term.prompts("")

	// A task that waited for a yes and does not get it is told with what it was to do.
	term.say("pay")
	term.order(order{Do: "task", ID: "t5", Agent: "agent_pay", Text: "five to Bob"})
	term.order(order{Do: "consent", ID: "t5"})
	term.order(order{Do: "answer", Text: "Do it?"})
	term.shows("Do it?\nreply>")
	term.say("no")
	term.order(order{Do: "canceled", ID: "t5", Text: "not confirmed"})
	term.order(order{Do: "answer", Text: "All right."})
	term.shows("✗ agent_pay  five to Bob  canceled: not confirmed")
	term.prompts("")
}
