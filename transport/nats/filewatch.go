package nats

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"maps"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/nats-io/nats-server/v2/server"

	"github.com/cortex-orchestrator/cortex/transport/nats/storecheck"
)

const (
	// filesEvery is how often the watch checks that the files of the streams exist and are the ones that the server writes to.
	filesEvery = 2 * time.Second
	// countShare bounds the time spent on reading files again to one part in countShare.
	countShare = 50
	// countEvery is how often it reads files again that look as before: the server skips a message that is damaged in its file, without a word.
	countEvery = 10 * time.Minute
	// silentAfter is how long the server may take to say what it has: it waits for itself while it reads a file.
	silentAfter = 10 * time.Second
)

// fileWatch detects when files of a running server are removed or replaced. The server does not notice: it continues with what it has in memory and
// with unlinked files.
//
// A changed file identity on the disk suggests a replacement, but proves none, since the server replaces and removes files too. The watch then
// counts the messages in the files and compares them with the server's state. It also does so from time to time, for what is damaged in place.
type fileWatch struct {
	ns  *inspected
	dir string
	log *slog.Logger
	// note receives what is wrong with the files of a stream; "" when they are right again.
	note func(name, what string)
	// broken receives why the server can never go on.
	broken func(error)

	quiet quiet
	told  atomic.Pointer[[]toldFiles] // sorted by stream: whoever asks does not wait for a disk

	mu      sync.Mutex
	watched map[string]*watched // by account and stream
}

// watched is the state of one stream.
type watched struct {
	created time.Time
	trace   *storecheck.Trace // the files at the last check that found them to be the server's, as far as could be seen
	last    uint64            // sequence then
	next    time.Time         // the files are not counted again before this time
	counted time.Time         // when they were last counted, or first seen

	wrong  wrong // what the last count has found
	once   bool  // the count before has not found it, or less: the next one does not wait
	told   wrong // what was reported, after two checks in a row
	toldAt time.Time
}

// wrong is what is wrong with the files of a stream.
type wrong struct {
	what    string // "" when nothing is
	inPlace bool   // it is damage in the files that the server goes on writing to
	lacking uint64 // messages, as far as they were counted
}

// worse reports whether is has something that was had not: another cause, or more that is damaged in place. All that comes to files that were replaced is missing, and
// makes nothing worse.
func (is wrong) worse(was wrong) bool {
	return is.what != "" && (was.what == "" || is.inPlace != was.inPlace || is.inPlace && is.lacking > was.lacking)
}

// toldFiles are files of a stream that were found to be wrong.
type toldFiles struct {
	name    string // account and stream
	inPlace bool
}

// watchedStream is the server's view of a stream.
type watchedStream struct {
	name  string // account and stream
	queue bool
	state server.StreamState
	at    time.Time // when it was made
}

// streams asks the server for its streams.
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

// end checks the files a last time: twice, since one finding is not reported.
func (w *fileWatch) end() {
	for range 2 {
		w.look()
	}
}

// quiet is what is known of a server that does not answer the watch.
type quiet struct {
	mu    sync.Mutex
	asked time.Time // zero: it has answered
	told  bool
}

// ask runs a question to the server.
func (s *quiet) ask(question func()) {
	s.mu.Lock()
	s.asked = time.Now()
	s.mu.Unlock()
	question()
	s.mu.Lock()
	defer s.mu.Unlock()
	s.asked = time.Time{}
}

// goesOn says that the watch works, and waits for nothing: to read all files of a large stream takes long.
func (s *quiet) goesOn() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.asked = time.Now()
}

// turned reports whether the server has become silent, or has ended its silence, since the last call.
func (s *quiet) turned(now time.Time) (silent, turned bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	was := s.told
	s.told = !s.asked.IsZero() && now.Sub(s.asked) >= silentAfter
	return s.told, s.told != was
}

var errSilent = errors.New("the server does not answer, as when its disk hangs or a file of its store cannot be read: see that disk; if it works, start again")

// err returns errSilent while the server is silent.
func (s *quiet) err() error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.told {
		return errSilent
	}
	return nil
}

// listen tells when the server becomes silent. What is in the place of a file and none, such as a pipe, it may wait for without end: then the server has
// to be started again, since the check sets such a thing aside.
func (w *fileWatch) listen(now time.Time) {
	switch silent, turned := w.quiet.turned(now); {
	case !turned:
	case !silent:
		w.log.Info("the server answers again")
	default:
		w.log.Error("nothing is stored or read: " + errSilent.Error())
		if path := storecheck.Odd(w.dir); path != "" {
			w.broken(fmt.Errorf("the NATS server waits for %s, which is no file and in the place of one; start again, and it is set aside: what was accepted is kept, but for what that file had", path))
		}
	}
}

// look checks the files of all streams while the server answers.
func (w *fileWatch) look() { w.quiet.ask(w.check) }

