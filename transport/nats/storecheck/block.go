package storecheck

import (
	"bytes"
	"crypto/sha256"
	"encoding/binary"
	"errors"
	"fmt"
	"time"

	"github.com/minio/highwayhash"
)

// A record is: length(4) sequence(8) time(8) length of the subject(2), subject, [length of the header(4), header], data, hash(8). The hash covers
// everything but the lengths.
const (
	headSize    = 22
	hashSize    = 8
	emptyRecord = headSize + hashSize
	maxRecord   = 32 << 20 // the server's maximum

	headersBit   = 1 << 31 // in the length: the record has a header
	erasedBit    = 1 << 63 // in the sequence: the record was overwritten
	tombstoneBit = 1 << 62 // in the sequence: the message was removed

	// maxBlock bounds the bytes that are read of a file. The server begins a new one at 8 MB, which one record may exceed.
	maxBlock = 64 << 20
	// maxSearched bounds the bytes that are hashed in a block to find intact records after damaged ones.
	maxSearched = 256 << 20
)

var (
	errCut    = errors.New("it ends too early")
	errLength = errors.New("its length is not possible")
	errSum    = errors.New("its checksum does not fit")
	errHeader = errors.New("its header is not one")
	errTwice  = errors.New("its sequence was there before")
	// errSubject: no checksum covers the length of the subject, and only a header behind it proves where it ends.
	errSubject = errors.New("its subject is not one of the stream")
)

// Record is a message of a stream. Its bytes are valid only during the call that it is passed to.
type Record struct {
	Seq          uint64
	Subject      string
	Header, Data []byte
	// Gone says that the message of this sequence was removed; only Seq is known then.
	Gone bool

	tombstone bool   // the record only says that a message was removed
	bytes     []byte // the whole record
	at        int    // offset in its block
}

// stored returns when the message was stored.
func (r *Record) stored() time.Time {
	return time.Unix(0, int64(binary.LittleEndian.Uint64(r.bytes[12:])))
}

// hole is a part of a block without an intact record.
type hole struct {
	from, to int
	err      error
	after    uint64 // greatest sequence before it in the block
	subject  string // its apparent subject, if it is one record
}

// block reads the records of a block.
type block struct {
	hash     *highwayhash.Digest64
	searched int // bytes that were hashed to find intact records
}

// newBlock returns a reader for a block of a stream.
func newBlock(stream string, index uint32) (*block, error) {
	hash, err := newHash(fmt.Sprintf("%s-%d", stream, index))
	return &block{hash: hash}, err
}

// newHash returns the hash with which the server makes checksums of name.
func newHash(name string) (*highwayhash.Digest64, error) {
	key := sha256.Sum256([]byte(name))
	return highwayhash.NewDigest64(key[:])
}

// compressed reports whether a block is compressed, an option of the server. Its records cannot be read here. Such a block begins with a mark, the
// kind of compression, the original size, and the header of the compressed data.
func compressed(b []byte) bool {
	return bytes.HasPrefix(b, []byte("cmp\x01")) && bytes.Contains(b[:min(len(b), 32)], []byte("\xff\x06\x00\x00S2sTwO"))
}

// read calls each for every intact record of a block and returns the holes between them. A record for which each returns an error is part of a
// hole.
func (b *block) read(buf []byte, each func(*Record) error) (holes []hole) {
	last := uint64(0)
	for i := 0; i < len(buf); {
		r, n, err := b.parse(buf[i:])
		if err == nil {
			r.at = i
			if err = each(&r); err == nil {
				last = max(last, r.Seq)
				i += n
				continue
			}
			if at := len(holes) - 1; at >= 0 && holes[at].to == i && holes[at].err == err { //nolint:errorlint // the same value
				holes[at].to += n
			} else {
				holes = append(holes, hole{from: i, to: i + n, err: err, after: last, subject: r.Subject})
			}
			i += n
			continue
		}
		h := hole{from: i, to: b.next(buf, i, n, last), err: err, after: last}
		if i+n == h.to {
			h.subject = r.Subject
		}
		holes = append(holes, h)
		i = h.to
	}
	return holes
}

