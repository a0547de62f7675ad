package storecheck

import (
	"cmp"
	"context"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"hash/crc32"
	"io/fs"
	"maps"
	"math"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"
)

// Names of the server's files.
const (
	messagesDir   = "msgs"
	purgedDir     = "__new_msgs__" // while all messages of a stream are removed: replaces the folder of messages
	removedDir    = "__msgs__"     // likewise: the removed messages
	consumersDir  = "obs"
	metaFile      = "meta.inf"
	metaSum       = "meta.sum"
	metaKey       = "meta.key" // of an encrypted store
	consumerState = "o.dat"
	indexState    = "index.db"
	ttlState      = "thw.db"
	timerState    = "sched.db"
)

// Options configures Check.
type Options struct {
	// Memory is the memory of the store; nil when there is none.
	Memory *Memory
	// Aside is the folder to which damaged parts are moved, so that a server can work with the rest. Empty: nothing is changed.
	Aside string
	// Note, unless nil, stores the findings before Check changes any file: if the process ended in the middle of the changes, the store would no
	// longer show the damage.
	Note func(*Memory) error
	// Inspect, unless nil, returns a function that gets the intact records of a stream in the order of its files, or nil to skip the stream. After the
	// sequence since, every missing message can be accounted for.
	Inspect func(account, stream string, since uint64) func(*Record)
	// Accounted is the stream of which Inspect accounts for every message, so that those are not counted as well; "" for none.
	Accounted string
	Now       func() time.Time // nil is time.Now
}

// Finding describes damage, or another irregularity.
type Finding struct {
	Account string `json:"account"`
	Stream  string `json:"stream"`
	File    string `json:"file,omitempty"` // relative to the stream's folder
	What    string `json:"what"`
	// Subjects are subjects of damaged messages, as far as they can be read, at most ten.
	Subjects []string `json:"subjects,omitempty"`
	Archive  string   `json:"kept,omitempty"` // where the damaged part was moved
	Level    Level    `json:"level"`
	// Running says that it was found while the server ran; the next check finds out more.
	Running bool `json:"running,omitempty"`
}

// Level is the severity of a finding.
type Level string

// Levels.
const (
	Lost   Level = "lost"   // accepted messages are damaged or gone
	Recent Level = "recent" // likewise, but only the last ones, as after a power cut: less than one flush
	Made   Level = "made"   // nothing is lost: the file is made again
	// Unfinished: the process was killed during a write; no accepted message is lost.
	Unfinished Level = "unfinished"
)

// Report is the result of a check.
type Report struct {
	Findings []Finding
	// Memory is the memory of the store from now on.
	Memory *Memory
	// Forgotten says that there was no memory of the store, so that messages missing without a trace cannot be found.
	Forgotten bool
	// Outdated says that the store was used for a while since its memory was written: an older memory was put back, perhaps with streams of the same
	// time, or a server that keeps no memory has used the store. Messages that came meanwhile can be missing without a trace.
	Outdated bool
	// Open are the streams of Cortex, as "account/stream", that a server has to open; it deletes a stream that it cannot open.
	Open  []string
	Bytes int64 // bytes read
	Took  time.Duration
}

// check is one pass over the store.
type check struct {
	dir     string
	o       Options
	rep     Report
	mayMove bool // move damaged parts aside; the findings were noted before

	unknown [2]time.Time // when the first and the last message came that the memory does not know
}

// outdatedAfter is how long a server runs at most without writing its memory although messages come, with a wide margin.
const outdatedAfter = 5 * time.Minute

// see looks whether a memory, of a stream or of none, knows a message.
func (c *check) see(of *Remembered, m *Record) {
	if of == nil || m.Gone || m.Seq <= of.Last {
		return
	}
	at := m.stored()
	if first := c.unknown[0]; first.IsZero() || at.Before(first) {
		c.unknown[0] = at
	}
	if at.After(c.unknown[1]) {
		c.unknown[1] = at
	}
	c.rep.Outdated = c.rep.Outdated || c.unknown[1].Sub(c.unknown[0]) > outdatedAfter
}

