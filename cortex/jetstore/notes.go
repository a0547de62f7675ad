package jetstore

import (
	"context"
	"errors"
	"fmt"
	"iter"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"github.com/cortex-orchestrator/cortex/cortex/conversation"
	"github.com/cortex-orchestrator/cortex/cortex/storage"
	"github.com/cortex-orchestrator/cortex/internal/rest"
	"github.com/cortex-orchestrator/cortex/transport"
)

const (
	// markersFor is how long the server keeps the marker of a deleted note, so that the markers of short-lived names do not accumulate.
	markersFor = time.Hour
	// noteTries bounds the attempts that fail because other processes are faster.
	noteTries = 100

	notesStream  = "KV_" + Notes
	notesSubject = "$KV." + Notes + "."
)

// noteKey returns the place of a note: its key in the bucket.
func noteKey(tenant, kind, key string) string { return shelf(tenant, kind) + transport.Escape(key) }

// shelf returns the prefix of the keys of a kind.
func shelf(tenant, kind string) string {
	return transport.Escape(tenant) + "." + transport.Escape(kind) + "."
}

// isSealed reports whether notes of a kind are sealed. People read the others through their gateway, and outlines, whose keys they can read there
// too: outlines contain no more than the logs do, but it must be possible to erase them.
func isSealed(kind string) bool {
	return kind != storage.NoteAgent && kind != storage.NoteRefusal && kind != storage.NoteDeletion && kind != storage.NoteErased && kind != storage.NoteCall
}

// errSealed is the error without access to the keys.
var errSealed = fmt.Errorf("%w: it is sealed", transport.ErrForbidden)

// note is the content of a place: a note, or nothing.
type note struct {
	revision uint64 // of the last message there, which may be a marker; 0 when there is none
	there    bool
	value    []byte
	secret   secret // the key that seals it
}

// version returns the version that callers see.
func (n note) version() conversation.Version {
	if !n.there {
		return 0
	}
	return conversation.Version(n.revision)
}

// Note implements [storage.Notes]. With several replicas it may return a slightly older state, except for the marks of deleted conversations: an
// orchestrator that missed one would decide again what was deleted.
func (s *Store) Note(ctx context.Context, tenant, kind, key string) (storage.Note, error) {
	at := noteKey(tenant, kind, key)
	if kind == storage.NoteErased && s.replicated {
		n, err := s.noteAt(ctx, at)
		if err != nil {
			return storage.Note{}, fmt.Errorf("note of %s %q: %w", kind, key, away(ctx, err))
		}
		if !n.there {
			n.value = nil
		}
		return storage.Note{Key: key, Value: n.value, Version: n.version()}, nil
	}
	kv, err := s.notes.Get(ctx, at)
	var n note
	switch {
	case errors.Is(err, jetstream.ErrKeyNotFound):
		return storage.Note{Key: key}, nil
	case err == nil:
		n = note{revision: kv.Revision(), there: true, value: kv.Value()}
		if isSealed(kind) {
			n, err = s.unseal(ctx, at, n)
		}
	}
	if err != nil {
		return storage.Note{}, fmt.Errorf("note of %s %q: %w", kind, key, away(ctx, err))
	}
	return storage.Note{Key: key, Value: n.value, Version: n.version()}, nil
}

// Notes implements [storage.Notes].
func (s *Store) Notes(ctx context.Context, tenant, kind string) iter.Seq2[storage.Note, error] {
	return func(yield func(storage.Note, error) bool) {
		failed := func(err error) { yield(storage.Note{}, fmt.Errorf("notes of %s: %w", kind, away(ctx, err))) }
		if err := ctx.Err(); err != nil {
			failed(err)
			return
		}
		var secrets map[string][]secret // all at once, since there may be thousands of notes
		if isSealed(kind) && (s.seals || kind == storage.NoteOutline) {
			var err error
			if secrets, err = s.secrets(ctx, shelf(tenant, kind)); err != nil {
				failed(err)
				return
			}
		}
		_, err := s.readNotes(ctx, shelf(tenant, kind), 1, func(at string, n note) (bool, error) {
			key, err := transport.Unescape(at[strings.LastIndexByte(at, '.')+1:])
			if err != nil {
				return true, nil // not written by PutNote
			}
			if isSealed(kind) {
				if s.seals {
					n, err = s.unseal(ctx, at, n, secrets[at]...)
				} else {
					n, err = opened(kind, at, n, secrets[at])
				}
				if err != nil {
					return false, err
				}
				if keys := secrets[at]; n.secret.seq == 0 || len(keys) > 0 && keys[0].seq >= n.secret.seq {
					delete(secrets, at) // nothing for tidy
				}
			}
			return !n.there || yield(storage.Note{Key: key, Value: n.value, Version: n.version()}, nil), nil
		})
		switch {
		case err == nil && !s.seals:
		case err == nil:
			s.tidy(ctx, slices.Sorted(maps.Keys(secrets)))
		case !errors.Is(err, errEnough):
			failed(err)
		}
	}
}

