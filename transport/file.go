package transport

import (
	"bytes"
	"crypto/sha256"
	"encoding/base64"
	"encoding/hex"
	"fmt"
	"mime"
	"net/http"
	"path"
	"strings"
	"unicode"
	"unicode/utf8"

	"github.com/a2aproject/a2a-go/v2/a2a"

	"github.com/cortex-orchestrator/cortex/internal/shorten"
	"github.com/cortex-orchestrator/cortex/internal/size"
)

// A file is a Part with bytes of its own: inline, as [a2a.Raw], or, above [MaxInlineFile], a reference to where the transport keeps
// them, see [Files]. Both have a name (Part.Filename) and a media type, and go from the person to the agent, to the next agent and to the
// answer as they are.
const (
	MaxInlineFile  = 128 << 10  // bytes of a file in a message; a larger one is a reference
	MaxInlineFiles = 512 << 10  // bytes of all files in a message; beyond that they are references, too
	MaxFiles       = 64         // files that one message brings
	DefaultMaxFile = 64_000_000 // bytes of a file when nothing else is said
	MaxFileName    = 128        // bytes of a file's name where one is made of it, see [FileName]
)

// fileScheme is what the URL of a reference begins with. Then come the conversation in which the file was stored, who stored it, and its
// id, each escaped, with slashes between them.
const fileScheme = "cortex-file:"

// The keys of a reference's metadata. Who has the key can read the file, so that these stand in messages, the answer among them, and in the
// log of the conversation, which the tenant's people can read. Agents have those of the files that they are given, and no screen shows one.
const (
	metaFileKey  = "file_key"    // base64 (RFC 4648 section 5, without padding)
	metaFileSize = "file_size"   // bytes
	metaFileSum  = "file_sha256" // hexadecimal
	metaFileHead = "file_head"   // the beginning of a text, see [HeadOf]; may be missing
)

// FileRef says where a file is kept, and how it is read.
type FileRef struct {
	Object
	Key    []byte // of the cipher, see [PutFile]
	Size   int64
	SHA256 string // of its bytes, hexadecimal
	Head   string // the beginning of a text, at most [MaxFileHead] bytes; empty for what is none
}

// Part returns the part that stands for the file in messages.
func (r FileRef) Part(name, mediaType string) *a2a.Part {
	p := &a2a.Part{
		Content:  a2a.URL(fileScheme + Escape(r.ContextID) + "/" + Escape(r.From) + "/" + Escape(r.ID)),
		Filename: name, MediaType: mediaType,
		Metadata: map[string]any{
			metaFileKey: base64.RawURLEncoding.EncodeToString(r.Key), metaFileSize: float64(r.Size), metaFileSum: r.SHA256,
		},
	}
	if r.Head != "" {
		p.SetMeta(metaFileHead, r.Head)
	}
	return p
}

// IsFileRef reports whether a part is a reference to a file, if only a broken one.
func IsFileRef(p *a2a.Part) bool {
	if p == nil {
		return false
	}
	u, ok := p.Content.(a2a.URL)
	return ok && strings.HasPrefix(string(u), fileScheme)
}

// RefOf reads a reference to a file of a tenant. The error wraps ErrInvalid for a part that is none, and [ErrFileGone] for a
// [ForgottenFile].
func RefOf(tenant string, p *a2a.Part) (FileRef, error) {
	if !IsFileRef(p) {
		return FileRef{}, fmt.Errorf("%w: the part is no reference to a file", ErrInvalid)
	}
	at := string(p.Content.(a2a.URL))[len(fileScheme):]
	if at == "" {
		return FileRef{}, fmt.Errorf("%w: its bytes are not here any more, only that it was there", ErrFileGone)
	}
	bad := fmt.Errorf("%w: the reference %.80q to a file is broken", ErrInvalid, at)
	o, ok := objectAt(tenant, at)
	if !ok {
		return FileRef{}, bad
	}
	r := FileRef{Object: o}
	if r.Size, ok = sizeOf(p); !ok {
		return FileRef{}, bad
	}
	key, err := base64.RawURLEncoding.DecodeString(MetaString(p, metaFileKey))
	if err != nil || len(key) != fileKeySize {
		return FileRef{}, bad
	}
	r.Key, r.SHA256, r.Head = key, MetaString(p, metaFileSum), HeadOf(p)
	if sum, err := hex.DecodeString(r.SHA256); err != nil || len(sum) != sha256.Size {
		return FileRef{}, bad
	}
	return r, nil
}

