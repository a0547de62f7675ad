package nats

import (
	"context"
	"log/slog"
	"maps"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/nats-io/nats-server/v2/server"

	"github.com/cortex-orchestrator/cortex/transport/nats/files"
)

// filesEvery is how often it is looked whether the files of the streams are there.
const filesEvery = 2 * time.Second

// fileWatch looks whether somebody takes the files of a running server away. The server does not notice: it goes on with what it has in
// memory and with files that have no name any more.
type fileWatch struct {
	ns  *server.Server
	dir string
	log *slog.Logger

	mu     sync.Mutex
	before map[string]bool // streams without files, by account and name; true: also the time before
}

// serve looks until done.
func (w *fileWatch) serve(done <-chan struct{}) {
	tick := time.NewTicker(filesEvery)
	defer tick.Stop()
	for {
		select {
		case <-done:
			return
		case <-tick.C:
			w.look()
		}
	}
}

// look says what has no files. Only what has none twice in a row is missed: a server may be removing all that is in a stream.
func (w *fileWatch) look() {
	all, err := w.ns.Jsz(&server.JSzOptions{Accounts: true, Streams: true, Config: true, Limit: 1 << 20})
	if err != nil {
		return // it is ending
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	now := map[string]bool{}
	for _, account := range all.AccountDetails {
		for _, s := range account.Streams {
			name := account.Id + "/" + s.Name
			if s.State.Msgs == 0 || !files.Ours(s.Name) || s.Config == nil || s.Config.Storage != server.FileStorage || files.Stored(w.dir, name) {
				continue
			}
			told, again := w.before[name]
			now[name] = again
			if again && !told {
				level := slog.LevelError
				if convenient(s.Name) {
					level = slog.LevelWarn
				}
				w.log.Log(context.Background(), level, "the files of a stream were removed or emptied while the server runs: what it holds ends with this process",
					"stream", s.Name, "messages", s.State.Msgs, "do", missingAdvice)
			}
		}
	}
	for name, told := range w.before {
		if _, still := now[name]; told && !still {
			w.log.Info("the files of a stream are back", "stream", streamOf(name))
		}
	}
	w.before = now
}

const missingAdvice = "stop it, put the files back if you have them, and start again: it says then what is lost, and works with the rest"

func streamOf(name string) string {
	_, stream, _ := strings.Cut(name, "/")
	return stream
}

// missing returns the streams whose files are missed, and whether one of them is more than a convenience.
func (w *fileWatch) missing() (streams []string, serious bool) {
	w.mu.Lock()
	defer w.mu.Unlock()
	for _, name := range slices.Sorted(maps.Keys(w.before)) {
		if stream := streamOf(name); w.before[name] {
			streams = append(streams, stream)
			serious = serious || !convenient(stream)
		}
	}
	return slices.Compact(streams), serious
}
