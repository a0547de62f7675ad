package llm_test

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/a2aproject/a2a-go/v2/a2a"
	"github.com/google/go-cmp/cmp"

	"github.com/cortex-orchestrator/cortex/llm"
	"github.com/cortex-orchestrator/cortex/llm/llmtest"
	"github.com/cortex-orchestrator/cortex/prompt"
)

// conversation returns the requests of each decision of four turns: an answer, two parallel delegations, two sequential ones, and a question. change
// modifies the input before each turn.
func conversation(t *testing.T, change func(turn int, in *prompt.Input)) [][]*llm.Request {
	t.Helper()
	work := func(ids ...string) string {
		var ds []string
		for _, id := range ids {
			ds = append(ds, fmt.Sprintf(`{"id":%q,"agent":"agent_echo","skill":"echo","task":"say %s","input":"{\"n\": 1}","depends_on":[]}`, id, id))
		}
		return `{"kind":"delegate","say":null,"delegations":[` + strings.Join(ds, ",") + `],"reason":"r"}`
	}
	script := [][]string{{hello}, {work("a", "b"), hello}, {"prose", work("a"), work("c"), hello}, {`{"kind":"clarify","say":"Which?"}`}}
	var answers []llmtest.Answer
	for _, replies := range script {
		for _, r := range replies {
			answers = append(answers, llmtest.Text(r))
		}
	}
	client := llmtest.Script(answers...)
	decider := llm.NewDecider(client, templates(t), nil)
	var requests [][]*llm.Request
	seen := 0
	tn := turn()
	tn.Waiting, tn.Listed, tn.Now = nil, tn.Agents, time.Unix(1e9, 0).UTC()
	for i := range script {
		tn.User, tn.Update, tn.Steps = fmt.Sprint("question ", i), prompt.Update{}, nil
		change(i, &tn.Input)
		for {
			tn.Now = tn.Now.Add(time.Minute)
			d, err := decider.Decide(t.Context(), tn, nil)
			if err != nil {
				t.Fatal(err)
			}
			requests = append(requests, client.Requests()[seen:])
			seen = len(client.Requests())
			if d.Kind != llm.KindDelegate {
				tn.History = append(tn.History, prompt.Turn{User: tn.User, Update: tn.Update, Steps: tn.Steps, Kind: string(d.Kind), Answer: d.Say})
				break
			}
			var step prompt.Step
			for _, del := range d.Delegations {
				step.Tasks = append(step.Tasks, prompt.Task{
					ID: a2a.TaskID(fmt.Sprint(i, del.ID)), Agent: del.Agent, Skill: del.Skill, Text: del.Task, Input: del.Input,
					State: a2a.TaskStateCompleted, Result: "done " + del.ID,
				})
			}
			tn.Steps = append(tn.Steps, step)
		}
	}
	return requests
}

// follows checks that request b begins with the bytes of a, except for the facts at the end of a.
func follows(t *testing.T, name string, a, b *llm.Request) {
	t.Helper()
	last := len(a.Messages) - 1
	if a.System != b.System || string(a.Schema) != string(b.Schema) || a.CacheKey != b.CacheKey || len(b.Messages) <= last {
		t.Errorf("%s: system, schema, key or messages are not those of the one before (-before +now):\n%s", name, cmp.Diff(a, b))
		return
	}
	if diff := cmp.Diff(a.Messages[:last], b.Messages[:last]); diff != "" {
		t.Errorf("%s: messages changed (-before +now):\n%s", name, diff)
	}
	if facts, ok := strings.CutPrefix(a.Messages[last].Text(), b.Messages[last].Text()); !ok || strings.Contains(facts, "<cortex:") || len(facts) > 200 {
		t.Errorf("%s: the last message was\n%s\nand is now\n%s", name, a.Messages[last].Text(), b.Messages[last].Text())
	}
}

func TestPrefix(t *testing.T) {
	requests := conversation(t, func(int, *prompt.Input) {})
	if diff := cmp.Diff(requests, conversation(t, func(int, *prompt.Input) {})); diff != "" {
		t.Errorf("the same conversation once more (-first +second):\n%s", diff)
	}
	for i := range requests[1:] {
		follows(t, fmt.Sprint("decision ", i+2), requests[i][0], requests[i+1][0])
	}
	// A correction follows its request, to the last byte.
	repaired := requests[3]
	if len(repaired) != 2 {
		t.Fatalf("the fourth decision took %d requests, want 2", len(repaired))
	}
	if diff := cmp.Diff(repaired[0].Messages, repaired[1].Messages[:len(repaired[0].Messages)]); diff != "" || repaired[0].System != repaired[1].System {
		t.Errorf("the correction does not follow (-before +now):\n%s", diff)
	}
}

// TestPrefixWhenAgentsChange checks that agents that join or leave change nothing of earlier requests.
func TestPrefixWhenAgentsChange(t *testing.T) {
	still := conversation(t, func(int, *prompt.Input) {})
	requests := conversation(t, func(turn int, in *prompt.Input) {
		switch turn {
		case 1:
			in.Update.Joined = []prompt.Agent{agent("agent_new", "new")}
			in.Agents = append(in.Agents[:3:3], in.Update.Joined...)
		case 3:
			in.Update.Left = []string{"agent_calc"}
			in.Agents = in.Agents[1:]
		}
	})
	if diff := cmp.Diff(still[0], requests[0]); diff != "" {
		t.Errorf("before any change (-without +with):\n%s", diff)
	}
	for i := range requests[1:] {
		follows(t, fmt.Sprint("decision ", i+2), requests[i][0], requests[i+1][0])
	}
	for i, want := range map[int]string{1: "agent_new", len(requests) - 1: "agent_calc"} {
		ms := requests[i][0].Messages
		if last := ms[len(ms)-1].Text(); !strings.Contains(last, want) || strings.Contains(still[i][0].Messages[len(ms)-1].Text(), want) {
			t.Errorf("decision %d is told nothing of %s:\n%s", i+1, want, last)
		}
	}
}
