package decide

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"unicode/utf8"

	"github.com/a2aproject/a2a-go/v2/a2a"

	"github.com/cortex-orchestrator/cortex/cortex/conversation"
	"github.com/cortex-orchestrator/cortex/cortex/decide/catalog"
	"github.com/cortex-orchestrator/cortex/transport"

	"github.com/cortex-orchestrator/cortex/internal/lookalike"
	"github.com/cortex-orchestrator/cortex/llm"
	"github.com/cortex-orchestrator/cortex/prompt"
)

// maxAsked bounds each text in a question, in characters.
const maxAsked = 1000

// policyModel is the model named in a decision that follows from the reply to a question.
const policyModel = "policy"

// consent returns the question for the user before the delegations of a decision are sent, or "" when they need no consent.
func (d *decision) consent(decided *llm.Decision) string {
	needed := func(del llm.Delegation) bool { return d.confirms(del.Agent, del.Skill) }
	if !decided.Kind.Delegates() || !slices.ContainsFunc(decided.Delegations, needed) {
		return ""
	}
	return d.question(decided.Delegations)
}

// question returns the question whether these delegations may be done. It marks agents that may be mistaken for others. The texts are written by a
// model, which external content may have influenced: each is on one line, between quotes that it cannot end. Omissions are stated, since the agent
// gets the whole text.
func (d *decision) question(ds []llm.Delegation) string {
	var lines []string
	alike := lookalikes(d.all)
	for i := range ds {
		del := &ds[i]
		line := prompt.Shown(alike.Named(del.Agent), maxAsked)
		if del.Skill != "" {
			line += `, skill "` + quotable(del.Skill) + `"` + hidden(del.Skill) + ","
		}
		input := ""
		if len(del.Input) > 0 && string(del.Input) != "null" {
			input = prompt.Shown(string(del.Input), maxAsked) + hidden(string(del.Input))
		}
		switch {
		case input != "" && sameJSON(del.Task, string(del.Input)):
			line += " is to: " + input
		case input != "":
			line += ` is to: "` + quotable(del.Task) + `"` + hidden(del.Task) + ", with " + input
		default:
			line += ` is to: "` + quotable(del.Task) + `"` + hidden(del.Task)
		}
		lines = append(lines, line+withFiles(d.conv.Along(d.turn, del)))
	}
	if len(lines) == 1 {
		return lines[0] + ". Do it? Answer yes or no."
	}
	var b strings.Builder
	b.WriteString("This needs your yes:\n")
	for i, line := range lines {
		fmt.Fprintf(&b, "%d. %s\n", i+1, line)
	}
	b.WriteString("\nDo all of it? Answer yes or no.") // behind an empty line, or it is part of the last item
	return b.String()
}

// sameJSON reports whether two texts are the same JSON, apart from space.
func sameJSON(a, b string) bool {
	var x, y bytes.Buffer
	return json.Compact(&x, []byte(a)) == nil && json.Compact(&y, []byte(b)) == nil && bytes.Equal(x.Bytes(), y.Bytes())
}

// lookalikes returns the ids of agents, and reserved names.
func lookalikes(agents []prompt.Agent) *lookalike.Set {
	s := new(lookalike.Set)
	s.Add(transport.Cortex, "user")
	for i := range agents {
		s.Add(agents[i].ID)
	}
	return s
}

// withFiles lists the files that go with a delegation.
func withFiles(files []*a2a.Part) string {
	const most = 10
	var names []string
	for i, p := range files[:min(len(files), most)] {
		names = append(names, `"`+quotable(conversation.AlongName(p, i))+`"`)
	}
	if n := len(files) - len(names); n > 0 {
		names = append(names, fmt.Sprintf("%d more", n))
	}
	switch {
	case len(names) == 0:
		return ""
	case len(files) == 1:
		return ", with the file " + names[0]
	}
	return ", with the files " + strings.Join(names, ", ")
}

// quotable returns a text that is safe between quotes.
func quotable(text string) string { return strings.ReplaceAll(prompt.Shown(text, maxAsked), `"`, "'") }

// hidden states how much a question leaves out.
func hidden(text string) string {
	if n := utf8.RuneCountInString(text); n > maxAsked {
		return fmt.Sprintf(" [%d characters in all, the rest is not shown]", n)
	}
	return ""
}

// answerReply decides about a message that is a reply, without asking a model. It returns nil when the message is no reply.
func (d *decision) answerReply(ctx context.Context) *llm.Decision {
	r := d.turn.Reply
	switch {
	case r == nil || d.turn.Decisions > 0:
		return nil
	case !r.Yes && !r.Unclear:
		return &llm.Decision{Kind: llm.KindRespond, Say: "All right: nothing was done.", Reason: "the user said no", Model: policyModel}
	}
	decided := &llm.Decision{Kind: llm.KindDelegate, Reason: "the user said yes", Model: policyModel}
	for _, id := range r.Tasks {
		t := d.conv.Tasks[id]
		del := llm.Delegation{ID: string(id), Agent: t.Agent, Skill: t.Skill, Task: t.Text, Input: t.Input, Files: conversation.Keys(t.Along)}
		for _, need := range t.DependsOn {
			del.DependsOn = append(del.DependsOn, string(need))
		}
		decided.Delegations = append(decided.Delegations, del)
	}
	again := func(say, why string) *llm.Decision {
		decided.Reason, d.entry.Consent = why, say+" "+d.question(decided.Delegations)
		return decided
	}
	if !r.Yes {
		return again("That is neither yes nor no.", "the reply was neither yes nor no")
	}
	if r.Unclear {
		return again("I am not sure what the yes was for.", "the yes may have been meant for something else")
	}
	if why := d.refuses(decided); why != "" {
		return &llm.Decision{Kind: llm.KindRespond, Say: "Nothing was done: " + why + ".", Reason: why, Model: policyModel}
	}
	full, say := d.admit(decided, true), ""
	if len(full) == 0 {
		var err error
		if full, say, err = d.gate(ctx, decided, true); err != nil {
			why := conversation.Explain(err)
			return &llm.Decision{Kind: llm.KindRespond, Say: why, Reason: why, Model: policyModel}
		}
	}
	if say != "" {
		return &llm.Decision{Kind: llm.KindRespond, Say: say, Reason: "a rule has the first result answer a repeated call", Model: policyModel}
	}
	if len(full) > 0 {
		return again("Not yet done ("+reasons(full)+").", "there is no room for it")
	}
	return decided
}

// refuses returns why tasks that the user was asked about cannot be given now, or "": agents and rules may have changed since then.
func (d *decision) refuses(decided *llm.Decision) string {
	for i := range decided.Delegations {
		del := &decided.Delegations[i]
		name := prompt.Clean(del.Agent, maxAsked)
		if _, there := catalog.Find(d.all, del.Agent); !there {
			return name + " cannot be given work any more"
		}
		if why := d.veto(del.Agent, del.Skill); why != "" {
			return name + " " + why
		}
	}
	t := &llm.Turn{Input: prompt.Input{Agents: d.all, MaxParallel: conversation.MaxParallel}}
	for _, id := range d.turn.Reply.Tasks { // a continued task gets its reply in words, as when the user was asked
		if task := d.conv.Tasks[id]; task.SentSeq != 0 {
			t.Waiting = append(t.Waiting, conversation.PromptTask(task))
		}
	}
	for i := range decided.Delegations { // files are available as when the user was asked
		t.Available = append(t.Available, decided.Delegations[i].Files...)
	}
	if err := llm.Check(t, decided); err != nil {
		return conversation.Explain(err)
	}
	return ""
}
