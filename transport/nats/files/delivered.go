package files

import "encoding/binary"

// stateMagic is what the state of a consumer begins with; then comes its version.
const stateMagic = 22

// indexMagic is what an index begins with; then comes its version.
const indexMagic = 11

// indexed returns the last sequence that an intact index has, 0 when it is not known.
func indexed(b []byte) (last uint64) {
	if len(b) < 2 || b[0] != indexMagic {
		return 0
	}
	b = b[2:]
	for range 5 { // messages, bytes, the first sequence, when, the last; all in as many bytes as they need
		n, size := binary.Uvarint(b)
		if size <= 0 {
			return 0
		}
		last, b = n, b[size:]
	}
	return last
}

// delivered reports whether b can be what a consumer of a stream with this last sequence has delivered. The server has no checksum for
// it, and makes room for as many messages as b says.
func delivered(b []byte, last uint64) bool {
	if len(b) < 2 || b[0] != stateMagic || b[1] != 1 && b[1] != 2 {
		return false
	}
	version, ok := b[1], true
	b = b[2:]
	number := func() uint64 {
		n, size := binary.Uvarint(b)
		if size <= 0 {
			ok = false
			return 0
		}
		b = b[size:]
		return n
	}
	number() // acknowledged, as the consumer counts
	acked := number()
	number() // delivered, likewise
	sent := number()
	if version == 2 && (acked > sent || sent > last) {
		return false
	}
	pending := number()
	if pending > 0 {
		number() // when
	}
	for i := uint64(0); ok && i < pending; i++ {
		if seq := number(); version == 2 && (seq > last || acked+seq > last) {
			return false
		}
		if version == 2 {
			number()
		}
		number() // when
	}
	again := number()
	for i := uint64(0); ok && i < again; i++ {
		number()
		number()
	}
	return ok && len(b) == 0
}