// errEnough ends readNotes when each returns false.
var errEnough = errors.New("that is enough")

var _ storage.NewNotes = (*Store)(nil)

// NewNotes implements [storage.NewNotes]. It reads what is new in the stream, and needs no keys.
func (s *Store) NewNotes(ctx context.Context, tenant, kind string, since conversation.Version) ([]string, conversation.Version, error) {
	var keys []string
	next, err := s.readNotes(ctx, shelf(tenant, kind), uint64(since)+1, func(at string, _ note) (bool, error) {
		if key, err := transport.Unescape(at[strings.LastIndexByte(at, '.')+1:]); err == nil { // or else not written by PutNote
			keys = append(keys, key)
		}
		return true, nil
	})
	if err != nil {
		return nil, since, fmt.Errorf("new notes of %s: %w", kind, away(ctx, err))
	}
	return keys, conversation.Version(next - 1), nil
}

// readNotes calls each for the notes on a shelf, from a sequence of the stream on, until it returns false or an error; it returns the sequence behind what
// it has read. A note that is replaced meanwhile may come again. Like lasts, it makes no consumer.
func (s *Store) readNotes(ctx context.Context, shelf string, from uint64, each func(at string, n note) (bool, error)) (next uint64, err error) {
	filter := notesSubject + shelf + "*"
	r, err := s.newReader(notesStream, filter, from)
	if err != nil {
		return from, err
	}
	defer r.close()
	for lag := time.Duration(0); ; {
		msgs, left, err := r.batch(ctx)
		if err != nil && !errors.Is(err, errNotFound) {
			return r.next, err
		}
		if len(msgs) > 0 {
			lag = 0
		}
		for i := range msgs {
			m := &msgs[i]
			if isMarker(m.headers) {
				continue
			}
			more, err := each(strings.TrimPrefix(m.subject, notesSubject), note{revision: m.seq, there: true, value: m.data})
			if err != nil {
				return r.next, err
			}
			if !more {
				return r.next, errEnough
			}
		}
		if err == nil && left > 0 {
			continue
		}
		// A replaced note has moved to the end, which another replica than the one that answered may not have yet.
		if !s.replicated {
			return r.next, nil
		}
		last, err := s.getFromLeader(ctx, notesStream, msgGet{Last: filter})
		if err != nil || last.seq < r.next {
			return r.next, err
		}
		if lag += lagStep; lag > s.timeout {
			return r.next, fmt.Errorf("the replica that answers is behind: it has nothing from %d on, the last is %d", r.next, last.seq)
		}
		if err := rest.For(ctx, lagStep); err != nil {
			return r.next, err
		}
	}
}

// unseal opens a note with one of the known keys, or else with its own key from the server. The note may have been replaced since it was read, and
// its key erased: then unseal returns the present note. A note whose key is missing all the same, after a power cut, counts as none.
func (s *Store) unseal(ctx context.Context, at string, n note, known ...secret) (note, error) {
	for range noteTries {
		seq := sealedWith(n.value)
		switch {
		case !n.there || seq == 0:
			return n, nil
		case !s.seals:
			return note{}, errSealed
		}
		epoch := s.epoch()
		if r, ok := s.ring.find(at, epoch); ok {
			known = append(known[:len(known):len(known)], r.secret)
		}
		i := slices.IndexFunc(known, func(k secret) bool { return k.seq == seq })
		if i < 0 {
			k, err := s.secretAt(ctx, at, seq)
			if err != nil {
				return note{}, err
			}
			known, i = append(known[:len(known):len(known)], k), len(known)
		}
		if known[i].seq == seq {
			if value, err := known[i].open(at, n.value); err == nil {
				n.value, n.secret = value, known[i]
				s.ring.keep(at, epoch, cachedKey{n.revision, n.secret})
				return n, nil
			}
		}
		is, err := s.noteAt(ctx, at)
		if err != nil {
			return note{}, err
		}
		if is.revision == n.revision {
			return note{revision: n.revision}, nil
		}
		n, known = is, nil
	}
	return note{}, fmt.Errorf("%w: others replaced it %d times", storage.ErrConflict, noteTries)
}

