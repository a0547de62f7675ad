package client

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"image"
	_ "image/gif"  // for Describe
	_ "image/jpeg" // for Describe
	_ "image/png"  // for Describe
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"strings"

	"github.com/a2aproject/a2a-go/v2/a2a"

	"github.com/cortex-orchestrator/cortex/internal/document"
	"github.com/cortex-orchestrator/cortex/internal/size"
	"github.com/cortex-orchestrator/cortex/transport"
)

// CheckFile returns an error, for people, unless path is a regular file of at most limit bytes; a limit of 0 means
// [transport.DefaultMaxFile].
func CheckFile(path string, limit int64) (fs.FileInfo, error) {
	limit = cmp.Or(max(limit, 0), transport.DefaultMaxFile)
	if path == "" {
		return nil, errors.New("the name of a file is empty")
	}
	info, err := document.StatRegular(path)
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return nil, fmt.Errorf("%s: there is no such file", path)
	case err != nil:
		return nil, err
	case info.Size() > limit:
		return nil, fmt.Errorf("%s: %w: it has %s, at most %s are sent (--max-file)", path, transport.ErrTooLarge, size.Text(info.Size()), size.Text(limit))
	}
	return info, nil
}

// Attach returns a part that brings the file at path into a conversation: inline when it is small, else stored with the transport. Errors are
// those of [CheckFile], of reading the file, and of the transport. Attach ends with ctx. It does not block on a pipe that has replaced the file,
// and gives up on a file that yields no data, such as /proc/kmsg.
func Attach(ctx context.Context, c *Client, contextID, path string, limit int64) (*a2a.Part, error) {
	info, err := CheckFile(path, limit)
	if err != nil {
		return nil, err
	}
	f, err := document.OpenRegular(ctx, path)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	name := filepath.Base(path)
	head := make([]byte, transport.MaxInlineFile+1)
	n, err := io.ReadFull(f, head)
	if err != nil && !errors.Is(err, io.EOF) && !errors.Is(err, io.ErrUnexpectedEOF) {
		return nil, err
	}
	kind := transport.TypeOf(name, "", head[:min(n, 512)])
	if n <= transport.MaxInlineFile {
		return &a2a.Part{Content: a2a.Raw(head[:n]), Filename: name, MediaType: kind}, nil
	}
	files, ok := c.Transport.(transport.Files)
	if !ok {
		return nil, fmt.Errorf("%s: %w: this transport takes files of at most %s", path, transport.ErrTooLarge, size.Text(transport.MaxInlineFile))
	}
	if err := f.Rewind(); err != nil {
		return nil, err
	}
	ref, err := transport.PutFile(ctx, files, c.Tenant, contextID, c.user(), f, max(limit, info.Size()))
	if err != nil {
		return nil, fmt.Errorf("%s: %w", path, err)
	}
	return ref.Part(name, kind), nil
}

// Detach removes what [Attach] has stored for a message that is not sent, on a best effort; the store removes the rest after some minutes.
func Detach(ctx context.Context, c *Client, parts a2a.ContentParts) {
	if files, ok := c.Transport.(transport.Files); ok {
		transport.Withdraw(ctx, files, c.Tenant, c.user(), parts)
	}
}

// Save writes files into folder dir, which it makes if needed, under names made by [transport.FileName], with a number where the name is taken.
// It overwrites nothing, and writes nothing outside of dir. It returns the paths of the written files; an error names the file that failed.
func Save(ctx context.Context, tr transport.Transport, tenant, dir string, files []*a2a.Part) ([]string, error) {
	if err := MakeFolder(dir); err != nil {
		return nil, err
	}
	root, err := os.OpenRoot(dir)
	if err != nil {
		return nil, err
	}
	defer root.Close()
	var saved []string
	for i, p := range files {
		name, kind, _, _ := transport.FileOf(p)
		name = transport.FreeName(transport.FileName(name, kind, i+1), func(name string) bool {
			_, err := root.Lstat(name)
			return err == nil
		})
		if err := saveAs(ctx, tr, tenant, root, name, p); err != nil {
			return saved, err
		}
		saved = append(saved, filepath.Join(dir, name))
	}
	return saved, nil
}

// MakeFolder makes folder dir unless it exists. When something else is there, the error tells people what.
func MakeFolder(dir string) error {
	err := os.MkdirAll(dir, 0o755) //nolint:gosec // a folder of the user's, as mkdir makes it
	var failed *fs.PathError
	if !errors.As(err, &failed) {
		return err
	}
	path := filepath.Clean(failed.Path)
	if _, none := os.Lstat(path); none != nil {
		return err
	}
	switch info, lost := os.Stat(path); {
	case lost != nil:
		return fmt.Errorf("%s is a link that leads nowhere: remove it, or name another folder", path)
	case !info.IsDir():
		return fmt.Errorf("%s is there already and not a folder: name another folder", path)
	}
	return err
}

// SaveAs writes a file to path and overwrites nothing. If path is a folder, the file gets the name that [Save] would give it.
func SaveAs(ctx context.Context, tr transport.Transport, tenant, path string, p *a2a.Part) (string, error) {
	if info, err := os.Stat(path); err == nil && info.IsDir() || strings.HasSuffix(path, string(filepath.Separator)) {
		saved, err := Save(ctx, tr, tenant, path, []*a2a.Part{p})
		if err != nil {
			return "", err
		}
		return saved[0], nil
	}
	root, err := os.OpenRoot(filepath.Dir(path))
	if err != nil {
		return "", err
	}
	defer root.Close()
	return path, saveAs(ctx, tr, tenant, root, filepath.Base(path), p)
}

func saveAs(ctx context.Context, tr transport.Transport, tenant string, root *os.Root, name string, p *a2a.Part) error {
	files, _ := tr.(transport.Files)
	r, err := transport.OpenPart(ctx, files, tenant, p)
	if err != nil {
		return fmt.Errorf("%s: %w", name, err)
	}
	defer r.Close()
	f, err := root.OpenFile(name, os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o644)
	if errors.Is(err, fs.ErrExist) {
		path := filepath.Join(root.Name(), name)
		if _, lost := os.Stat(path); lost != nil {
			return fmt.Errorf("%s is a link that leads nowhere: nothing is written through it; remove it, or name another file", path)
		}
		return fmt.Errorf("%s is there already: nothing is overwritten", path)
	}
	if err != nil {
		return err
	}
	_, err = io.Copy(f, r)
	if err = errors.Join(err, f.Close()); err != nil {
		_ = root.Remove(name) // no half-written files
		return fmt.Errorf("%s: %w", name, err)
	}
	return nil
}

// Describe describes a file in a few words: its name, type, size, and the dimensions of an image.
func Describe(ctx context.Context, tr transport.Transport, tenant string, p *a2a.Part) string {
	line := transport.FileLine(p)
	if _, kind, _, _ := transport.FileOf(p); !strings.HasPrefix(kind, "image/") {
		return line
	}
	files, _ := tr.(transport.Files)
	r, err := transport.OpenPart(ctx, files, tenant, p)
	if err != nil {
		return line
	}
	defer r.Close()
	is, _, err := image.DecodeConfig(io.LimitReader(r, transport.FileChunk)) // the header is in the first chunk, or not read at all
	if err != nil {
		return line
	}
	return fmt.Sprintf("%s, %dx%d", line, is.Width, is.Height)
}