// Check reads the store in dir, which no server may have open. Missing permissions of this process are no damage: Check then returns an error and
// changes nothing.
func Check(ctx context.Context, dir string, o Options) (*Report, error) {
	if o.Now == nil {
		o.Now = time.Now
	}
	o.Memory = cmp.Or(o.Memory, &Memory{})
	began := o.Now()
	c := &check{dir: dir, o: o}
	err := c.run(ctx)
	if err == nil && o.Aside != "" && len(c.rep.Findings) > 0 {
		if err = c.note(); err == nil {
			c = &check{dir: dir, o: o, mayMove: true}
			err = c.run(ctx)
		}
	}
	if err != nil {
		return nil, err
	}
	c.rep.Took = o.Now().Sub(began)
	c.rep.Memory.Found = findingsToRemember(o.Memory, c.rep.Findings)
	return &c.rep, nil
}

// note stores the findings and the previous memory by Options.Note.
func (c *check) note() error {
	if c.o.Note == nil {
		return nil
	}
	m := *c.o.Memory
	m.Found, m.Unfinished = findingsToRemember(c.o.Memory, c.rep.Findings), true
	if err := c.o.Note(&m); err != nil {
		return fmt.Errorf("what is damaged in %s cannot be written down, so it is left as it is: %w", c.dir, err)
	}
	return nil
}

func (c *check) run(ctx context.Context) error {
	c.rep.Memory = &Memory{Streams: map[string]*Remembered{}, Revoked: c.o.Memory.Revoked, Notes: c.o.Memory.Notes}
	all, err := c.streams()
	if err != nil {
		return fmt.Errorf("check the store in %s: %w", c.dir, advised(err))
	}
	for _, name := range all {
		if err := ctx.Err(); err != nil {
			return err
		}
		account, stream, _ := strings.Cut(name, "/")
		s := &checking{check: c, account: account, name: stream, remembered: c.o.Memory.Streams[name]}
		if err := s.run(ctx); err != nil {
			return fmt.Errorf("check stream %s in %s: %w", stream, c.dir, advised(err))
		}
	}
	return nil
}

// maxFound bounds the remembered findings of earlier checks.
const maxFound = 100

// findingsToRemember returns the findings to remember: those of earlier checks that this one cannot see any more, because a check removes the damage from the
// files, and then its own. Of the earlier ones it keeps what was lost and, after a check that did not finish, what was recent as well.
func findingsToRemember(before *Memory, now []Finding) []Finding {
	all := slices.DeleteFunc(slices.Clone(before.Found), func(f Finding) bool {
		return f.Running || f.Level != Lost && !(before.Unfinished && f.Level == Recent) || slices.ContainsFunc(now, func(g Finding) bool {
			return f.Account == g.Account && f.Stream == g.Stream && f.File == g.File && f.What == g.What
		})
	})
	return append(all[max(0, len(all)-maxFound):], now...)
}

// streams returns the streams in the store and in its memory, as "account/stream", sorted.
func (c *check) streams() ([]string, error) {
	names := map[string]bool{}
	root := filepath.Join(c.dir, "jetstream")
	_, err := readFolder(c.dir)
	accounts, rerr := readFolder(root)
	if err = cmp.Or(unlessGone(err), unlessGone(rerr)); err != nil {
		return nil, fmt.Errorf("the folder cannot be read: %w", err)
	}
	folders := []string{c.dir, root}
	for _, account := range accounts {
		dir := filepath.Join(root, account.Name(), "streams")
		streams, err := readFolder(dir)
		if isLocal(err) {
			return nil, err
		}
		folders = append(folders, filepath.Dir(dir), dir)
		for _, stream := range streams {
			if !strings.HasPrefix(stream.Name(), ".") { // otherwise the server is deleting it
				names[account.Name()+"/"+stream.Name()] = true
			}
		}
	}
	for _, dir := range folders {
		if err := accessible(dir); err != nil {
			return nil, err
		}
	}
	for name := range c.o.Memory.Streams {
		if _, err := streamDir(c.dir, name); err != nil {
			return nil, err
		}
		names[name] = true
	}
	return slices.Sorted(maps.Keys(names)), nil
}

