package transport_test

import (
	"bytes"
	"context"
	"crypto/sha256"
	"errors"
	"fmt"
	"io"
	"maps"
	"math/rand/v2"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"unicode"
	"unicode/utf8"

	"github.com/a2aproject/a2a-go/v2/a2a"
	"github.com/google/go-cmp/cmp"

	"github.com/cortex-orchestrator/cortex/transport"
)

// chunks stores files in a map.
type chunks map[string][]byte

func (c chunks) at(o transport.Object, n int) string { return fmt.Sprint(o, n) }

func (c chunks) PutChunk(_ context.Context, o transport.Object, n int, sealed []byte) error {
	c[c.at(o, n)] = bytes.Clone(sealed)
	return nil
}

func (c chunks) Chunk(_ context.Context, o transport.Object, n int) ([]byte, error) {
	b, ok := c[c.at(o, n)]
	if !ok {
		return nil, transport.ErrNotFound
	}
	return bytes.Clone(b), nil
}

func randomBytes(n int) []byte {
	b := make([]byte, n)
	for i, r := 0, rand.New(rand.NewPCG(1, uint64(n))); i < n; i++ {
		b[i] = byte(r.Uint32())
	}
	return b
}

// carried returns a part after it was sent in a message.
func carried(t *testing.T, p *a2a.Part) *a2a.Part {
	t.Helper()
	kind, version, body, err := transport.EncodePayload(&a2a.Message{ID: "m", Role: a2a.MessageRoleUser, Parts: a2a.ContentParts{p}})
	if err != nil {
		t.Fatal(err)
	}
	m, err := transport.DecodePayload(kind, version, body)
	if err != nil {
		t.Fatal(err)
	}
	return m.(*a2a.Message).Parts[0]
}

func TestFileRoundTrip(t *testing.T) {
	for _, size := range []int{0, 1, transport.FileChunk - 1, transport.FileChunk, transport.FileChunk + 1, 3*transport.FileChunk + 7} {
		store, want := chunks{}, randomBytes(size)
		ref, err := transport.PutFile(t.Context(), store, "t", "c/1", "user:ann", bytes.NewReader(want), int64(size))
		if err != nil {
			t.Fatalf("PutFile of %d bytes: %v", size, err)
		}
		part := carried(t, ref.Part("a.png", "image/png"))
		if name, kind, n, ok := transport.FileOf(part); name != "a.png" || kind != "image/png" || n != int64(size) || !ok {
			t.Errorf("FileOf = %q, %q, %d, %v", name, kind, n, ok)
		}
		got, err := transport.ReadPart(t.Context(), store, "t", part, int64(size))
		if err != nil || !bytes.Equal(got, want) {
			t.Errorf("a file of %d bytes came back as %d bytes, %v", size, len(got), err)
		}
		if _, err := transport.ReadPart(t.Context(), store, "t", part, int64(size)-1); !errors.Is(err, transport.ErrTooLarge) {
			t.Errorf("ReadPart of %d bytes with a lower limit: %v, want ErrTooLarge", size, err)
		}
		for at, sealed := range store {
			if size > 64 && bytes.Contains(sealed, want[:32]) {
				t.Errorf("chunk %s can be read without the key", at)
			}
		}
	}
}

func TestPutFileTooLarge(t *testing.T) {
	for _, size := range []int{11, transport.FileChunk, 2*transport.FileChunk + 1} {
		_, err := transport.PutFile(t.Context(), chunks{}, "", "c", "user", bytes.NewReader(randomBytes(size)), int64(size)-1)
		if !errors.Is(err, transport.ErrTooLarge) {
			t.Errorf("PutFile of %d bytes with a limit of one less: %v, want ErrTooLarge", size, err)
		}
	}
}

