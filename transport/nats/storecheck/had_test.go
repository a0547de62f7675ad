package storecheck

import (
	"bytes"
	"cmp"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"testing"

	"github.com/nats-io/nats.go/jetstream"
)

// bucketName is the stream of a bucket.
const bucketName = "KV_CORTEX_TEST"

// runs is a store with a running server and 15 messages, five in a block.
type runs struct {
	t   *testing.T
	dir string
	js  jetstream.JetStream
	s   jetstream.Stream
}

func running(t *testing.T, c jetstream.StreamConfig) *runs {
	t.Helper()
	r := &runs{t: t, dir: t.TempDir()}
	var stop func()
	r.js, stop = serve(t, r.dir)
	t.Cleanup(stop)
	c.Name, c.Subjects, c.Storage = cmp.Or(c.Name, stream), []string{"test.>"}, jetstream.FileStorage
	c.MaxMsgsPerSubject = 1 // makes the blocks smaller
	var err error
	if r.s, err = r.js.CreateStream(t.Context(), c); err != nil {
		t.Fatal(err)
	}
	for i := range 15 {
		r.publish(fmt.Sprint("test.", i))
	}
	return r
}

func (r *runs) publish(subject string) {
	r.t.Helper()
	if _, err := r.js.Publish(r.t.Context(), subject, bytes.Repeat([]byte("w"), 800<<10)); err != nil {
		r.t.Fatal(err)
	}
}

// remember returns the memory of the store while its server runs.
func (r *runs) remember() *Memory {
	r.t.Helper()
	place, err := Placed(r.dir, "$G/"+r.s.CachedInfo().Config.Name)
	if err != nil {
		r.t.Fatal(err)
	}
	info, err := r.s.Info(r.t.Context())
	if err != nil {
		r.t.Fatal(err)
	}
	return &Memory{Streams: map[string]*Remembered{"$G/" + info.Config.Name: {
		Last: info.State.LastSeq, Durable: info.State.LastSeq, Had: &Had{Messages: info.State.Msgs, First: info.State.FirstSeq, Place: place},
	}}}
}

// killed returns a copy of the store, as after a kill of its server. A check without changes needs no copy: the server does nothing meanwhile.
func (r *runs) killed() string {
	r.t.Helper()
	dir := r.t.TempDir()
	if err := os.CopyFS(dir, os.DirFS(r.dir)); err != nil {
		r.t.Fatal(err)
	}
	return dir
}

func (r *runs) remove(seqs ...uint64) {
	r.t.Helper()
	for _, seq := range seqs {
		if err := r.s.DeleteMsg(r.t.Context(), seq); err != nil {
			r.t.Fatal(err)
		}
	}
}

// TestKilled removes a block after a kill, or replaces it by an older one, with and without removals and writes since the last memory. The check
// reports everything that is missing, except messages whose removal the server has recorded.
func TestKilled(t *testing.T) {
	for name, since := range map[string]func(r *runs){
		"at rest":            func(*runs) {},
		"some are removed":   func(r *runs) { r.remove(2, 7, 14) },
		"a block is removed": func(r *runs) { r.remove(1, 2, 3, 4, 5) },
		"some are written":   func(r *runs) { r.publish("test.more") },
		"a block is written": func(r *runs) {
			r.publish("test.a")
			r.publish("test.b")
			r.publish("test.c")
			r.publish("test.d")
			r.publish("test.e")
			r.publish("test.f")
		},
		"one is written again":  func(r *runs) { r.publish("test.7") },
		"one is removed safely": func(r *runs) { _ = r.s.SecureDeleteMsg(r.t.Context(), 7) },
	} {
		for _, retention := range []jetstream.RetentionPolicy{jetstream.LimitsPolicy, jetstream.WorkQueuePolicy} {
			t.Run(fmt.Sprint(name, " ", retention), func(t *testing.T) {
				r := running(t, jetstream.StreamConfig{Retention: retention, Discard: jetstream.DiscardOld})
				m := r.remember()
				since(r)
				if found := examine(t, r.dir, Options{Memory: m}).Findings; len(found) > 0 {
					t.Fatalf("the check finds %+v before anything is damaged", found)
				}
				for what, damage := range map[string]func(path string) error{
					"removed": os.Remove,
					"emptied": func(path string) error { return os.Truncate(path, 0) },
				} {
					dir := r.killed()
					if err := damage(blockFile(dir, 2)); err != nil {
						t.Fatal(err)
					}
					o := Options{Memory: m, Aside: t.TempDir()}
					if !lostWith(examine(t, dir, Options{Memory: m}), "of 15 messages are gone") || !lostWith(examine(t, dir, o), "of 15 messages are gone") {
						t.Errorf("a block was %s, and the check does not find that it is missing", what)
					}
				}
			})
		}
	}
}

