package prompt

import (
	"iter"
	"strings"

	"github.com/cortex-orchestrator/cortex/internal/lines"
)

// Bounds of what a decision may read.
const (
	MaxReads = 3       // parts of results and files
	maxPart  = 4 << 10 // bytes of each
	maxLines = 200     // of each
	maxFind  = 200     // characters of what is looked for
)

// Read asks for a part of a text: the lines from From on, or the lines that contain Find.
type Read struct {
	Key  string
	From int // a line number from 1; a negative one counts from the end, -1 is the last line
	Find string
	Text string // the whole text
	Left int    // how often the decision may read after this
}

type readView struct {
	Key, Find          string // JSON strings; Find is empty when it is not given
	First, Last, Lines int    // First is above Last when there are no lines from there on
	Text               string // of lines, or of lines after their numbers
	More, Left         int    // lines with Find for which there is no room; reads
}

// Read renders the message to a model with the part of a text that it asked for, of at most room bytes and 4 KB. It returns an error only when a replaced
// template fails.
func (t *Templates) Read(r *Read, room int) (string, error) {
	room = min(max(room, 0), maxPart)
	v := readView{Key: encode(id(r.Key)), Lines: lines.Count(r.Text), Left: r.Left}
	var text string
	if r.Find != "" {
		v.Find = quote(Clean(r.Find, maxFind))
		text, v.More = lines.With(r.Text, r.Find, room)
	} else {
		text, v.First, v.Last = lines.From(r.Text, r.From, maxLines, room)
	}
	v.Text = viewText(strings.TrimSuffix(text, "\n"), maxPart)
	return t.execute("read.tmpl", v)
}

// Named yields the files that the prompt names, the oldest first.
func (in *Input) Named() iter.Seq[*File] {
	return func(yield func(*File) bool) {
		all := func(files []File) bool {
			for i := range files {
				if !yield(&files[i]) {
					return false
				}
			}
			return true
		}
		turn := func(files []File, steps []Step) bool {
			if !all(files) {
				return false
			}
			for i := range steps {
				for j := range steps[i].Tasks {
					if !all(steps[i].Tasks[j].Files) {
						return false
					}
				}
			}
			return true
		}
		for i := range in.History {
			if !turn(in.History[i].Files, in.History[i].Steps) {
				return
			}
		}
		turn(in.Files, in.Steps)
	}
}

// File returns the file with a key, or nil.
func (in *Input) File(key string) *File {
	for f := range in.Named() {
		if f.Key == key && key != "" {
			return f
		}
	}
	return nil
}

// Readable reports whether the prompt has something of which it shows the beginning only: a long result, or a file that is a text.
func (in *Input) Readable() bool {
	for t := range in.Results() {
		if t.size() > maxShown {
			return true
		}
	}
	for f := range in.Named() {
		if f.goesOn() {
			return true
		}
	}
	return false
}