// opened is unseal for people, who can read the keys of outlines only, and only all at once. An outline whose key has changed meanwhile counts as
// none.
func opened(kind, at string, n note, known []secret) (note, error) {
	seq := sealedWith(n.value)
	switch {
	case !n.there || seq == 0:
		return n, nil
	case kind != storage.NoteOutline:
		return note{}, errSealed
	}
	for _, k := range known {
		if value, err := k.open(at, n.value); err == nil && k.seq == seq {
			n.value, n.secret = value, k
			return n, nil
		}
	}
	return note{revision: n.revision}, nil
}

// noteAt asks the leader of the stream of notes for the content of a place. It does not unseal it.
func (s *Store) noteAt(ctx context.Context, at string) (note, error) {
	m, err := s.getFromLeader(ctx, notesStream, msgGet{Last: notesSubject + at})
	if err != nil || m.seq == 0 {
		return note{}, err
	}
	n := note{revision: m.seq, there: true, value: m.data}
	if len(m.header) > 0 {
		h, err := nats.DecodeHeadersMsg(m.header)
		if err != nil {
			return note{}, err
		}
		n.there = !isMarker(h)
	}
	return n, nil
}

// PutNote implements [storage.Notes].
func (s *Store) PutNote(ctx context.Context, tenant, kind string, n storage.Note) (conversation.Version, error) {
	v, err := s.put(ctx, tenant, kind, n, false)
	if err != nil {
		return 0, fmt.Errorf("put note of %s %q at version %d: %w", kind, n.Key, n.Version, away(ctx, err))
	}
	return v, nil
}

// EraseNote implements [storage.Notes]: it replaces the note's key with the note. Notes of older versions were not sealed, and the server's files
// still contain those.
func (s *Store) EraseNote(ctx context.Context, tenant, kind string, n storage.Note) (conversation.Version, error) {
	v, err := s.put(ctx, tenant, kind, n, true)
	if err != nil {
		return 0, fmt.Errorf("erase note of %s %q at version %d: %w", kind, n.Key, n.Version, away(ctx, err))
	}
	return v, nil
}

func (s *Store) put(ctx context.Context, tenant, kind string, n storage.Note, erase bool) (conversation.Version, error) {
	if len(n.Value) > storage.MaxNote {
		return 0, fmt.Errorf("%w: %d bytes, at most %d are allowed", transport.ErrTooLarge, len(n.Value), storage.MaxNote)
	}
	if err := transport.CheckID(n.Key); err != nil {
		return 0, fmt.Errorf("%w: key %w", transport.ErrInvalid, err)
	}
	at := noteKey(tenant, kind, n.Key)
	if isSealed(kind) {
		return s.putSealed(ctx, at, n, erase)
	}
	var revision uint64
	var err error
	if n.Version == 0 {
		revision, err = s.notes.Create(ctx, at, n.Value)
	} else {
		revision, err = s.notes.Update(ctx, at, n.Value, uint64(n.Version))
	}
	if errors.Is(err, jetstream.ErrKeyExists) || errors.Is(err, jetstream.ErrKeyRevisionMismatch) {
		err = fmt.Errorf("%w: %w", storage.ErrConflict, err)
	}
	return conversation.Version(revision), err
}

