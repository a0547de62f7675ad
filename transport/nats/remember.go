package nats

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/nats-io/nats-server/v2/server"

	"github.com/cortex-orchestrator/cortex/transport/nats/storecheck"
)

const (
	// rememberEvery is how often the memory looks where the streams end.
	rememberEvery = time.Second
	// rememberIdle is how often it does so while the store has as many messages and bytes as before: each message may replace another one. What a memory
	// lacks that is older shows that an earlier one was put in its place.
	rememberIdle = time.Minute
)

// memory keeps facts about the store in a file beside it, which the store itself does not show; see [storecheck.Memory].
type memory struct {
	ns   *inspected
	path string
	log  *slog.Logger
	sync time.Duration // after this time written data is on the disk
	// gaveUp reports whether the server has given up a store. Its state then has what it could not write, such as a message that nobody was told is
	// stored: it is no witness any more.
	gaveUp func() bool
	// cut returns the files of which the server has said since the last call that it cuts them off.
	cut func() []cutFile

	known atomic.Pointer[[]storecheck.Finding] // keeps.Found: whoever asks does not wait for a disk

	mu     sync.Mutex
	keeps  *storecheck.Memory
	totals [2]uint64        // messages and bytes in the store at the last write
	asked  time.Time        // when the server was asked where its streams end
	stood  map[string]stood // what the server had of the streams at the last look
	before map[string]place // where streams ended; durable when enough time has passed
	wrong  map[string]bool  // streams whose files were removed or replaced
	failed bool             // the last write failed; logged once
}

// place is the last sequence of a stream at a time.
type place struct {
	last uint64
	at   time.Time
}

// stood is what the server had of a stream.
type stood struct {
	created  time.Time
	messages uint64
	last     uint64 // sequence
	told     bool   // it has told of a file that it cuts off, since the look before
	cut      string // what was told of it, while no message has come since
}

// memoryFile returns the path of the memory of the store in dir.
func memoryFile(dir string) string { return filepath.Join(dir, "remembered.json") }

// ReadMemory returns what a server running on dir remembers of its store; nil when there is no memory.
func ReadMemory(dir string) (*storecheck.Memory, error) {
	return storecheck.ReadMemory(memoryFile(dir))
}

// CheckStore checks the store in dir as StartServer does before it opens it. No server may have the store open. CheckStore changes nothing unless
// aside names a folder for damaged files. It returns [storecheck.ErrForgotten] beside a report when the memory of the store is damaged, too.
func CheckStore(ctx context.Context, dir, aside string, inspect Inspector) (*storecheck.Report, error) {
	path := memoryFile(dir)
	m, forgotten := storecheck.ReadMemory(path)
	if forgotten != nil && !errors.Is(forgotten, storecheck.ErrForgotten) {
		return nil, forgotten
	}
	if forgotten != nil && aside != "" { // a folder at path cannot be overwritten
		if err := errors.Join(os.MkdirAll(aside, 0o700), os.Rename(path, filepath.Join(aside, filepath.Base(path)))); err != nil {
			return nil, fmt.Errorf("%w, nor set aside: %w", forgotten, err)
		}
	}
	o := storecheck.Options{Memory: m, Aside: aside, Note: func(m *storecheck.Memory) error { return m.Write(path) }}
	if inspect != nil {
		o.Inspect, o.Accounted = inspect, logStream
	}
	report, err := storecheck.Check(ctx, dir, o)
	if err != nil {
		return nil, err
	}
	report.Forgotten = m == nil || len(m.Streams) == 0 && m.Unfinished
	return report, forgotten
}

