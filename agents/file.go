package agents

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"

	"github.com/a2aproject/a2a-go/v2/a2a"

	"github.com/cortex-orchestrator/cortex/transport"
)

// File is a file that a task brings. What is said of it is said by whoever sent it.
type File struct {
	Name string // as [transport.FileName] makes it: it names something in a folder, and nothing outside of it
	Type string // its media type
	Size int64  // in bytes

	task *Task
	part *a2a.Part
}

// Files returns the files that the task brings: those of the user's message, and those that came of the tasks that this one waited for.
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

// Open returns a reader of the file. It reads what is stored elsewhere piece by piece; an error, also of a Read, says that the file is gone or
// damaged.
func (f File) Open(ctx context.Context) (io.ReadCloser, error) {
	r, err := transport.OpenPart(ctx, f.task.store(), f.task.Tenant, f.part)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", f.Name, err)
	}
	return fileReader{r, f.Name}, nil
}

// Bytes returns the file, of at most limit bytes: a larger one gives an error that wraps [transport.ErrTooLarge].
func (f File) Bytes(ctx context.Context, limit int64) ([]byte, error) {
	b, err := transport.ReadPart(ctx, f.task.store(), f.task.Tenant, f.part, limit)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", f.Name, err)
	}
	return b, nil
}

// store returns where large files are; nil outside [Serve], and where the transport keeps none.
func (t *Task) store() transport.Files {
	if t.agent == nil {
		return nil
	}
	f, _ := t.agent.tr.(transport.Files)
	return f
}

// fileReader says in its errors which file it reads.
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

// AddFile adds a file to the result, as an artifact of its name. A large one is stored as it is read, and may have [Options].MaxFile bytes. An
// empty mediaType is found by the name and the first bytes. Errors are those of [Task.Artifact], of r and of the transport.
func (t *Task) AddFile(ctx context.Context, name, mediaType string, r io.Reader) error {
	limit := int64(transport.DefaultMaxFile)
	if t.agent != nil && t.agent.o.MaxFile > 0 {
		limit = t.agent.o.MaxFile
	}
	files := t.store()
	head := make([]byte, transport.MaxInlineFile+1)
	n, err := io.ReadFull(r, head)
	head = head[:n]
	if err != nil && !errors.Is(err, io.EOF) && !errors.Is(err, io.ErrUnexpectedEOF) {
		return fmt.Errorf("%s: %w", name, err)
	}
	mediaType = transport.TypeOf(name, mediaType, head[:min(n, 512)])
	if files == nil && n > transport.MaxInlineFile {
		rest, err := io.ReadAll(io.LimitReader(r, MaxArtifactBytes)) // more than there may be
		if err != nil {
			return fmt.Errorf("%s: %w", name, err)
		}
		head = append(head, rest...)
	}
	part := &a2a.Part{Content: a2a.Raw(head), Filename: name, MediaType: mediaType}
	if files != nil && (n > transport.MaxInlineFile || t.inline()+n > transport.MaxInlineFiles) {
		ref, err := transport.PutFile(ctx, files, t.Tenant, t.ContextID, t.agent.id, io.MultiReader(bytes.NewReader(head), alive{r, t}), limit)
		if err != nil {
			return fmt.Errorf("%s: %w", name, err)
		}
		part = ref.Part(name, mediaType)
	}
	return t.Artifact(name, part)
}

// inline returns how many bytes the artifacts have.
func (t *Task) inline() int {
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.bytes
}

// alive is a reader whose progress is the task's.
type alive struct {
	io.Reader
	t *Task
}

func (a alive) Read(b []byte) (int, error) {
	a.t.alive()
	return a.Reader.Read(b)
}

// pack returns parts as they are sent: what is too large for a message is stored. Where nothing can be, parts stay as they are.
func (a *agent) pack(contextID string, parts a2a.ContentParts) (a2a.ContentParts, error) {
	f, ok := a.tr.(transport.Files)
	if !ok {
		return parts, nil
	}
	packed := parts
	err := a.retry(a.sending, "store files", func() (err error) {
		packed, err = transport.PackFiles(a.sending, f, a.o.Tenant, contextID, a.id, parts)
		return err
	})
	return packed, err
}

// packed returns an outcome as it is sent, see pack.
func (a *agent) packed(contextID string, out outcome) (outcome, error) {
	var err error
	if out.parts, err = a.pack(contextID, out.parts); err != nil {
		return out, err
	}
	for i, artifact := range out.artifacts {
		parts, err := a.pack(contextID, artifact.Parts)
		if err != nil {
			return out, err
		}
		is := *artifact
		is.Parts = parts
		out.artifacts[i] = &is
	}
	return out, nil
}
