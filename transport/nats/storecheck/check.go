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
	purgedDir     = "__new_msgs__" // while everything of a stream is removed, in the place of its messages
	removedDir    = "__msgs__"     // likewise, what they were
	consumersDir  = "obs"
	metaFile      = "meta.inf"
	metaSum       = "meta.sum"
	metaKey       = "meta.key" // of an encrypted store
	consumerState = "o.dat"
	indexState    = "index.db"
	ttlState      = "thw.db"
	timerState    = "sched.db"
)

// Options says what Check does.
type Options struct {
	// Memory is what is remembered of the store; nil when nothing is.
	Memory *Memory
	// Aside is the folder into which what is damaged is put, so that a server can work with the rest. Empty: nothing is changed.
	Aside string
	// Note, unless nil, writes down what was found before anything of that is changed: a process that ends while it changes it would leave
	// a store in which that can no longer be seen.
	Note func(*Memory) error
	// Inspect, unless nil, returns a function that gets the intact records of a stream in the order in which they are in its files, or
	// nil. All that is missing from the sequence since on can be accounted for.
	Inspect func(account, stream string, since uint64) func(*Record)
	Now     func() time.Time // nil is time.Now
}

// Finding is something that is not as it should be.
type Finding struct {
	Account string `json:"account"`
	Stream  string `json:"stream"`
	File    string `json:"file,omitempty"` // in the stream's folder
	What    string `json:"what"`
	// Subjects are those of messages that are damaged, as far as they can be read: some of them.
	Subjects []string `json:"subjects,omitempty"`
	Archive  string   `json:"kept,omitempty"` // where what is damaged was put
	Level    Level    `json:"level"`
	// Running says that it was found while the server ran, which the next check finds out more of.
	Running bool `json:"running,omitempty"`
}

// Level says what a finding means.
type Level string

// Levels.
const (
	Lost   Level = "lost"   // messages that were accepted are damaged or gone
	Recent Level = "recent" // the last ones are, as after the end of the machine: less than what is flushed at once
	Made   Level = "made"   // nothing is lost: it is made again
	// Unfinished says that the process was killed while it wrote, which loses nothing that was accepted.
	Unfinished Level = "unfinished"
)

// Report is what a check has found.
type Report struct {
	Findings []Finding
	// Memory is what is to be remembered from now on.
	Memory *Memory
	// Forgotten says that nothing was remembered of the store: what is missing altogether cannot be told.
	Forgotten bool
	// Open are the streams of Cortex, by account and name, that a server has to find: one that it does not open it deletes.
	Open  []string
	Bytes int64 // that were read
	Took  time.Duration
}

// check is one reading of the store.
type check struct {
	dir  string
	o    Options
	rep  Report
	sets bool // aside what is damaged, which is written down
}

// Check reads the store in dir, which no server may have open. It ends with an error, and changes nothing, when there is something that this
// process may not read and write: that is no damage.
func Check(ctx context.Context, dir string, o Options) (*Report, error) {
	if o.Now == nil {
		o.Now = time.Now
	}
	if o.Memory == nil {
		o.Memory = &Memory{}
	}
	began := o.Now()
	c := &check{dir: dir, o: o}
	err := c.run(ctx)
	if err == nil && o.Aside != "" && len(c.rep.Findings) > 0 {
		if err = c.note(); err == nil {
			c = &check{dir: dir, o: o, sets: true}
			err = c.run(ctx)
		}
	}
	if err != nil {
		return nil, err
	}
	c.rep.Took = o.Now().Sub(began)
	c.rep.Memory.Found = told(o.Memory, c.rep.Findings)
	return &c.rep, nil
}

// note writes down what was found, beside all that was remembered before.
func (c *check) note() error {
	if c.o.Note == nil {
		return nil
	}
	m := *c.o.Memory
	m.Found, m.Unfinished = told(c.o.Memory, c.rep.Findings), true
	if err := c.o.Note(&m); err != nil {
		return fmt.Errorf("what is damaged in %s cannot be written down, so it is left as it is: %w", c.dir, err)
	}
	return nil
}

