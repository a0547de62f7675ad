package cortex_test

import (
	"slices"
	"testing"
	"testing/synctest"
	"time"

	"github.com/a2aproject/a2a-go/v2/a2a"

	"github.com/cortex-orchestrator/cortex/transport"
)

// replyTo is sayAs with a message that names what it answers: the turn of a message of the user's, or whatever else to is.
func (w *world) replyTo(from, id, text string, to any) {
	w.t.Helper()
	if message, ok := to.(string); ok && message != transport.ReplyToNone {
		to = transport.TurnID("", theContext, "user", message)
	}
	e := userEvent(id, text)
	e.From = from
	e.Payload.(*a2a.Message).Metadata = map[string]any{transport.MetaReplyTo: to}
	w.publish(e)
}

// TestReplyNamesItsQuestion has replies name the question that they answer: a yes counts for no other.
func TestReplyNamesItsQuestion(t *testing.T) {
	const late = "This question is not waited for any more: nothing was done."
	for name, test := range map[string]struct {
		say    func(w *world)
		pays   int    // tasks that alpha is given
		answer string // to m9; "" while it is open
		state  string // of the task of m1
	}{
		"yes":                       {func(w *world) { w.replyTo("user", "m9", "yes", "m1") }, 1, "", "SUBMITTED"},
		"no":                        {func(w *world) { w.replyTo("user", "m9", "no", "m1") }, 0, "All right: nothing was done.", "CANCELED: the user said no"},
		"yes after another answer":  {func(w *world) { w.finish("gamma", w.onlyTask("gamma"), "done"); w.replyTo("user", "m9", "yes", "m1") }, 1, "", "SUBMITTED"},
		"yes to what asked nothing": {func(w *world) { w.finish("gamma", w.onlyTask("gamma"), "done"); w.replyTo("user", "m9", "yes", "m0") }, 0, unsure, "AUTH_REQUIRED"},
		"yes to nothing":            {func(w *world) { w.replyTo("user", "m9", "yes", transport.ReplyToNone) }, 0, unsure, "AUTH_REQUIRED"},
		"sure to nothing":           {func(w *world) { w.replyTo("user", "m9", "sure", transport.ReplyToNone) }, 0, unsure, "AUTH_REQUIRED"},
		"no to nothing":             {func(w *world) { w.replyTo("user", "m9", "no", transport.ReplyToNone) }, 0, "All right: nothing was done.", "CANCELED: the user said no"},
		"yes to an agent's question": {func(w *world) {
			w.publish(resultEvent("q", "gamma", w.onlyTask("gamma"), a2a.TaskStateInputRequired, "how hard?"))
			w.replyTo("user", "m9", "yes", "m0")
		}, 0, "model: yes", "CANCELED: not confirmed"},
		"then to what is asked again": {func(w *world) {
			w.replyTo("user", "m8", "yes", transport.ReplyToNone)
			w.replyTo("user", "m7", "yes", "m1")
			w.wantTasks("alpha", 0)
			w.replyTo("user", "m9", "yes", "m8")
		}, 1, "", "SUBMITTED"},
		"yes to an unknown turn":  {func(w *world) { w.replyTo("user", "m9", "yes", "m7") }, 0, late, "AUTH_REQUIRED"},
		"yes after no":            {func(w *world) { w.say("m2", "no"); w.replyTo("user", "m9", "yes", "m1") }, 0, late, ""},
		"more than yes after no":  {func(w *world) { w.say("m2", "no"); w.replyTo("user", "m9", "yes but less", "m1") }, 0, "model: yes but less", ""},
		"yes in a later question": {func(w *world) { w.say("m2", "pay Eve"); w.replyTo("user", "m9", "yes", "m1") }, 0, late, ""},
		"yes when it has expired": {func(w *world) { pass(24 * time.Hour); w.replyTo("user", "m9", "yes", "m1") }, 0, late, ""},
		"another's":               {func(w *world) { w.replyTo("user:eve", "m9", "yes", "m1") }, 0, late, "AUTH_REQUIRED"},
		"no turn": {
			func(w *world) { w.replyTo("user", "m9", "yes", 42.0) }, 0,
			`Nothing was done: the metadata cortex_reply_to is "42": want the id of the turn whose question the message answers, or leave it out.`, "AUTH_REQUIRED",
		},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				w := consenting(t, payer)
				w.say("m0", "work hard")
				w.say("m1", "pay Bob")
				test.say(w)
				w.wantTasks("alpha", test.pays)
				if test.answer == "" {
					w.wantAnswer("m9", "")
				} else if said := w.liveAnswers(); !slices.Contains(said, test.answer) {
					t.Errorf("answers %q, want %q", said, test.answer)
				}
				if test.state != "" {
					for _, task := range w.load().TaskList() {
						if task.Agent == "alpha" {
							if got := string(task.State())[len("TASK_STATE_"):] + ": " + task.Result; got != test.state && got != test.state+": " {
								t.Errorf("the task is %s, want %s", got, test.state)
							}
						}
					}
				}
				w.wantFold()
			})
		})
	}
}
