package storecheck

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
)

const blockSuffix = ".blk"

// blocks checks the blocks of the stream in order.
func (s *checking) blocks(ctx context.Context) error {
	indices, err := s.indices()
	if err != nil {
		return err
	}
	if err := s.tombstones(ctx, indices); err != nil {
		return err
	}
	for i, index := range indices {
		if err := ctx.Err(); err != nil {
			return err
		}
		if err := s.block(index, i == len(indices)-1); err != nil {
			return fmt.Errorf("block %d: %w", index, err)
		}
	}
	return nil
}

// tombstones collects the records of removed messages, which come after the message, in its block or a later one. A server that is killed between
// writing such a record and overwriting the message leaves both.
func (s *checking) tombstones(ctx context.Context, indices []uint32) error {
	if s.each == nil && !s.erases {
		return nil
	}
	for _, index := range indices {
		if err := ctx.Err(); err != nil {
			return err
		}
		b, err := readBounded(filepath.Join(s.root, filepath.FromSlash(blockFileOf(index))))
		if isLocal(err) {
			return err
		}
		if compressed(b) {
			continue
		}
		r, err := newBlock(s.name, index)
		if err != nil {
			return err
		}
		r.read(b, func(r *Record) error {
			if r.tombstone {
				s.removed = append(s.removed, r.Seq)
			}
			return nil
		})
	}
	slices.Sort(s.removed)
	s.removed = slices.Compact(s.removed)
	return nil
}

// blockFileOf returns the path of a block within the stream's folder.
func blockFileOf(index uint32) string {
	return messagesDir + "/" + strconv.FormatUint(uint64(index), 10) + blockSuffix
}

// blockIndex returns the index of the block in a file of this name.
func blockIndex(file string) (index uint32, ok bool) {
	n, err := strconv.ParseUint(strings.TrimSuffix(file, blockSuffix), 10, 32)
	return uint32(n), err == nil && messagesDir+"/"+file == blockFileOf(uint32(n))
}

// indices returns the indices of the blocks in the store and in its memory.
func (s *checking) indices() ([]uint32, error) {
	entries, err := readFolder(filepath.Join(s.root, messagesDir))
	if isLocal(err) {
		return nil, err
	}
	if unlessGone(err) != nil {
		kept, perr := s.putAside(messagesDir)
		if perr != nil {
			return nil, perr
		}
		s.found(Lost, messagesDir, kept, "the folder cannot be read: %v", plain(err))
	}
	s.halfway(entries)
	names := namesOf(entries)
	if s.clean {
		for file := range s.remembered.Files {
			if name, ok := strings.CutPrefix(file, messagesDir+"/"); ok {
				names = append(names, name)
			}
		}
	}
	return blockIndices(names), nil
}

// namesOf returns the names of entries.
func namesOf(entries []fs.DirEntry) (names []string) {
	for _, e := range entries {
		names = append(names, e.Name())
	}
	return names
}

// blockIndices returns the sorted indices of the blocks among names.
func blockIndices(names []string) (all []uint32) {
	for _, name := range names {
		if index, ok := blockIndex(name); ok {
			all = append(all, index)
		}
	}
	slices.Sort(all)
	return slices.Compact(all)
}

