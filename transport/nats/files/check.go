package files

import (
	"cmp"
	"context"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"hash/crc32"
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
	purgedDir     = "__new_msgs__" // while everything of a stream is removed
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
	Kept     string   `json:"kept,omitempty"` // where what is damaged was put
	Level    Level    `json:"level"`
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
	Bytes     int64 // that were read
	Took      time.Duration
}

// check is one Check.
type check struct {
	dir string
	o   Options
	rep Report
}

// Check reads the store in dir, which no server may have open.
func Check(ctx context.Context, dir string, o Options) (*Report, error) {
	if o.Now == nil {
		o.Now = time.Now
	}
	if o.Memory == nil {
		o.Memory = &Memory{}
	}
	c := &check{dir: dir, o: o}
	c.rep.Memory = &Memory{Streams: map[string]*Remembered{}, Notes: o.Memory.Notes}
	began := o.Now()
	all, err := c.streams()
	if err != nil {
		return nil, fmt.Errorf("check the store in %s: %w", dir, err)
	}
	for _, name := range all {
		if err := ctx.Err(); err != nil {
			return nil, err
		}
		account, stream, _ := strings.Cut(name, "/")
		s := &checking{check: c, account: account, name: stream, remembered: o.Memory.Streams[name]}
		if err := s.run(ctx); err != nil {
			return nil, fmt.Errorf("check stream %s in %s: %w", stream, dir, err)
		}
	}
	c.rep.Took = o.Now().Sub(began)
	c.rep.Memory.Found = told(o.Memory.Found, c.rep.Findings)
	return &c.rep, nil
}

// maxFound bounds what is remembered of earlier checks.
const maxFound = 100

// told returns what a check has found behind what earlier ones have found that is lost: the files do not tell that again.
func told(before, now []Finding) []Finding {
	all := slices.DeleteFunc(slices.Clone(before), func(f Finding) bool {
		return f.Level != Lost || slices.ContainsFunc(now, func(g Finding) bool {
			return f.Account == g.Account && f.Stream == g.Stream && f.File == g.File && f.What == g.What
		})
	})
	return append(all[max(0, len(all)-maxFound):], now...)
}

