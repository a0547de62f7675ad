package transport

import (
	"bytes"
	"cmp"
	"context"
	"crypto/aes"
	"crypto/cipher"
	"crypto/rand"
	"crypto/sha256"
	"encoding/binary"
	"encoding/hex"
	"errors"
	"fmt"
	"hash"
	"io"
	"iter"
	"slices"
	"time"

	"github.com/a2aproject/a2a-go/v2/a2a"
	"github.com/google/uuid"
)

// Object identifies a file that a transport stores in chunks.
type Object struct {
	Tenant    string
	ContextID string // the conversation, with which it is erased
	From      string // the sender, as in Event.From
	ID        string
}

// FileChunk is the size of each chunk of a file except the last, in bytes.
const FileChunk = 256 << 10

// Files is implemented by transports that store files. Only [PutFile], [OpenFile] and the functions for parts use it. The chunks are encrypted, so a
// transport need not hide them from those who know their address.
type Files interface {
	// PutChunk stores the n-th chunk of an object, from 0, of at most [FileChunk] bytes and the overhead of the seal. Chunks are stored in order: an
	// implementation may refuse a chunk whose predecessor is missing. Storing a chunk again is harmless. Errors: ErrInvalid, ErrTooLarge, ErrFilesFull,
	// ErrForbidden, ErrUnavailable, ErrClosed, or ctx's.
	PutChunk(ctx context.Context, o Object, n int, sealed []byte) error
	// Chunk returns a chunk, or an error that wraps ErrNotFound.
	Chunk(ctx context.Context, o Object, n int) ([]byte, error)
}

// FileKeeper is implemented by transports whose files can be listed and removed. [Eraser] removes those of a conversation.
type FileKeeper interface {
	// Objects yields a tenant's stored objects, in any order.
	Objects(ctx context.Context, tenant string) iter.Seq2[Object, error]
	// Stored returns when the latest chunk of an object was stored, by the transport's clock, and the approximate number of bytes stored of it, or an
	// error that wraps ErrNotFound.
	Stored(ctx context.Context, o Object) (last time.Time, bytes int64, err error)
	// Awaited returns the objects to which undelivered, delayed and delivered events of a conversation in inboxes refer, and its dead letters.
	Awaited(ctx context.Context, tenant, contextID string) (map[Object]bool, error)
	// RemoveObject removes all of an object. A missing object is no error.
	RemoveObject(ctx context.Context, o Object) error
}

// Errors of files.
var (
	// ErrFilesFull means that there is no room for a file: the sender, or the store, has reached its limit. It is no ErrUnavailable: a retry helps only
	// after something was deleted.
	ErrFilesFull = errors.New("there is no room for more files")
	// ErrFileGone means that a file no longer exists: its conversation was deleted, or the store has lost it.
	ErrFileGone = errors.New("the file is gone")
	// ErrFileDamaged means that the content of a file is not what was stored.
	ErrFileDamaged = errors.New("the file is damaged")
)

const (
	fileKeySize = 32
	chunkSeal   = 16 // bytes that the seal adds to a chunk
	// maxChunks is more than any permitted file has; it bounds what can be stored as one object.
	maxChunks = 1 << 14
)

// ValidateChunk returns an error that wraps ErrInvalid unless a chunk may be stored. Transports call it in PutChunk.
func ValidateChunk(o Object, n int, sealed []byte) error {
	for _, id := range []struct{ name, value string }{{"contextID", o.ContextID}, {"from", o.From}, {"id", o.ID}, {"tenant", o.Tenant}} {
		if err := CheckID(id.value); err != nil && (id.name != "tenant" || id.value != "") {
			return fmt.Errorf("%w: file: %s %w", ErrInvalid, id.name, err)
		}
	}
	switch {
	case n < 0 || n >= maxChunks:
		return fmt.Errorf("%w: file: chunk %d, want one from 0 to %d", ErrInvalid, n, maxChunks-1)
	case len(sealed) < chunkSeal:
		return fmt.Errorf("%w: file: a chunk of %d bytes is not sealed", ErrInvalid, len(sealed))
	case len(sealed) > FileChunk+chunkSeal:
		return fmt.Errorf("%w: %w: file: a chunk of %d bytes, at most %d are allowed", ErrInvalid, ErrTooLarge, len(sealed), FileChunk+chunkSeal)
	}
	return nil
}

