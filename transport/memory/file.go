package memory

import (
	"bytes"
	"context"
	"fmt"
	"iter"
	"maps"
	"slices"
	"time"

	"github.com/cortex-orchestrator/cortex/transport"
)

// maxFileBytes bounds the files of a world.
const maxFileBytes = 1 << 30

var (
	_ transport.Files      = (*Bus)(nil)
	_ transport.FileKeeper = (*Bus)(nil)
)

// object is a stored file.
type object struct {
	chunks map[int][]byte
	stored time.Time // the time of the latest chunk
}

// PutChunk implements [transport.Files].
func (b *Bus) PutChunk(ctx context.Context, o transport.Object, n int, sealed []byte) error {
	if err := transport.ValidateChunk(o, n, sealed); err != nil {
		return err
	}
	if err := b.lock(ctx); err != nil {
		return err
	}
	defer b.w.mu.Unlock()
	w := b.w
	is := w.files[o]
	if is == nil {
		is = &object{chunks: map[int][]byte{}}
	}
	more := len(sealed) - len(is.chunks[n])
	if w.fileBytes+more > maxFileBytes {
		return fmt.Errorf("%w: %s are kept, which is as much as there may be: delete conversations that have some (`cortex conversations delete`)", transport.ErrFilesFull, transport.SizeText(int64(w.fileBytes)))
	}
	w.fileBytes += more
	w.files[o] = is
	is.chunks[n], is.stored = bytes.Clone(sealed), time.Now()
	return nil
}

// Chunk implements [transport.Files].
func (b *Bus) Chunk(ctx context.Context, o transport.Object, n int) ([]byte, error) {
	if err := b.lock(ctx); err != nil {
		return nil, err
	}
	defer b.w.mu.Unlock()
	if is := b.w.files[o]; is != nil && is.chunks[n] != nil {
		return bytes.Clone(is.chunks[n]), nil
	}
	return nil, fmt.Errorf("%w: chunk %d of %s", transport.ErrNotFound, n, o.ID)
}

// Objects implements [transport.FileKeeper].
func (b *Bus) Objects(ctx context.Context, tenant string) iter.Seq2[transport.Object, error] {
	return func(yield func(transport.Object, error) bool) {
		if err := b.lock(ctx); err != nil {
			yield(transport.Object{}, err)
			return
		}
		all := slices.Collect(maps.Keys(b.w.files))
		b.w.mu.Unlock()
		for _, o := range all {
			if o.Tenant == tenant && !yield(o, nil) {
				return
			}
		}
	}
}

// Stored implements [transport.FileKeeper].
func (b *Bus) Stored(ctx context.Context, o transport.Object) (time.Time, int64, error) {
	if err := b.lock(ctx); err != nil {
		return time.Time{}, 0, err
	}
	defer b.w.mu.Unlock()
	is := b.w.files[o]
	if is == nil {
		return time.Time{}, 0, fmt.Errorf("%w: file %s", transport.ErrNotFound, o.ID)
	}
	bytes := 0
	for _, c := range is.chunks {
		bytes += len(c)
	}
	return is.stored, int64(bytes), nil
}

// Awaited implements [transport.FileKeeper].
func (b *Bus) Awaited(ctx context.Context, tenant, contextID string) (map[transport.Object]bool, error) {
	if err := b.lock(ctx); err != nil {
		return nil, err
	}
	defer b.w.mu.Unlock()
	named := map[transport.Object]bool{}
	name := func(r *record) {
		for _, o := range transport.NamedFiles(tenant, r.body) {
			named[o] = true
		}
	}
	for t, in := range b.w.inboxes {
		if t.Tenant != tenant {
			continue
		}
		if a := in.delayed[contextID]; a != nil {
			name(a.r)
		}
		if c := in.convs[contextID]; c != nil {
			for _, it := range c.waiting {
				name(it.r)
			}
			for it := range c.handling {
				name(it.r)
			}
		}
	}
	for _, d := range b.w.dead[tenant] {
		if d.r.envelope.ContextID == contextID {
			name(d.r)
		}
	}
	return named, nil
}

// RemoveObject implements [transport.FileKeeper].
func (b *Bus) RemoveObject(ctx context.Context, o transport.Object) error {
	if err := b.lock(ctx); err != nil {
		return err
	}
	defer b.w.mu.Unlock()
	b.w.removeFile(o)
	return nil
}

// removeFile removes an object. w.mu is held.
func (w *world) removeFile(o transport.Object) {
	if is := w.files[o]; is != nil {
		for _, c := range is.chunks {
			w.fileBytes -= len(c)
		}
		delete(w.files, o)
	}
}

// removeFiles removes the files of a conversation. w.mu is held.
func (w *world) removeFiles(tenant, contextID string) {
	for _, o := range slices.Collect(maps.Keys(w.files)) {
		if o.Tenant == tenant && o.ContextID == contextID {
			w.removeFile(o)
		}
	}
}
