package a2a

import (
	"context"
	"encoding/hex"
	"encoding/json"
	"slices"
	"strings"

	"github.com/a2aproject/a2a-go/v2/a2a"
	"github.com/a2aproject/a2a-go/v2/a2asrv"

	"github.com/cortex-orchestrator/cortex/bridge/kit"
	"github.com/cortex-orchestrator/cortex/cortex/conversation"
	"github.com/cortex-orchestrator/cortex/internal/shorten"
	"github.com/cortex-orchestrator/cortex/transport"
)

// HumanInTheLoop is the extension of A2A in which a question is data, and so is the reply: https://kagent.dev/docs/kagent/1.x/agents/human-in-the-loop/.
// A client that names it in A2A-Extensions gets the question in the metadata of the status message, under the extension's URI, beside the words that
// all clients get. Its reply is a message for the task that names the extension, and has the response in its metadata.
const HumanInTheLoop = "https://kagent.dev/extensions/hitl/v1"

// Types of what is asked, and of what is replied.
const (
	approvalRequest  = "tool_approval_request"
	approvalResponse = "tool_approval_response"
	askRequest       = "ask_user_request"
	askResponse      = "ask_user_response"
)

const (
	questionSize = 12       // bytes of a question's id
	maxArgs      = 16 << 10 // bytes of each text of what is to be approved
	maxAnswer    = 64       // strings in an answer
)

// hitlExtension declares the extension in a card.
var hitlExtension = a2a.AgentExtension{
	URI:         HumanInTheLoop,
	Description: "What needs a yes, and what an agent asks, as data (" + approvalRequest + ", " + askRequest + "), and the reply likewise",
}

// question is what waits for the user: a task of Cortex that waits for a yes, or for the reply to its agent.
type question struct {
	task               a2a.TaskID
	turn, agent, skill string
	text               string // what the agent is to do, or what it asks
	input              json.RawMessage
	held               bool // for a yes
}

func questionOf(t *conversation.Task) question {
	q := question{task: t.ID, turn: t.Turn, agent: t.Agent, skill: t.Skill, text: t.Text, input: t.Input, held: t.Phase == conversation.Held}
	if !q.held {
		q.text = t.Result
	}
	return q
}

// id returns the id of the question, which is another one when the task asks again: with answer, a message of Cortex, it was put.
func (q *question) id(answer string) string {
	return hex.EncodeToString(digest(questionSize, "question", string(q.task), answer))
}

// name returns what the question calls its tool: an agent and its skill, or, of an agent that was named by the client, the skill alone.
func (q *question) name(named bool) string {
	switch {
	case q.skill == "":
		return q.agent
	case named:
		return q.skill
	}
	return q.agent + "/" + q.skill
}

// args returns what the agent is to do. What is long is shortened, and says so.
func (q *question) args() map[string]any {
	args := map[string]any{"task": shorten.Marked(q.text, maxArgs, " …")}
	if len(q.input) == 0 || string(q.input) == "null" {
		return args
	}
	input, err := transport.DecodeValue(q.input)
	if err != nil || len(q.input) > maxArgs {
		input = shorten.Marked(string(q.input), maxArgs, " …")
	}
	args["input"] = exact(input)
	return args
}

// exact returns a value with texts in the place of numbers that a float64 would change, as one binding would.
func exact(v any) any {
	switch v := v.(type) {
	case json.Number:
		return v.String()
	case map[string]any:
		for key, of := range v {
			v[key] = exact(of)
		}
	case []any:
		for i, of := range v {
			v[i] = exact(of)
		}
	}
	return v
}

// asked returns the questions of the kind that the client has to reply to first: those for a yes, or else those of agents.
func (r *record) asked() []question {
	if r == nil {
		return nil
	}
	return slices.DeleteFunc(slices.Clone(r.waiting), func(q question) bool { return q.held != r.held })
}

// ask adds to the message of a status what waits, as the extension has it. named says that the client has named the agent.
func (r *record) ask(m *a2a.Message, named bool) {
	all := r.asked()
	if len(all) == 0 {
		return
	}
	var said map[string]any
	if r.held {
		tools := []any{}
		for _, q := range all {
			tools = append(tools, map[string]any{"id": q.id(m.ID), "call_id": string(q.task), "name": q.name(named), "args": q.args()})
		}
		said = map[string]any{"type": approvalRequest, "hint": transport.Text(m.Parts), "tools": tools}
	} else {
		var questions []any
		for _, q := range all {
			text := transport.Text(m.Parts)
			if len(all) > 1 { // the message has them all
				text = shorten.Marked(q.agent+": "+q.text, maxArgs, " …")
			}
			questions = append(questions, map[string]any{"question": text, "choices": []any{}, "multiple": false})
		}
		said = map[string]any{"type": askRequest, "id": all[0].id(m.ID), "questions": questions}
	}
	m.Extensions = []string{HumanInTheLoop}
	m.Metadata = map[string]any{HumanInTheLoop: said}
}