// sealFile returns the cipher for a file's key: AES-256-GCM. Each file has its own key, and the nonce of a chunk is derived from its number, so no
// nonce is used twice.
func sealFile(key []byte) (cipher.AEAD, error) {
	block, err := aes.NewCipher(key)
	if err != nil {
		return nil, err
	}
	return cipher.NewGCM(block)
}

// binding returns the nonce of a chunk, and its authenticated data: its number, whether it is the last chunk, and the object's id. So chunks cannot
// be modified, omitted or moved, nor the end cut off, without detection.
func binding(o Object, n int, last bool) (nonce, with []byte) {
	nonce = make([]byte, 12)
	binary.BigEndian.PutUint64(nonce[4:], uint64(n))
	with = append(append(with, nonce...), 0)
	if last {
		with[len(with)-1] = 1
	}
	return nonce, append(with, o.ID...)
}

// PutFile stores the content of r as a file of a conversation, at most limit bytes, and returns its reference. A larger file is an error that wraps
// ErrTooLarge. After an error, PutFile removes what it has stored if f permits it (see [FileKeeper]); otherwise a later sweep removes it.
func PutFile(ctx context.Context, f Files, tenant, contextID, from string, r io.Reader, limit int64) (FileRef, error) {
	return putFile(ctx, f, newRef(tenant, contextID, from), r, limit)
}

// newRef returns a reference to a file that will be stored.
func newRef(tenant, contextID, from string) FileRef {
	ref := FileRef{Object: Object{Tenant: tenant, ContextID: contextID, From: from, ID: uuid.NewString()}, Key: make([]byte, fileKeySize)}
	_, _ = rand.Read(ref.Key) // never fails
	return ref
}

// putFile stores the content of r at ref, and returns ref completed.
func putFile(ctx context.Context, f Files, ref FileRef, r io.Reader, limit int64) (_ FileRef, err error) {
	gcm, err := sealFile(ref.Key)
	if err != nil {
		return FileRef{}, err
	}
	sum, chunk, next := sha256.New(), make([]byte, FileChunk), make([]byte, FileChunk)
	tried := false // a chunk was sent
	defer func() {
		if err != nil && tried {
			withdraw(ctx, f, ref.Object)
		}
	}()
	have, rerr := io.ReadFull(r, chunk)
	for n := 0; ; n++ {
		if rerr != nil && !ends(rerr) {
			return FileRef{}, rerr
		}
		more := 0
		if rerr == nil { // whether there is more shows whether this chunk is the last
			if more, rerr = io.ReadFull(r, next); rerr != nil && !ends(rerr) {
				return FileRef{}, rerr
			}
		}
		if ref.Size += int64(have); ref.Size+int64(more) > limit {
			return FileRef{}, fmt.Errorf("%w: files may have at most %d bytes", ErrTooLarge, limit)
		}
		if n == 0 {
			ref.Head = textHead(chunk[:have])
		}
		sum.Write(chunk[:have])
		nonce, with := binding(ref.Object, n, more == 0)
		tried = true
		if err := f.PutChunk(ctx, ref.Object, n, gcm.Seal(nil, nonce, chunk[:have], with)); err != nil {
			return FileRef{}, fmt.Errorf("store a file: %w", err)
		}
		if more == 0 {
			ref.SHA256 = hex.EncodeToString(sum.Sum(nil))
			return ref, nil
		}
		chunk, next, have = next, chunk, more
	}
}

