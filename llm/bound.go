package llm

import (
	"math"
	"time"

	"github.com/a2aproject/a2a-go/v2/a2a"

	"github.com/cortex-orchestrator/cortex/prompt"
)

// A prompt is rendered to count it, and again to send it. Most are far from filling the window: a sum of their texts tells,
// with what is safe to assume about the templates.
const (
	mostGrowth = 4   // bytes in the prompt for one of a text: escaped characters, replaced invalid ones
	mostFrame  = 512 // bytes of template around one item
)

// baseOf is the length of a prompt that has nothing in it.
func baseOf(tmpl *prompt.Templates) int {
	p, err := tmpl.Render(&prompt.Input{Now: time.Unix(0, 0), Omitted: math.MaxInt32, Last: true, MaxParallel: math.MaxInt32, Choice: true})
	if err != nil {
		return math.MaxInt32
	}
	n := len(p.System)
	for _, m := range p.Messages {
		n += len(m.Text)
	}
	return n
}

// atMost returns what the prompt for in can have at most beyond one that has nothing in it, in bytes.
func atMost(in *prompt.Input) int {
	var w weight
	w.item(in.Summary, in.User)
	w.files(in.Files)
	if in.Listed == nil {
		w.agents(in.Agents)
	}
	w.agents(in.Listed)
	for _, u := range in.Unavailable {
		w.item(u.ID, u.Why)
	}
	w.update(&in.Update)
	w.tasks(in.Waiting)
	w.steps(in.Steps)
	for i := range in.History {
		h := &in.History[i]
		w.item(h.User, h.Answer)
		w.files(h.Files)
		w.update(&h.Update)
		w.steps(h.Steps)
	}
	return mostGrowth*w.text + mostFrame*w.items
}

type weight struct{ items, text int }

func (w *weight) item(texts ...string) {
	w.items++
	for _, s := range texts {
		w.text += len(s)
	}
}

func (w *weight) steps(all []prompt.Step) {
	for i := range all {
		w.item(all[i].Say)
		w.tasks(all[i].Tasks)
		w.update(&all[i].Update)
	}
}

// tasks counts each twice: as it was given, and with what came of it.
func (w *weight) tasks(all []prompt.Task) {
	for i := range all {
		t := &all[i]
		w.item(string(t.ID), t.Agent, t.Skill, t.Text, string(t.Input))
		w.item(string(t.ID), t.Agent, string(t.State), t.Result)
		w.item(t.Along...)
		w.files(t.Files)
		for _, id := range t.DependsOn {
			w.item(string(id))
		}
		for _, a := range t.Artifacts {
			w.item(a.Name, a.Text)
		}
	}
}

// mostImages returns how many images the prompt for in can show at most.
func (d *decider) mostImages(in *prompt.Input) int {
	n := 0
	count := func(files []prompt.File) {
		for i := range files {
			if d.options.Images && isImage(&files[i]) {
				n++
			}
		}
	}
	steps := func(all []prompt.Step) {
		for i := range all {
			for j := range all[i].Tasks {
				count(all[i].Tasks[j].Files)
			}
		}
	}
	count(in.Files)
	steps(in.Steps)
	for i := range in.History {
		count(in.History[i].Files)
		steps(in.History[i].Steps)
	}
	return min(n, MaxImages)
}

// files counts each twice: as it is named, and with the line that stands for an image.
func (w *weight) files(all []prompt.File) {
	for i := range all {
		w.item(all[i].Key, all[i].Name, all[i].Type, all[i].Head)
		w.item(all[i].Key, all[i].Name, all[i].Type)
	}
}

func (w *weight) update(u *prompt.Update) {
	w.agents(u.Joined)
	for _, id := range u.Left {
		w.item(id)
	}
}

func (w *weight) agents(all []prompt.Agent) {
	for i := range all {
		w.item(all[i].ID)
		for _, schema := range all[i].Inputs {
			w.item(schema)
		}
		if card := all[i].Card; card != nil {
			w.item(card.Name, card.Description)
			for j := range card.Skills {
				w.skill(&card.Skills[j])
			}
		}
	}
}

func (w *weight) skill(s *a2a.AgentSkill) {
	w.item(s.ID, s.Name, s.Description)
	w.item(s.Tags...)
	w.item(s.Examples...)
}
