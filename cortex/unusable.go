package cortex

import (
	"context"
	"errors"
	"fmt"

	"github.com/a2aproject/a2a-go/v2/a2a"
	"golang.org/x/sync/errgroup"

	"github.com/cortex-orchestrator/cortex/cortex/conversation"
	"github.com/cortex-orchestrator/cortex/transport"
)

// fileChecks is how many files of one event are checked at the same time.
const fileChecks = 8

// unusableFiles returns a text for people that says which of e's files its conversation cannot use, or "". An unreferenced file is removed some
// minutes after it was stored, and every file is erased with its own conversation, so nothing would keep a file of another one. It is called before
// e becomes an entry, and not for redelivered events, whose files may have been erased since.
func (o *Orchestrator) unusableFiles(ctx context.Context, e *transport.Event) (string, error) {
	parts := conversation.Brought(e)
	files, ok := o.cfg.Transport.(transport.Files)
	if !ok || len(parts) == 0 {
		return "", nil
	}
	why := make([]string, len(parts))
	g, gctx := errgroup.WithContext(ctx)
	g.SetLimit(fileChecks)
	for i, p := range parts {
		g.Go(func() (err error) {
			why[i], err = o.unusableFile(gctx, files, e.ContextID, p)
			return err
		})
	}
	if err := g.Wait(); err != nil {
		return "", fmt.Errorf("look at the files of %s in %s: %w", e.ID, e.ContextID, err)
	}
	text, more := "", 0
	for i, w := range why {
		switch {
		case w == "":
		case text == "":
			name, kind, _, _ := transport.FileOf(parts[i])
			text = transport.FileName(name, kind, i+1) + " " + w
		default:
			more++
		}
	}
	if more > 0 {
		text += fmt.Sprintf(" (as is so of %d more of its files)", more)
	}
	return text, nil
}

// unusableFile returns a text for people that says why a conversation cannot use the file that p refers to, or "".
func (o *Orchestrator) unusableFile(ctx context.Context, files transport.Files, contextID string, p *a2a.Part) (string, error) {
	ref, err := transport.RefOf(o.cfg.Tenant, p)
	switch {
	case err != nil:
		return "is named by a reference that is broken; send the file again", nil
	case ref.ContextID != contextID:
		return "was stored for another conversation; send it again in this one", nil
	}
	err = transport.LookAt(ctx, files, ref)
	switch {
	case errors.Is(err, transport.ErrFileGone):
		return "is not here any more: a file goes some minutes after it came when no message has named it, and with its conversation; send it again", nil
	case errors.Is(err, transport.ErrFileDamaged):
		return "is damaged where it is kept, or is not the file that is meant; send it again", nil
	}
	return "", err
}
