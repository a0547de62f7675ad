package decide

import (
	"context"
	"encoding/json"
	"errors"
	"slices"
	"time"

	"golang.org/x/sync/errgroup"

	"github.com/cortex-orchestrator/cortex/cortex/storage"
	"github.com/cortex-orchestrator/cortex/internal/rest"
)

const (
	sweepFirst   = time.Minute      // after the start
	sweepEvery   = 10 * time.Minute // between two sweeps
	sweepAtATime = 16               // notes that are deleted at the same time, with a rest between them: decisions have priority at the store
)

// Sweep deletes the notes of a tenant's calls that are of no use any more, now and then, until ctx ends. There may be hundreds of thousands, one for each
// text that may not be repeated, so no decision waits for it.
func (m *Maker) Sweep(ctx context.Context, tenant string) {
	if m.cfg.Notes == nil {
		return
	}
	for wait := sweepFirst; rest.For(ctx, wait) == nil; wait = sweepEvery {
		if m.policy() == nil { // there never was a rule that counts
			continue
		}
		if err := m.sweep(ctx, tenant); err != nil && ctx.Err() == nil {
			m.log.WarnContext(ctx, "old counts of calls are not deleted", "err", err)
		}
	}
}

func (m *Maker) sweep(ctx context.Context, tenant string) error {
	var over []storage.Note // without their values
	now := m.cfg.Now()
	for note, err := range m.cfg.Notes.Notes(ctx, tenant, storage.NoteCalls) {
		if err != nil {
			return err
		}
		var n callsNote
		if json.Unmarshal(note.Value, &n) == nil && n.Until.Before(now) {
			over = append(over, storage.Note{Key: note.Key, Version: note.Version})
		}
	}
	for some := range slices.Chunk(over, sweepAtATime) {
		began := time.Now()
		var g errgroup.Group
		for _, note := range some {
			g.Go(func() error {
				err := m.cfg.Notes.DeleteNote(ctx, tenant, storage.NoteCalls, note.Key, note.Version)
				if errors.Is(err, storage.ErrConflict) { // it is used again, or another process was faster
					return nil
				}
				return err
			})
		}
		if err := g.Wait(); err != nil {
			return err
		}
		if err := rest.For(ctx, min(time.Since(began), time.Second)); err != nil {
			return err
		}
	}
	return nil
}
