package agents

import (
	"bytes"

	"github.com/a2aproject/a2a-go/v2/a2a"

	"github.com/cortex-orchestrator/cortex/agentcard"
	"github.com/cortex-orchestrator/cortex/transport"
)

// givesData returns the skills of a card whose results are data, by each name that a task may use for them.
func givesData(card *a2a.AgentCard) map[string]bool {
	if card == nil {
		return nil
	}
	gives := map[string]bool{}
	for id, a := range agentcard.SpecOf(card).Abilities {
		if a.OutputSchema == nil {
			continue
		}
		gives[id] = true
		if a.DispatchKey != "" {
			gives[skillOf(a.DispatchKey)] = true
		}
		if len(card.Skills) == 1 {
			gives[""] = true
		}
	}
	return gives
}

// data returns a result with one data part, or nil when b is not JSON.
func data(b []byte) *Result {
	v, err := transport.DecodeValue(b)
	if err != nil || v == nil {
		return nil
	}
	return &Result{Parts: a2a.ContentParts{a2a.NewDataPart(v)}}
}

// limited keeps the first limit bytes written to it, and calls over when there are more.
type limited struct {
	limit int
	each  func() // called for each write
	over  func() // called once
	buf   bytes.Buffer
	full  bool
}

func (w *limited) Write(b []byte) (int, error) {
	w.each()
	room := w.limit - w.buf.Len()
	w.buf.Write(b[:min(len(b), room)])
	if len(b) > room && !w.full {
		w.full = true
		w.over()
	}
	return len(b), nil
}

func (w *limited) kept() []byte { return w.buf.Bytes() }
