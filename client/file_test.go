package client_test

import (
	"bytes"
	"context"
	"errors"
	"io"
	"math"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/a2aproject/a2a-go/v2/a2a"

	"github.com/cortex-orchestrator/cortex/client"
	"github.com/cortex-orchestrator/cortex/transport"
	"github.com/cortex-orchestrator/cortex/transport/memory"
)

// TestSaveStaysInItsFolder saves files of an answer whose names lead elsewhere or are taken: each is written into the folder, and
// nothing is overwritten.
func TestSaveStaysInItsFolder(t *testing.T) {
	bus := memory.New(nil)
	defer bus.Close()
	dir := t.TempDir()
	into := filepath.Join(dir, "in", "to")
	if err := os.WriteFile(filepath.Join(dir, "passwd"), []byte("mine"), 0o600); err != nil {
		t.Fatal(err)
	}
	var files []*a2a.Part
	for _, name := range []string{"../../passwd", "../../passwd", filepath.Join(dir, "passwd"), "", "..", "x\x1b[2J.txt"} {
		files = append(files, &a2a.Part{Content: a2a.Raw("theirs"), Filename: name, MediaType: "text/plain"})
	}
	if err := os.MkdirAll(into, 0o700); err != nil {
		t.Fatal(err)
	}
	if err := os.Symlink(filepath.Join(dir, "passwd"), filepath.Join(into, "passwd")); err != nil {
		t.Fatal(err)
	}
	saved, err := client.Save(t.Context(), bus, "", into, files)
	if err != nil {
		t.Fatal(err)
	}
	want := "passwd-2 passwd-3 passwd-4 file-4.txt file-5.txt x_[2J.txt"
	var names []string
	for _, path := range saved {
		names = append(names, filepath.Base(path))
		if b, err := os.ReadFile(path); err != nil || string(b) != "theirs" || filepath.Dir(path) != into {
			t.Errorf("%s is %q, %v", path, b, err)
		}
	}
	if got := strings.Join(names, " "); got != want {
		t.Errorf("Save wrote %s, want %s", got, want)
	}
	if b, err := os.ReadFile(filepath.Join(dir, "passwd")); err != nil || string(b) != "mine" {
		t.Errorf("the file outside is %q, %v, want it as it was", b, err)
	}
}