func (c *check) run(ctx context.Context) error {
	c.rep.Memory = &Memory{Streams: map[string]*Remembered{}, Notes: c.o.Memory.Notes}
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

// maxFound bounds what is remembered of earlier checks.
const maxFound = 100

// told returns the findings to remember: what this check has found, behind what earlier checks have found and this one cannot see any more,
// because a check removes the damage from the files. Of the earlier ones it keeps what was lost and, after a check that did not finish, what
// was recent as well.
func told(before *Memory, now []Finding) []Finding {
	all := slices.DeleteFunc(slices.Clone(before.Found), func(f Finding) bool {
		return f.Running || f.Level != Lost && !(before.Unfinished && f.Level == Recent) || slices.ContainsFunc(now, func(g Finding) bool {
			return f.Account == g.Account && f.Stream == g.Stream && f.File == g.File && f.What == g.What
		})
	})
	return append(all[max(0, len(all)-maxFound):], now...)
}

// streams returns account and name of those that are there or should be.
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
		if ours(err) {
			return nil, err
		}
		folders = append(folders, filepath.Dir(dir), dir)
		for _, stream := range streams {
			if !strings.HasPrefix(stream.Name(), ".") { // else it is about to be deleted
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
	remembered    *Remembered // nil: nothing is known of it

	root  string
	clean bool // its files are those of a proper end
	each  func(*Record)
	last  uint64 // sequence
	gap   bool   // a sequence is missing before it
	index uint32 // of the last block
	mend  bool   // its blocks are not what the server remembers
	lists *index // what the server has listed of its blocks
	queue bool   // it keeps a message until that is acknowledged
	tally tally  // of its blocks, if there is something to compare it with

	sequel *sequel // nil: it is not known what the server had of it
	bounds bounds

	erases  bool     // what is removed from it was to be erased
	removed []uint64 // sequences
	works   *works   // nil: it is no work queue, or its files are those of a proper end
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
		if ours(err) {
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
	s.clean = s.remembered != nil && s.o.Memory.Clean && !s.usedSince()
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
		if since == math.MaxUint64 && !s.gap { // nothing is missing
			r.Since = 0
		}
		if s.remembered != nil {
			r.Durable = min(s.remembered.Durable, s.last)
			if !s.mend {
				r.Had = s.remembered.Had // until the server says what it has
			}
		}
		s.rep.Memory.Streams[s.account+"/"+s.name] = r
		if whole {
			s.rep.Open = append(s.rep.Open, s.account+"/"+s.name)
		}
	}
	return nil
}

func there(path string) bool {
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

// usedSince reports whether another server than the one whose end is remembered has used the stream, such as that of an older build,
// which remembers nothing: it has left another index, that is intact and has all of the messages. One with fewer is older.
func (s *checking) usedSince() bool {
	was, ok := s.remembered.Files[messagesDir+"/"+indexState]
	return ok && s.lists.intact && s.lists.sum != was.Sum && s.lists.last >= s.remembered.Last
}

// sealed reports whether a configuration of the stream is what was written.
func (s *checking) sealed(conf []byte) bool {
	sum, err := readBounded(filepath.Join(s.root, metaSum))
	h, herr := newHash(s.name)
	if err != nil || herr != nil {
		return false
	}
	_, _ = h.Write(conf) // never fails
	return hex.EncodeToString(h.Sum(nil)) == string(sum)
}

// meta checks the configuration in a folder, and reports whether it is whole.
func (s *checking) meta(dir, name string) (whole bool, err error) {
	rel, err := filepath.Rel(s.root, dir)
	if err != nil {
		return false, err
	}
	file := filepath.ToSlash(filepath.Join(rel, metaFile))
	conf, err := readBounded(filepath.Join(dir, metaFile))
	sum, serr := readBounded(filepath.Join(dir, metaSum))
	if ours(err) || ours(serr) {
		return false, cmp.Or(err, serr)
	}
	if err != nil && serr != nil && !there(dir) { // the stream is gone altogether, see end
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
		if s.sets {
			err = replace(filepath.Join(dir, metaSum), []byte(hex.EncodeToString(h.Sum(nil))))
		}
		if err == nil && rel == "." {
			err = s.configured(conf)
		}
		return err == nil, err
	}
	if rel != "." {
		kept, err := s.putAside(filepath.ToSlash(rel)) // with what it has delivered
		s.found(Made, file, kept, "the consumer's configuration is damaged: it is made again")
		return false, err
	}
	kept, err := s.putAside(metaFile)
	_, serr = s.putAside(metaSum)
	s.found(Made, file, kept, "the stream's configuration is damaged: it is made again, without what an operator has changed in it")
	return false, errors.Join(err, serr)
}

// configured takes from the stream's configuration what is of importance here: whether it keeps its messages until somebody erases them, or an
// acknowledgement removes them.
func (s *checking) configured(conf []byte) (err error) {
	var c struct {
		Retention string `json:"retention"`
	}
	if json.Unmarshal(conf, &c) != nil {
		return nil
	}
	if json.Unmarshal(conf, &s.bounds) != nil {
		s.bounds = bounds{}
	}
	s.erases = c.Retention == "limits"
	s.queue = c.Retention == "workqueue"
	if s.queue && !s.clean {
		s.works, err = s.delivered()
	}
	return err
}

// consumers checks what is kept of the stream's consumers.
func (s *checking) consumers() error {
	entries, err := readFolder(filepath.Join(s.root, consumersDir))
	switch {
	case gone(err):
		return nil
	case ours(err):
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
			if ours(err) {
				return err
			}
			kept, perr := s.putAside(consumersDir + "/" + e.Name())
			if perr != nil {
				return perr
			}
			s.found(Made, consumersDir+"/"+e.Name(), kept, "the consumer cannot be read: it is made again: %v", plain(err))
			continue
		}
		if there(filepath.Join(dir, metaKey)) {
			continue // it is somebody else's, see strays
		}
		if _, err := s.meta(dir, s.name+"/"+e.Name()); err != nil {
			return err
		}
		file := consumersDir + "/" + e.Name() + "/" + consumerState
		b, err := readBounded(filepath.Join(dir, consumerState))
		why, level := "is damaged", Made
		switch {
		case ours(err):
			return err
		case gone(err):
			continue
		case err == nil && s.asRemembered(file, b):
			if _, ok := parseState(b, s.last, s.o.Now()); !ok {
				break
			}
			seq := s.works.forgotten(e.Name())
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

// asRemembered reports whether a file without a checksum is what a proper end has left, or nothing is known of that.
func (s *checking) asRemembered(file string, b []byte) bool {
	if !s.clean {
		return true
	}
	was, ok := s.remembered.Files[file]
	return ok && was.Size == int64(len(b)) && was.Sum == crc32.Checksum(b, castagnoli)
}

// derived checks the files that the server makes out of the blocks, and reads whole. After an end that was not a proper one nobody can tell
// whether they are intact, but for the index, which has a checksum.
func (s *checking) derived() error {
	for _, name := range []string{indexState, ttlState, timerState} {
		file := messagesDir + "/" + name
		path := filepath.Join(s.root, messagesDir, name)
		sum, size, err := sumOf(path)
		lossless := name != indexState && !s.mend // its removal takes nothing away that somebody still has to see
		switch {
		case ours(err):
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
			lossless = true // it is never read again
		case err != nil, s.clean && s.remembered.Files[file] != File{Size: size, Sum: sum}:
			lossless = false
			s.found(Made, file, "", "it is damaged: it is made again from the messages")
		case name == indexState && !s.lists.intact:
			s.found(Unfinished, file, "", "it was not written to its end: it is made again from the messages")
		case name == indexState && !s.mend, s.clean && !s.mend:
			continue
		}
		if s.sets || lossless && s.o.Aside != "" {
			if err := wipe(path); err != nil {
				return err
			}
		}
	}
	return nil
}