// checkStore checks the store before the server opens it, logs its findings, and records that the store is in use.
func checkStore(ctx context.Context, o *ServerOptions) (*storecheck.Report, error) {
	log := cmp.Or(o.Logger, slog.New(slog.DiscardHandler))
	if err := putBack(o.Dir, log); err != nil { // left over from an incomplete start
		return nil, err
	}
	aside := filepath.Join(o.Dir, "damaged", time.Now().UTC().Format("20060102T150405.000Z"))
	report, err := CheckStore(ctx, o.Dir, aside, o.Inspect)
	damaged := report != nil && errors.Is(err, storecheck.ErrForgotten)
	if damaged {
		log.Warn("what is missing from the store cannot be told", "err", err)
		err = nil
	}
	if err != nil {
		return nil, err
	}
	if report.Forgotten && !damaged && len(report.Memory.Streams) > 0 { // logged once: from now on there is a memory
		log.Warn("it cannot be told whether something is missing from the store, since nothing was remembered of it")
	}
	if report.Outdated {
		log.Warn("what is remembered of the store is of an earlier time than the store: it cannot be told whether something is missing that was stored since",
			"file", memoryFile(o.Dir), "do", "see whether files of an earlier time were put back; this is told once")
	}
	if before := len(report.Memory.Found) - len(report.Findings); before > 0 {
		log.Warn("the store was damaged before: see cortex doctor", "findings", before)
	}
	for _, f := range report.Findings {
		level, text := slog.LevelInfo, "the store is damaged"
		switch {
		case f.Level == storecheck.Unfinished:
			text = "a write to the store was not finished"
		case f.Level == storecheck.Recent:
			level, text = slog.LevelWarn, "the end of the store is lost"
		case f.Level == storecheck.Lost && !storecheck.Convenient(f.Stream):
			level = slog.LevelError
		case f.Level == storecheck.Lost || !storecheck.Convenient(f.Stream):
			level = slog.LevelWarn
		}
		attrs := []any{"stream", f.Stream, "file", f.File, "what", f.What}
		if f.Archive != "" {
			attrs = append(attrs, "kept", f.Archive)
		}
		if len(f.Subjects) > 0 {
			attrs = append(attrs, "subjects", f.Subjects)
		}
		log.Log(ctx, level, text, attrs...)
	}
	log.Debug("store checked", "bytes", report.Bytes, "took", report.Took)
	return report, report.Memory.Write(memoryFile(o.Dir))
}

// note stores the caller's notes about the store.
func (m *memory) note(b json.RawMessage) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.keeps.Notes = b
	if m.ends(time.Now()) == nil { // otherwise the server is shutting down
		m.write()
	}
}

// revoked returns what was last remembered of what is revoked; nil if that is unknown.
func (m *memory) revoked() json.RawMessage {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.keeps.Revoked
}

// noteRevoked stores what is revoked.
func (m *memory) noteRevoked(b json.RawMessage) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.keeps.Revoked = b
	if m.ends(time.Now()) == nil { // otherwise the server is shutting down
		m.write()
	}
}

// noteFiles records what is wrong with the files of a stream while the server has it open; "" removes the record. The next check finds what is
// lost.
func (m *memory) noteFiles(name, wrong string) {
	m.mu.Lock()
	defer m.mu.Unlock()
	account, stream, _ := strings.Cut(name, "/")
	found := slices.DeleteFunc(slices.Clone(m.keeps.Found), func(f storecheck.Finding) bool {
		return f.Running && f.Account == account && f.Stream == stream
	})
	if delete(m.wrong, name); wrong != "" {
		m.wrong[name] = true
		found = append(found, storecheck.Finding{Account: account, Stream: stream, What: wrong, Level: storecheck.Lost, Running: true})
	}
	m.find(found)
	if m.ends(time.Now()) == nil { // otherwise the server is shutting down
		m.write()
	}
}

// lose records and logs that the server has less of a stream than at the last look: when it reads a file that is damaged or cut short, it cuts off what is behind the
// damage, and goes on with the rest as if nothing else had been there. Files and server agree then, and sequences are given once more. The finding is written
// together with where the stream ends now: until then, what is remembered tells a check that something is gone. The caller holds m.mu.
func (m *memory) lose(name string, was stood, is *stood, cut []cutFile) {
	account, stream, _ := strings.Cut(name, "/")
	if is.last <= was.last {
		is.cut = was.cut // what it cannot cut off, it reads again
	}
	said := false
	for _, c := range cut {
		if of, s := blockOf(c.path); of != account || s != stream {
			continue
		}
		said = true
		what := fmt.Sprintf("the file %s was damaged while the server ran, which cannot read on behind %d bytes and has cut it off: what was there is gone", filepath.Base(c.path), c.size)
		if what != is.cut {
			is.cut, is.told = what, true
			m.tell(account, stream, what, is)
		}
	}
	if !said && is.last < was.last && !was.told { // it says that it cuts off a file, if it does, before it has less
		m.tell(account, stream, fmt.Sprintf("messages up to %d are gone behind %d: a file was damaged while the server ran, which has cut it off there", was.last, is.last), is)
	}
}

