package bench

import (
	"context"
	"fmt"
	"os"
	"runtime"
	"time"

	"github.com/nats-io/nats.go/jetstream"

	"github.com/cortex-orchestrator/cortex/cortex/jetstore"
)

// SoakLine has the resources of a node at one time of a Soak. Sizes are in MB.
type SoakLine struct {
	Case          string  `json:"case"` // "soak"
	Seconds       float64 `json:"s"`    // since the beginning
	Turns         int     `json:"turns"`
	PerSecond     float64 `json:"per_s"`      // since the previous line
	Heap          float64 `json:"heap_mb"`    // in use after a collection
	RSS           float64 `json:"rss_mb"`     // 0 where it is unknown
	Goroutines    int     `json:"goroutines"` // of the node, its agents and the users
	Files         int     `json:"files"`      // open; 0 where it is unknown
	Conversations int     `json:"kept"`       // in the log
	Entries       uint64  `json:"entries"`    // in the log
	Log           float64 `json:"log_mb"`     // in the server's files
	Inbox         uint64  `json:"inbox"`      // messages in the inboxes, including timers
	InboxSize     float64 `json:"inbox_mb"`   // in the server's files
	Lost          int     `json:"lost"`       // messages without an answer, in finished conversations
	Dup           int     `json:"dup"`        // answers beyond the first
}

const (
	inboxStream = "CORTEX_INBOX"
	mega        = 1 << 20
)

// line measures the node.
func (s *soak) line(ctx context.Context) (SoakLine, error) {
	l := SoakLine{Case: "soak", Seconds: round(time.Since(s.began).Seconds()), Turns: int(s.turns.Load())}
	js, err := jetstream.New(s.n.bus.Conn())
	if err != nil {
		return l, err
	}
	state := func(name string) (jetstream.StreamState, error) {
		stream, err := js.Stream(ctx, name)
		if err != nil {
			return jetstream.StreamState{}, fmt.Errorf("stream %s: %w", name, err)
		}
		return stream.CachedInfo().State, nil
	}
	log, err := state(jetstore.Stream)
	if err != nil {
		return l, err
	}
	inbox, err := state(inboxStream)
	if err != nil {
		return l, err
	}
	l.Entries, l.Log, l.Inbox, l.InboxSize = log.Msgs, round(float64(log.Bytes)/mega), inbox.Msgs, round(float64(inbox.Bytes)/mega)
	s.mu.Lock()
	l.Lost, l.Dup, l.Conversations = s.tally.lost, s.tally.dup, int(s.begun.Load())-len(s.erased)
	s.mu.Unlock()
	l.Heap, l.Goroutines = round(heap()/mega), runtime.NumGoroutine()
	if rss, ok := resident(os.Getpid()); ok {
		l.RSS = round(rss / mega)
	}
	if files, err := os.ReadDir("/dev/fd"); err == nil {
		l.Files = len(files) - 1 // without the folder itself
	}
	return l, nil
}