// streams returns account and name of those that are there or should be.
func (c *check) streams() ([]string, error) {
	found, err := filepath.Glob(filepath.Join(glob(c.dir), "jetstream", "*", "streams", "*"))
	if err != nil {
		return nil, err
	}
	names := map[string]bool{}
	for _, path := range found {
		stream := filepath.Base(path)
		if !strings.HasPrefix(stream, ".") { // else it is about to be deleted
			names[filepath.Base(filepath.Dir(filepath.Dir(path)))+"/"+stream] = true
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

// glob returns path as a pattern that matches nothing else.
func glob(path string) string {
	return strings.NewReplacer(`\`, `\\`, `*`, `\*`, `?`, `\?`, `[`, `\[`).Replace(path)
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

	erases  bool     // what is removed from it was to be erased
	removed []uint64 // sequences
}

func (s *checking) run(ctx context.Context) error {
	var err error
	if s.root, err = streamDir(s.dir, s.account+"/"+s.name); err != nil {
		return err
	}
	if there(filepath.Join(s.root, metaKey)) || there(filepath.Join(s.root, purgedDir)) {
		return nil // it is encrypted, or everything in it is about to be removed
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
	s.clean = s.remembered != nil && s.o.Memory.Clean && !s.usedSince()
	since := uint64(math.MaxUint64)
	if s.remembered != nil && (s.clean || !s.o.Memory.Clean) {
		since = s.remembered.Since
	}
	if s.o.Inspect != nil {
		s.each = s.o.Inspect(s.account, s.name, since)
	}
	if err := s.meta(s.root, s.name); err != nil {
		return err
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
		}
		s.rep.Memory.Streams[s.account+"/"+s.name] = r
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
		Account: s.account, Stream: s.name, File: file, Kept: kept, Level: level, What: fmt.Sprintf(format, args...),
	})
	return &s.rep.Findings[len(s.rep.Findings)-1]
}

// aside returns where a file of the stream is put when it is damaged.
func (s *checking) aside(file string) (string, error) {
	path := filepath.Join(s.o.Aside, s.account, s.name, filepath.FromSlash(file))
	return path, os.MkdirAll(filepath.Dir(path), 0o700)
}

// putAside moves a file or folder of the stream, if anything may be changed. It returns where it is then.
func (s *checking) putAside(file string) (string, error) {
	from := filepath.Join(s.root, filepath.FromSlash(file))
	if s.o.Aside == "" || !there(from) {
		return "", nil
	}
	to, err := s.aside(file)
	if err == nil {
		err = os.Rename(from, to)
	}
	return to, err
}

// usedSince reports whether another server than the one whose end is remembered has used the stream, such as that of an older build,
// which remembers nothing: it has left another index, and that is intact.
func (s *checking) usedSince() bool {
	was, ok := s.remembered.Files[messagesDir+"/"+indexState]
	b := s.intactIndex()
	return ok && b != nil && crc32.Checksum(b, castagnoli) != was.Sum
}

// intactIndex returns what the server has written of its blocks, nil when that is not intact.
func (s *checking) intactIndex() []byte {
	b, err := readBounded(filepath.Join(s.root, messagesDir, indexState))
	if err != nil || len(b) < hashSize {
		return nil
	}
	h, err := newHash(s.name)
	if err != nil {
		return nil
	}
	_, _ = h.Write(b[:len(b)-hashSize]) // never fails
	if string(h.Sum(nil)) != string(b[len(b)-hashSize:]) {
		return nil
	}
	return b
}

// meta checks the configuration in a folder.
func (s *checking) meta(dir, name string) error {
	rel, err := filepath.Rel(s.root, dir)
	if err != nil {
		return err
	}
	file := filepath.ToSlash(filepath.Join(rel, metaFile))
	conf, err := readBounded(filepath.Join(dir, metaFile))
	sum, serr := readBounded(filepath.Join(dir, metaSum))
	if ours(err) || ours(serr) {
		return cmp.Or(err, serr)
	}
	if err != nil && serr != nil && !there(dir) { // the stream is gone altogether, see end
		return nil
	}
	h, herr := newHash(name)
	if herr != nil {
		return herr
	}
	_, _ = h.Write(conf) // never fails
	if err == nil && serr == nil && hex.EncodeToString(h.Sum(nil)) == string(sum) {
		if rel == "." {
			s.erases = keeps(conf)
		}
		return nil
	}
	if rel != "." {
		kept, err := s.putAside(filepath.ToSlash(rel)) // with what it has delivered
		s.found(Made, file, kept, "the consumer's configuration is damaged: it is made again")
		return err
	}
	kept, err := s.putAside(metaFile)
	_, serr = s.putAside(metaSum)
	s.found(Made, file, kept, "the stream's configuration is damaged: it is made again, without what an operator has changed in it")
	return errors.Join(err, serr)
}

// keeps reports whether a stream with this configuration keeps its messages until somebody erases them, as the others do not, from which
// an acknowledgement removes them.
func keeps(conf []byte) bool {
	var c struct {
		Retention string `json:"retention"`
	}
	return json.Unmarshal(conf, &c) == nil && c.Retention == "limits"
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
		if there(filepath.Join(dir, metaKey)) {
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
		if err := s.meta(dir, s.name+"/"+e.Name()); err != nil {
			return err
		}
		file := consumersDir + "/" + e.Name() + "/" + consumerState
		b, err := readBounded(filepath.Join(dir, consumerState))
		switch {
		case ours(err):
			return err
		case gone(err), err == nil && s.asRemembered(file, b) && delivered(b, s.last):
			continue
		}
		kept, err := s.putAside(file)
		if err != nil {
			return err
		}
		s.found(Made, file, kept, "what the consumer has delivered is damaged: what was not acknowledged is delivered again")
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

// derived checks the files that the server makes out of the blocks. After an end that was not a proper one nobody can tell whether they
// are intact, but for the index, which has a checksum.
func (s *checking) derived() error {
	for _, name := range []string{indexState, ttlState, timerState} {
		file := messagesDir + "/" + name
		b, err := readBounded(filepath.Join(s.root, messagesDir, name))
		switch {
		case ours(err):
			return err
		case gone(err) && (!s.clean || s.remembered.Files[file].Size == 0):
			continue
		case unlessGone(err) != nil:
			kept, perr := s.putAside(file)
			if perr != nil {
				return perr
			}
			s.found(Made, file, kept, "it cannot be read: it is made again from the messages: %v", plain(err))
			continue
		case err != nil, s.clean && !s.asRemembered(file, b):
			s.found(Made, file, "", "it is damaged: it is made again from the messages")
		case name == indexState && !s.mend:
			continue
		case s.clean && !s.mend:
			continue
		}
		if s.o.Aside != "" {
			if err := unlessGone(os.Remove(filepath.Join(s.root, messagesDir, name))); err != nil {
				return err
			}
		}
	}
	return nil
}