// checking is the check of one stream.
type checking struct {
	*check
	account, name string
	remembered    *Remembered // nil: there is no memory of it

	root       string
	clean      bool // a proper shutdown has left its files
	each       func(*Record)
	last       uint64 // sequence
	gap        bool   // a sequence before last is missing
	index      uint32 // of the last block
	indexStale bool   // its blocks are not those that the server's index describes
	lists      *index // the server's index of its blocks
	queue      bool   // it is a work queue: an acknowledgement removes the message
	subjects   *subjects
	tally      tally // of its blocks, if there is something to compare with

	sequel *sequel // nil: it is unknown what the server had of it
	bounds bounds

	erases   bool           // removed messages of it are erased
	removed  []uint64       // sequences
	delivery *queueProgress // nil: no work queue, or a proper shutdown has left its files
}

func (s *checking) run(ctx context.Context) error {
	var err error
	if s.root, err = streamDir(s.dir, s.account+"/"+s.name); err != nil {
		return err
	}
	if err := s.usable(); err != nil {
		return err
	}
	if leave, err := s.strays(); leave || err != nil {
		return err
	}
	if _, err := readFolder(s.root); unlessGone(err) != nil {
		if isLocal(err) {
			return err
		}
		kept, perr := s.putAside("")
		if perr != nil {
			return perr
		}
		s.found(Lost, "", kept, "the stream's folder cannot be read: %v", plain(err))
	}
	if !Ours(s.name) {
		if left, err := s.unopened(); left || err != nil {
			return err
		}
	}
	if s.lists, err = readIndex(filepath.Join(s.root, messagesDir, indexState), s.name); err != nil {
		return err
	}
	used := s.remembered != nil && s.o.Memory.Clean && s.usedSince()
	s.rep.Outdated = s.rep.Outdated || used
	s.clean = s.remembered != nil && s.o.Memory.Clean && !used
	since := uint64(math.MaxUint64)
	if s.remembered != nil && (s.clean || !s.o.Memory.Clean) {
		since = s.remembered.Since
	}
	if s.o.Inspect != nil {
		s.each = s.o.Inspect(s.account, s.name, since)
	}
	whole, err := s.meta(s.root, s.name)
	if err != nil {
		return err
	}
	if s.remembered != nil && s.remembered.Had != nil {
		s.sequel = &sequel{had: *s.remembered.Had, last: s.remembered.Last}
		if bucket(s.name) && s.bounds.keeps() {
			s.tally.subjects = map[uint64]struct{}{}
		}
	}
	if err := s.blocks(ctx); err != nil {
		return err
	}
	if err := s.end(); err != nil {
		return err
	}
	if err := s.derived(); err != nil {
		return err
	}
	if err := s.consumers(); err != nil {
		return err
	}
	if Ours(s.name) {
		r := &Remembered{Last: s.last, Since: min(since, s.last)}
		if since == math.MaxUint64 && !s.gap { // no message is missing
			r.Since = 0
		}
		if s.remembered != nil {
			r.Durable = min(s.remembered.Durable, s.last)
			if !s.indexStale && !bucket(s.name) { // marks of what was deleted expire all at once when the server starts
				r.Had = s.remembered.Had // until the server reports what it has
			}
		}
		s.rep.Memory.Streams[s.account+"/"+s.name] = r
		if whole {
			s.rep.Open = append(s.rep.Open, s.account+"/"+s.name)
		}
	}
	return nil
}

func exists(path string) bool {
	_, err := os.Lstat(path)
	return err == nil
}

// found adds a finding.
func (s *checking) found(level Level, file, kept, format string, args ...any) *Finding {
	s.rep.Findings = append(s.rep.Findings, Finding{
		Account: s.account, Stream: s.name, File: file, Archive: kept, Level: level, What: fmt.Sprintf(format, args...),
	})
	return &s.rep.Findings[len(s.rep.Findings)-1]
}

