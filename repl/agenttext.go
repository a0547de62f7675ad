package repl

import (
	"strings"

	"github.com/a2aproject/a2a-go/v2/a2a"

	"github.com/cortex-orchestrator/cortex/transport"
)

// isText reports whether an update is a piece of the text of an agent's result, as it is streamed.
func isText(u *a2a.TaskArtifactUpdateEvent) bool {
	return u.Artifact != nil && u.Artifact.ID == transport.TextArtifact
}

// maxTold bounds how much streamed text of one agent is shown, in bytes.
const maxTold = transport.MaxText

// agentText is the streamed text of one agent. Only one of the agents that work on a turn is shown at a time, to keep the text readable.
type agentText struct {
	task  a2a.TaskID
	clean Sanitizer
	told  int // bytes
	text  strings.Builder
}

// tell shows a piece of an agent's text, unless another agent's text is being shown. It reports whether it did.
func (v *turnView) tell(u *a2a.TaskArtifactUpdateEvent) bool {
	if v.said == nil && v.written.Len() == 0 {
		for _, d := range v.board.open {
			if d.id == u.TaskID {
				v.said = &agentText{task: u.TaskID}
				v.ui.Say(d.agent+" writes:", lookDim)
			}
		}
	}
	if v.said == nil || v.said.task != u.TaskID {
		return false
	}
	if !u.Append && v.said.told > 0 { // the agent begins anew
		v.said = &agentText{task: u.TaskID}
		v.finish()
	}
	if v.said.told > maxTold {
		return true
	}
	text := v.said.clean.Clean(transport.Text(u.Artifact.Parts))
	v.said.told += len(text)
	v.said.text.WriteString(text)
	v.write(text, lookDim)
	return true
}

// silence ends the text that is being shown, if it is that of task id; "" stands for any task.
func (v *turnView) silence(id a2a.TaskID) {
	if v.said != nil && (id == "" || id == v.said.task) {
		v.heard, v.said = strings.TrimSpace(v.said.text.String()), nil
		v.finish()
	}
}

// lastLine returns the last non-empty line of text.
func lastLine(text string) string {
	text = strings.TrimSpace(text)
	return text[strings.LastIndexByte(text, '\n')+1:]
}
