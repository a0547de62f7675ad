package traces

import (
	"maps"
	"slices"
	"sync"

	"github.com/a2aproject/a2a-go/v2/a2a"
	"go.opentelemetry.io/otel/trace"

	"github.com/cortex-orchestrator/cortex/cortex/conversation"
)

const (
	// maxRecords bounds the open turns whose spans are recorded. Those of others are read from the log when they are answered.
	maxRecords = 4096
	// maxSpans bounds the spans of a turn; a turn has a few decisions and tasks.
	maxSpans = 512
)

// record is what is known of an open turn.
type record struct {
	spans []span
	open  map[a2a.TaskID]attempt
}

// finished is an answered turn with its spans, the turn's own last. A turn without spans is not wholly known: its log has to be read.
type finished struct {
	key    conversation.Key
	turn   string
	at     place
	spans  []span
	failed bool
}

// recordKey identifies a turn. An erased conversation with the same id has other turns.
type recordKey struct {
	conversation.Key
	turn string
}

// recorder records the spans of open turns. It is safe for concurrent use with different conversations.
type recorder struct {
	content bool

	mu    sync.Mutex
	turns map[recordKey]*record
}

func newRecorder(content bool) *recorder {
	return &recorder{content: content, turns: map[recordKey]*record{}}
}

// appended records an entry that is folded into conv, and returns the turns that it answered.
func (r *recorder) appended(conv *conversation.Conversation, entry *conversation.Entry) (over []finished) {
	r.mu.Lock()
	defer r.mu.Unlock()
	for _, turn := range conv.Turns {
		if !turn.Open() && turn.AnswerSeq != entry.Seq {
			continue
		}
		k := recordKey{conv.Key(), turn.ID}
		at := placeOf(conv, turn)
		rec := r.turns[k]
		if rec == nil && turn.Seq == entry.Seq {
			if len(r.turns) >= maxRecords { // any other one makes room: some are of turns that another process has answered, or that are deleted
				for old := range r.turns {
					delete(r.turns, old)
					break
				}
			}
			rec = &record{open: map[a2a.TaskID]attempt{}}
			r.turns[k] = rec
		}
		if rec != nil {
			rec.note(conv, turn, at.parent.TraceID(), entry)
		}
		if turn.AnswerSeq != entry.Seq {
			continue
		}
		delete(r.turns, k)
		f := finished{key: k.Key, turn: turn.ID, at: at, failed: turn.Failed}
		if rec != nil {
			f.spans = append(rec.spans, answered(conv, turn, at.parent, r.content))
		}
		over = append(over, f)
	}
	return over
}

// note records what entry does in turn.
func (rec *record) note(conv *conversation.Conversation, turn *conversation.Turn, of trace.TraceID, entry *conversation.Entry) {
	add := func(s span) {
		if len(rec.spans) < maxSpans {
			rec.spans = append(rec.spans, s)
		}
	}
	if entry.Turn == turn.ID && (entry.Decision != nil || entry.Failure != "") {
		add(decided(conv, turn, of, entry))
	}
	for _, id := range slices.Sorted(maps.Keys(rec.open)) {
		a := rec.open[id]
		if t := conv.Tasks[id]; t == nil || t.SentSeq != a.sentSeq || !t.Running() {
			add(a.ended(conv, turn, of, entry))
			delete(rec.open, id)
		}
	}
	for _, t := range conv.TasksOf(turn) {
		if _, known := rec.open[t.ID]; !known && t.Running() {
			rec.open[t.ID] = attemptIn(conv, turn, t, of)
		}
	}
}