// mostAlike is how often the same is told of a stream: a file that the server can never cut off is told of again and again.
const mostAlike = 8

// tell records and logs a loss. The caller holds m.mu.
func (m *memory) tell(account, stream, what string, is *stood) {
	lost := storecheck.Finding{Account: account, Stream: stream, What: what, Level: storecheck.Lost}
	alike := 0
	for _, f := range m.keeps.Found {
		if f.Account == account && f.Stream == stream && f.What == what {
			alike++
		}
	}
	if alike >= mostAlike {
		return
	}
	level := slog.LevelError
	if storecheck.Convenient(stream) {
		level = slog.LevelWarn
	}
	m.log.Log(context.Background(), level, "messages of a stream are lost while the server runs", "stream", stream, "what", what, "messages", is.messages)
	m.find(append(slices.Clone(m.keeps.Found), lost))
}

// blockOf returns the account and the stream of a file .../jetstream/ACCOUNT/streams/STREAM/msgs/FILE.
func blockOf(path string) (account, stream string) {
	parts := strings.Split(filepath.ToSlash(path), "/")
	if len(parts) < 5 {
		return "", ""
	}
	parts = parts[len(parts)-5:]
	return parts[0], parts[2]
}

// found returns the known damage.
func (m *memory) found() []storecheck.Finding { return slices.Clone(*m.known.Load()) }

// find sets the known damage. The caller holds m.mu, or is the only user of m.
func (m *memory) find(all []storecheck.Finding) {
	m.keeps.Found = all
	m.known.Store(&all)
}

// accept marks everything that is missing from accounts as known.
func (m *memory) accept(accounts []string) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if err := m.ends(time.Now()); err != nil {
		return
	}
	for _, account := range accounts {
		m.keeps.Accept(account)
	}
	m.find(m.keeps.Found)
	m.write()
}

// look records where the streams end now, if something has changed.
func (m *memory) look(now time.Time) {
	m.mu.Lock()
	defer m.mu.Unlock()
	sum, err := m.ns.Jsz(nil)
	if err != nil {
		return // the server is shutting down
	}
	totals := [2]uint64{sum.Messages, sum.Bytes}
	same := totals == m.totals && !m.unsettled(now) && !m.failed
	if same && now.Sub(m.asked) < rememberIdle {
		return // nothing to write: let the disk sleep
	}
	before, found := m.lasts(), len(m.keeps.Found)
	if err := m.ends(now); err != nil {
		return
	}
	m.totals, m.asked = totals, now
	if !same || !maps.Equal(before, m.lasts()) || len(m.keeps.Found) != found {
		m.write()
	}
}

// lasts returns the last sequences of the streams.
func (m *memory) lasts() map[string]uint64 {
	all := map[string]uint64{}
	for name, r := range m.keeps.Streams {
		all[name] = r.Last
	}
	return all
}

// opened returns an error when the server has not opened a stream that is in the store, since Dial would make it anew.
func opened(ns *server.Server, streams []string) error {
	all, err := ns.Jsz(&server.JSzOptions{Accounts: true, Streams: true, Limit: 1 << 20})
	if err != nil {
		return err
	}
	for _, account := range all.AccountDetails { // other accounts have no keys here
		for _, name := range streams {
			of, stream, _ := strings.Cut(name, "/")
			if of == account.Id && !slices.ContainsFunc(account.Streams, func(s server.StreamDetail) bool { return s.Name == stream }) {
				return fmt.Errorf("it has not opened stream %s, which is in its store: see its log", stream)
			}
		}
	}
	return nil
}

// unsettled reports whether a stream has become durable beyond what is recorded.
func (m *memory) unsettled(now time.Time) bool {
	for name, p := range m.before {
		if r := m.keeps.Streams[name]; r != nil && r.Durable < p.last && now.Sub(p.at) > 2*m.sync {
			return true
		}
	}
	return false
}

