package repl

import (
	"strings"
	"testing"
)

// TestCommandsInTurn types commands while a turn runs: those that only look, or cancel, are run at once, and the others, and what is said, when it is done.
func TestCommandsInTurn(t *testing.T) {
	t.Parallel()
	term := open(t, 80)
	term.say("do something long")
	term.order(order{Do: "task", ID: "t1", Agent: "agent_clock", Text: "do it"})
	term.shows("· agent_clock")
	term.keys("next\r/tasks\r")
	term.shows("task-77")
	term.keys("/cancel task-77\r")
	if h := term.heard(); h.Kind != "cancel" || h.Task != "task-77" {
		t.Errorf("Cortex hears %+v, want the cancellation", h)
	}
	term.shows("asking cortex to cancel task task-77")
	term.keys("/new\r")
	term.shows("> next↵/new")
	if screen := term.text(); strings.Contains(screen, "a new conversation") {
		t.Error("/new was run during the turn")
	}
	term.order(order{Do: "completed", ID: "t1"})
	term.order(order{Do: "answer", Text: "done"})
	if h := term.heard(); h.Text != "next" {
		t.Errorf("Cortex hears %+v, want what was typed", h)
	}
	term.order(order{Do: "answer", Text: "done, too"})
	term.shows("a new conversation")
	term.keys("\x04")
	if code := term.exits(); code != 0 {
		t.Errorf("exit status %d", code)
	}
}

// TestKeysInTurn types keys that edit a line while a turn runs: Ctrl-L is no part of what is typed, and Ctrl-U erases it.
func TestKeysInTurn(t *testing.T) {
	t.Parallel()
	term := open(t, 80)
	term.say("do something long")
	term.order(order{Do: "task", ID: "t1", Agent: "agent_clock", Text: "do it"})
	term.shows("· agent_clock")
	term.keys("first\r\x0cnonsense")
	term.shows("> first↵nonsense")
	term.keys("\x15\x0c/cancel task-77\r")
	if h := term.heard(); h.Kind != "cancel" || h.Task != "task-77" {
		t.Errorf("Cortex hears %+v, want the cancellation", h)
	}
	term.shows("\n> first↵")
	term.order(order{Do: "completed", ID: "t1"})
	term.order(order{Do: "answer", Text: "done"})
	if h := term.heard(); h.Text != "first" {
		t.Errorf("Cortex hears %+v, want what was typed", h)
	}
	term.order(order{Do: "answer", Text: "done, too"})
	term.prompts("")
	term.keys("\x04")
	if code := term.exits(); code != 0 {
		t.Errorf("exit status %d", code)
	}
}

// TestStopKey presses Ctrl-Z, which says why it does nothing.
func TestStopKey(t *testing.T) {
	t.Parallel()
	term := open(t, 130)
	term.keys("ab\x1ac")
	term.shows("(Ctrl-Z does nothing")
	term.prompts("abc")
	term.keys("\r")
	if h := term.heard(); h.Text != "abc" {
		t.Errorf("Cortex hears %+v", h)
	}
	term.keys("\x1a")
	term.wait("a second hint", func(s string) bool { return strings.Count(s, "(Ctrl-Z does nothing") == 2 })
	term.order(order{Do: "answer", Text: "done"})
	term.prompts("")
	term.keys("\x04")
	if code := term.exits(); code != 0 {
		t.Errorf("exit status %d", code)
	}
}

// TestStopInTurn types "stop" while a turn runs, which cancels it as Ctrl-C does; at the prompt it is a message like others.
func TestStopInTurn(t *testing.T) {
	t.Parallel()
	term := open(t, 80)
	term.say("do something long")
	term.order(order{Do: "task", ID: "t1", Agent: "agent_clock", Text: "do it"})
	term.shows("· agent_clock")
	term.keys("and then?\r") // this is said when it is done
	term.keys("please stop that.\r")
	if h := term.heard(); h.Kind != "cancel" {
		t.Errorf("Cortex hears %+v, want the cancellation", h)
	}
	term.shows("> please stop that.")
	term.shows("(canceled)")
	if h := term.heard(); h.Text != "and then?" {
		t.Errorf("Cortex hears %+v, want what was typed before", h)
	}
	term.order(order{Do: "answer", Text: "done"})
	term.shows("done\n>")
	if h := term.say("stop"); h.Text != "stop" {
		t.Errorf("Cortex hears %+v", h)
	}
}
