package repl

import (
	"strings"
	"testing"
)

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

// TestNoReply says, as the reply to what an agent asks, that there is none: its task is canceled, and the agent does not get that as its reply. A yes or
// no to a consent is for Cortex, and what stands behind a space is a reply.
func TestNoReply(t *testing.T) {
	t.Parallel()
	term := open(t, 80)
	asks := func(said, id string) {
		t.Helper()
		term.say(said)
		term.order(order{Do: "task", ID: id, Agent: "agent_map", Text: "the way"})
		term.order(order{Do: "asks", ID: id, Text: "Where from?"})
		term.order(order{Do: "answer", Text: "Where from?"})
		term.wait("the question", func(s string) bool { return strings.HasSuffix(s, "Where from?\nreply>") })
	}
	canceled := func(task string) {
		t.Helper()
		if h := term.heard(); h.Kind != "cancel" || h.Task != task {
			t.Errorf("Cortex hears %+v, want the cancellation of %q", h, task)
		}
	}
	asks("one", "t1")
	term.keys("Never mind!\r")
	canceled("t1")
	term.shows("reply> Never mind!\nasked cortex to cancel what agent_map was to do\n>")
	asks("two", "t2")
	term.keys("/cancel\r")
	canceled("")
	term.shows("asking cortex to cancel all open tasks of this conversation\n>")
	asks("three", "t3")
	if h := term.say(" stop"); h.Kind == "cancel" {
		t.Errorf("Cortex hears %+v, want the reply", h)
	}
	term.order(order{Do: "completed", ID: "t3"})
	term.order(order{Do: "answer", Text: "Fine."})
	term.shows("Fine.\n>")
	term.say("stop") // nothing is asked
	term.order(order{Do: "task", ID: "t4", Agent: "agent_pay", Text: "five to Bob"})
	term.order(order{Do: "consent", ID: "t4"})
	term.order(order{Do: "answer", Text: "Do it?"})
	term.shows("Do it?\nreply>")
	if h := term.say("cancel"); h.Kind == "cancel" {
		t.Errorf("Cortex hears %+v, want the denial", h)
	}
	term.order(order{Do: "canceled", ID: "t4", Text: "not confirmed"})
	term.order(order{Do: "answer", Text: "All right."})
	term.shows("All right.\n>")
	term.keys("\x04")
	if code := term.exits(); code != 0 {
		t.Errorf("exit status %d", code)
	}
}