var errGaveUp = errors.New("the server has given up its store")

// ends asks the server where its streams end, and updates the memory.
func (m *memory) ends(now time.Time) error {
	if m.gaveUp() {
		return errGaveUp
	}
	places := m.places() // first: what is stored meanwhile comes after these places
	all, err := m.ns.Jsz(&server.JSzOptions{Accounts: true, Streams: true, Config: true, Limit: 1 << 20})
	if err != nil {
		return err
	}
	if m.gaveUp() { // meanwhile
		return errGaveUp
	}
	cut := m.cut() // behind the places: whatever is missing there was said before
	stands := m.stood
	m.stood = map[string]stood{}
	for _, account := range all.AccountDetails {
		for _, s := range account.Streams {
			if !storecheck.Ours(s.Name) || s.Config == nil || s.Config.Storage != server.FileStorage {
				continue
			}
			name := account.Id + "/" + s.Name
			r := m.keeps.Streams[name]
			if r == nil {
				r = &storecheck.Remembered{}
				m.keeps.Streams[name] = r
			}
			is := stood{created: s.Created, messages: s.State.Msgs, last: s.State.LastSeq}
			was := stands[name]
			if !was.created.Equal(is.created) {
				was = stood{}
			}
			m.lose(name, was, &is, cut)
			r.Last, r.Had, m.stood[name] = is.last, nil, is
			r.Durable = min(r.Durable, r.Last) // it falls where the server has cut off a file, see lose
			if p, ok := m.before[name]; ok && p.last > r.Last {
				delete(m.before, name)
			}
			end, placed := places[name]
			if placed || m.wrong[name] {
				r.Had = &storecheck.Had{Messages: s.State.Msgs, First: s.State.FirstSeq, Place: end}
			}
			if m.wrong[name] {
				r.Durable = r.Last
			}
			switch p, ok := m.before[name]; {
			case ok && now.Sub(p.at) > 2*m.sync:
				r.Durable = max(r.Durable, min(p.last, r.Last))
				fallthrough
			case !ok:
				m.before[name] = place{r.Last, now}
			}
		}
	}
	return nil
}

// places returns where the files of the streams end.
func (m *memory) places() map[string]storecheck.Place {
	all := map[string]storecheck.Place{}
	for name := range m.keeps.Streams {
		if place, err := storecheck.Placed(filepath.Dir(m.path), name); err == nil {
			all[name] = place
		}
	}
	return all
}

// write writes the memory. Without it, a check of a damaged store cannot tell all that is missing.
func (m *memory) write() {
	err := m.keeps.Write(m.path)
	if err != nil && !m.failed {
		m.log.Warn("where the store ends cannot be remembered: if it is damaged, not all that is missing can be told", "err", err)
	}
	m.failed = err != nil
}

// missed reports whether files of streams were removed or replaced while the server had them open. The files at its end are then incomplete, and
// the next start has to find what is lost.
func (m *memory) missed() (some bool) {
	some = len(m.wrong) > 0
	for name, had := range m.stood {
		if had.messages > 0 && !storecheck.Stored(filepath.Dir(m.path), name) {
			m.keeps.Streams[name].Durable = m.keeps.Streams[name].Last
			some = true
		}
	}
	return some
}

// close ends the server by calling end. If nothing was wrong, it then erases the files of timers, which name conversations and which the server
// makes again, and records the store's other files.
func (m *memory) close(wrong func() error, end func()) {
	m.mu.Lock()
	defer m.mu.Unlock()
	err := m.ends(time.Now())
	end()
	if err == nil {
		err = wrong()
	}
	if err == nil && !m.missed() {
		err = m.keeps.EraseTimers(filepath.Dir(m.path))
		if err == nil {
			err = m.keeps.Remember(filepath.Dir(m.path))
		}
	}
	if m.gaveUp() { // the store is as after a kill
		err = m.keeps.RemoveIndexes(filepath.Dir(m.path))
		if err == nil {
			return
		}
	}
	if err != nil && !errors.Is(err, os.ErrNotExist) {
		m.log.Warn("the files of the store cannot be remembered", "err", err)
		return
	}
	m.write()
}
