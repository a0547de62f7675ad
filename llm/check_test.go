package llm_test

import (
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"testing"

	"github.com/a2aproject/a2a-go/v2/a2a"

	"github.com/cortex-orchestrator/cortex/llm"
	"github.com/cortex-orchestrator/cortex/prompt"
)

func agent(id string, skills ...string) prompt.Agent {
	card := &a2a.AgentCard{Name: id, Description: "the agent " + id}
	for _, s := range skills {
		card.Skills = append(card.Skills, a2a.AgentSkill{ID: s})
	}
	return prompt.Agent{ID: id, Card: card, Seen: true}
}

// turn returns a turn in which agent_calc, agent_clock and agent_echo are present, and agent_clock waits for a reply.
func turn() *llm.Turn {
	t := &llm.Turn{ContextID: "conversation", ID: "message"}
	t.Agents = []prompt.Agent{agent("agent_calc", "calc", "convert"), agent("agent_clock"), agent("agent_echo", "echo")}
	t.Agents[1].Card.Skills = []a2a.AgentSkill{{Name: "world time"}}
	t.Waiting = []prompt.Task{{ID: "task-7", Agent: "agent_clock", State: a2a.TaskStateInputRequired, Result: "Which Springfield?"}}
	t.User = "hello"
	t.MaxParallel = 3
	return t
}

func delegate(ds ...llm.Delegation) *llm.Decision {
	return &llm.Decision{Kind: llm.KindDelegate, Delegations: ds}
}

func one(change func(d *llm.Delegation)) *llm.Decision {
	d := llm.Delegation{ID: "a", Agent: "agent_calc", Task: "2+2"}
	change(&d)
	return delegate(d)
}

func chain(needs ...[]string) *llm.Decision {
	d := delegate()
	for i, need := range needs {
		d.Delegations = append(d.Delegations, llm.Delegation{ID: fmt.Sprint(i), Agent: "agent_echo", Task: "x", DependsOn: need})
	}
	return d
}