// TestFileDamage checks that every change of the stored data is detected.
func TestFileDamage(t *testing.T) {
	want := randomBytes(3 * transport.FileChunk)
	whole, other := chunks{}, chunks{}
	ref, err := transport.PutFile(t.Context(), whole, "", "c", "user", bytes.NewReader(want), 1<<30)
	if err != nil {
		t.Fatal(err)
	}
	second, err := transport.PutFile(t.Context(), other, "", "c", "user", bytes.NewReader(want), 1<<30)
	if err != nil {
		t.Fatal(err)
	}
	at := func(n int) string { return whole.at(ref.Object, n) }
	for name, c := range map[string]struct {
		change func(chunks)
		ref    func(*transport.FileRef)
		want   error
	}{
		"a bit":                {change: func(c chunks) { c[at(1)][100] ^= 1 }, want: transport.ErrFileDamaged},
		"cut":                  {change: func(c chunks) { c[at(2)] = c[at(2)][:1000] }, want: transport.ErrFileDamaged},
		"empty":                {change: func(c chunks) { c[at(0)] = nil }, want: transport.ErrFileDamaged},
		"exchanged":            {change: func(c chunks) { c[at(0)], c[at(1)] = c[at(1)], c[at(0)] }, want: transport.ErrFileDamaged},
		"the last is gone":     {change: func(c chunks) { delete(c, at(2)) }, want: transport.ErrFileDamaged},
		"all are gone":         {change: func(c chunks) { clear(c) }, want: transport.ErrFileGone},
		"another file's chunk": {change: func(c chunks) { c[at(1)] = other[other.at(second.Object, 1)] }, want: transport.ErrFileDamaged},
		"a shorter size":       {ref: func(r *transport.FileRef) { r.Size = 2 * transport.FileChunk }, want: transport.ErrFileDamaged},
		"a longer size":        {ref: func(r *transport.FileRef) { r.Size++ }, want: transport.ErrFileDamaged},
		"an earlier end, with its sum": {ref: func(r *transport.FileRef) {
			r.Size, r.SHA256 = 2*transport.FileChunk, fmt.Sprintf("%x", sha256.Sum256(want[:2*transport.FileChunk]))
		}, want: transport.ErrFileDamaged},
		"another sum":           {ref: func(r *transport.FileRef) { r.SHA256 = strings.Repeat("0", 64) }, want: transport.ErrFileDamaged},
		"another key":           {ref: func(r *transport.FileRef) { r.Key = make([]byte, 32) }, want: transport.ErrFileDamaged},
		"another conversation":  {ref: func(r *transport.FileRef) { r.ContextID = "d" }, want: transport.ErrFileGone},
		"the id of another one": {ref: func(r *transport.FileRef) { r.ID = second.ID }, want: transport.ErrFileGone},
	} {
		t.Run(name, func(t *testing.T) {
			store, ref := chunks{}, ref
			for k, v := range whole {
				store[k] = bytes.Clone(v)
			}
			if c.change != nil {
				c.change(store)
			}
			if c.ref != nil {
				c.ref(&ref)
			}
			got, err := transport.ReadPart(t.Context(), store, "", ref.Part("", ""), 1<<40)
			if !errors.Is(err, c.want) {
				t.Errorf("ReadPart = %d bytes, %v, want %v", len(got), err, c.want)
			}
		})
	}
}

func TestOpenFileClosed(t *testing.T) {
	store := chunks{}
	ref, err := transport.PutFile(t.Context(), store, "", "c", "user", strings.NewReader("words"), 10)
	if err != nil {
		t.Fatal(err)
	}
	r, err := transport.OpenFile(t.Context(), store, ref)
	if err != nil {
		t.Fatal(err)
	}
	if err := errors.Join(r.Close(), r.Close()); err != nil {
		t.Error(err)
	}
	if _, err := r.Read(make([]byte, 1)); !errors.Is(err, io.ErrClosedPipe) {
		t.Errorf("Read after Close: %v", err)
	}
}