// parse parses the record at the beginning of buf and returns its length n. With an error, n is the length that the record claims, or 0 when that
// is impossible.
func (b *block) parse(buf []byte) (r Record, n int, err error) {
	if len(buf) < emptyRecord {
		return r, 0, errCut
	}
	length := binary.LittleEndian.Uint32(buf)
	withHeader := length&headersBit != 0
	length &^= headersBit
	subject, head := int(binary.LittleEndian.Uint16(buf[20:])), 0
	if withHeader {
		head = 4
	}
	if length < emptyRecord || length > maxRecord || subject+head > int(length)-emptyRecord {
		return r, 0, errLength
	}
	if int(length) > len(buf) {
		return r, 0, errCut
	}
	n = int(length)
	data := buf[headSize : n-hashSize]
	r.Subject = string(data[:subject])
	b.hash.Reset()
	_, _ = b.hash.Write(buf[4:20]) // never fails
	_, _ = b.hash.Write(data[:subject])
	_, _ = b.hash.Write(data[subject+head:])
	var sum [hashSize]byte
	if !bytes.Equal(b.hash.Sum(sum[:0]), buf[n-hashSize:n]) {
		return r, n, errSum
	}
	seq := binary.LittleEndian.Uint64(buf[4:])
	r.Seq, r.Gone = seq&^(erasedBit|tombstoneBit), seq&(erasedBit|tombstoneBit) != 0
	r.tombstone, r.bytes = seq&tombstoneBit != 0, buf[:n]
	r.Data = data[subject+head:]
	if withHeader {
		size := binary.LittleEndian.Uint32(data[subject:])
		if int64(size) > int64(len(r.Data)) || !isHeader(r.Data[:size]) {
			return r, n, errHeader // no checksum covers its length
		}
		r.Header, r.Data = r.Data[:size], r.Data[size:]
	}
	return r, n, nil
}

// isHeader reports whether b is a complete header.
func isHeader(b []byte) bool {
	end := []byte("\r\n\r\n")
	return bytes.HasPrefix(b, []byte("NATS/1.0")) && bytes.Index(b, end) == len(b)-len(end)
}

// next returns the offset of the next intact record after a damaged one at i, which claims to be n bytes long (0: unknown).
func (b *block) next(buf []byte, i, n int, last uint64) int {
	if n > 0 {
		if i+n == len(buf) {
			return i + n
		}
		if _, _, err := b.parse(buf[i+n:]); err == nil {
			return i + n
		}
	}
	for j := i + 1; j+emptyRecord <= len(buf); j++ {
		length := int(binary.LittleEndian.Uint32(buf[j:]) &^ headersBit)
		seq := binary.LittleEndian.Uint64(buf[j+4:]) &^ (erasedBit | tombstoneBit)
		if length < emptyRecord || length > len(buf)-j || seq == 0 || seq > last+1<<40 {
			continue
		}
		if b.searched += length; b.searched > maxSearched {
			break
		}
		if _, _, err := b.parse(buf[j:]); err == nil {
			return j
		}
	}
	return len(buf)
}

// lost returns how many messages there were in a hole of a block, as far as that can be seen: what is cut off at its end is not.
func (b *block) lost(buf []byte, h hole) uint64 {
	if h.subject != "" {
		return 1
	}
	r, _, err := b.parse(buf[h.to:])
	if err != nil || h.after == 0 || r.Seq <= h.after {
		return 0
	}
	return min(r.Seq-h.after-1, uint64(h.to-h.from)/emptyRecord)
}

// erase overwrites a record in place, as the server does: what remains says only that there was a message of this sequence.
func (b *block) erase(record []byte, seq uint64) {
	clear(record)
	binary.LittleEndian.PutUint32(record, uint32(len(record)))
	binary.LittleEndian.PutUint64(record[4:], seq|erasedBit)
	sum := record[len(record)-hashSize:]
	b.hash.Reset()
	_, _ = b.hash.Write(record[4:20]) // never fails
	_, _ = b.hash.Write(record[headSize : len(record)-hashSize])
	b.hash.Sum(sum[:0])
}

// tombstone returns a record that says that the message of a sequence was removed. A server that reads it uses only greater sequences for new
// messages.
func (b *block) tombstone(seq uint64, now time.Time) []byte {
	buf := make([]byte, headSize, emptyRecord)
	binary.LittleEndian.PutUint32(buf, emptyRecord)
	binary.LittleEndian.PutUint64(buf[4:], seq|tombstoneBit)
	binary.LittleEndian.PutUint64(buf[12:], uint64(now.UnixNano()))
	b.hash.Reset()
	_, _ = b.hash.Write(buf[4:20]) // never fails
	return b.hash.Sum(buf)
}
