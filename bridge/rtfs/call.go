package rtfs

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"strings"

	"github.com/a2aproject/a2a-go/v2/a2a"

	"github.com/cortex-orchestrator/cortex/agentcard"
	"github.com/cortex-orchestrator/cortex/agents"
	"github.com/cortex-orchestrator/cortex/internal/nesting"
	"github.com/cortex-orchestrator/cortex/internal/rest"
	"github.com/cortex-orchestrator/cortex/internal/shorten"
	"github.com/cortex-orchestrator/cortex/transport"
)

// maxTries is how often a call is made to an agent that allows to repeat it.
const maxTries = 3

// Bounds of what an agent answers, in bytes.
const (
	maxReason = 500      // of the text of a failure
	maxData   = 64 << 10 // of an output that is no text; a longer one becomes a file
)

// guest is an agent that has registered.
type guest struct {
	b  *bridge
	id string // its own
}

// lostError is the error of a call whose outcome nobody knows.
type lostError struct{ why string }

func (e *lostError) Error() string { return e.why + ": it may have been done, or not" }

func lost(format string, args ...any) error { return &lostError{fmt.Sprintf(format, args...)} }

// do calls the agent. A call that it may have got is not made again, unless its card allows that.
func (g *guest) do(ctx context.Context, t *agents.Task) (*agents.Result, error) {
	l := g.b.leases.get(g.id)
	if l == nil {
		return nil, agents.Rejected(errors.New("the agent is not registered any more: nothing was sent to it"))
	}
	again := l.Card.isIdempotent()
	body, err := requestOf(t, l)
	if err != nil {
		return nil, agents.Rejected(err)
	}
	header := http.Header{"Content-Type": {"application/json"}, "Accept": {"application/json"}, "User-Agent": {"cortex"}, "Idempotency-Key": {string(t.ID)}}
	if t.Traceparent != "" {
		header.Set("Traceparent", t.Traceparent)
	}
	if !again {
		first, err := g.b.made.begin(ctx, t)
		if err != nil {
			return nil, fmt.Errorf("the call cannot be noted, and nothing was sent: %w", err)
		}
		if !first {
			return nil, lost("Cortex was stopped while the agent was called, and does not call it again")
		}
		defer g.b.made.end(t)
	}
	who := l.machine() // after the note: of a call that may have been made before, nobody says that nothing was sent
	requester, _ := t.Message.Metadata[transport.MetaRequester].(string)
	if !g.b.poster.posts.begin(who, requester) {
		return nil, agents.Rejected(errBusy)
	}
	defer g.b.poster.posts.end(who, requester)
	ctx, end := context.WithTimeoutCause(ctx, g.b.times.call, fmt.Errorf("it took longer than %v", g.b.times.call))
	defer end()
	for n := 1; ; n++ {
		r, err := g.try(ctx, l, header, body)
		var unknown *lostError
		if !errors.As(err, &unknown) || !again || n == maxTries {
			return r, err
		}
		t.Progress("the call is made again: " + shorten.Line(unknown.why, maxReason))
		if rest.For(ctx, g.b.times.again) != nil {
			return nil, err
		}
	}
}

// try calls the agent once: at the first of its endpoints that can be reached.
func (g *guest) try(ctx context.Context, l *lease, header http.Header, body []byte) (*agents.Result, error) {
	var why []string
	for _, to := range l.Card.endpoints(l.Endpoint) {
		r, perhaps, err := g.b.poster.post(ctx, to, header.Clone(), body)
		switch {
		case err == nil:
			defer r.over()
			return resultOf(r)
		case perhaps && ctx.Err() != nil:
			return nil, lost("the agent was called, and the call was cut off: %v", context.Cause(ctx))
		case perhaps:
			return nil, lost("the agent was called, and its answer got lost: %s", shorten.Line(err.Error(), maxReason))
		case ctx.Err() != nil:
			return nil, context.Cause(ctx)
		}
		why = append(why, shorten.Line(fmt.Sprintf("%s: %v", to, err), 200))
	}
	return nil, fmt.Errorf("the agent cannot be reached, and nothing was sent to it (%s)", shorten.Line(strings.Join(why, "; "), maxReason))
}

// call is the body of a call, in both directions.
type call struct {
	Capability string          `json:"capability_id"`
	Input      json.RawMessage `json:"input"`
	Metadata   map[string]any  `json:"metadata"`
}

