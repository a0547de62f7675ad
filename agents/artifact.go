package agents

import (
	"fmt"
	"maps"
	"slices"
	"strconv"

	"github.com/a2aproject/a2a-go/v2/a2a"

	"github.com/cortex-orchestrator/cortex/internal/shorten"
	"github.com/cortex-orchestrator/cortex/transport"
)

// Bounds of the artifacts of one task.
const (
	MaxArtifacts     = 100
	MaxArtifactBytes = 2 << 20 // of all artifacts, before base64; data counts as JSON, a stored file as its reference
)

// taskArtifact is an artifact of a task, possibly unfinished.
type taskArtifact struct {
	*a2a.Artifact
	size int
	open bool // more parts may be appended
}

// Artifact adds an output to the result, and shows it to watchers. An artifact of the same name is replaced. It
// returns an error that wraps [transport.ErrTooLarge], and adds nothing, over [MaxArtifacts] or [MaxArtifactBytes].
func (t *Task) Artifact(name string, parts ...*a2a.Part) error {
	return t.Update(&a2a.TaskArtifactUpdateEvent{Artifact: &a2a.Artifact{Name: name, Parts: parts}, LastChunk: true})
}

// Update adds an output to the result, or a piece to an output, as an A2A event describes it, and shows it to watchers. The artifact is
// identified by its ID, or else by its Name, and may have a description and metadata. With Append the parts are added to the earlier ones:
// text to text, and bytes to bytes of the same file, so that an output can be made in pieces. Without Append the artifact replaces the one
// with its ID or Name. Nothing can be appended after LastChunk. Errors are those of [Task.Artifact], and say what does not fit.
//
// Watchers see only the description of a file that is too large for a message. Update stores such a file at once if it is complete; if that
// fails, it returns the error of the transport, such as [transport.ErrFilesFull].
//
// Update does not change u.
func (t *Task) Update(u *a2a.TaskArtifactUpdateEvent) error {
	if u.Artifact == nil {
		return fmt.Errorf("the artifact is missing")
	}
	next := *u.Artifact
	next.Name, next.Description = shorten.Line(next.Name, 256), cut(next.Description, maxDescription)
	parts := cleanParts(next.Parts, MaxArtifactBytes)
	if len(parts) == 0 && !u.Append {
		return fmt.Errorf("artifact %q is empty", outputName(&next))
	}
	if t.run != nil && !u.Append && u.LastChunk { // an output made in pieces is stored at the end
		var err error
		if parts, err = t.agent.pack(t.run.ctx, t.ContextID, parts); err != nil {
			return fmt.Errorf("artifact %q: %w", outputName(&next), err)
		}
	}
	next.Parts = parts
	if err := t.put(&next, u.Append, u.LastChunk); err != nil {
		return err
	}
	t.noteProgress()
	if t.live != nil {
		t.live.publish(&a2a.TaskArtifactUpdateEvent{
			TaskID: t.ID, ContextID: t.ContextID, Artifact: shown(&next), Append: u.Append, LastChunk: u.LastChunk, Metadata: maps.Clone(u.Metadata),
		})
	}
	return nil
}

// shown returns an artifact for watchers. It removes references to files, which contain keys that only receivers of the result may have.
func shown(artifact *a2a.Artifact) *a2a.Artifact {
	is := *artifact
	is.Parts = slices.Clone(is.Parts)
	for i, p := range is.Parts {
		if transport.IsFileRef(p) {
			is.Parts[i] = transport.ForgottenFile(p)
		}
	}
	return &is
}

// maxDescription bounds the description of an artifact, in bytes.
const maxDescription = 4 << 10