// sizeOf returns what a reference says of the size of its file.
func sizeOf(p *a2a.Part) (int64, bool) {
	n, ok := Float(p.Metadata[metaFileSize])
	return int64(n), ok && n >= 0 && n < 1<<53
}

// FileOf describes the file that a part is: its name, which may be empty, its media type and its size in bytes. All of that is what its sender
// says; what is shown or made a path of it needs [FileName]. It is false for a part that is no file.
func FileOf(p *a2a.Part) (name, mediaType string, size int64, ok bool) {
	if p == nil {
		return "", "", 0, false
	}
	if raw, inline := p.Content.(a2a.Raw); inline {
		return p.Filename, TypeOf(p.Filename, p.MediaType, raw), int64(len(raw)), true
	}
	if !IsFileRef(p) {
		return "", "", 0, false
	}
	size, _ = sizeOf(p)
	return p.Filename, TypeOf(p.Filename, p.MediaType, nil), size, true
}

// MaxFileHead bounds what [HeadOf] returns, in bytes.
const MaxFileHead = 400

// HeadOf returns the beginning of the file that a part is when it is a text, without reading what is stored elsewhere; else "".
func HeadOf(p *a2a.Part) string {
	if p == nil {
		return ""
	}
	if raw, inline := p.Content.(a2a.Raw); inline {
		return textHead(raw)
	}
	return textHead([]byte(MetaString(p, metaFileHead)))
}

// textHead returns the beginning of a text; "" of what is none.
func textHead(b []byte) string {
	head := b[:min(len(b), MaxFileHead)]
	for cut := 0; cut < utf8.UTFMax && len(head) < len(b) && !utf8.Valid(head); cut++ {
		head = head[:len(head)-1] // through the middle of a character
	}
	if !utf8.Valid(head) || bytes.IndexByte(head, 0) >= 0 {
		return ""
	}
	return string(head)
}

// FileLine describes the file that a part is in a few words, for people: its name, type and size.
func FileLine(p *a2a.Part) string {
	name, kind, size, _ := FileOf(p)
	return FileName(name, kind, 1) + ", " + kind + ", " + SizeText(size)
}

// SizeText returns a number of bytes for people: 14 kB.
func SizeText(n int64) string { return size.Text(n) }

// ForgottenFile returns a part that says of a file what it was, without its bytes or where they are. Other parts are returned as they are.
func ForgottenFile(p *a2a.Part) *a2a.Part {
	name, kind, size, ok := FileOf(p)
	if !ok {
		return p
	}
	return &a2a.Part{Content: a2a.URL(fileScheme), Filename: name, MediaType: kind, Metadata: map[string]any{metaFileSize: float64(size)}}
}

// IsForgotten reports whether a part is a [ForgottenFile].
func IsForgotten(p *a2a.Part) bool { return IsFileRef(p) && p.Content.(a2a.URL) == fileScheme }

// FilesOf returns the parts that are files, in their order, at most [MaxFiles].
func FilesOf(parts a2a.ContentParts) []*a2a.Part {
	var files []*a2a.Part
	for _, p := range parts {
		if _, _, _, ok := FileOf(p); ok && len(files) < MaxFiles {
			files = append(files, p)
		}
	}
	return files
}

// UnknownType is the media type of bytes about which nothing is known.
const UnknownType = "application/octet-stream"