// putSealed puts a note by the rules in keys.go: at the version that the caller has seen, with that version's key or a new one.
func (s *Store) putSealed(ctx context.Context, at string, n storage.Note, erase bool) (conversation.Version, error) {
	if !s.seals {
		return 0, errSealed
	}
	epoch := s.epoch()
	known, found := s.ring.find(at, epoch)
	if !found || known.absent() != (n.Version == 0) || n.Version != 0 && known.revision != uint64(n.Version) {
		is, err := s.noteAt(ctx, at)
		if err == nil {
			is, err = s.unseal(ctx, at, is)
		}
		if err != nil {
			return 0, err
		}
		if is.version() != n.Version {
			return 0, fmt.Errorf("%w: its version is %d", storage.ErrConflict, is.version())
		}
		known = cachedKey{is.revision, is.secret}
	}
	if known.secret.seq == 0 || erase {
		var err error
		if known.secret, err = s.newSecret(ctx, at); err != nil {
			return 0, err
		}
	}
	value, err := known.secret.seal(at, n.Value)
	if err != nil {
		return 0, err
	}
	ack, err := s.js.PublishMsg(ctx, &nats.Msg{Subject: notesSubject + at, Data: value},
		jetstream.WithExpectStream(notesStream), jetstream.WithExpectLastSequencePerSubject(known.revision))
	if err != nil {
		s.ring.drop(at)
		if isConflict(err) {
			err = fmt.Errorf("%w: %w", storage.ErrConflict, err)
		}
		return 0, err
	}
	s.ring.keep(at, epoch, cachedKey{ack.Sequence, known.secret})
	if erase {
		if err := s.eraseSecrets(ctx, at, known.secret.seq); err != nil {
			return 0, fmt.Errorf("it is replaced, but its old value can still be read: %w", err)
		}
	}
	return conversation.Version(ack.Sequence), nil
}

// DeleteNote implements [storage.Notes]. If the note was sealed, its old values cannot be read any more.
func (s *Store) DeleteNote(ctx context.Context, tenant, kind, key string, version conversation.Version) error {
	at := noteKey(tenant, kind, key)
	var err error
	if isSealed(kind) {
		err = s.deleteSealed(ctx, at, version, false)
	} else if _, err = s.notes.Get(ctx, at); errors.Is(err, jetstream.ErrKeyNotFound) {
		return nil // no marker for a note that never existed
	} else {
		o := []jetstream.KVDeleteOpt{jetstream.PurgeTTL(markersFor)}
		if version != 0 {
			o = append(o, jetstream.LastRevision(uint64(version)))
		}
		if err = s.notes.Purge(ctx, at, o...); isConflict(err) {
			err = fmt.Errorf("%w: %w", storage.ErrConflict, err)
		}
	}
	if err != nil {
		return fmt.Errorf("delete note of %s %q: %w", kind, key, away(ctx, err))
	}
	return nil
}

// deleteSealed deletes a note, of a version that is not 0 if there is one by then, and its keys, in the order of the rules in keys.go. It also writes a marker when only keys are
// left: without one, a process that makes the note anew could lose its key. With onlyKeys it leaves a note that is there, with its keys.
func (s *Store) deleteSealed(ctx context.Context, at string, version conversation.Version, onlyKeys bool) error {
	if !s.seals {
		return errSealed
	}
	defer s.ring.drop(at)
	for range noteTries {
		n, err := s.noteAt(ctx, at)
		if err != nil || onlyKeys && n.there {
			return err
		}
		if n.there && version != 0 && n.revision != uint64(version) {
			return fmt.Errorf("%w: it has version %d", storage.ErrConflict, n.revision)
		}
		newest, err := s.getFromLeader(ctx, Keys, msgGet{Last: keySubject + at})
		if err != nil {
			return err
		}
		if !n.there && newest.seq == 0 {
			return nil
		}
		_, err = s.js.PublishMsg(ctx, &nats.Msg{
			Subject: notesSubject + at, Header: nats.Header{"KV-Operation": {"PURGE"}, jetstream.MsgRollup: {jetstream.MsgRollupSubject}},
		}, jetstream.WithExpectStream(notesStream), jetstream.WithExpectLastSequencePerSubject(n.revision), jetstream.WithMsgTTL(markersFor))
		if isConflict(err) {
			continue
		}
		if err != nil {
			return err
		}
		return s.eraseSecrets(ctx, at, newest.seq+1)
	}
	return fmt.Errorf("%w: others replaced it %d times", storage.ErrConflict, noteTries)
}

// tidy erases keys at places where a killed process has left some. What it cannot do, the next call does.
func (s *Store) tidy(ctx context.Context, places []string) {
	for _, at := range places {
		n, err := s.noteAt(ctx, at)
		switch {
		case err != nil:
		case !n.there:
			err = s.deleteSealed(ctx, at, 0, true) // it may be made anew just now
		default:
			if n, err = s.unseal(ctx, at, n); err == nil && n.secret.seq > 0 {
				err = s.eraseSecrets(ctx, at, n.secret.seq)
			}
		}
		if err != nil {
			s.log.Warn("keys of deleted notes are not erased", "err", err)
			return
		}
	}
}
