// Package result builds the results of agents whose output others make: what is too large for a message becomes files, within the bounds of a result.
package result

import (
	"bytes"
	"context"
	"fmt"

	"github.com/a2aproject/a2a-go/v2/a2a"

	"github.com/cortex-orchestrator/cortex/agents"
	"github.com/cortex-orchestrator/cortex/internal/nesting"
	"github.com/cortex-orchestrator/cortex/internal/shorten"
	"github.com/cortex-orchestrator/cortex/transport"
)

const (
	maxWeight = transport.MaxWeight / 4 // bytes that it takes decoded; a heavier one becomes a file
	maxData   = 1 << 20                 // bytes of structured content; larger content becomes a file
	maxLinks  = 100
	maxLink   = 8 << 10 // bytes
)

// Builder is a result under construction.
type Builder struct {
	Parts a2a.ContentParts

	ctx   context.Context //nolint:containedctx // it lives as long as the construction
	task  *agents.Task
	room  int // bytes of text
	files int
	links int
	left  int // number of parts left out
}

// New returns the builder of t's result.
func New(ctx context.Context, t *agents.Task) *Builder {
	return &Builder{ctx: ctx, task: t, room: agents.MaxResultText}
}

// Text adds a text.
func (b *Builder) Text(s string) error { return b.Bytes([]byte(s)) }

// Bytes adds a text, of which no copy is made if it is long.
func (b *Builder) Bytes(text []byte) error {
	if len(text) > b.room {
		return b.File("result.txt", "text/plain", text)
	}
	b.room -= len(text)
	if len(text) > 0 {
		b.Parts = append(b.Parts, a2a.NewTextPart(string(text)))
	}
	return nil
}

// Data adds structured content, unless it is nil.
func (b *Builder) Data(v any) error {
	if v == nil {
		return nil
	}
	data, err := transport.EncodeValue(v)
	if err != nil {
		return fmt.Errorf("the structured result cannot be passed on: %w", err)
	}
	if len(data) > maxData || nesting.Weight(data) > maxWeight {
		return b.File("result.json", "application/json", data)
	}
	b.Parts = append(b.Parts, a2a.NewDataPart(v))
	return nil
}

// Link adds a link. One that is not good, or beyond the bounds, is left out.
func (b *Builder) Link(to, name, kind string, good bool) {
	if b.links++; b.links > maxLinks || len(to) > maxLink || !good {
		b.left++
		return
	}
	b.Parts = append(b.Parts, &a2a.Part{Content: a2a.URL(to), Filename: shorten.To(name, 255), MediaType: shorten.To(kind, 255)})
}

// File adds a file.
func (b *Builder) File(name, kind string, data []byte) error {
	if b.files++; b.files > transport.MaxFiles {
		b.left++
		return nil
	}
	name = transport.FileName(name, kind, b.files)
	if b.files > 1 {
		name = fmt.Sprintf("%d-%s", b.files, name) // an artifact of the same name would replace it
	}
	return b.task.AddFile(b.ctx, name, kind, bytes.NewReader(data))
}

// Result returns the result, which says how much was left out.
func (b *Builder) Result() *agents.Result {
	if b.left > 0 {
		b.Parts = append(b.Parts, a2a.NewTextPart(fmt.Sprintf("[%d more are left out: a result has at most %d files and %d links]", b.left, transport.MaxFiles, maxLinks)))
	}
	return &agents.Result{Parts: b.Parts}
}