func TestRefOfRefuses(t *testing.T) {
	good := transport.FileRef{Object: transport.Object{ContextID: "c", From: "user", ID: "1"}, Key: make([]byte, 32), SHA256: strings.Repeat("ab", 32)}
	if _, err := transport.RefOf("", good.Part("", "")); err != nil {
		t.Fatal(err)
	}
	with := func(change func(p *a2a.Part)) *a2a.Part {
		p := good.Part("", "")
		change(p)
		return p
	}
	for name, p := range map[string]*a2a.Part{
		"none":         nil,
		"text":         a2a.NewTextPart("cortex-file:c/user/1"),
		"http":         {Content: a2a.URL("http://example.com/a.png")},
		"no id":        {Content: a2a.URL("cortex-file:c/user/")},
		"two tokens":   with(func(p *a2a.Part) { p.Content = a2a.URL("cortex-file:c/user") }),
		"four tokens":  with(func(p *a2a.Part) { p.Content = a2a.URL("cortex-file:c/user/1/2") }),
		"empty id":     with(func(p *a2a.Part) { p.Content = a2a.URL("cortex-file:c//1") }),
		"no metadata":  with(func(p *a2a.Part) { p.Metadata = nil }),
		"short key":    with(func(p *a2a.Part) { p.Metadata["file_key"] = "AAAA" }),
		"no size":      with(func(p *a2a.Part) { delete(p.Metadata, "file_size") }),
		"minus":        with(func(p *a2a.Part) { p.Metadata["file_size"] = -1.0 }),
		"endless size": with(func(p *a2a.Part) { p.Metadata["file_size"] = 1e300 }),
		"a word":       with(func(p *a2a.Part) { p.Metadata["file_size"] = "1" }),
		"no sum":       with(func(p *a2a.Part) { delete(p.Metadata, "file_sha256") }),
	} {
		if _, err := transport.RefOf("", p); !errors.Is(err, transport.ErrInvalid) {
			t.Errorf("RefOf of %s: %v, want ErrInvalid", name, err)
		}
	}
}

func TestPackFiles(t *testing.T) {
	raw := func(n int) *a2a.Part {
		return &a2a.Part{Content: a2a.Raw(randomBytes(n)), Filename: "plot.png", Metadata: map[string]any{"page": 1.0}}
	}
	parts := a2a.ContentParts{a2a.NewTextPart("words"), raw(transport.MaxInlineFile), raw(transport.MaxInlineFile + 1), a2a.NewDataPart("x")}
	for range 8 { // more than fit together
		parts = append(parts, raw(transport.MaxInlineFile))
	}
	before := slices.Clone(parts)
	store := chunks{}
	packed, err := transport.PackFiles(t.Context(), store, "t", "c", "user", parts, nil)
	if err != nil {
		t.Fatal(err)
	}
	if d := cmp.Diff(before, parts); d != "" {
		t.Errorf("the parts were changed: %s", d)
	}
	stored := 0
	for i, p := range packed {
		if i != 0 && i != 3 {
			got, err := transport.ReadPart(t.Context(), store, "t", carried(t, p), 1<<30)
			if err != nil || !bytes.Equal(got, parts[i].Content.(a2a.Raw)) {
				t.Errorf("part %d came back as %d bytes, %v", i, len(got), err)
			}
		}
		if transport.IsFileRef(p) {
			stored++
			if p.Filename != "plot.png" || p.MediaType != "image/png" || p.Metadata["page"] != 1.0 {
				t.Errorf("part %d became %+v", i, p)
			}
		}
	}
	if stored != 6 {
		t.Errorf("%d files were stored, want the one that is too large and the five for which there is no room", stored)
	}
	if again, err := transport.PackFiles(t.Context(), nil, "t", "c", "user", packed, nil); err != nil || !slices.Equal(again, packed) {
		t.Errorf("to pack references again gave %v, %v", again, err)
	}
	if _, err := transport.PackFiles(t.Context(), nil, "t", "c", "user", parts, nil); !errors.Is(err, transport.ErrTooLarge) {
		t.Errorf("PackFiles for a transport without files: %v, want ErrTooLarge", err)
	}
	many := slices.Repeat(a2a.ContentParts{raw(1)}, transport.MaxFiles+1)
	if _, err := transport.PackFiles(t.Context(), store, "t", "c", "user", many, nil); !errors.Is(err, transport.ErrTooLarge) {
		t.Errorf("PackFiles of too many files: %v, want ErrTooLarge", err)
	}
}

