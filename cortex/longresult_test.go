package cortex_test

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"testing"
	"testing/synctest"

	"github.com/a2aproject/a2a-go/v2/a2a"
	"github.com/google/go-cmp/cmp"

	"github.com/cortex-orchestrator/cortex/cortex"
	"github.com/cortex-orchestrator/cortex/llm"
	"github.com/cortex-orchestrator/cortex/llm/llmtest"
	"github.com/cortex-orchestrator/cortex/prompt"
	"github.com/cortex-orchestrator/cortex/transport"
)

// namedTexts returns the texts with a name of an agent's newest task, with their sizes and whose results they are.
func (w *world) namedTexts(agent string) []string {
	w.t.Helper()
	var all []string
	work := w.tasksOf(agent)
	for _, p := range work[len(work)-1].Payload.(*a2a.Message).Parts {
		if p.Filename != "" && p.Text() != "" {
			all = append(all, fmt.Sprint(p.Filename, " of ", transport.MetaString(p, transport.MetaAgentID), ": ", len(p.Text())))
		}
	}
	return all
}

// TestLongResult has a model read in a long result and pass it on, in its turn and in the next one: all that it sees stays small, the log has what it read,
// and agents get the text.
func TestLongResult(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		key := ""
		give := func(agent, files string) string {
			return fmt.Sprintf(`{"kind":"delegate","say":null,"delegations":[{"id":"a","agent":%q,"skill":null,"task":"t","input":null,"files":%s,"depends_on":[]}],"read":null,"reason":""}`, agent, files)
		}
		var next []string // replies of the model
		say := func(replies ...string) { next = append(next, replies...) }
		c := llmtest.Script(slices.Repeat([]llmtest.Answer{{Func: func(context.Context, *llm.Request) llmtest.Answer {
			reply := next[0]
			next = next[1:]
			return llmtest.Text(reply)
		}}}, 9)...)
		templates, err := prompt.New("")
		if err != nil {
			t.Fatal(err)
		}
		d := llm.NewDecider(c, templates, nil)
		const done = `{"kind":"respond","say":"Done.","delegations":[],"reason":""}`
		w := newWorld(t, d)
		say(give("alpha", "null"))
		w.say("m1", "count")
		task := w.onlyTask("alpha")
		key = "a2a/alpha/" + string(task)[:8] + "/result"
		say(fmt.Sprintf(`{"kind":"read","say":null,"delegations":[],"read":{"key":%q,"from":-1,"find":null},"reason":"the end"}`, key),
			give("beta", fmt.Sprintf("[%q]", key)))
		text := strings.Repeat("nothing\n", 30_000) + "the end is 42"
		w.finish("alpha", task, text)
		log := entries(t, w.store)
		if diff := cmp.Diff([]llm.Read{{Key: key, From: -1}}, log[len(log)-1].Decision.Reads); diff != "" {
			t.Errorf("reads in the log (-want +got):\n%s", diff)
		}
		if got := c.Requests()[2].Messages; !strings.Contains(got[len(got)-1].Text(), "\nthe end is 42\n") {
			t.Errorf("the model has read:\n%s", got[len(got)-1].Text())
		}
		want := fmt.Sprintf("%s of alpha: %d", key, len(text))
		if diff := cmp.Diff([]string{want}, w.namedTexts("beta")); diff != "" {
			t.Errorf("beta got (-want +got):\n%s", diff)
		}
		if n := w.load().Weight(); n < 2*len(text) {
			t.Errorf("the conversation's weight is %d, with a result and what beta got of it", n)
		}
		shown := false
		for _, e := range w.watched() {
			if task, ok := e.Payload.(*a2a.Task); ok && transport.MetaString(task, transport.MetaAgentID) == "beta" {
				parts := task.History[0].Parts
				shown = len(parts) == 2 && parts[1].Text() == "["+key+"]"
			}
		}
		if !shown {
			t.Error("people are not shown which result goes to beta")
		}
		say(done)
		w.finish("beta", w.onlyTask("beta"), strings.Repeat("x", 255<<10))
		w.wantAnswer("m1", "Done.")

		w.restart(cortex.Config{Decider: d})
		other := fmt.Sprintf("a2a/beta/%s/result", string(w.onlyTask("beta"))[:8])
		say(give("gamma", fmt.Sprintf("[%q,%q,%q]", other, key, "a2a/alpha/"+string(task)+"/result")))
		w.say("m2", "and again")
		cut := transport.MaxText/2 - len("t") - 255<<10 - len(text)
		if diff := cmp.Diff([]string{fmt.Sprintf("%s of beta: %d", other, 255<<10), want, fmt.Sprintf("a2a/alpha/%s/result of alpha: %d", task, cut+len(" […]"))}, w.namedTexts("gamma")); diff != "" {
			t.Errorf("gamma got (-want +got):\n%s", diff)
		}
		say(done)
		w.finish("gamma", w.onlyTask("gamma"), "ok")

		say(fmt.Sprintf(`{"kind":"delegate","say":null,"delegations":[{"id":"a","agent":"alpha","skill":null,"task":"t","input":null,"files":[],"depends_on":[]},`+
			`{"id":"b","agent":"gamma","skill":null,"task":"t","input":null,"files":[%q,%q],"depends_on":["a"]}],"reason":""}`, other, key))
		w.say("m3", "once more")
		last := a2a.TaskID(w.tasksOf("alpha")[1].TaskID)
		w.finish("alpha", last, text)
		if diff := cmp.Diff([]string{fmt.Sprintf("%s of beta: %d", other, 255<<10), want, fmt.Sprintf("%s of alpha: %d", last, cut+len(" […]"))}, w.namedTexts("gamma")); diff != "" {
			t.Errorf("gamma got with the result that it depends on (-want +got):\n%s", diff)
		}
		for i, r := range c.Requests() {
			if bytes, _ := r.Size(); bytes > 24<<10 {
				t.Errorf("request %d has %d bytes, want at most 24 KB", i, bytes)
			}
		}
		w.wantFold()
	})
}