// check checks the files of all streams. It reports only what two checks in a row find, since the server may just be removing all messages of a
// stream.
func (w *fileWatch) check() {
	w.mu.Lock()
	defer w.mu.Unlock()
	all, err := w.streams()
	if err != nil {
		return // the server is shutting down
	}
	now := map[string]*watched{}
	for name, s := range all {
		was := w.watched[name]
		if was == nil || !was.created.Equal(s.at) {
			was = &watched{created: s.at}
		}
		now[name] = was
		is := w.wrong(s, was)
		both := was.both(is)
		switch at := time.Now(); {
		case both.worse(was.told):
			if both.inPlace && was.told.inPlace && at.Sub(was.toldAt) < countEvery {
				break // it grows at each count, as on a disk that fails
			}
			was.told, was.toldAt = both, at
			level := slog.LevelError
			if storecheck.Convenient(streamOf(name)) {
				level = slog.LevelWarn
			}
			so, do := "what it holds ends with this process", missingAdvice
			if both.inPlace {
				so, do = "what is damaged is lost, and nothing else", damagedAdvice
			}
			w.log.Log(context.Background(), level, "the files of a stream were "+both.what+" while the server runs: "+so,
				"stream", streamOf(name), "messages", s.state.Msgs, "do", do)
			w.note(name, "its files were "+both.what+" while the server ran")
		case is.what == "" && was.told.what != "": // they are back, or the server has no more than they have: see memory.lose
			was.told = wrong{}
			w.log.Info("the files of a stream have again what the server has", "stream", streamOf(name))
			w.note(name, "")
		default:
			was.told.lacking = min(was.told.lacking, both.lacking)
		}
		was.once = !was.once && is.worse(was.wrong)
		was.wrong = is
	}
	w.watched = now
	var told []toldFiles
	for _, name := range slices.Sorted(maps.Keys(now)) {
		if is := now[name].told; is.what != "" {
			told = append(told, toldFiles{name, is.inPlace})
		}
	}
	w.told.Store(&told)
}

// both returns what the last check has found as well as this one.
func (w *watched) both(is wrong) wrong {
	switch {
	case is.what == "" || w.wrong.what == "":
		return wrong{}
	case is.inPlace != w.wrong.inPlace:
		return w.told
	}
	is.lacking = min(is.lacking, w.wrong.lacking)
	return is
}

// wrong returns what is wrong with the files of a stream.
func (w *fileWatch) wrong(s watchedStream, was *watched) wrong {
	if s.state.Msgs == 0 {
		was.trace = nil
		return wrong{}
	}
	if !storecheck.Stored(w.dir, s.name) {
		return wrong{what: "removed or emptied"}
	}
	trace, began := storecheck.Traced(w.dir, s.name), time.Now()
	if was.trace == nil {
		was.counted = began // the start has read them, or there was nothing
	}
	before := was.trace
	asBefore := before != nil && trace.Same(before) && (s.state.LastSeq == was.last || trace.Written(before))
	if before == nil || asBefore && was.wrong.what == "" && began.Sub(was.counted) < countEvery {
		was.trace, was.last = trace, s.state.LastSeq
		return wrong{}
	}
	if began.Before(was.next) && !was.once {
		return was.wrong
	}
	count, err := storecheck.Counted(w.dir, s.name, w.quiet.goesOn)
	took := time.Since(began)
	was.next, was.counted = began.Add(took*countShare), began
	if err != nil {
		return was.wrong
	}
	all, err := w.streams()
	if err != nil {
		return was.wrong // the server is shutting down
	}
	now := all[s.name]
	came := now.state.LastSeq - s.state.LastSeq
	if now.state.Msgs <= came || !now.at.Equal(s.at) {
		return was.wrong
	}
	messages, first, last := now.state.Msgs-came, now.state.FirstSeq, s.state.LastSeq
	ends := s.queue || came > 0 // the blocks may end before last: meanwhile the server may have removed one whose messages were all replaced
	lacks := count.Lacks(messages, first, last, ends)
	if lacks == "" && count.Lacks(messages, first, last, s.queue) != "" {
		return was.wrong // a count while nothing comes tells
	}
	if lacks == "" {
		was.trace, was.last = trace, last
		if was.told.inPlace && count.Damaged() > 0 {
			return was.told // it is there still: of some that were removed the files do not tell yet, and these make up for it
		}
		return wrong{}
	}
	is := wrong{what: fmt.Sprintf("damaged, or replaced by others, and lack %s,", lacks), lacking: count.Lacking(messages, first, last, ends)}
	// If they are the files that were right the last time, and were written to if the server wrote, what comes is kept. The server itself removes files and writes
	// them anew, which leaves what is damaged in the others, or copies it; but where the last messages are missing, they are other files.
	if asBefore && (was.wrong.what == "" || was.wrong.inPlace) ||
		(s.queue || count.Last() >= last) && (was.wrong.inPlace && is.lacking <= was.wrong.lacking || is.lacking <= count.Damaged()) {
		was.trace, was.last = trace, last
		is.inPlace, is.what = true, "damaged, and lack "+lacks+","
	}
	return is
}

const (
	missingAdvice = "stop it, put the files back if you have them, and start again: it says then what is lost, and works with the rest"
	damagedAdvice = "see cortex doctor; the next start sets aside what is damaged"
)

func streamOf(name string) string {
	_, stream, _ := strings.Cut(name, "/")
	return stream
}

// missing returns the streams whose files are missing or replaced, whether one of them matters for more than convenience, and those that have damaged messages.
func (w *fileWatch) missing() (gone []string, serious bool, damaged []string) {
	if told := w.told.Load(); told != nil {
		for _, is := range *told {
			stream := streamOf(is.name)
			if is.inPlace {
				damaged = append(damaged, stream)
				continue
			}
			gone = append(gone, stream)
			serious = serious || !storecheck.Convenient(stream)
		}
	}
	return slices.Compact(gone), serious, slices.Compact(damaged)
}