// response is a reply in the form of the extension.
type response struct {
	Type      string `json:"type"`
	Approvals []struct {
		ID       string `json:"id"`
		Approved *bool  `json:"approved"`
		Reason   string `json:"rejection_reason"` // stays in the message's metadata
	} `json:"approvals"`
	ID      string `json:"id"`
	Answers []struct {
		Answer []string `json:"answer"`
	} `json:"answers"`
}

// isResponse reports whether a message says that it is a reply in the form of the extension.
func isResponse(m *a2a.Message) bool {
	return slices.Contains(m.Extensions, HumanInTheLoop) && m.Metadata[HumanInTheLoop] != nil
}

// replyTo returns the words of a reply in the form of the extension. A reply that does not fit the question is
// refused, and the question stays open.
func (r *record) replyTo(m *a2a.Message) (words string, err error) {
	field := "message.metadata[" + HumanInTheLoop + "]"
	if r == nil {
		return "", invalid("message.taskId is missing: %s replies to a task that wants input", field)
	}
	all := r.asked()
	if r.state() != a2a.TaskStateInputRequired || len(all) == 0 {
		return "", a2a.NewError(a2a.ErrUnsupportedOperation, "the task is "+kit.StateName(r.state())+": it is not waiting for input now")
	}
	var said response
	b, err := json.Marshal(m.Metadata[HumanInTheLoop])
	if err == nil {
		err = json.Unmarshal(b, &said)
	}
	if err != nil {
		return "", invalid("%s: %v", field, err)
	}
	want := askResponse
	if r.held {
		want = approvalResponse
	}
	if said.Type != want {
		return "", invalid("%s.type is %s: the task wants %s", field, quoted(said.Type), want)
	}
	put := r.last().answer.ID
	if r.held {
		return approved(field, &said, all, put)
	}
	return answered(field, &said, all, put)
}

// approved returns a yes, if all that waits is approved, or a no.
func approved(field string, said *response, all []question, put string) (string, error) {
	decided := map[string]bool{}
	yes := 0
	for i, a := range said.Approvals {
		waits := slices.ContainsFunc(all, func(q question) bool { return q.id(put) == a.ID })
		switch _, twice := decided[a.ID]; {
		case !waits:
			return "", invalid("%s.approvals[%d].id is %s: nothing with this id waits for a yes now", field, i, quoted(a.ID))
		case twice:
			return "", invalid("%s.approvals[%d].id is %s, which is decided twice", field, i, quoted(a.ID))
		case a.Approved == nil:
			return "", invalid("%s.approvals[%d].approved is missing: it is true or false", field, i)
		case *a.Approved:
			yes++
		}
		decided[a.ID] = true
	}
	switch {
	case len(decided) < len(all):
		return "", invalid("%s.approvals decides %d of %d: decide all", field, len(decided), len(all))
	case yes == len(all):
		return "yes", nil
	case yes > 0:
		return "", invalid("%s.approvals approves %d of %d: they are done together, so approve all or none", field, yes, len(all))
	}
	return "no", nil
}

// answered returns the answers to what agents ask.
func answered(field string, said *response, all []question, put string) (string, error) {
	if said.ID != all[0].id(put) {
		return "", invalid("%s.id is %s: no question with this id is open now", field, quoted(said.ID))
	}
	if len(said.Answers) != len(all) {
		return "", invalid("%s.answers has %d answers to %d questions", field, len(said.Answers), len(all))
	}
	var lines []string
	for i, a := range said.Answers {
		text := strings.TrimSpace(strings.Join(a.Answer, ", "))
		switch {
		case len(a.Answer) > maxAnswer:
			return "", invalid("%s.answers[%d] has %d texts: at most %d are allowed", field, i, len(a.Answer), maxAnswer)
		case text == "":
			return "", invalid("%s.answers[%d] is empty", field, i)
		case len(all) > 1:
			text = all[i].agent + ": " + text
		}
		lines = append(lines, text)
	}
	return strings.Join(lines, "\n"), nil
}

// respond makes the message of b the reply that m has in the form of the extension. The text of m is for people to read; its files go along.
func (b *begun) respond(m *a2a.Message, before *record) error {
	words, err := before.replyTo(m)
	if err != nil {
		return err
	}
	if len(words) > transport.MaxText {
		return invalid("the reply has %d bytes: at most %d are allowed", len(words), transport.MaxText)
	}
	parts := a2a.ContentParts{a2a.NewTextPart(words)}
	if !before.held {
		for _, p := range b.m.Parts {
			if _, is := p.Content.(a2a.Text); !is {
				parts = append(parts, p)
			}
		}
	}
	b.m.Parts = parts
	return nil
}

// wants reports whether a client has named the extension in the values of A2A-Extensions.
func wants(values []string) bool {
	for _, v := range values {
		for uri := range strings.SplitSeq(v, ",") {
			if strings.TrimSpace(uri) == HumanInTheLoop {
				return true
			}
		}
	}
	return false
}

// isActive reports whether the extension is active in a call.
func isActive(ctx context.Context) bool {
	of, ok := a2asrv.ExtensionsFrom(ctx)
	return ok && of.Active(&hitlExtension)
}
