package agents

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"slices"

	"github.com/a2aproject/a2a-go/v2/a2a"

	"github.com/cortex-orchestrator/cortex/transport"
)

// File is a file that a task brings. Its name, type and size are those that its sender gave.
type File struct {
	Name string // made safe by [transport.FileName]: a name within a folder
	Type string // its media type
	Size int64  // in bytes

	task *Task
	part *a2a.Part
}

// Files returns the files that the task brings: those of the user's message, and those from the tasks that this one depends on.
func (t *Task) Files() []File {
	if t.Message == nil {
		return nil
	}
	var all []File
	for i, p := range transport.FilesOf(t.Message.Parts) {
		name, kind, size, _ := transport.FileOf(p)
		all = append(all, File{Name: transport.FileName(name, kind, i+1), Type: kind, Size: size, task: t, part: p})
	}
	return all
}

// Open returns a reader of the file. It reads a stored file piece by piece; an error, also of a Read, says that the file is gone or damaged.
func (f File) Open(ctx context.Context) (io.ReadCloser, error) {
	r, err := transport.OpenPart(ctx, f.task.store(), f.task.Tenant, f.part)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", f.Name, err)
	}
	return fileReader{r, f.Name}, nil
}

// Bytes returns the file. For a file of more than limit bytes the error wraps [transport.ErrTooLarge].
func (f File) Bytes(ctx context.Context, limit int64) ([]byte, error) {
	b, err := transport.ReadPart(ctx, f.task.store(), f.task.Tenant, f.part, limit)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", f.Name, err)
	}
	return b, nil
}

// store returns the store of large files; nil outside [Serve], and when the transport has none.
func (t *Task) store() transport.Files {
	if t.agent == nil {
		return nil
	}
	if f, ok := t.agent.tr.(transport.Files); ok {
		return retryingFiles{f, t.agent}
	}
	return nil
}

// fileReader names the file in its errors.
type fileReader struct {
	io.ReadCloser
	name string
}

func (r fileReader) Read(b []byte) (int, error) {
	n, err := r.ReadCloser.Read(b)
	if err != nil && !errors.Is(err, io.EOF) {
		err = fmt.Errorf("%s: %w", r.name, err)
	}
	return n, err
}

// AddFile adds a file to the result, as an artifact with its name. A large file, of at most [Options].MaxFile bytes, is stored as it is read. An
// empty mediaType is detected from the name and the first bytes. While the transport is unavailable AddFile waits, until ctx or the task ends.
// Errors are those of [Task.Artifact], of r and of the transport, such as [transport.ErrFilesFull].
func (t *Task) AddFile(ctx context.Context, name, mediaType string, r io.Reader) error {
	ctx, done := t.until(ctx)
	defer done()
	limit := t.maxFile()
	files := t.store()
	head := make([]byte, transport.MaxInlineFile+1)
	n, err := io.ReadFull(r, head)
	head = head[:n]
	if err != nil && !errors.Is(err, io.EOF) && !errors.Is(err, io.ErrUnexpectedEOF) {
		return fmt.Errorf("%s: %w", name, err)
	}
	mediaType = transport.TypeOf(name, mediaType, head[:min(n, 512)])
	if files == nil && n > transport.MaxInlineFile {
		rest, err := io.ReadAll(io.LimitReader(r, MaxArtifactBytes)) // enough to exceed the limit
		if err != nil {
			return fmt.Errorf("%s: %w", name, err)
		}
		head = append(head, rest...)
	}
	part := &a2a.Part{Content: a2a.Raw(head), Filename: name, MediaType: mediaType}
	if files != nil && (n > transport.MaxInlineFile || t.inline()+n > transport.MaxInlineFiles) {
		ref, err := transport.PutFile(ctx, files, t.Tenant, t.ContextID, t.agent.id, io.MultiReader(bytes.NewReader(head), progressReader{r, t}), limit)
		if err != nil {
			return fmt.Errorf("%s: %w", name, err)
		}
		part = ref.Part(name, mediaType)
	}
	return t.Artifact(name, part)
}

// maxFile returns how many bytes a file of the task may have.
func (t *Task) maxFile() int64 {
	if t.agent != nil && t.agent.o.MaxFile > 0 {
		return t.agent.o.MaxFile
	}
	return transport.DefaultMaxFile
}

// until returns a context that ends with ctx and with the task.
func (t *Task) until(ctx context.Context) (context.Context, context.CancelFunc) {
	ctx, cancel := context.WithCancelCause(ctx)
	if t.run == nil {
		return ctx, func() { cancel(nil) }
	}
	stop := context.AfterFunc(t.run.ctx, func() { cancel(context.Cause(t.run.ctx)) })
	return ctx, func() {
		stop()
		cancel(nil)
	}
}

