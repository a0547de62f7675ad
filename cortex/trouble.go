package cortex

import (
	"fmt"
	"time"

	"github.com/cortex-orchestrator/cortex/prompt"
	"github.com/cortex-orchestrator/cortex/transport"
)

// maxTrouble bounds the text of an error in a line of Trouble, in characters.
const maxTrouble = 300

// Trouble describes problems for people, one line each: events that cannot be handled now and are retried, what is refused for want of room, how many events were given up since
// Run was called (if the transport reports them), how many dead letters were discarded, decisions that do not end, turns that wait for a decision, and tasks that wait for agents. It
// is empty when all is well. It is safe for concurrent use.
func (o *Orchestrator) Trouble() []string {
	lines := o.maker.Trouble()
	if line := o.queue.trouble(); line != "" {
		lines = append(lines, line)
	}
	if n := o.stats.CutOff.Load(); n > 0 {
		lines = append(lines, fmt.Sprintf("damaged: the logs of conversations have lost their ends %d times since the start: this log names them", n))
	}
	if line := o.inherited.line(); line != "" {
		lines = append(lines, line)
	}
	inbox := o.inbox.Load()
	if inbox == nil {
		return lines
	}
	known, ok := (*inbox).(transport.Troubled)
	if !ok {
		return lines
	}
	t := known.Trouble()
	for i := range t.Failing {
		f := &t.Failing[i]
		lines = append(lines, fmt.Sprintf("%s has failed %d times since %s: %s", eventName(f), f.Times, f.Since.UTC().Format(time.RFC3339), why(f)))
	}
	if t.NoRoom != "" {
		lines = append(lines, prompt.Clean(t.NoRoom, maxTrouble))
	}
	if t.More > 0 {
		lines = append(lines, fmt.Sprintf("%d more events fail", t.More))
	}
	if t.GivenUp > 0 {
		line := fmt.Sprintf("events given up since the start: %d, see cortex dead", t.GivenUp)
		if t.Last.Err != nil {
			line += fmt.Sprintf("; the last one, %s: %s", eventName(&t.Last), why(&t.Last))
		}
		lines = append(lines, line)
	}
	if t.Discarded > 0 {
		lines = append(lines, fmt.Sprintf("dead letters discarded since the start, the oldest, since there are more than are kept: %d, see cortex dead", t.Discarded))
	}
	return lines
}

// eventName describes an event by what is known about it, which may be nothing if it could not be read.
func eventName(f *transport.Failure) string {
	name := "an event"
	if f.ID != "" {
		name = "event " + prompt.Clean(f.ID, 64)
	}
	if f.From != "" {
		name += " of " + prompt.Clean(f.From, 64)
	}
	if f.ContextID != "" {
		name += " in conversation " + prompt.Clean(f.ContextID, 64)
	}
	return name
}

func why(f *transport.Failure) string { return prompt.Clean(f.Err.Error(), maxTrouble) }