// usedSince reports whether another server has used the stream after the shutdown that the memory describes, such as one of an older version, which
// keeps no memory. It has then left another index, which is intact and covers all remembered messages; an index with fewer is older.
func (s *checking) usedSince() bool {
	was, ok := s.remembered.Files[messagesDir+"/"+indexState]
	return ok && s.lists.intact && s.lists.sum != was.Sum && s.lists.last >= s.remembered.Last
}

// sealed reports whether the checksum of the stream's configuration matches.
func (s *checking) sealed(conf []byte) bool {
	sum, err := readBounded(filepath.Join(s.root, metaSum))
	h, herr := newHash(s.name)
	if err != nil || herr != nil {
		return false
	}
	_, _ = h.Write(conf) // never fails
	return hex.EncodeToString(h.Sum(nil)) == string(sum)
}

// meta checks the configuration in a folder of the stream or of a consumer, and reports whether it is complete.
func (s *checking) meta(dir, name string) (whole bool, err error) {
	rel, err := filepath.Rel(s.root, dir)
	if err != nil {
		return false, err
	}
	file := filepath.ToSlash(filepath.Join(rel, metaFile))
	conf, err := readBounded(filepath.Join(dir, metaFile))
	sum, serr := readBounded(filepath.Join(dir, metaSum))
	if isLocal(err) || isLocal(serr) {
		return false, cmp.Or(err, serr)
	}
	if err != nil && serr != nil && !exists(dir) { // the whole stream is missing, see end
		return false, nil
	}
	h, herr := newHash(name)
	if herr != nil {
		return false, herr
	}
	_, _ = h.Write(conf) // never fails
	if err == nil && serr == nil && hex.EncodeToString(h.Sum(nil)) == string(sum) {
		if rel == "." {
			return true, s.configured(conf)
		}
		return true, nil
	}
	if err == nil && errors.Is(serr, fs.ErrNotExist) && !s.clean && json.Valid(conf) { // the server writes one after the other
		s.found(Unfinished, file, "", "its checksum was not written: it is made again")
		if s.mayMove {
			err = replace(filepath.Join(dir, metaSum), []byte(hex.EncodeToString(h.Sum(nil))))
		}
		if err == nil && rel == "." {
			err = s.configured(conf)
		}
		return err == nil, err
	}
	if errors.Is(err, fs.ErrNotExist) && errors.Is(serr, fs.ErrNotExist) && !s.clean && blank(dir) {
		s.found(Unfinished, file, "", "the folder was made and nothing in it was written: it is made again")
		return false, nil
	}
	if rel != "." {
		kept, err := s.putAside(filepath.ToSlash(rel)) // with the consumer's state
		s.found(Made, file, kept, "the consumer's configuration is damaged: it is made again")
		return false, err
	}
	kept, err := s.putAside(metaFile)
	_, serr = s.putAside(metaSum)
	s.found(Made, file, kept, "the stream's configuration is damaged: it is made again, without what an operator has changed in it")
	return false, errors.Join(err, serr)
}

// blank reports whether the folder of a stream or of a consumer has nothing that a server writes after the configuration. An empty block may be there.
func blank(dir string) bool {
	messages, err := readFolder(filepath.Join(dir, messagesDir))
	return unlessGone(err) == nil && !exists(filepath.Join(dir, consumerState)) && !slices.ContainsFunc(messages, func(e fs.DirEntry) bool {
		info, err := e.Info()
		return err != nil || !info.Mode().IsRegular() || info.Size() > 0
	})
}

// configured reads from the stream's configuration what the check needs: whether the stream keeps its messages until they are erased, or an
// acknowledgement removes them.
func (s *checking) configured(conf []byte) (err error) {
	var c struct {
		Retention string `json:"retention"`
	}
	if json.Unmarshal(conf, &c) != nil {
		return nil
	}
	s.subjects = subjectsOf(conf)
	if json.Unmarshal(conf, &s.bounds) != nil {
		s.bounds = bounds{}
	}
	s.erases = c.Retention == "limits"
	s.queue = c.Retention == "workqueue"
	if s.queue && !s.clean {
		s.delivery, err = s.delivered()
	}
	return err
}