// inline returns the size of the artifacts in bytes.
func (t *Task) inline() int {
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.bytes
}

// progressReader is a reader that reports each read as progress of the task.
type progressReader struct {
	io.Reader
	t *Task
}

func (a progressReader) Read(b []byte) (int, error) {
	a.t.noteProgress()
	return a.Reader.Read(b)
}

// retryingFiles is a store of files that retries to store a chunk while the transport is unavailable, until the context ends. The upload then
// continues under the same name.
type retryingFiles struct {
	transport.Files
	a *agent
}

// PutChunk implements [transport.Files].
func (p retryingFiles) PutChunk(ctx context.Context, o transport.Object, n int, sealed []byte) error {
	var last error
	err := p.a.retry(ctx, "store a file", func() error {
		err := p.Files.PutChunk(ctx, o, n, sealed)
		if ctx.Err() == nil {
			last = err
		}
		return err
	})
	if err != nil && ctx.Err() != nil && last != nil {
		return fmt.Errorf("%w: %w", context.Cause(ctx), last)
	}
	return err
}

// RemoveObject removes what was stored of a file before an error.
func (p retryingFiles) RemoveObject(ctx context.Context, o transport.Object) error {
	if keeper, ok := p.Files.(transport.FileKeeper); ok {
		return keeper.RemoveObject(ctx, o)
	}
	return transport.ErrForbidden
}

// pack returns parts for sending: it stores what is too large for a message. If the transport stores no files, parts stay as they are.
func (a *agent) pack(ctx context.Context, contextID string, parts a2a.ContentParts) (a2a.ContentParts, error) {
	f, ok := a.tr.(transport.Files)
	if !ok {
		return parts, nil
	}
	return transport.PackFiles(ctx, retryingFiles{f, a}, a.o.Tenant, contextID, a.id, parts, nil)
}

// packed returns an outcome for sending, see pack.
func (a *agent) packed(ctx context.Context, contextID string, out outcome) (outcome, error) {
	var err error
	if out.parts, err = a.pack(ctx, contextID, out.parts); err != nil {
		return out, err
	}
	out.artifacts = slices.Clone(out.artifacts)
	for i, artifact := range out.artifacts {
		parts, err := a.pack(ctx, contextID, artifact.Parts)
		if err != nil {
			return out, err
		}
		is := *artifact
		is.Parts = parts
		out.artifacts[i] = &is
	}
	return out, nil
}

// stored returns the outcome of a run for sending, see pack, or a failure that says why its files cannot be stored. It returns false when the
// agent ends first and leaves the task to another instance.
func (a *agent) stored(r *run, contextID string, out outcome) (outcome, bool) {
	ctx, done := a.storing(r)
	defer done()
	if out.whole != nil {
		with := out
		with.parts = append(slices.Clip(out.parts), out.whole)
		if packed, err := a.packed(ctx, contextID, with); err == nil {
			packed.whole = nil
			return packed, true
		}
		out.whole = nil // the text is sent without it: it says that it is cut
	}
	packed, err := a.packed(ctx, contextID, out)
	if err == nil {
		return packed, true
	}
	if a.sending.Err() != nil || errors.Is(err, transport.ErrClosed) {
		return outcome{}, false
	}
	cause, why := context.Cause(r.ctx), "the files of the result cannot be stored: "+errorText(err)
	if errors.Is(cause, context.DeadlineExceeded) {
		why = "the agent was not done at the deadline: " + why
	}
	switch {
	case errors.Is(cause, ErrCanceled):
		return outcome{state: a2a.TaskStateCanceled, parts: words(cause.Error())}, true
	case out.state.Terminal() && out.state != a2a.TaskStateCompleted: // the agent's own failure matters more
		return outcome{state: out.state, parts: words(cut(transport.Text(out.parts), MaxResultText-len(why)) + "\n[" + why + "]")}, true
	}
	return outcome{state: a2a.TaskStateFailed, parts: words(why)}, true
}

// storing returns the context for storing the files of a run's outcome. It ends when the task is canceled or its time is over, or after
// announceTimeout if that has already happened. A stopping agent still has its time for sending results.
func (a *agent) storing(r *run) (context.Context, context.CancelFunc) {
	switch cause := context.Cause(r.ctx); {
	case errors.Is(cause, ErrStopping):
		return a.sending, func() {}
	case cause != nil:
		return context.WithTimeout(a.sending, announceTimeout)
	}
	ctx, cancel := context.WithCancelCause(a.sending)
	stop := context.AfterFunc(r.ctx, func() {
		if cause := context.Cause(r.ctx); !errors.Is(cause, ErrStopping) {
			cancel(cause)
		}
	})
	return ctx, func() {
		stop()
		cancel(nil)
	}
}