// TestPackFilesIsWhole checks that PackFiles passes its result to valid before storing anything, and leaves nothing when valid refuses it, or when
// one of several files cannot be stored.
func TestPackFilesIsWhole(t *testing.T) {
	store := &fullStore{chunks: chunks{}, room: 2}
	large := &a2a.Part{Content: a2a.Raw(randomBytes(transport.MaxInlineFile + 1)), Filename: "a.bin"}
	refused := errors.New("no")
	asked := 0
	packed, err := transport.PackFiles(t.Context(), store, "t", "c", "user", a2a.ContentParts{large, large}, func(parts a2a.ContentParts) error {
		asked++
		for _, p := range parts {
			if ref, err := transport.RefOf("t", p); err != nil || ref.Size != transport.MaxInlineFile+1 {
				t.Errorf("what will be sent has %+v, %v", p, err)
			}
		}
		return refused
	})
	if !errors.Is(err, refused) || asked != 1 || len(packed) > 0 || len(store.chunks) > 0 {
		t.Errorf("PackFiles that is refused = %v, %v, asked %d times, and %d chunks are stored; want none", packed, err, asked, len(store.chunks))
	}
	_, err = transport.PackFiles(t.Context(), store, "t", "c", "user", a2a.ContentParts{large, large, large}, nil)
	if !errors.Is(err, transport.ErrFilesFull) || len(store.chunks) > 0 {
		t.Errorf("PackFiles of a file too many = %v, and %d chunks are stored; want ErrFilesFull, and none", err, len(store.chunks))
	}
}

// fullStore has room for some chunks.
type fullStore struct {
	chunks
	room int
}

func (s *fullStore) PutChunk(ctx context.Context, o transport.Object, n int, sealed []byte) error {
	if len(s.chunks) == s.room {
		return transport.ErrFilesFull
	}
	return s.chunks.PutChunk(ctx, o, n, sealed)
}

func (s *fullStore) RemoveObject(_ context.Context, o transport.Object) error {
	maps.DeleteFunc(s.chunks, func(at string, _ []byte) bool { return strings.Contains(at, o.ID) })
	return nil
}

func TestTypeOf(t *testing.T) {
	for _, c := range []struct{ name, said, head, want string }{
		{"a.PNG", "", "", "image/png"},
		{"a.png", "image/webp", "", "image/webp"},
		{"a.png", "nonsense", "", "image/png"},
		{"a.png", strings.Repeat("x", 200) + "/y", "", "image/png"},
		{"report", "", "%PDF-1.7 x", "application/pdf"},
		{"", "", "plain words", "text/plain"},
		{"", "", "\x00\x01", transport.UnknownType},
		{"", "", "", transport.UnknownType},
	} {
		if got := transport.TypeOf(c.name, c.said, []byte(c.head)); got != c.want {
			t.Errorf("TypeOf(%q, %.20q, %q) = %q, want %q", c.name, c.said, c.head, got, c.want)
		}
	}
}

func TestFileName(t *testing.T) {
	for in, want := range map[string]string{
		"report.pdf":                      "report.pdf",
		"/etc/passwd":                     "passwd",
		"../../.ssh/authorized_keys":      "authorized_keys",
		`C:\Windows\system.ini`:           "system.ini",
		"..":                              "file-1.png",
		".":                               "file-1.png",
		"":                                "file-1.png",
		"   ":                             "file-1.png",
		".bashrc":                         "bashrc",
		"-rf":                             "rf",
		"a\x1b[31mb\n.txt":                "a_[31mb_.txt",
		"CON.txt":                         "_CON.txt",
		"a b.txt":                         "a b.txt",
		"naïve 漢字.md":                     "naïve 漢字.md",
		"end. . .":                        "end",
		"a\u202egnp.exe":                  "a_gnp.exe",
		strings.Repeat("x", 300) + ".png": strings.Repeat("x", 124) + ".png",
		"bad\xff.txt":                     "bad_.txt",
	} {
		if got := transport.FileName(in, "image/png", 1); got != want {
			t.Errorf("FileName(%q) = %q, want %q", in, got, want)
		}
	}
}

func FuzzFileName(f *testing.F) {
	for _, s := range slices.Collect(maps.Keys(map[string]bool{"../x": true, "a/b\\c": true, "\x00": true, "...": true, "漢.": true})) {
		f.Add(s, "image/png")
	}
	f.Fuzz(func(t *testing.T, name, kind string) {
		got := transport.FileName(name, kind, 3)
		bad := got == "" || got == "." || got == ".." || got[0] == '.' || got[0] == '-' || len(got) > transport.MaxFileName+1 || !utf8.ValidString(got)
		if bad || strings.ContainsAny(got, `/\:`) || filepath.Base(got) != got || strings.ContainsFunc(got, func(r rune) bool { return !unicode.IsGraphic(r) }) {
			t.Errorf("FileName(%q, %q) = %q", name, kind, got)
		}
	})
}
