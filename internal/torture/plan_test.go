package torture

import (
	"bytes"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/a2aproject/a2a-go/v2/a2a"
	"github.com/google/go-cmp/cmp"

	"github.com/cortex-orchestrator/cortex/agents"
	"github.com/cortex-orchestrator/cortex/cortex/memstore"
	"github.com/cortex-orchestrator/cortex/cortex/storage"
)

// TestAgentsAnswerRight checks that agents do what the check expects, and that the answer to one message is right for no other.
func TestAgentsAnswerRight(t *testing.T) {
	f, err := os.Create(filepath.Join(t.TempDir(), "a.runs"))
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	do := func(agent, task, text string) string {
		w := &worker{id: agent, runs: f}
		r, err := w.do(t.Context(), &agents.Task{ID: a2a.TaskID(task), Message: &a2a.Message{Parts: a2a.ContentParts{a2a.NewTextPart(text)}}})
		if err != nil {
			t.Fatalf("%s does %q: %v", agent, text, err)
		}
		return r.Parts[0].Text()
	}
	for n := range 8 {
		talk := plan.talk(n)
		var before, lastAgent, lastTask string
		for i := range 4 {
			m := talk.message(i)
			task := fmt.Sprint("task-", i)
			var answers []string
			for part := range strings.SplitSeq(m.text, " and ") {
				agent, text, _ := strings.Cut(strings.TrimPrefix(part, "@"), " ")
				if strings.HasPrefix(m.text, "reply") {
					agent, text, task = lastAgent, m.text, lastTask
				}
				answers = append(answers, agent+": "+do(agent, task, text))
				lastAgent, lastTask = agent, task
			}
			answer := strings.Join(answers, "\n")
			if len(answers) == 1 {
				_, answer, _ = strings.Cut(answer, ": ")
			}
			if why := talk.wrong(i, answer, before); why != "" {
				t.Errorf("%s: %q: %s", talk.id, m.text, why)
			}
			if why := talk.wrong(i+2, answer, before); why == "" {
				t.Errorf("%s: %q is right for another message too", talk.id, answer)
			}
			before = answer
		}
	}
	if _, err := (&worker{id: "worker0", runs: f}).do(t.Context(), &agents.Task{Message: &a2a.Message{}}); err == nil {
		t.Error("a task that nobody gives is done, want an error")
	}
}

// TestNumberOfMessage checks that only messages of the plan are recognised.
func TestNumberOfMessage(t *testing.T) {
	talk := plan.talk(1)
	for _, n := range []int{0, 7, 12345} {
		if got, err := talk.number(talk.message(n).id); err != nil || got != n {
			t.Errorf("number(%q) = %d, %v, want %d", talk.message(n).id, got, err, n)
		}
	}
	for _, id := range []string{"", "talk-1", "talk-1.", "talk-1.x", "talk-1.-1", "talk-1.01", "talk-2.1", "talk-1.1 "} {
		if n, err := talk.number(id); err == nil {
			t.Errorf("number(%q) = %d, want an error", id, n)
		}
	}
}

// TestTasksTwice counts the tasks that agents begin.
func TestTasksTwice(t *testing.T) {
	dir := t.TempDir()
	for name, text := range map[string]string{"a" + runsSuffix: "1 x\n2 x\n", "b" + runsSuffix: "1 x\n1 y\n3 z\n1 x\n", "c": "9 x\n"} {
		if err := os.WriteFile(filepath.Join(dir, name), []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	tasks, twice, err := tasksRun(dir)
	if err != nil || tasks != 4 || twice != 1 {
		t.Errorf("tasksRun = %d, %d, %v, want 4 rounds, 1 twice", tasks, twice, err)
	}
}

// TestLengthen checks that a lengthened conversation can be continued.
func TestLengthen(t *testing.T) {
	store := memstore.New()
	if err := lengthen(t.Context(), store, "long-0", 200); err != nil {
		t.Fatal(err)
	}
	conv, err := storage.Load(t.Context(), store, "", "long-0")
	if err != nil || conv.Seq != 200 {
		t.Fatalf("the conversation has %d entries, %v, want 200", conv.Seq, err)
	}
	m, ok := conv.AnswerOf(seedUser, "seed-200")
	if !ok || m.Parts[0].Text() != "The weather of day 200 was as it is." {
		t.Errorf("answer %v, %t, want the weather of day 200", m, ok)
	}
}

// TestTwoOwners has two replicas claim the same partition, for a moment and for longer.
func TestTwoOwners(t *testing.T) {
	a, both, c := []int{0, 1, 2}, []int{2, 3}, []int{4}
	s := newSpy([]string{"a", "b", "c"})
	at := func(d time.Duration) time.Time { return epoch.Add(d) }
	s.compare([][]int{a, both, c}, at(0))
	s.compare([][]int{a, both, c}, at(tolerance))
	s.compare([][]int{a, nil, c}, at(tolerance+1)) // one does not answer: the claim is over
	s.compare([][]int{a, both, c}, at(tolerance+2))
	s.compare([][]int{a, both, c}, at(2*tolerance+2))
	if len(s.found) != 0 {
		t.Errorf("found %q of what lasts a moment, want nothing", s.found)
	}
	s.compare([][]int{a, both, c}, at(2*tolerance+3))
	s.compare([][]int{a, both, c}, at(2*tolerance+4))
	if len(s.found) != 1 || !strings.Contains(s.found[0], "0 and 1") {
		t.Errorf("found %q, want 0 and 1 once", s.found)
	}
}

// TestPartitions parses the answer of a health endpoint.
func TestPartitions(t *testing.T) {
	for body, want := range map[string][]int{
		"ok\nowns 5 of 64 partitions: 0-2, 7, 63\n": {0, 1, 2, 7, 63},
		"ok\nowns 0 of 64 partitions: none\n":       nil,
		"ok\n":                                      nil,
		"owns 1 of 64 partitions: 5-x, 3, 4-\n":     {3},
	} {
		if diff := cmp.Diff(want, partitions(body)); diff != "" {
			t.Errorf("partitions(%q) (-want +got):\n%s", body, diff)
		}
	}
	if got := partitions("owns 1 of 64 partitions: 0-99999999999\n"); len(got) > 1000 {
		t.Errorf("%d partitions, want a bound", len(got))
	}
}

// TestServerConfig checks that the servers of a cluster have routes to each other, and a single server has none.
func TestServerConfig(t *testing.T) {
	for _, routes := range [][]int{nil, {1001, 1002}} {
		c := serverConfig{name: "server-0", folder: t.TempDir(), port: 2001, route: 1001, routes: routes}
		path, err := c.write()
		if err != nil {
			t.Fatal(err)
		}
		b, err := os.ReadFile(path)
		if err != nil {
			t.Fatal(err)
		}
		if got := bytes.Count(b, []byte("nats://127.0.0.1:")); got != len(routes) || bytes.Contains(b, []byte("cluster")) != (len(routes) > 0) {
			t.Errorf("with routes %v:\n%s", routes, b)
		}
	}
	ports, err := freePorts(9)
	if err != nil {
		t.Fatal(err)
	}
	slices.Sort(ports)
	if len(slices.Compact(ports)) != 9 {
		t.Errorf("ports %v, want nine different ones", ports)
	}
}
