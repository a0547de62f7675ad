package transport

import (
	"bytes"
	"crypto/sha256"
	"encoding/base64"
	"encoding/hex"
	"fmt"
	"maps"
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

// A file is a Part with content of its own: inline, as [a2a.Raw], or, above [MaxInlineFile], as a reference to where the transport stores it, see
// [Files]. Both have a name (Part.Filename) and a media type, and are passed on unchanged from the person to agents and to the answer.
const (
	MaxInlineFile  = 128 << 10  // bytes of a file in a message; larger ones become references
	MaxInlineFiles = 512 << 10  // bytes of all files in a message; above that they become references, too
	MaxFiles       = 64         // files of one message
	DefaultMaxFile = 64_000_000 // bytes of a file, by default
	MaxFileName    = 128        // bytes of a file's name, see [FileName]
)

// fileScheme begins the URL of a reference. It is followed by the conversation in which the file was stored, its sender, and its id, each escaped,
// separated by slashes.
const fileScheme = "cortex-file:"

// The keys of a reference's metadata. Whoever has the file key can read the file. It is in messages, including the answer, and in the log of the
// conversation, which people of the tenant can read. Agents have the keys of the files that they are given. No output for people shows a key.
const (
	metaFileKey  = "file_key"    // base64 (RFC 4648 section 5, without padding)
	metaFileSize = "file_size"   // bytes
	metaFileSum  = "file_sha256" // hexadecimal
	metaFileHead = "file_head"   // the beginning of a text, see [HeadOf]; may be missing
)

// FileRef says where a file is stored, and how to read it.
type FileRef struct {
	Object
	Key    []byte // of the cipher, see [PutFile]
	Size   int64
	SHA256 string // of its content, hexadecimal
	Head   string // the beginning of a text, at most [MaxFileHead] bytes; empty if it is no text
}

// Part returns the part that represents the file in messages.
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

// IsFileRef reports whether a part is a reference to a file, valid or not.
func IsFileRef(p *a2a.Part) bool {
	if p == nil {
		return false
	}
	u, ok := p.Content.(a2a.URL)
	return ok && strings.HasPrefix(string(u), fileScheme)
}

// RefOf decodes a reference to a file of a tenant. The error wraps ErrInvalid for any other part, and [ErrFileGone] for a [ForgottenFile].
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

// sizeOf returns the size of a file according to its reference.
func sizeOf(p *a2a.Part) (int64, bool) {
	n, ok := Float(p.Metadata[metaFileSize])
	return int64(n), ok && n >= 0 && n < 1<<53
}

// FileOf describes the file in a part: its name, which may be empty, its media type and its size in bytes. All are the sender's claims; use
// [FileName] before showing the name or making a path of it. ok is false for a part without a file.
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

// HeadOf returns the beginning of the file in a part if it is a text, without reading stored files; otherwise "".
func HeadOf(p *a2a.Part) string {
	if p == nil {
		return ""
	}
	if raw, inline := p.Content.(a2a.Raw); inline {
		return textHead(raw)
	}
	return textHead([]byte(MetaString(p, metaFileHead)))
}

// CorrectHead makes head the beginning that a reference says its file has, if it says another one, and reports whether it did. It clones the metadata.
func CorrectHead(p *a2a.Part, head string) bool {
	said, has := p.Metadata[metaFileHead]
	if !IsFileRef(p) || !has || said == head && head != "" {
		return false
	}
	p.Metadata = maps.Clone(p.Metadata)
	if p.Metadata[metaFileHead] = head; head == "" {
		delete(p.Metadata, metaFileHead)
	}
	return true
}

// IsFileMeta reports whether a key of a reference's metadata says where and what its file is.
func IsFileMeta(key string) bool {
	return key == metaFileKey || key == metaFileSize || key == metaFileSum || key == metaFileHead
}

// textHead returns the beginning of a text; "" for other content.
func textHead(b []byte) string {
	head := b[:min(len(b), MaxFileHead)]
	for cut := 0; cut < utf8.UTFMax && len(head) < len(b) && !utf8.Valid(head); cut++ {
		head = head[:len(head)-1] // in the middle of a character
	}
	if !utf8.Valid(head) || bytes.IndexByte(head, 0) >= 0 {
		return ""
	}
	return string(head)
}

// FileLine describes the file in a part for people: its name, type and size.
func FileLine(p *a2a.Part) string {
	name, kind, size, _ := FileOf(p)
	return FileName(name, kind, 1) + ", " + kind + ", " + SizeText(size)
}

// SizeText formats a number of bytes: 14 kB.
func SizeText(n int64) string { return size.Text(n) }

// ForgottenFile returns a part that describes a file without its content or location. It returns other parts unchanged.
func ForgottenFile(p *a2a.Part) *a2a.Part {
	name, kind, size, ok := FileOf(p)
	if !ok {
		return p
	}
	return &a2a.Part{Content: a2a.URL(fileScheme), Filename: name, MediaType: kind, Metadata: map[string]any{metaFileSize: float64(size)}}
}

// IsForgotten reports whether a part is a [ForgottenFile].
func IsForgotten(p *a2a.Part) bool { return IsFileRef(p) && p.Content.(a2a.URL) == fileScheme }

// FilesOf returns the parts with files, in order, at most [MaxFiles].
func FilesOf(parts a2a.ContentParts) []*a2a.Part {
	var files []*a2a.Part
	for _, p := range parts {
		if _, _, _, ok := FileOf(p); ok && len(files) < MaxFiles {
			files = append(files, p)
		}
	}
	return files
}

// UnknownType is the media type of unknown content.
const UnknownType = "application/octet-stream"

// types maps extensions of common files to media types. The tables of operating systems differ between machines.
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

// TypeOf returns the media type of a file: the stated one, or else by its extension, or else by its first bytes, if there are any.
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

// FileName returns a safe name for a file that its sender calls name: it can be shown, and names a file within a folder and nothing outside it. The
// n-th file without a usable name becomes file-n, with the extension of its media type.
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

// FreeName returns name, or a variant of it with a number for which taken is false.
func FreeName(name string, taken func(string) bool) string {
	end := path.Ext(name)
	stem, free := strings.TrimSuffix(name, end), name
	for n := 2; taken(free); n++ {
		free = fmt.Sprintf("%s-%d%s", stem, n, end)
	}
	return free
}

// devices are names that are reserved in every folder on Windows.
var devices = func() map[string]bool {
	names := map[string]bool{"CON": true, "PRN": true, "AUX": true, "NUL": true}
	for _, n := range "123456789" {
		names["COM"+string(n)], names["LPT"+string(n)] = true, true
	}
	return names
}()

// endOf returns the extension of files of a media type.
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