// block checks one block and writes it without its damaged parts.
func (s *checking) block(index uint32, isLast bool) error {
	s.index = index
	file := blockFileOf(index)
	path := filepath.Join(s.root, filepath.FromSlash(file))
	was, known := File{}, false
	if s.clean {
		was, known = s.remembered.Files[file]
	}
	b, unreadable := readBounded(path)
	switch {
	case isLocal(unreadable):
		return unreadable
	case gone(unreadable):
		if was.Size > 0 {
			s.indexStale = true
			s.found(Lost, file, "", "the file is gone: it had %d bytes", was.Size)
		}
		return nil
	}
	info, err := os.Lstat(path)
	if err != nil {
		return err
	}
	s.rep.Bytes += int64(len(b))
	if compressed(b) && unreadable == nil {
		s.tally.unseen = true
		return nil
	}
	r, err := newBlock(s.name, index)
	if err != nil {
		return err
	}
	if s.sequel != nil {
		s.sequel.begin(index, b, isLast)
	}
	before, erased := s.last, false
	holes := r.read(b, func(m *Record) error {
		if m.Seq <= s.last && !m.tombstone {
			return errTwice
		}
		if Ours(s.name) && !s.subjects.fit(m) {
			return errSubject
		}
		s.gap = s.gap || m.Seq > s.last+1
		s.last = max(s.last, m.Seq)
		s.check.see(s.remembered, m)
		s.delivery.see(m)
		if s.clean || s.sequel != nil {
			s.tally.see(m)
		}
		if s.sequel != nil {
			s.sequel.see(index, m)
		}
		if _, removed := slices.BinarySearch(s.removed, m.Seq); removed && !m.Gone {
			if s.erases {
				r.erase(m.bytes, m.Seq)
				erased = true
			}
			m = &Record{Seq: m.Seq, Gone: true}
		}
		if s.each != nil {
			s.each(m)
		}
		return nil
	})
	switch {
	case unreadable != nil:
		return s.salvage(file, b, holes, unreadable)
	case len(holes) > 0 || info.Size() > int64(len(b)):
		return s.cut(file, b, holes, isLast, before)
	case known && info.Size() != was.Size:
		s.indexStale = true
		s.found(Lost, file, "", "the file has %d bytes, it had %d", info.Size(), was.Size)
	}
	if erased && s.o.Aside != "" {
		return replace(path, b)
	}
	return nil
}

// salvage moves an unreadable block aside and writes its readable records in its place.
func (s *checking) salvage(file string, b []byte, holes []hole, unreadable error) error {
	s.indexStale = true
	kept, err := s.putAside(file)
	if err != nil {
		return err
	}
	good, _ := without(b, holes)
	s.found(Lost, file, kept, "it cannot be read, but for %d bytes: %v", len(good), plain(unreadable))
	if !s.mayMove || len(good) == 0 {
		return nil
	}
	return replace(filepath.Join(s.root, filepath.FromSlash(file)), good)
}

// without returns a block without its holes, and the bytes of the holes.
func without(b []byte, holes []hole) (good, bad []byte) {
	good = make([]byte, 0, len(b))
	at := 0
	for _, h := range holes {
		good = append(good, b[at:h.from]...)
		bad = append(bad, b[h.from:h.to]...)
		at = h.to
	}
	return append(good, b[at:]...), bad
}

// cut writes a block without its holes, and keeps those aside.
func (s *checking) cut(file string, b []byte, holes []hole, isLast bool, before uint64) error {
	s.indexStale = true
	good, bad := without(b, holes)
	level, end := Lost, hole{}
	if len(holes) > 0 {
		end = holes[len(holes)-1]
		level = s.atEnd(end, max(before, end.after), isLast && end.to == len(b))
	}
	if level == Unfinished {
		bad = bad[:len(bad)-(end.to-end.from)] // no sender was told that it was stored
	}
	kept, err := s.keepAside(file, bad)
	if s.mayMove && err == nil {
		err = replace(filepath.Join(s.root, filepath.FromSlash(file)), good)
	}
	if err != nil {
		return err
	}
	if damaged := slices.DeleteFunc(slices.Clone(holes), twice); len(damaged) < len(holes) {
		size := 0
		for _, h := range holes {
			if twice(h) {
				size += h.to - h.from
			}
		}
		s.found(Made, file, kept, "%d bytes in %d places are there twice: the second ones are cut off", size, len(holes)-len(damaged))
		if holes = damaged; len(holes) == 0 {
			return nil
		}
	}
	switch {
	case len(holes) == 0:
		s.found(Lost, file, kept, "the file is larger than any that the server writes: what is behind %d bytes is cut off", len(b))
	case level == Unfinished:
		s.found(level, file, "", "the last write behind message %d was not finished: %d bytes are cut off, whose sender was not told that they are kept", max(before, end.after), end.to-end.from)
	case level == Recent && s.remembered == nil:
		s.found(level, file, kept, "the last %d bytes, behind message %d, are damaged: %v; what they held cannot be told, since nothing was remembered of the stream", end.to-end.from, max(before, end.after), end.err)
	case level == Recent:
		s.found(level, file, kept, "the last %d bytes, behind message %d, are damaged, as after a power cut: %v", end.to-end.from, max(before, end.after), end.err)
	}
	if level != Lost {
		holes = holes[:len(holes)-1]
	}
	if len(holes) == 0 {
		return nil
	}
	size := 0
	var subjects []string
	for _, h := range holes {
		size += h.to - h.from
		if subject := clean(h.subject); subject != "" && len(subjects) < maxSubjects && !slices.Contains(subjects, subject) {
			subjects = append(subjects, subject)
		}
	}
	first := holes[0]
	f := s.found(Lost, file, kept, "%d bytes in %d places are damaged, the first behind message %d: %v", size, len(holes), max(before, first.after), first.err)
	f.Subjects = subjects
	return nil
}