// TestSaveWhereALinkIs saves to dangling links, and to a file in place of a folder: the errors say what is there.
func TestSaveWhereALinkIs(t *testing.T) {
	bus := memory.New(nil)
	defer bus.Close()
	dir := t.TempDir()
	link, file := filepath.Join(dir, "link"), filepath.Join(dir, "file")
	if err := os.Symlink(filepath.Join(dir, "nowhere"), link); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(file, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	part := &a2a.Part{Content: a2a.Raw("theirs"), Filename: "link"}
	for path, want := range map[string]string{
		link:                              link + " is a link that leads nowhere: nothing is written through it; remove it, or name another file",
		file:                              file + " is there already: nothing is overwritten",
		link + string(filepath.Separator): link + " is a link that leads nowhere: remove it, or name another folder",
		file + string(filepath.Separator): file + " is there already and not a folder: name another folder",
	} {
		if _, err := client.SaveAs(t.Context(), bus, "", path, part); err == nil || err.Error() != want {
			t.Errorf("SaveAs(%s) = %v, want %s", path, err, want)
		}
	}
	if saved, err := client.Save(t.Context(), bus, "", dir, []*a2a.Part{part}); err != nil || saved[0] != filepath.Join(dir, "link-2") {
		t.Errorf("Save = %q, %v, want a name beside the link", saved, err)
	}
	if _, err := os.Lstat(filepath.Join(dir, "nowhere")); err == nil {
		t.Error("something was written through the link")
	}
}

// TestInvalidMessageLeavesNoFiles sends invalid messages with files that are too large for a message: none of the files is stored.
func TestInvalidMessageLeavesNoFiles(t *testing.T) {
	bus := memory.New(nil)
	defer bus.Close()
	c := &client.Client{Transport: bus}
	large := &a2a.Part{Content: a2a.Raw(make([]byte, 2*transport.MaxInlineFile)), Filename: "a.bin"}
	words := a2a.NewTextPart("look")
	for name, m := range map[string]*client.Message{
		"no id":          {ContextID: "c", ID: "with space", Parts: a2a.ContentParts{words, large}},
		"too many":       {ContextID: "c", Parts: slices.Repeat(a2a.ContentParts{large}, transport.MaxFiles+1)},
		"too many words": {ContextID: "c", Parts: a2a.ContentParts{a2a.NewTextPart(strings.Repeat("x", transport.MaxPayload)), large}},
		"no data":        {ContextID: "c", Parts: a2a.ContentParts{a2a.NewDataPart(math.NaN()), large}},
	} {
		if _, err := c.Send(t.Context(), m); !errors.Is(err, transport.ErrInvalid) {
			t.Errorf("%s: Send = %v, want ErrInvalid", name, err)
		}
		if err := c.Check(m); name != "too many" && !errors.Is(err, transport.ErrInvalid) {
			t.Errorf("%s: Check = %v, want ErrInvalid", name, err)
		}
		for o, err := range bus.Objects(t.Context(), "") {
			t.Fatalf("%s: the message is refused, and file %s is stored, %v", name, o.ID, err)
		}
	}
	if err := c.Check(&client.Message{ContextID: "c", Parts: a2a.ContentParts{words}}); err != nil {
		t.Errorf("Check of a good message = %v", err)
	}
}

// TestSaveOfDamaged checks that saving a damaged file leaves nothing behind, and that the error names the file.
func TestSaveOfDamaged(t *testing.T) {
	bus := memory.New(nil)
	defer bus.Close()
	ref, err := transport.PutFile(t.Context(), bus, "", "c", "user", bytes.NewReader(make([]byte, 600<<10)), 1<<30)
	if err != nil {
		t.Fatal(err)
	}
	if err := bus.PutChunk(t.Context(), ref.Object, 1, make([]byte, 1000)); err != nil {
		t.Fatal(err)
	}
	dir := t.TempDir()
	_, err = client.Save(t.Context(), bus, "", dir, []*a2a.Part{ref.Part("a.bin", "")})
	if !errors.Is(err, transport.ErrFileDamaged) || err.Error() != "a.bin: the file is damaged behind its first 262144 of 614400 bytes" {
		t.Errorf("Save = %v, want that a.bin is damaged", err)
	}
	if left, err := os.ReadDir(dir); err != nil || len(left) != 0 {
		t.Errorf("%v is left behind, %v", left, err)
	}
}

func TestAttachRefuses(t *testing.T) {
	bus := memory.New(nil)
	defer bus.Close()
	c, dir := &client.Client{Transport: bus}, t.TempDir()
	path := filepath.Join(dir, "a.bin")
	if err := os.WriteFile(path, make([]byte, 300<<10), 0o600); err != nil {
		t.Fatal(err)
	}
	for p, limit := range map[string]int64{dir: 0, filepath.Join(dir, "none"): 0, path: 300<<10 - 1, "/dev/zero": 0} {
		if part, err := client.Attach(t.Context(), c, "c", p, limit); err == nil {
			t.Errorf("Attach of %s with limit %d = %v, want an error", p, limit, part)
		}
	}
	canceled, cancel := context.WithCancelCause(t.Context())
	cancel(errors.New("never mind"))
	if _, err := client.Attach(canceled, c, "c", path, 300<<10); err == nil || err.Error() != "never mind" {
		t.Errorf("Attach after its context = %v, want its cause", err)
	}
	part, err := client.Attach(t.Context(), c, "c", path, 300<<10)
	if err != nil || !transport.IsFileRef(part) || part.Filename != "a.bin" {
		t.Errorf("Attach = %+v, %v, want a reference to a.bin", part, err)
	}
}

// TestManySmallFiles sends the maximum number of files, each small enough to be inline: those that do not fit into the message are stored.
func TestManySmallFiles(t *testing.T) {
	bus := memory.New(nil)
	defer bus.Close()
	c := &client.Client{Transport: bus}
	inbox, err := bus.Subscribe(t.Context(), transport.Inbox("", transport.Cortex), nil)
	if err != nil {
		t.Fatal(err)
	}
	got := make(chan *a2a.Message, 1)
	go inbox.Serve(t.Context(), func(_ context.Context, e *transport.Event) error { //nolint:errcheck // it ends with the test
		got <- e.Payload.(*a2a.Message)
		return nil
	})
	parts := a2a.ContentParts{a2a.NewTextPart("read")}
	for i := range transport.MaxFiles {
		parts = append(parts, &a2a.Part{Content: a2a.Raw(bytes.Repeat([]byte{byte(i)}, 120<<10)), Filename: "f"})
	}
	if _, err := c.Send(t.Context(), &client.Message{ContextID: "c", Parts: parts}); err != nil {
		t.Fatal(err)
	}
	stored := 0
	for i, p := range (<-got).Parts[1:] {
		if _, err := transport.RefOf("", p); err == nil {
			stored++
		}
		r, err := transport.OpenPart(t.Context(), bus, "", p)
		if err != nil {
			t.Fatal(err)
		}
		if b, err := io.ReadAll(r); err != nil || !bytes.Equal(b, bytes.Repeat([]byte{byte(i)}, 120<<10)) {
			t.Errorf("file %d is %d bytes, %v", i, len(b), err)
		}
		r.Close()
	}
	if want := transport.MaxFiles - transport.MaxInlineFiles/(120<<10); stored != want {
		t.Errorf("%d files are stored, want %d", stored, want)
	}
}

// TestRefusedMessageLeavesNoFiles has a message with a large file refused by Admit: the file is not stored.
func TestRefusedMessageLeavesNoFiles(t *testing.T) {
	bus := memory.New(nil)
	defer bus.Close()
	c := &client.Client{Transport: bus, Admit: func(string, int) error { return transport.ErrFull }}
	large := &a2a.Part{Content: a2a.Raw(make([]byte, 2*transport.MaxInlineFile)), Filename: "a.bin"}
	m := &client.Message{ContextID: "c", Parts: a2a.ContentParts{large}}
	if _, err := c.Send(t.Context(), m); !errors.Is(err, transport.ErrFull) || !errors.Is(err, client.ErrUnsent) {
		t.Errorf("Send = %v, want ErrFull and ErrUnsent", err)
	}
	for _, err := range c.Follow(t.Context(), m) {
		if !errors.Is(err, transport.ErrFull) || !errors.Is(err, client.ErrUnsent) {
			t.Errorf("Follow: %v, want ErrFull and ErrUnsent", err)
		}
	}
	for o, err := range bus.Objects(t.Context(), "") {
		t.Errorf("file %s is stored, %v", o.ID, err)
	}
}
