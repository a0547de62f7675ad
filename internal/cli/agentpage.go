package cli

import (
	"cmp"
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/cortex-orchestrator/cortex/agentcard"
	"github.com/cortex-orchestrator/cortex/cortex/registry"
	"github.com/cortex-orchestrator/cortex/internal/cli/typed"
	"github.com/cortex-orchestrator/cortex/internal/table"
	"github.com/cortex-orchestrator/cortex/internal/view"
	"github.com/cortex-orchestrator/cortex/llm"
	"github.com/cortex-orchestrator/cortex/prompt"
)

// How much of an agent's own texts, in characters, and of its instances its page shows. --json has all of it.
const (
	pageText      = 500
	pageWord      = 80
	pageInstances = 20
)

func (e *env) showAgent(b *backend, id string, asJSON bool) error {
	s := b.registry.Snapshot()
	r, ok := s.Get(id)
	if !ok {
		near := ""
		if _, ok := s.Get("agent_" + id); ok {
			near = "agent_" + id
		} else {
			var ids []string
			for _, a := range s.Agents() {
				ids = append(ids, a.ID)
			}
			near = typed.Nearest(id, ids)
		}
		if near != "" {
			near = fmt.Sprintf("did you mean %s? ", near)
		}
		return fmt.Errorf("no agent %s is known: %s`cortex agents` lists those that are", id, near)
	}
	if asJSON {
		return writeJSON(e, view.RecordsJSON([]*registry.Record{r}, view.NewLookalikes(s.Agents()))[0])
	}
	return e.show(agentPage(r, view.NewLookalikes(s.Agents()).MarkOf(r), time.Now()))
}

// agentPage returns the page of an agent. mark warns when the agent may be mistaken for another one.
func agentPage(r *registry.Record, mark string, now time.Time) *table.Table {
	t := &table.Table{Columns: make([]table.Column, 2), Wrap: true}
	field := func(name, text string) {
		if text != "" {
			t.Row(name, text)
		}
	}
	field("agent", prompt.Clean(r.ID, pageText))
	if r.Card.Name != r.ID {
		field("name", prompt.Clean(r.Card.Name, pageText))
	}
	field("take care", mark)
	field("version", prompt.Clean(r.Version, pageWord))
	field("about", prompt.Clean(r.Card.Description, pageText))
	field("state", stateText(r, now))
	field("seen", view.SeenText(r, now))
	if !r.RegisteredAt.IsZero() {
		field("registered", r.RegisteredAt.Local().Format(time.DateTime))
	}
	field("owner", prompt.Clean(r.Spec.OwnerTeam, pageWord))
	field("tenant", prompt.Clean(r.Spec.TenantScope, pageWord))
	field("tags", wordsText(r.Spec.Tags))
	field("labels", labelsText(r.Spec.Labels))
	field("patterns", patternsText(r.Spec.Patterns))
	field("limits", limitsText(r.Spec.Limits))
	for i := range r.Card.Skills {
		s := &r.Card.Skills[i]
		id := agentcard.SkillID(s)
		spec, head := r.Spec.Abilities[id], prompt.Clean(id, pageWord)
		if s.Name != "" && s.Name != s.ID && s.ID != "" {
			head += " · " + prompt.Clean(s.Name, pageWord)
		}
		if spec.Confidence != nil {
			head += " · confidence " + confidenceText(spec.Confidence)
		}
		if spec.Confirm {
			head += " · needs your yes, unless a rule says otherwise"
		}
		t.Row()
		field("skill", head)
		field("  about", prompt.Clean(s.Description, pageText))
		field("  tags", wordsText(s.Tags))
		field("  sent as", prompt.Clean(spec.DispatchKey, pageWord))
		field("  input", schemaText(spec.InputSchema, "none"))
		field("  output", schemaText(spec.OutputSchema, "an object"))
		if len(s.Examples) > 0 {
			field("  example", prompt.Clean(s.Examples[0], pageText))
		}
	}
	for i, in := range r.Instances {
		if i == 0 {
			t.Row()
		}
		if i == pageInstances {
			t.Row(fmt.Sprintf("… and %d more", len(r.Instances)-i))
			break
		}
		seen := "seen " + table.Ago(in.LastSeen, now)
		if in.Late(now) {
			seen = fmt.Sprintf("silent for %s", view.Silence(now.Sub(in.LastSeen)))
		}
		field("instance", fmt.Sprintf("%s · %s · since %s · %s", prompt.Clean(in.ID, pageWord), in.State, in.Since.Local().Format(time.DateTime), seen))
	}
	return t
}

func stateText(r *registry.Record, now time.Time) string {
	text := view.AgentState(r, now)
	if text == "silent" {
		text += ": no heartbeat has come, it may have ended"
	}
	if r.Refused != "" {
		text += " · " + prompt.Clean(r.Refused, pageText)
	}
	if r.Pinned {
		text += " · well known"
		if len(r.Instances) == 0 && r.Refused == "" {
			text += ": what it is given waits for it"
		}
	}
	return text
}

func wordsText(words []string) string { return prompt.Clean(strings.Join(words, ", "), pageText) }

func labelsText(labels map[string]string) string {
	var list []string
	for _, k := range slices.Sorted(maps.Keys(labels)) {
		list = append(list, k+"="+labels[k])
	}
	return wordsText(list)
}

// limitsText lists limits. Those that an AgentSpec has without saying so come last.
func limitsText(l agentcard.Limits) string {
	var said, unsaid []string
	add := func(text string, byDefault bool) {
		if byDefault {
			unsaid = append(unsaid, text)
		} else {
			said = append(said, text)
		}
	}
	d := agentcard.SpecDefaults()
	if n := l.MaxConcurrentTasks; n > 0 {
		add(counted(n, "task")+" at once", n == d.MaxConcurrentTasks)
	}
	if l.TaskTimeout > 0 {
		add(fmt.Sprintf("%v for a task", l.TaskTimeout), l.TaskTimeout == d.TaskTimeout)
	}
	if l.LLMTimeout > 0 {
		add(fmt.Sprintf("%v for a model", l.LLMTimeout), l.LLMTimeout == d.LLMTimeout)
	}
	if l.MaxRetries != nil {
		add(fmt.Sprintf("%d retries", *l.MaxRetries), *l.MaxRetries == *d.MaxRetries)
	}
	text := strings.Join(said, ", ")
	if len(unsaid) > 0 {
		text = strings.TrimPrefix(text+"; by default ", "; ") + strings.Join(unsaid, ", ")
	}
	return text
}

// patternsText lists the communication patterns of an agent, but not the one by which Cortex works with every agent.
func patternsText(patterns []string) string {
	others := slices.DeleteFunc(slices.Clone(patterns), func(p string) bool { return p == "coordinator_managed" })
	if len(others) == 0 {
		return ""
	}
	return wordsText(others) + ", which Cortex makes no use of"
}

func confidenceText(c *float64) string {
	if c == nil {
		return "-"
	}
	return fmt.Sprintf("%.2f", *c)
}

// schemaText returns the fields of a JSON schema, in one line, or plain if it is an object of which the schema says nothing.
func schemaText(raw json.RawMessage, plain string) string {
	if raw == nil {
		return ""
	}
	return cmp.Or(llm.SchemaFields(raw), plain)
}