// withdrawTimeout bounds the removal of an incomplete file: its sender is ending, or reports that there is no room.
const withdrawTimeout = 2 * time.Second

// withdraw removes an object that no message will refer to, if f permits it. Otherwise a later sweep removes it, as after a crash.
func withdraw(ctx context.Context, f Files, o Object) {
	if keeper, ok := f.(interface {
		RemoveObject(ctx context.Context, o Object) error
	}); ok {
		ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), withdrawTimeout)
		defer cancel()
		_ = keeper.RemoveObject(ctx, o)
	}
}

// Withdraw removes the files that parts refer to, if from has stored them and f permits it. It is for the files of a message that is not sent, so
// that nothing else refers to them.
func Withdraw(ctx context.Context, f Files, tenant, from string, parts a2a.ContentParts) {
	for _, p := range parts {
		if ref, err := RefOf(tenant, p); err == nil && ref.From == from {
			withdraw(ctx, f, ref.Object)
		}
	}
}

// ends reports whether err means that a reader has ended.
func ends(err error) bool { return errors.Is(err, io.EOF) || errors.Is(err, io.ErrUnexpectedEOF) }

// OpenFile returns a reader of a file, which reads one chunk at a time. Its errors wrap [ErrFileGone], [ErrFileDamaged], or are those of [Files]; it
// returns [io.EOF] only after the whole file, as it was stored.
func OpenFile(ctx context.Context, f Files, ref FileRef) (io.ReadCloser, error) {
	gcm, err := sealFile(ref.Key)
	if err != nil {
		return nil, fmt.Errorf("%w: %w", ErrInvalid, err)
	}
	return &fileReader{ctx: ctx, f: f, ref: ref, gcm: gcm, sum: sha256.New()}, nil
}

// fileReader reads a file.
type fileReader struct {
	ctx  context.Context //nolint:containedctx // of the reader's life, as of a request's body
	f    Files
	ref  FileRef
	gcm  cipher.AEAD
	sum  hash.Hash
	next int // index of the chunk to read
	read int64
	rest []byte // unread part of the previous chunk
	err  error
}

func (r *fileReader) Read(b []byte) (int, error) {
	for len(r.rest) == 0 && r.err == nil {
		r.err = r.fetch()
	}
	if len(r.rest) == 0 {
		return 0, r.err
	}
	n := copy(b, r.rest)
	r.rest = r.rest[n:]
	return n, nil
}

func (r *fileReader) Close() error {
	r.err = cmp.Or(r.err, io.ErrClosedPipe)
	r.rest = nil
	return nil
}

// fetch reads the next chunk; io.EOF means that there is none.
func (r *fileReader) fetch() error {
	if r.read == r.ref.Size && r.next > 0 {
		if hex.EncodeToString(r.sum.Sum(nil)) != r.ref.SHA256 {
			return fmt.Errorf("%w: its bytes are others than those that were said", ErrFileDamaged)
		}
		return io.EOF
	}
	sealed, err := r.f.Chunk(r.ctx, r.ref.Object, r.next)
	switch {
	case errors.Is(err, ErrNotFound) && r.next == 0:
		return ErrFileGone
	case errors.Is(err, ErrNotFound):
		return fmt.Errorf("%w: what comes behind its first %d of %d bytes is missing", ErrFileDamaged, r.read, r.ref.Size)
	case err != nil:
		return fmt.Errorf("read a file: %w", err)
	}
	last := r.ref.Size-r.read <= FileChunk
	nonce, with := binding(r.ref.Object, r.next, last)
	plain, err := r.gcm.Open(nil, nonce, sealed, with)
	if err != nil || int64(len(plain)) != min(FileChunk, r.ref.Size-r.read) {
		return fmt.Errorf("%w behind its first %d of %d bytes", ErrFileDamaged, r.read, r.ref.Size)
	}
	r.sum.Write(plain)
	r.next, r.read, r.rest = r.next+1, r.read+int64(len(plain)), plain
	return nil
}