// consumers checks the files of the stream's consumers.
func (s *checking) consumers() error {
	entries, err := readFolder(filepath.Join(s.root, consumersDir))
	switch {
	case gone(err):
		return nil
	case isLocal(err):
		return err
	case err != nil:
		kept, perr := s.putAside(consumersDir)
		s.found(Made, consumersDir, kept, "the folder cannot be read: what was not acknowledged is delivered again: %v", plain(err))
		return perr
	}
	for _, e := range entries {
		dir := filepath.Join(s.root, consumersDir, e.Name())
		if strings.HasPrefix(e.Name(), probe) { // left by a check that was killed
			if err := unlessGone(os.Remove(dir)); err != nil {
				return err
			}
			continue
		}
		if _, err := readFolder(dir); err != nil {
			if isLocal(err) {
				return err
			}
			kept, perr := s.putAside(consumersDir + "/" + e.Name())
			if perr != nil {
				return perr
			}
			s.found(Made, consumersDir+"/"+e.Name(), kept, "the consumer cannot be read: it is made again: %v", plain(err))
			continue
		}
		if exists(filepath.Join(dir, metaKey)) {
			continue // a foreign one, see strays
		}
		if _, err := s.meta(dir, s.name+"/"+e.Name()); err != nil {
			return err
		}
		file := consumersDir + "/" + e.Name() + "/" + consumerState
		b, err := readBounded(filepath.Join(dir, consumerState))
		why, level := "is damaged", Made
		switch {
		case isLocal(err):
			return err
		case gone(err):
			continue
		case err == nil && s.asRemembered(file, b):
			if _, ok := parseState(b, s.last, s.o.Now()); !ok {
				break
			}
			seq := s.delivery.forgotten(e.Name())
			if seq == 0 {
				continue
			}
			why = fmt.Sprintf("contradicts message %d, which is there still, as when its process is killed between two writes", seq)
			level = Unfinished
		}
		kept, err := s.putAside(file)
		if err != nil {
			return err
		}
		s.found(level, file, kept, "what the consumer has delivered %s: what was not acknowledged is delivered again", why)
	}
	return nil
}

// asRemembered reports whether a file without a checksum is unchanged since a proper shutdown, or cannot be compared with one.
func (s *checking) asRemembered(file string, b []byte) bool {
	if !s.clean {
		return true
	}
	was, ok := s.remembered.Files[file]
	return ok && was.Size == int64(len(b)) && was.Sum == crc32.Checksum(b, castagnoli)
}

// derived checks the files that the server makes from the blocks and reads as a whole. Without a proper shutdown only the index can be checked,
// which has a checksum.
func (s *checking) derived() error {
	for _, name := range []string{indexState, ttlState, timerState} {
		file := messagesDir + "/" + name
		path := filepath.Join(s.root, messagesDir, name)
		sum, size, err := sumOf(path)
		lossless := name != indexState && !s.indexStale // removing it hides no loss
		switch {
		case isLocal(err):
			return err
		case gone(err) && (!s.clean || name == timerState || s.remembered.Files[file].Size == 0):
			continue
		case unlessGone(err) != nil && !errors.Is(err, errLarge):
			kept, perr := s.putAside(file)
			if perr != nil {
				return perr
			}
			s.found(Made, file, kept, "it cannot be read: it is made again from the messages: %v", plain(err))
			continue
		case name == timerState:
			lossless = true // it is not read again anyway
		case err != nil, s.clean && s.remembered.Files[file] != File{Size: size, Sum: sum}:
			lossless = false
			s.found(Made, file, "", "it is damaged: it is made again from the messages")
		case name == indexState && !s.lists.intact:
			s.found(Unfinished, file, "", "it was not written to its end: it is made again from the messages")
		case name == indexState && !s.indexStale, s.clean && !s.indexStale:
			continue
		}
		if s.mayMove || lossless && s.o.Aside != "" {
			if err := wipe(path); err != nil {
				return err
			}
		}
	}
	return nil
}