// types are the media types of common files by the ends of their names: what a machine knows of them is different from one to the next.
var types = map[string]string{
	".csv": "text/csv", ".css": "text/css", ".gif": "image/gif", ".gz": "application/gzip", ".htm": "text/html", ".html": "text/html",
	".jpeg": "image/jpeg", ".jpg": "image/jpeg", ".js": "text/javascript", ".json": "application/json", ".jsonl": "application/jsonl",
	".md": "text/markdown", ".mp3": "audio/mpeg", ".mp4": "video/mp4", ".pdf": "application/pdf", ".png": "image/png", ".svg": "image/svg+xml",
	".tar": "application/x-tar", ".txt": "text/plain", ".wav": "audio/wav", ".webp": "image/webp", ".xml": "application/xml",
	".yaml": "application/yaml", ".yml": "application/yaml", ".zip": "application/zip",
	".docx": "application/vnd.openxmlformats-officedocument.wordprocessingml.document",
	".pptx": "application/vnd.openxmlformats-officedocument.presentationml.presentation",
	".xlsx": "application/vnd.openxmlformats-officedocument.spreadsheetml.sheet",
}

// TypeOf returns the media type of a file: the one that is said, else by the end of its name, else by the first bytes, if there are any.
func TypeOf(name, said string, head []byte) string {
	if kind, _, err := mime.ParseMediaType(said); err == nil && strings.Contains(kind, "/") && len(said) <= MaxFileName {
		return kind
	}
	if kind, ok := types[strings.ToLower(path.Ext(name))]; ok {
		return kind
	}
	if len(head) == 0 {
		return UnknownType
	}
	kind, _, _ := strings.Cut(http.DetectContentType(head), ";")
	return kind
}

// FileName returns a name for a file of which a stranger says that it is called name: one that can be shown, and that names a file in any
// folder and nothing outside of it. The n-th file that has no name of its own becomes file-n, with the end that its media type has.
func FileName(name, mediaType string, n int) string {
	name = name[strings.LastIndexAny(name, `/\`)+1:]
	name = strings.Map(func(r rune) rune {
		switch {
		case r == ' ':
			return r
		case !unicode.IsGraphic(r), r == utf8.RuneError, unicode.Is(unicode.Zs, r), strings.ContainsRune(`<>:"|?*`, r):
			return '_'
		}
		return r
	}, name)
	if len(name) > MaxFileName {
		end := path.Ext(name)
		if len(end) > MaxFileName/4 {
			end = ""
		}
		name = shorten.To(name, MaxFileName-len(end)) + end
	}
	name = strings.TrimLeft(strings.Trim(name, " "), ".-")
	name = strings.TrimRight(name, ". ")
	if base, _, _ := strings.Cut(strings.ToUpper(name), "."); devices[base] {
		name = "_" + name
	}
	if strings.Trim(name, "_") == "" {
		return fmt.Sprintf("file-%d%s", n, endOf(mediaType))
	}
	return name
}

// FreeName returns name, or one like it with a number that is not taken.
func FreeName(name string, taken func(string) bool) string {
	end := path.Ext(name)
	stem, free := strings.TrimSuffix(name, end), name
	for n := 2; taken(free); n++ {
		free = fmt.Sprintf("%s-%d%s", stem, n, end)
	}
	return free
}

// devices are names that a Windows folder has of itself.
var devices = func() map[string]bool {
	names := map[string]bool{"CON": true, "PRN": true, "AUX": true, "NUL": true}
	for _, n := range "123456789" {
		names["COM"+string(n)], names["LPT"+string(n)] = true, true
	}
	return names
}()

// endOf returns how the names of files of a media type end.
func endOf(mediaType string) string {
	kind, _, _ := mime.ParseMediaType(mediaType)
	best := ""
	for end, of := range types {
		if of == kind && (best == "" || len(end) < len(best) || len(end) == len(best) && end < best) {
			best = end
		}
	}
	return best
}
