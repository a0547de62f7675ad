package llm

import (
	"fmt"
	"strings"

	"github.com/a2aproject/a2a-go/v2/a2a"

	"github.com/cortex-orchestrator/cortex/internal/shorten"
	"github.com/cortex-orchestrator/cortex/prompt"
)

// maxReport bounds a Report, in bytes: an answer has to fit into a message.
const maxReport = 900 << 10

// Report answers with the results of a step's tasks, without a model: the text of a single task unchanged, those of several with the names of the
// agents. A task that asks a question makes the answer one.
func Report(tasks []prompt.Task) *Decision {
	room := maxReport / max(len(tasks), 1)
	var lines []string
	questions, failed, lone := 0, 0, ""
	sep := "\n"
	for i := range tasks {
		t := &tasks[i]
		text := shortened(said(t), room)
		line := fmt.Sprintf("%s: %s", t.Agent, text)
		switch t.State {
		case a2a.TaskStateCompleted:
			if lone = text; strings.TrimSpace(text) == "" {
				lone = t.Agent + " is done, and gave no text."
				line = lone
			}
		case a2a.TaskStateInputRequired, a2a.TaskStateAuthRequired:
			questions++
			line = fmt.Sprintf("%s asks: %s", t.Agent, text)
			if lone = text; strings.TrimSpace(text) == "" {
				lone = t.Agent + " needs to know more to go on."
				line = lone
			}
		case a2a.TaskStateFailed, a2a.TaskStateRejected:
			failed++
			line = fmt.Sprintf("%s could not do it: %s", t.Agent, text)
			if strings.TrimSpace(text) == "" {
				line = t.Agent + " could not do it, and gave no reason."
			}
			lone = line
		case a2a.TaskStateCanceled:
			line = fmt.Sprintf("The task of %s was canceled: %s", t.Agent, text)
			if strings.TrimSpace(text) == "" {
				line = fmt.Sprintf("The task of %s was canceled.", t.Agent)
			}
			lone = line
		default:
			line = fmt.Sprintf("%s is still at work.", t.Agent)
			lone = line
		}
		if strings.Contains(strings.TrimSpace(line), "\n") {
			sep = "\n\n"
		}
		lines = append(lines, line)
	}
	d := &Decision{Kind: KindRespond, Say: strings.Join(lines, sep), Reason: fmt.Sprintf("%d tasks came back", len(tasks))}
	switch len(tasks) {
	case 0:
		d.Say, d.Reason = "Nothing was done.", "a step without tasks"
	case 1:
		if d.Say, d.Reason = lone, "the task came back"; failed > 0 {
			d.Reason = "the task failed"
		}
	default:
		if failed > 0 {
			d.Reason += fmt.Sprintf(", %d of them failed", failed)
		}
	}
	if questions > 0 {
		d.Kind, d.Reason = KindClarify, "an agent asks"
	}
	return d
}

// said returns the text of an agent, or else its text artifacts.
func said(t *prompt.Task) string {
	if strings.TrimSpace(t.Result) != "" || t.State != a2a.TaskStateCompleted {
		return t.Result
	}
	var texts []string
	for _, a := range t.Artifacts {
		if strings.TrimSpace(a.Text) != "" {
			texts = append(texts, a.Text)
		}
	}
	return strings.Join(texts, "\n\n")
}

func shortened(s string, limit int) string {
	if len(s) <= limit {
		return s
	}
	begin := shorten.To(s, limit)
	return fmt.Sprintf("%s\n[… %d more bytes are cut off]", begin, len(s)-len(begin))
}