// put adds a piece of an artifact to the task, and sets the piece's ID and name.
func (t *Task) put(piece *a2a.Artifact, add, last bool) error {
	t.mu.Lock()
	defer t.mu.Unlock()
	name := outputName(piece)
	at := slices.IndexFunc(t.artifacts, func(o *taskArtifact) bool {
		if piece.ID != "" {
			return o.ID == piece.ID
		}
		return o.Name == piece.Name
	})
	whole, old := *piece, 0
	switch {
	case at >= 0 && add && !t.artifacts[at].open:
		return fmt.Errorf("artifact %q: nothing can be added: it was whole", name)
	case at < 0 && add:
		return fmt.Errorf("artifact %q: nothing can be added: it was not begun", name)
	case at < 0 && len(t.artifacts) >= MaxArtifacts:
		return fmt.Errorf("artifact %q: %w: at most %d are allowed", name, transport.ErrTooLarge, MaxArtifacts)
	case at >= 0:
		before := t.artifacts[at]
		old, piece.ID = before.size, before.ID
		if add {
			whole = *before.Artifact
			// Joining copies what is there: once for a piece, and not for one that does not fit.
			more := joinParts(nil, piece.Parts)
			if t.bytes+sizeOf(more)-partSize > MaxArtifactBytes {
				return fmt.Errorf("artifact %q: %w: at most %d bytes together are allowed", name, transport.ErrTooLarge, MaxArtifactBytes)
			}
			whole.Parts = joinParts(before.Parts, more)
			piece.Name = before.Name
		}
	}
	size := sizeOfArtifact(&whole)
	if t.bytes-old+size > MaxArtifactBytes {
		return fmt.Errorf("artifact %q: %w: at most %d bytes together are allowed", name, transport.ErrTooLarge, MaxArtifactBytes)
	}
	t.bytes += size - old
	if at < 0 {
		if at = len(t.artifacts); piece.ID == "" {
			piece.ID = t.freeID()
		}
		t.artifacts = append(t.artifacts, nil)
	}
	whole.ID = piece.ID
	t.artifacts[at] = &taskArtifact{&whole, size, !last}
	return nil
}

// sizeOfArtifact returns the size of an artifact in bytes, see [sizeOf].
func sizeOfArtifact(a *a2a.Artifact) int {
	n := sizeOf(a.Parts) + len(a.Description)
	if len(a.Metadata) > 0 {
		n += sizeOfValue(a.Metadata)
	}
	return n
}

// freeID returns the first number that no artifact has as its id.
func (t *Task) freeID() a2a.ArtifactID {
	for n := len(t.artifacts) + 1; ; n++ {
		id := a2a.ArtifactID(strconv.Itoa(n))
		if !slices.ContainsFunc(t.artifacts, func(o *taskArtifact) bool { return o.ID == id }) {
			return id
		}
	}
}

// outputName is how errors refer to an artifact.
func outputName(a *a2a.Artifact) string {
	if a.Name != "" {
		return a.Name
	}
	return string(a.ID)
}

// joinParts returns parts followed by more, merging adjacent pieces of the same text or file.
func joinParts(parts, more a2a.ContentParts) a2a.ContentParts {
	parts = slices.Clone(parts)
	for len(more) > 0 {
		if len(parts) == 0 || !continuesPart(parts[len(parts)-1], more[0]) {
			parts, more = append(parts, more[0]), more[1:]
			continue
		}
		last := *parts[len(parts)-1]
		n := slices.IndexFunc(more, func(p *a2a.Part) bool { return !continuesPart(&last, p) })
		if n < 0 {
			n = len(more)
		}
		var all []byte // of a run of pieces, of which there may be many
		if text, ok := last.Content.(a2a.Text); ok {
			all = []byte(text)
			for _, p := range more[:n] {
				all = append(all, p.Content.(a2a.Text)...)
			}
			last.Content = a2a.Text(all)
		} else {
			all = slices.Clone(last.Content.(a2a.Raw))
			for _, p := range more[:n] {
				all = append(all, p.Content.(a2a.Raw)...)
			}
			last.Content = a2a.Raw(all)
		}
		parts[len(parts)-1], more = &last, more[n:]
	}
	return parts
}

// continuesPart reports whether next continues the text or file of last.
func continuesPart(last, next *a2a.Part) bool {
	if last.Filename != next.Filename || last.MediaType != next.MediaType || len(next.Metadata) > 0 {
		return false
	}
	switch last.Content.(type) {
	case a2a.Text:
		_, ok := next.Content.(a2a.Text)
		return ok
	case a2a.Raw:
		_, ok := next.Content.(a2a.Raw)
		return ok && last.Filename != ""
	}
	return false
}

// Whole returns all that the task results in if it ends with parts: these, or else the streamed text, and the parts of the artifacts.
func (t *Task) Whole(parts a2a.ContentParts) a2a.ContentParts {
	all := slices.Clone(parts)
	if len(all) == 0 {
		all = t.streamed()
	}
	for _, o := range t.outputs() {
		all = append(all, o.Parts...)
	}
	return all
}

// outputs returns the artifacts so far.
func (t *Task) outputs() []*a2a.Artifact {
	t.mu.Lock()
	defer t.mu.Unlock()
	var all []*a2a.Artifact
	for _, o := range t.artifacts {
		all = append(all, o.Artifact)
	}
	return all
}
