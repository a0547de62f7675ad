package repl

import (
	"strings"

	"github.com/a2aproject/a2a-go/v2/a2a"

	"github.com/cortex-orchestrator/cortex/transport"
)

// isText reports whether an update is a piece of the text of an agent's result, while it is made.
func isText(u *a2a.TaskArtifactUpdateEvent) bool {
	return u.Artifact != nil && u.Artifact.ID == transport.TextArtifact
}

// maxTold bounds what is shown of one agent's text while it is made, in bytes.
const maxTold = transport.MaxText

// agentText is the text of the one agent that is shown as it comes, of those that work on a turn: two at a time could not be read.
type agentText struct {
	task  a2a.TaskID // "": none
	clean Sanitizer
	told  int // bytes
}

// tell shows a piece of an agent's text, unless another agent has the floor. It reports whether it did.
func (v *turnView) tell(u *a2a.TaskArtifactUpdateEvent) bool {
	if v.said.task == "" && v.written.Len() == 0 {
		for _, d := range v.board.open {
			if d.id == u.TaskID {
				v.said = agentText{task: u.TaskID}
				v.ui.Say(d.agent+" writes:", lookDim)
			}
		}
	}
	if v.said.task != u.TaskID {
		return false
	}
	if !u.Append && v.said.told > 0 { // it begins anew
		v.said.told, v.said.clean = 0, Sanitizer{}
		v.finish()
	}
	if v.said.told > maxTold {
		return true
	}
	text := v.said.clean.Clean(transport.Text(u.Artifact.Parts))
	v.said.told += len(text)
	v.write(text, lookDim)
	return true
}

// silence ends the text of the agent that has the floor, when it is that of a task; "" is any.
func (v *turnView) silence(id a2a.TaskID) {
	if v.said.task != "" && (id == "" || id == v.said.task) {
		v.said = agentText{}
		v.finish()
	}
}

// lastLine returns the last line of text that says something.
func lastLine(text string) string {
	text = strings.TrimSpace(text)
	return text[strings.LastIndexByte(text, '\n')+1:]
}