// PackFiles prepares parts for one message: it stores files that are too large, and replaces them by references. f may be nil for a transport without
// files: then a large file is an error that wraps ErrTooLarge. PackFiles does not modify parts or their content. Each call stores new files: retries
// belong in PutChunk.
//
// Before storing anything, PackFiles calls valid, if it is not nil, with the parts that it will return, and returns its error. After another error,
// it removes what it has stored, as PutFile does.
func PackFiles(
	ctx context.Context, f Files, tenant, contextID, from string, parts a2a.ContentParts, valid func(a2a.ContentParts) error,
) (a2a.ContentParts, error) {
	type large struct {
		ref FileRef // without the data that storing adds
		raw a2a.Raw
	}
	var all []large
	out, inline, files := parts, 0, 0
	for i, p := range parts {
		if _, _, _, ok := FileOf(p); !ok {
			continue
		}
		if files++; files > MaxFiles {
			return nil, fmt.Errorf("%w: %w: a message brings at most %d files", ErrInvalid, ErrTooLarge, MaxFiles)
		}
		raw, ok := p.Content.(a2a.Raw)
		if !ok {
			continue
		}
		if len(raw) <= MaxInlineFile && inline+len(raw) <= MaxInlineFiles {
			inline += len(raw)
			continue
		}
		if f == nil {
			return nil, fmt.Errorf("%w: %w: a file of %d bytes: this transport keeps no files, and takes at most %d bytes in a message",
				ErrInvalid, ErrTooLarge, len(raw), MaxInlineFile)
		}
		if len(all) == 0 {
			out = slices.Clone(parts)
		}
		ref := newRef(tenant, contextID, from)
		all = append(all, large{ref, raw})
		sum := sha256.Sum256(raw)
		ref.Size, ref.SHA256, ref.Head = int64(len(raw)), hex.EncodeToString(sum[:]), textHead(raw[:min(len(raw), FileChunk)])
		out[i] = ref.Part(p.Filename, cmp.Or(p.MediaType, TypeOf(p.Filename, "", raw)))
		for k, v := range p.Metadata {
			if _, own := out[i].Metadata[k]; !own {
				out[i].Metadata[k] = v
			}
		}
	}
	if valid != nil {
		if err := valid(out); err != nil {
			return nil, err
		}
	}
	for i, l := range all {
		if _, err := putFile(ctx, f, l.ref, bytes.NewReader(l.raw), int64(len(l.raw))); err != nil {
			for _, before := range all[:i] {
				withdraw(ctx, f, before.ref.Object)
			}
			return nil, err
		}
	}
	return out, nil
}

// OpenPart returns a reader of the file in a part, whether inline or stored. The errors are those of [OpenFile]; one that wraps ErrInvalid means that
// the part has no file, or an invalid reference.
func OpenPart(ctx context.Context, f Files, tenant string, p *a2a.Part) (io.ReadCloser, error) {
	if p != nil {
		if raw, ok := p.Content.(a2a.Raw); ok {
			return io.NopCloser(bytes.NewReader(raw)), nil
		}
	}
	ref, err := RefOf(tenant, p)
	if err != nil {
		return nil, err
	}
	if f == nil {
		return nil, fmt.Errorf("%w: this transport keeps no files", ErrUnavailable)
	}
	return OpenFile(ctx, f, ref)
}

// ReadPart returns the content of the file in a part, at most limit bytes: a larger file is an error that wraps ErrTooLarge, and is not read.
func ReadPart(ctx context.Context, f Files, tenant string, p *a2a.Part, limit int64) ([]byte, error) {
	if _, _, size, ok := FileOf(p); ok && size > limit {
		return nil, fmt.Errorf("%w: the file has %d bytes, at most %d are read", ErrTooLarge, size, limit)
	}
	r, err := OpenPart(ctx, f, tenant, p)
	if err != nil {
		return nil, err
	}
	defer r.Close()
	return io.ReadAll(r)
}