func TestCheck(t *testing.T) {
	long := strings.Repeat("x", 70<<14)
	last := turn()
	last.Last = true
	wide := turn()
	wide.MaxParallel = 0
	empty := &llm.Turn{}
	files := turn()
	files.Available = []string{"f1", "f2", "f3"}
	long65 := strings.Split(strings.Repeat("f1 ", 65), " ")[:65]
	gone := turn()
	gone.Listed = append(gone.Listed, agent("agent_left"))
	gone.Update.Joined = []prompt.Agent{agent("agent_joined")}
	gone.Steps = []prompt.Step{{Update: prompt.Update{Joined: []prompt.Agent{agent("agent_step")}}}}
	gone.History = []prompt.Turn{{Update: prompt.Update{Joined: []prompt.Agent{agent("agent_once")}}, Steps: []prompt.Step{{Update: prompt.Update{Joined: []prompt.Agent{agent("agent_then")}}}}}}
	for _, c := range []struct {
		name string
		turn *llm.Turn
		d    *llm.Decision
		want string // part of the error; "" for none
	}{
		{"respond", nil, &llm.Decision{Kind: llm.KindRespond, Say: "hi"}, ""},
		{"clarify", nil, &llm.Decision{Kind: llm.KindClarify, Say: "which?"}, ""},
		{"refuse", nil, &llm.Decision{Kind: llm.KindRefuse, Say: "no"}, ""},
		{"respond last", last, &llm.Decision{Kind: llm.KindRespond, Say: "hi"}, ""},
		{"no kind", nil, &llm.Decision{Say: "hi"}, `unknown kind ""`},
		{"kind in capitals", nil, &llm.Decision{Kind: "Respond", Say: "hi"}, `unknown kind "Respond"`},
		{"long kind", nil, &llm.Decision{Kind: llm.Kind(long), Say: "hi"}, `unknown kind "xxxx`},
		{"nothing said", nil, &llm.Decision{Kind: llm.KindRespond, Say: " \n"}, `"say" is empty`},
		{"respond and delegate", nil, &llm.Decision{Kind: llm.KindRespond, Say: "hi", Delegations: make([]llm.Delegation, 1)}, "either delegate or answer"},
		{"delegate", nil, one(func(*llm.Delegation) {}), ""},
		{"delegate last", last, one(func(*llm.Delegation) {}), "no step is left"},
		{"delegate nothing", nil, delegate(), "without delegations"},
		{"three", nil, chain(nil, nil, nil), ""},
		{"four of three", nil, chain(nil, nil, nil, nil), "4 delegations, at most 3"},
		{"eight by default", wide, chain(nil, nil, nil, nil, nil, nil, nil, nil), ""},
		{"nine by default", wide, chain(nil, nil, nil, nil, nil, nil, nil, nil, nil), "9 delegations, at most 8"},
		{"no id", nil, one(func(d *llm.Delegation) { d.ID = "" }), "delegation 1 has no id"},
		{"long id", nil, one(func(d *llm.Delegation) { d.ID = long }), "an id of 1146880 bytes"},
		{"id twice", nil, delegate(llm.Delegation{ID: "a"}, llm.Delegation{ID: "a"}), `two delegations have the id "a"`},
		{"no agent", nil, one(func(d *llm.Delegation) { d.Agent = "" }), "agent is empty; there are"},
		{"unknown agent", nil, one(func(d *llm.Delegation) { d.Agent = "agent_clok" }), `no agent "agent_clok"; there are "agent_clock", "agent_calc", "agent_echo"`},
		{"agent that was listed", gone, one(func(d *llm.Delegation) { d.Agent = "agent_left" }), `agent "agent_left" cannot be given work any more; there are "agent_`},
		{"agent that joined", gone, one(func(d *llm.Delegation) { d.Agent = "agent_joined" }), `"agent_joined" cannot be given work any more`},
		{"agent that joined in a step", gone, one(func(d *llm.Delegation) { d.Agent = "agent_step" }), `"agent_step" cannot be given work any more`},
		{"agent that joined in a turn", gone, one(func(d *llm.Delegation) { d.Agent = "agent_once" }), `"agent_once" cannot be given work any more`},
		{"agent that joined in a step of a turn", gone, one(func(d *llm.Delegation) { d.Agent = "agent_then" }), `"agent_then" cannot be given work any more`},
		{"agent that never was", gone, one(func(d *llm.Delegation) { d.Agent = "agent_never" }), `no agent "agent_never"`},
		{"no agents", empty, one(func(*llm.Delegation) {}), `no agent "agent_calc"; no agent is there`},
		{"long agent", nil, one(func(d *llm.Delegation) { d.Agent = long }), `xxxx"…; there are`},
		{"skill", nil, one(func(d *llm.Delegation) { d.Skill = "convert" }), ""},
		{"skill by name", nil, one(func(d *llm.Delegation) { d.Agent, d.Skill = "agent_clock", "world time" }), ""},
		{"unknown skill", nil, one(func(d *llm.Delegation) { d.Skill = "echo" }), `agent "agent_calc" has no skill "echo"; it has "calc", "convert"`},
		{"no task", nil, one(func(d *llm.Delegation) { d.Task = "\n" }), "task is empty"},
		{"long task", nil, one(func(d *llm.Delegation) { d.Task = long }), "task is 1146880 bytes, at most 1048576"},
		{"task of the right length", nil, one(func(d *llm.Delegation) { d.Task = long[:64<<10] }), ""},
		{"input", nil, one(func(d *llm.Delegation) { d.Input = json.RawMessage(`{"a":1}`) }), ""},
		{"bad input", nil, one(func(d *llm.Delegation) { d.Input = json.RawMessage(`{"a":`) }), `input "{\"a\":" is not JSON`},
		{"long input", nil, one(func(d *llm.Delegation) { d.Input = json.RawMessage(long) }), "input is 1146880 bytes"},
		{"files", files, one(func(d *llm.Delegation) { d.Files = []string{"f3", "f1"} }), ""},
		{"no files", files, one(func(d *llm.Delegation) { d.Files = []string{} }), ""},
		{"unknown file", files, one(func(d *llm.Delegation) { d.Files = []string{"f1", "f9"} }), `delegation "a": no file "f9"; the newest that can be sent along are ["f1" "f2" "f3"]`},
		{"file where there is none", nil, one(func(d *llm.Delegation) { d.Files = []string{long} }), `xxxx"…; there are none that can be sent along, so files is null`},
		{"file twice", files, one(func(d *llm.Delegation) { d.Files = []string{"f1", "f1"} }), `file "f1" is named twice`},
		{"too many files", files, one(func(d *llm.Delegation) { d.Files = long65 }), "65 files, at most 64"},
		{"waiting task", nil, one(func(d *llm.Delegation) { d.ID, d.Agent = "task-7", "agent_clock" }), ""},
		{"waiting task of another", nil, one(func(d *llm.Delegation) { d.ID = "task-7" }), `agent "agent_calc", but the waiting task of that id is with agent "agent_clock"`},
		{"needs", nil, chain([]string{"1", "2"}, []string{"2"}, nil), ""},
		{"needs itself", nil, chain([]string{"0"}), "depends on itself"},
		{"needs unknown", nil, chain([]string{"7"}), `depends on "7", which is no delegation`},
		{"circle of two", nil, chain([]string{"1"}, []string{"0"}), "in a circle"},
		{"circle behind", nil, chain(nil, []string{"0", "2"}, []string{"1"}), `delegation "1": depends_on goes round in a circle`},
	} {
		t.Run(c.name, func(t *testing.T) {
			if c.turn == nil {
				c.turn = turn()
			}
			err := llm.Check(c.turn, c.d)
			switch {
			case c.want == "" && err != nil:
				t.Errorf("Check = %v, want nil", err)
			case c.want != "" && (!errors.Is(err, llm.ErrInvalidDecision) || !strings.Contains(err.Error(), c.want)):
				t.Errorf("Check = %v, want an ErrInvalidDecision with %q", err, c.want)
			case err != nil && len(err.Error()) > 2000:
				t.Errorf("the error has %d bytes", len(err.Error()))
			}
		})
	}
}

func TestCheckNamesFew(t *testing.T) {
	tn := &llm.Turn{}
	for i := range 1000 {
		tn.Agents = append(tn.Agents, agent(fmt.Sprintf("agent_%04d", i)))
	}
	err := llm.Check(tn, one(func(d *llm.Delegation) { d.Agent = "agent_x777" }))
	if err == nil || !strings.Contains(err.Error(), `there are "agent_0777"`) || !strings.Contains(err.Error(), "and 992 more") {
		t.Errorf("Check = %v, want the nearest first and the rest counted", err)
	}
}
