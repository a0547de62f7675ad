package storecheck

import (
	"encoding/binary"
	"errors"
	"hash/crc32"
	"io"
)

const (
	// indexMagic is what an index begins with; then comes its version.
	indexMagic = 11
	// maxDerived bounds what a server reads at once of a file that it can make again.
	maxDerived = 256 << 20
)

var errLarge = errors.New("it is larger than any that the server writes")

// index is what the server has listed of the blocks of a stream.
type index struct {
	intact bool
	sum    uint32 // of the file
	listed
}

// listed is what an index begins with; all of it is 0 when it is not known.
type listed struct {
	messages    uint64
	first, last uint64 // sequences
}

// readIndex reads the index in a file. One that is not there, or cannot be used, is not intact.
func readIndex(path, stream string) (*index, error) {
	f, size, err := open(path)
	if ours(err) {
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
	head := make([]byte, min(size-hashSize, 64)) // more than all of its first numbers
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

// indexed returns what an index says that begins like this.
func indexed(b []byte) (l listed) {
	if len(b) < 2 || b[0] != indexMagic {
		return l
	}
	b = b[2:]
	for _, to := range []*uint64{&l.messages, nil, &l.first, nil, &l.last} { // the others are bytes and a time, in as many bytes as they need
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
