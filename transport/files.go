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

// Object names what a transport keeps in chunks beside its events.
type Object struct {
	Tenant    string
	ContextID string // the conversation, with which it is erased
	From      string // who stores it, as Event.From
	ID        string
}

// FileChunk is how many bytes of a file are in each of its chunks but the last.
const FileChunk = 256 << 10

// Files is implemented by transports that keep files. [PutFile], [OpenFile] and the functions of parts are made of it: nobody else needs it. What it
// is given is sealed, so that a transport need not hide it from anybody who knows where it is.
type Files interface {
	// PutChunk stores the n-th chunk of an object, from 0, at most [FileChunk] bytes and a little for the seal. They are stored in their
	// order; one before which there is none may be refused. To store one again is harmless. Errors: ErrInvalid, ErrTooLarge, ErrFilesFull, ErrForbidden, ErrUnavailable, ErrClosed, or ctx's.
	PutChunk(ctx context.Context, o Object, n int, sealed []byte) error
	// Chunk returns it, or an error that wraps ErrNotFound.
	Chunk(ctx context.Context, o Object, n int) ([]byte, error)
}

// FileKeeper is implemented by transports whose files somebody looks after. [Eraser] removes those of a conversation.
type FileKeeper interface {
	// Objects yields what is stored of a tenant, in any order.
	Objects(ctx context.Context, tenant string) iter.Seq2[Object, error]
	// Stored returns when a chunk of an object was stored last, by the clock of the transport, and about how many bytes are stored of it, or an
	// error that wraps ErrNotFound.
	Stored(ctx context.Context, o Object) (last time.Time, bytes int64, err error)
	// Awaited returns the objects of which events of a conversation speak that are in an inbox, also delayed or delivered ones, or dead letters.
	Awaited(ctx context.Context, tenant, contextID string) (map[Object]bool, error)
	// RemoveObject removes all of an object. One that is not there is no error.
	RemoveObject(ctx context.Context, o Object) error
}

// Of files.
var (
	// ErrFilesFull is of a file for which there is no room: whoever stores it keeps as much as one may, or the store as much as it can. It is
	// no ErrUnavailable: trying again helps only when something was deleted.
	ErrFilesFull = errors.New("there is no room for more files")
	// ErrFileGone is of a file whose bytes are not there any more: its conversation was deleted, or the store has lost them.
	ErrFileGone = errors.New("the file is gone")
	// ErrFileDamaged is of a file whose bytes are not those that were stored.
	ErrFileDamaged = errors.New("the file is damaged")
)

const (
	fileKeySize = 32
	chunkSeal   = 16 // bytes that the seal of a chunk takes
	// maxChunks is more than a file has that may be sent, so that nobody stores more under one name.
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

// sealFile returns the cipher of the file with this key: AES-256-GCM. Each file has a key of its own, and each of its chunks the nonce
// that follows from its number, so that none is used twice.
func sealFile(key []byte) (cipher.AEAD, error) {
	block, err := aes.NewCipher(key)
	if err != nil {
		return nil, err
	}
	return cipher.NewGCM(block)
}

// binding returns the nonce of a chunk, and what is authenticated with it: which file it is of, which of its chunks it is, and
// whether it is the last. So chunks cannot be changed, left out, put elsewhere, nor the end cut off.
func binding(o Object, n int, last bool) (nonce, with []byte) {
	nonce = make([]byte, 12)
	binary.BigEndian.PutUint64(nonce[4:], uint64(n))
	with = append(append(with, nonce...), 0)
	if last {
		with[len(with)-1] = 1
	}
	return nonce, append(with, o.ID...)
}

// PutFile stores what r gives as a file of a conversation, at most limit bytes, and returns where it is. A file that is larger gives an
// error that wraps ErrTooLarge. What was stored before an error is removed if f may (see [FileKeeper]), and else stays until somebody does.
func PutFile(ctx context.Context, f Files, tenant, contextID, from string, r io.Reader, limit int64) (FileRef, error) {
	return putFile(ctx, f, newRef(tenant, contextID, from), r, limit)
}

// newRef returns a reference to a file that is to be stored.
func newRef(tenant, contextID, from string) FileRef {
	ref := FileRef{Object: Object{Tenant: tenant, ContextID: contextID, From: from, ID: uuid.NewString()}, Key: make([]byte, fileKeySize)}
	_, _ = rand.Read(ref.Key) // never fails
	return ref
}

// putFile stores what r gives where ref says, and returns ref with what is known of it then.
func putFile(ctx context.Context, f Files, ref FileRef, r io.Reader, limit int64) (_ FileRef, err error) {
	gcm, err := sealFile(ref.Key)
	if err != nil {
		return FileRef{}, err
	}
	sum, chunk, next := sha256.New(), make([]byte, FileChunk), make([]byte, FileChunk)
	tried := false // to store something
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
		if rerr == nil { // whether there is more tells whether this is the last
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

// withdrawTimeout bounds how long who has stored a part of a file waits for its removal: it is ending, or says that there is no room.
const withdrawTimeout = 2 * time.Second

// withdraw removes what there is of a file that nothing will speak of, if that may be. Else it stays for a while, as after a kill.
func withdraw(ctx context.Context, f Files, o Object) {
	if keeper, ok := f.(interface {
		RemoveObject(ctx context.Context, o Object) error
	}); ok {
		ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), withdrawTimeout)
		defer cancel()
		_ = keeper.RemoveObject(ctx, o)
	}
}

// Withdraw removes the files of which parts speak, as far as they are stored by from and that may be: nothing else will speak of them, because the message
// for which they were stored is not sent.
func Withdraw(ctx context.Context, f Files, tenant, from string, parts a2a.ContentParts) {
	for _, p := range parts {
		if ref, err := RefOf(tenant, p); err == nil && ref.From == from {
			withdraw(ctx, f, ref.Object)
		}
	}
}

// ends reports whether err is of a reader that has no more than it gave.
func ends(err error) bool { return errors.Is(err, io.EOF) || errors.Is(err, io.ErrUnexpectedEOF) }

// OpenFile returns a reader of a file, which reads one chunk after the other. Its errors wrap [ErrFileGone], [ErrFileDamaged], or are those
// of [Files]; it returns [io.EOF] only behind the whole file, as it was stored.
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
	next int // chunk
	read int64
	rest []byte // of the one before
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
	if r.err == nil {
		r.err = io.ErrClosedPipe
	}
	r.rest = nil
	return nil
}

// fetch reads the next chunk; io.EOF says that there is none.
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

// PackFiles returns parts as they are put into one message: files that are too large for it are stored, and become references. f may be nil
// for a transport that keeps none: then that is an error which wraps ErrTooLarge. Neither parts nor what they hold is changed. Each call
// stores files of its own: who wants to try again does so in PutChunk.
//
// Before anything is stored, valid, if it is not nil, is told what will be returned; its error is that of PackFiles. What was stored before
// another error is removed, as PutFile does.
func PackFiles(
	ctx context.Context, f Files, tenant, contextID, from string, parts a2a.ContentParts, valid func(a2a.ContentParts) error,
) (a2a.ContentParts, error) {
	type large struct {
		ref FileRef // without what is known of it when it is stored
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

// OpenPart returns a reader of the file that a part is, wherever its bytes are: the one place that knows. The errors are those of [OpenFile];
// one that wraps ErrInvalid says that the part is no file, or that its reference is broken.
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

// ReadPart returns the bytes of the file that a part is, at most limit of them: a larger one gives an error that wraps ErrTooLarge, and is
// not read.
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
