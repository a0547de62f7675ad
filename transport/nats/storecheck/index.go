package storecheck

import (
	"encoding/binary"
	"errors"
	"hash/crc32"
	"io"
)

const (
	// indexMagic is the first byte of an index; the version follows.
	indexMagic = 11
	// maxDerived bounds, in bytes, what a server reads at once of a file that it can make again.
	maxDerived = 256 << 20
)

var errLarge = errors.New("it is larger than any that the server writes")

// index is the server's index of the blocks of a stream.
type index struct {
	intact bool
	sum    uint32 // of the file
	listed
}

// listed is the beginning of an index; all zero when it is unknown.
type listed struct {
	messages    uint64
	first, last uint64 // sequences
}

// readIndex reads an index. A missing or unusable one is not intact.
func readIndex(path, stream string) (*index, error) {
	f, size, err := open(path)
	if isLocal(err) {
		return nil, err
	}
	if err != nil {
		return &index{}, nil
	}
	defer f.Close()
	if size < hashSize || size > maxDerived {
		return &index{}, nil
	}
	h, err := newHash(stream)
	if err != nil {
		return nil, err
	}
	head := make([]byte, min(size-hashSize, 64)) // at least all of the numbers
	sum := crc32.New(castagnoli)
	var end [hashSize]byte
	if _, err := f.ReadAt(head, 0); err != nil {
		return &index{}, nil
	}
	if _, err := io.CopyN(io.MultiWriter(h, sum), f, size-hashSize); err != nil {
		return &index{}, nil
	}
	if _, err := io.ReadFull(f, end[:]); err != nil || string(h.Sum(nil)) != string(end[:]) {
		return &index{}, nil
	}
	_, _ = sum.Write(end[:]) // never fails
	return &index{true, sum.Sum32(), indexed(head)}, nil
}

// indexed parses the beginning of an index.
func indexed(b []byte) (l listed) {
	if len(b) < 2 || b[0] != indexMagic {
		return l
	}
	b = b[2:]
	for _, to := range []*uint64{&l.messages, nil, &l.first, nil, &l.last} { // the others are bytes and a time
		n, size := binary.Uvarint(b)
		if size <= 0 {
			return listed{}
		}
		if to != nil {
			*to = n
		}
		b = b[size:]
	}
	return l
}

// sumOf returns the checksum and the size of a file that the server can make again.
func sumOf(path string) (sum uint32, size int64, err error) {
	f, size, err := open(path)
	if err != nil {
		return 0, 0, err
	}
	defer f.Close()
	if size > maxDerived {
		return 0, size, errLarge
	}
	h := crc32.New(castagnoli)
	size, err = io.Copy(h, io.LimitReader(f, size))
	return h.Sum32(), size, err
}
