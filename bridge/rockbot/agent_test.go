package rockbot

import (
	"regexp"
	"testing"

	"github.com/cortex-orchestrator/cortex/bridge/rockbot/rockbottest"
)

func contains(text, pattern string) bool {
	return regexp.MustCompile("(?m)" + pattern).MatchString(text)
}

// TestDelegate has an agent of either generation work: it is announced, gets a task as RockBot sends it, and its answer is Cortex's.
func TestDelegate(t *testing.T) {
	for _, second := range []bool{false, true} {
		w := newWorld(t)
		w.serve()
		got := make(chan *rockbottest.Message, 1)
		w.agent(&rockbottest.Program{Name: "Echo", Skills: []string{"echo"}, Second: second, Do: func(k *rockbottest.Work) {
			got <- k.Message
			k.Status(rockbottest.Working, "searching")
			k.Result(rockbottest.Completed, "pong: ünïcode <&>")
		}})
		if said := w.ask(w.name("Echo"), "echo", "ping", `{"n":1}`); said != "pong: ünïcode <&>" {
			t.Errorf("the answer is %q", said)
		}
		m := <-got
		want := `ping`
		if !second {
			want = "ping\n{\"n\":1}"
		}
		if m.Text() != want || (m.Data() != "") != second || m.Body["skill"] != "echo" || m.Context() != "" {
			t.Errorf("the task is %v", m.Body)
		}
		if m.Source != w.o.name || m.ReplyTo != "agent.response."+w.o.name || m.Correlation != m.Task() || len(m.Task()) != 32 {
			t.Errorf("the task has the properties %+v", m)
		}
	}
}