// twice reports whether a hole repeats earlier records.
func twice(h hole) bool { return errors.Is(h.err, errTwice) }

// atEnd returns the level of a hole after the message with the sequence after. At the end of the stream, a hole may be the write that was under way
// when the process or the machine ended: Unfinished when it is truncated and comes after everything remembered, else Recent. Anywhere else, after a
// proper shutdown, and below what is known to be on the disk, it is Lost.
func (s *checking) atEnd(h hole, after uint64, end bool) Level {
	switch {
	case !end || s.clean || twice(h) || s.remembered != nil && after < s.remembered.Durable:
		return Lost
	case errors.Is(h.err, errCut) && s.remembered != nil && after >= s.remembered.Last:
		return Unfinished
	}
	return Recent
}

// maxSubjects bounds the subjects that a finding names.
const maxSubjects = 10

// clean returns the beginning of a subject; "" when it is not printable, since it may be damaged.
func clean(subject string) string {
	for _, r := range subject {
		if r <= ' ' || r > '~' {
			return ""
		}
	}
	return subject[:min(len(subject), 200)]
}

// end checks that the stream ends where the memory says.
func (s *checking) end() error {
	// The index of a server that was killed lists at most what is remembered, unless the memory is that of an older state, as of a backup that was put
	// over a newer store, or another server has used the stream.
	if was := s.lists.last; !s.clean && was > s.last && (s.remembered == nil || was > s.remembered.Last) {
		s.found(Lost, "", "", "messages %d to %d are gone, which the server has listed", s.last+1, was)
		return s.goOn(was)
	}
	if s.remembered == nil {
		return nil
	}
	if s.o.Memory.Clean && !s.clean { // another server has used it
		return nil
	}
	was, level := s.remembered.Last, Lost
	// The index is the server's state at its shutdown, unless an older index was put in its place: then only the end of the stream is compared.
	if s.clean && !s.indexStale && s.lists.last >= was && s.lists.sum == s.remembered.Files[messagesDir+"/"+indexState].Sum {
		lacks := s.tally.lacks(s.lists.messages, s.lists.first, s.lists.last, s.queue)
		if lacks == "" {
			return nil
		}
		s.indexStale = true
		s.found(Lost, "", "", "%s are gone, which the server had when it ended", lacks)
		if s.last >= was {
			return nil
		}
		return s.goOn(was)
	}
	if had := s.remembered.Had; had != nil && !s.clean && s.last >= was {
		lacks, why := s.tally.lacks(had.Messages, had.First, was, s.queue), "the files were replaced while the server ran"
		if !s.replaced() {
			lacks, why = s.killed(was), "the server had them when it was last looked at, before it was killed"
		}
		if lacks != "" {
			s.indexStale = true
			s.found(Lost, "", "", "%s are gone: %s", lacks, why)
		}
	}
	switch {
	case s.last >= was:
		return nil
	case !s.clean && s.last >= s.remembered.Durable:
		level = Recent
	}
	if level == Recent {
		s.found(level, "", "", "messages %d to %d are gone, as after a power cut: the last second before one is kept for certain only with --sync always", s.last+1, was)
		return nil
	}
	s.found(level, "", "", "messages %d to %d are gone", s.last+1, was)
	return s.goOn(was)
}

// goOn makes the stream continue after the sequence at which it ended: lost sequences are not used again, since others may refer to them.
func (s *checking) goOn(was uint64) error {
	s.last, s.indexStale = was+1, true
	if s.each != nil {
		s.each(&Record{Seq: s.last, Gone: true})
	}
	if !s.mayMove {
		return nil
	}
	b, err := newBlock(s.name, s.index+1)
	if err != nil {
		return err
	}
	dir := filepath.Join(s.root, messagesDir)
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return err
	}
	return replace(filepath.Join(s.root, filepath.FromSlash(blockFileOf(s.index+1))), b.tombstone(s.last, s.o.Now()))
}
