package transport

import (
	"context"
	"errors"
	"fmt"
)

// LookAt returns nil when the file that ref speaks of is there, as far as its ends tell: its last chunk, which is sealed as such, and the first
// one. What removes a file in the middle of its upload removes the beginning, and what stops an upload leaves out the end. The error wraps
// [ErrFileGone], [ErrFileDamaged], or is that of [Files].
func LookAt(ctx context.Context, f Files, ref FileRef) error {
	gcm, err := sealFile(ref.Key)
	if err != nil {
		return fmt.Errorf("%w: %w", ErrInvalid, err)
	}
	last := max(ref.Size-1, 0) / FileChunk
	if last >= maxChunks {
		return fmt.Errorf("%w: no file has %d bytes", ErrFileGone, ref.Size)
	}
	end, err := f.Chunk(ctx, ref.Object, int(last))
	if err == nil && last > 0 {
		_, err = f.Chunk(ctx, ref.Object, 0)
	}
	switch {
	case errors.Is(err, ErrNotFound):
		return ErrFileGone
	case err != nil:
		return fmt.Errorf("look for a file: %w", err)
	}
	nonce, with := binding(ref.Object, int(last), true)
	if plain, err := gcm.Open(nil, nonce, end, with); err != nil || int64(len(plain)) != ref.Size-last*FileChunk {
		return ErrFileDamaged
	}
	return nil
}