// TestKilledRemoving removes all messages one by one. After a kill at any time, no message that the server had is reported as lost.
func TestKilledRemoving(t *testing.T) {
	for _, retention := range []jetstream.RetentionPolicy{jetstream.LimitsPolicy, jetstream.WorkQueuePolicy} {
		for _, order := range []string{"first to last", "last to first", "every other"} {
			t.Run(fmt.Sprint(retention, " ", order), func(t *testing.T) {
				r := running(t, jetstream.StreamConfig{Retention: retention, Discard: jetstream.DiscardOld})
				before := []*Memory{r.remember()}
				for i := range uint64(15) {
					seq := i + 1
					switch order {
					case "last to first":
						seq = 15 - i
					case "every other":
						seq = i*2%15 + 1
					}
					r.remove(seq)
					for n, m := range before {
						if found := examine(t, r.dir, Options{Memory: m}).Findings; len(found) > 0 {
							t.Fatalf("after %d were removed, %d of them were known, the check finds %+v", i+1, n, found)
						}
					}
					before = append(before, r.remember())
				}
			})
		}
	}
}

// TestKilledDropping has a stream that drops its oldest messages for new ones.
func TestKilledDropping(t *testing.T) {
	r := running(t, jetstream.StreamConfig{MaxMsgs: 15, Discard: jetstream.DiscardOld})
	m := r.remember()
	for i := range 12 {
		r.publish(fmt.Sprint("test.more.", i))
		if found := examine(t, r.dir, Options{Memory: m}).Findings; len(found) > 0 {
			t.Fatalf("with %d new messages the check finds %+v", i+1, found)
		}
	}
}

// TestKilledUnknown has a memory of an older version, which did not record where the blocks end, and one of a removed stream.
func TestKilledUnknown(t *testing.T) {
	r := running(t, jetstream.StreamConfig{})
	m := r.remember()
	m.Streams["$G/"+stream].Had.Place = Place{}
	r.remove(1, 2, 3, 4, 5, 6)
	if found := examine(t, r.dir, Options{Memory: m}).Findings; len(found) > 0 {
		t.Errorf("the check finds %+v", found)
	}
	if _, err := Placed(r.dir, "$G/gone"); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("Placed of no stream = %v, want that it is not there", err)
	}
}

// TestKilledBucket does the same with a bucket, whose server leaves no record of a message that is written again. What expires while it runs, or when it is
// started again, is not lost.
func TestKilledBucket(t *testing.T) {
	for name, since := range map[string]func(r *runs){
		"at rest":               func(*runs) {},
		"some are written":      func(r *runs) { r.publish("test.more") },
		"some are written anew": func(r *runs) { r.publish("test.1"); r.publish("test.7"); r.publish("test.14") },
		"a block is written anew": func(r *runs) {
			for i := range 5 {
				r.publish(fmt.Sprint("test.", i))
			}
		},
		"one is removed safely": func(r *runs) { _ = r.s.SecureDeleteMsg(r.t.Context(), 7) },
		"one is purged":         func(r *runs) { _ = r.s.Purge(r.t.Context(), jetstream.WithPurgeSubject("test.13")) },
	} {
		t.Run(name, func(t *testing.T) {
			r := running(t, jetstream.StreamConfig{Name: bucketName, Discard: jetstream.DiscardNew})
			m := r.remember()
			since(r)
			before := examine(t, r.dir, Options{Memory: m})
			if len(before.Findings) > 0 {
				t.Fatalf("the check finds %+v before anything is damaged", before.Findings)
			}
			if had := before.Memory.Streams["$G/"+bucketName].Had; had != nil {
				t.Errorf("what the bucket had is %+v after the check, and what expires at the start would be lost", had)
			}
			dir := r.killed()
			if err := os.Remove(filepath.Join(dir, "jetstream", "$G", "streams", bucketName, "msgs", "2.blk")); err != nil {
				t.Fatal(err)
			}
			o := Options{Memory: m, Aside: t.TempDir()}
			if !lostWith(examine(t, dir, Options{Memory: m}), "of 15 messages are gone") {
				t.Error("a block was removed, and the check does not find that it is missing")
			}
			if !lostWith(examine(t, dir, o), "of 15 messages are gone") {
				t.Error("a block was removed, and the check at the start does not find that it is missing")
			}
		})
	}
}
