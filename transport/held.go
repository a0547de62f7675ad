package transport

import (
	"context"
	"errors"
	"fmt"
)

// LookAt checks that the file of ref exists, by its first and its last chunk, which is sealed as such: an interrupted upload lacks the end, and a
// removal during an upload removes the beginning. It returns nil, an error that wraps [ErrFileGone] or [ErrFileDamaged], or one of [Files].
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
