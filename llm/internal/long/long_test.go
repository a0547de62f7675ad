package long

import (
	"errors"
	"testing"
)

// TestPieces checks that long pieces have a bound together, that short ones do not count, and that an ended one makes room.
func TestPieces(t *testing.T) {
	const size = 8 << 20
	var held []*Piece
	for len(held) < 1000 {
		p := new(Piece)
		if err := errors.Join(p.Grow(size/2), p.Grow(size)); err != nil {
			if !errors.Is(err, ErrTooMany) {
				t.Fatal(err)
			}
			break
		}
		held = append(held, p)
	}
	if n := len(held); n != most/size {
		t.Errorf("%d pieces of %d bytes are held at most, want %d", n, size, most/size)
	}
	var short Piece
	if err := short.Grow(small); err != nil {
		t.Errorf("a short piece: %v", err)
	}
	held[0].End()
	last := new(Piece)
	if err := last.Grow(size); err != nil {
		t.Errorf("where another has ended: %v", err)
	}
	for _, p := range held {
		p.End()
		p.End()
	}
	if n := counted.Load(); n != size {
		t.Errorf("%d bytes count, want those of the one that has not ended, %d", n, size)
	}
	last.End()
}
