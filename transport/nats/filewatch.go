package nats

import (
	"context"
	"fmt"
	"log/slog"
	"maps"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/nats-io/nats-server/v2/server"

	"github.com/cortex-orchestrator/cortex/transport/nats/storecheck"
)

const (
	// filesEvery is how often it is looked whether the files of the streams are there, and are those that the server writes to.
	filesEvery = 2 * time.Second
	// countShare bounds what reading the files of a stream again may take: one part in so many of the time.
	countShare = 50
)

// fileWatch looks whether somebody takes the files of a running server away, or puts others in their place. The server does not notice: it
// goes on with what it has in memory and with files that have no name any more.
//
// What a file is called by its disk tells that it is another one. That is no proof: the server replaces and removes files, too. So what is in
// them is counted then, and compared with what the server says that it has.
type fileWatch struct {
	ns  *server.Server
	dir string
	log *slog.Logger
	// note is told what is wrong with the files of a stream, "" when nothing is any more.
	note func(name, what string)

	mu      sync.Mutex
	watched map[string]*watched // by account and stream
}

// watched is what is known of a stream.
type watched struct {
	created time.Time
	last    uint64            // sequence
	trace   *storecheck.Trace // when its files were those of the server, for all that could be seen
	next    time.Time         // before this its files are not counted again

	wrong string // what is wrong with its files, "" when nothing is
	told  bool   // it was wrong the time before, too
}

// watchedStream is what the server says of one.
type watchedStream struct {
	name  string // account and stream
	queue bool
	state server.StreamState
	at    time.Time // when it was made
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

// streams asks the server what it has.
func (w *fileWatch) streams() (map[string]watchedStream, error) {
	details, err := w.ns.Jsz(&server.JSzOptions{Accounts: true, Streams: true, Config: true, Limit: 1 << 20})
	if err != nil {
		return nil, err
	}
	all := map[string]watchedStream{}
	for _, account := range details.AccountDetails {
		for _, s := range account.Streams {
			if storecheck.Ours(s.Name) && s.Config != nil && s.Config.Storage == server.FileStorage {
				name := account.Id + "/" + s.Name
				all[name] = watchedStream{name, s.Config.Retention == server.WorkQueuePolicy, s.State, s.Created}
			}
		}
	}
	return all, nil
}

// end looks a last time.
func (w *fileWatch) end() {
	for range 2 {
		w.look()
	}
}

// look says what has no files, or others than its own. Only what is so twice in a row is told: a server may be removing all that is in a
// stream.
func (w *fileWatch) look() {
	all, err := w.streams()
	if err != nil {
		return // it is ending
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	now := map[string]*watched{}
	for name, s := range all {
		was := w.watched[name]
		if was == nil || !was.created.Equal(s.at) {
			was = &watched{created: s.at}
		}
		now[name] = was
		wrong := w.wrong(s, was)
		again := wrong != "" && was.wrong != ""
		switch {
		case again && !was.told:
			level := slog.LevelError
			if storecheck.Convenient(streamOf(name)) {
				level = slog.LevelWarn
			}
			w.log.Log(context.Background(), level, "the files of a stream were "+wrong+" while the server runs: what it holds ends with this process",
				"stream", streamOf(name), "messages", s.state.Msgs, "do", missingAdvice)
			w.note(name, "its files were "+wrong+" while the server ran")
		case wrong == "" && was.told:
			w.log.Info("the files of a stream are back", "stream", streamOf(name))
			w.note(name, "")
		}
		was.wrong, was.told, was.last = wrong, again, s.state.LastSeq
	}
	w.watched = now
}

// wrong returns what is wrong with the files of a stream, or "".
func (w *fileWatch) wrong(s watchedStream, was *watched) string {
	if s.state.Msgs == 0 {
		was.trace = nil
		return ""
	}
	if !storecheck.Stored(w.dir, s.name) {
		return "removed or emptied"
	}
	trace := storecheck.Traced(w.dir, s.name)
	if before := was.trace; before == nil || was.wrong == "" && trace.Same(before) && (s.state.LastSeq == was.last || trace.Written(before)) {
		was.trace = trace
		return ""
	}
	began := time.Now()
	if began.Before(was.next) && (was.wrong == "" || was.told) {
		return was.wrong
	}
	count, err := storecheck.Counted(w.dir, s.name)
	took := time.Since(began)
	was.next = began.Add(took * countShare)
	if err != nil {
		return was.wrong
	}
	all, err := w.streams()
	if err != nil {
		return was.wrong // it is ending
	}
	now := all[s.name]
	came := now.state.LastSeq - s.state.LastSeq
	if now.state.Msgs <= came || !now.at.Equal(s.at) {
		return was.wrong
	}
	lacks := count.Lacks(now.state.Msgs-came, now.state.FirstSeq, s.state.LastSeq, s.queue)
	if lacks == "" {
		was.trace = trace
		return ""
	}
	return fmt.Sprintf("replaced by others, which lack %s,", lacks)
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
	for _, name := range slices.Sorted(maps.Keys(w.watched)) {
		if stream := streamOf(name); w.watched[name].told {
			streams = append(streams, stream)
			serious = serious || !storecheck.Convenient(stream)
		}
	}
	return slices.Compact(streams), serious
}
