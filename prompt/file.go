package prompt

import (
	"strings"

	"github.com/cortex-orchestrator/cortex/internal/shorten"
)

// Limits of how files are shown.
const (
	maxFiles     = 20  // of one message or result
	maxFileLines = 5   // of the beginning of a text
	maxFileHead  = 400 // bytes of it
)

// file is a file in a prompt. Its name and content are external.
type file struct {
	File   string `json:"file"`
	Name   string `json:"name,omitempty"`
	Type   string `json:"type"`
	Bytes  int64  `json:"bytes"`
	Begins string `json:"begins,omitempty"`
}

func viewFile(f *File) file {
	v := file{File: id(f.Key), Name: Clean(f.Name, maxName), Type: Clean(f.Type, maxName), Bytes: f.Size}
	head := f.Head
	if len(head) > maxFileHead {
		head = shorten.To(head, maxFileHead)
	}
	lines := strings.SplitN(CleanText(head, maxFileHead), "\n", maxFileLines+1)
	v.Begins = strings.TrimSpace(strings.Join(lines[:min(len(lines), maxFileLines)], "\n"))
	return v
}

// goesOn reports whether f is a text of which a prompt shows only the beginning.
func (f *File) goesOn() bool {
	return f.Head != "" && (f.Size > maxFileHead || strings.Count(f.Head, "\n") > maxFileLines)
}

// shownFiles returns the first maxFiles of files.
func shownFiles(files []File) []File { return files[:min(len(files), maxFiles)] }

// viewNames returns a line for each file, for a reader who cannot give them to agents.
func viewNames(files []File) string {
	var b strings.Builder
	for _, f := range shownFiles(files) {
		b.WriteString(plain("\n[" + Clean(f.Name, maxName) + ", " + Clean(f.Type, maxName) + "]"))
	}
	return b.String()
}

// viewFiles returns a line for each file that is shown, and one for the number of others.
func viewFiles(files []File) []string {
	var lines []string
	for _, f := range shownFiles(files) {
		lines = append(lines, encode(viewFile(&f)))
	}
	if n := len(files) - len(lines); n > 0 {
		lines = append(lines, encode(struct {
			More int `json:"more_files"`
		}{n}))
	}
	return lines
}