// outcome is the answer to a call. All of its fields are written.
type outcome struct {
	Success  *bool           `json:"success"`
	Output   json.RawMessage `json:"output"`
	Error    *string         `json:"error"`
	Took     int64           `json:"execution_time_ms"`
	Metadata map[string]any  `json:"metadata"`
}

// requestOf returns the body of a call for a task. RTFS has no files: their names are in the text.
func requestOf(t *agents.Task, l *lease) ([]byte, error) {
	capability, err := capabilityOf(l, t.Skill)
	if err != nil {
		return nil, err
	}
	input, err := transport.EncodeValue(t.Input())
	if err != nil {
		return nil, err
	}
	if string(input) == "null" {
		text := t.Text()
		for i, p := range transport.FilesOf(t.Message.Parts) {
			name, kind, _, _ := transport.FileOf(p)
			text += fmt.Sprintf("\n[file %s]", transport.FileName(name, kind, i+1))
		}
		if input, err = json.Marshal(map[string]string{"text": strings.TrimPrefix(text, "\n")}); err != nil {
			return nil, err
		}
	}
	return json.Marshal(call{capability, input, map[string]any{"client": "cortex", "task_id": t.ID, "context_id": t.ContextID}})
}

// capabilityOf returns the capability that a task is for: the only one when it names none.
func capabilityOf(l *lease, skill string) (string, error) {
	for i := range l.known.Skills {
		if id := agentcard.SkillID(&l.known.Skills[i]); id == skill || skill == "" && len(l.known.Skills) == 1 {
			return id, nil
		}
	}
	switch {
	case skill != "":
		return skill, nil // the card has changed since, and the agent itself says what it thinks of it
	case len(l.known.Skills) > 1:
		return "", fmt.Errorf("the agent has %d capabilities, and wants to be told which", len(l.known.Skills))
	}
	return "", nil
}

// resultOf returns the result of a task for the answer to its call.
func resultOf(r *reply) (*agents.Result, error) {
	said := func() string { return shorten.Line(strings.ToValidUTF8(string(r.body), "?"), maxReason) }
	switch {
	case r.status >= 300 && r.status < 400:
		return nil, fmt.Errorf("the agent answered with HTTP %d, a redirect, which is not followed", r.status)
	case r.status >= 500:
		return nil, lost("the agent answered with HTTP %d: %s", r.status, said())
	case r.status < 200 || r.status >= 300:
		return nil, fmt.Errorf("the agent answered with HTTP %d: %s", r.status, said())
	case len(r.body) > maxAnswer:
		return nil, lost("the agent's answer has more than %d MiB", maxAnswer>>20)
	case nesting.Depth(r.body) > maxDepth || nesting.Weight(r.body) > 4*maxHeavy:
		return nil, lost("the agent's answer is nested too deep, or has too many values")
	}
	o := &outcome{}
	if err := json.Unmarshal(r.body, o); err != nil {
		return nil, lost("the agent's answer cannot be read: %s", jsonError(err))
	}
	switch {
	case o.Success == nil:
		return nil, lost("the agent's answer does not say whether it succeeded")
	case !*o.Success && o.Error != nil:
		return nil, errors.New(cmp.Or(strings.TrimSpace(*o.Error), "the agent gave no reason"))
	case !*o.Success:
		return nil, errors.New("the agent gave no reason")
	}
	return outputOf(o.Output)
}

// outputOf returns the result of a task for an output: a text as it is, and all else as data.
func outputOf(raw json.RawMessage) (*agents.Result, error) {
	var value any
	if len(raw) == 0 {
		return nil, nil //nolint:nilnil // done, without a text
	}
	if err := json.Unmarshal(raw, &value); err != nil || value == nil {
		return nil, err
	}
	if text, ok := value.(string); ok {
		return agents.Text(text), nil
	}
	if len(raw) > maxData {
		return &agents.Result{Parts: a2a.ContentParts{
			a2a.NewTextPart("The output is in the file output.json."), {Content: a2a.Raw(raw), Filename: "output.json", MediaType: "application/json"},
		}}, nil
	}
	return &agents.Result{Parts: a2a.ContentParts{a2a.NewDataPart(raw)}}, nil
}
