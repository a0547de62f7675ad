package agents

import (
	"strings"

	"github.com/a2aproject/a2a-go/v2/a2a"

	"github.com/cortex-orchestrator/cortex/internal/shorten"
)

// Stream shows text of the result to watchers as it is made, and moves the deadline as [Task.Progress] does. It does not block; pieces in quick
// succession are shown together. Pieces may end anywhere, also within a character. If the result has no parts of its own, the streamed
// text is the result. Text beyond [MaxResultText] is cut.
func (t *Task) Stream(text string) {
	t.mu.Lock()
	if room := MaxResultText + 1 - len(t.text); room < len(text) { // one byte more shows that it was cut
		text = text[:max(room, 0)]
	}
	t.text = append(t.text, text...)
	t.mu.Unlock()
	t.noteProgress()
	if t.live != nil {
		t.live.stream(text)
	}
}

// streamed returns the streamed text as parts of a result.
func (t *Task) streamed() a2a.ContentParts {
	t.mu.Lock()
	defer t.mu.Unlock()
	if len(t.text) == 0 {
		return nil
	}
	text := strings.ToValidUTF8(string(t.text), "\uFFFD")
	if len(t.text) > MaxResultText {
		return words(shorten.To(text, MaxResultText) + "\n[cut: more than this was written]")
	}
	return words(text)
}
