// Package lines shows parts of texts that are too long for a prompt: their first lines, lines from a number on, and the lines that contain a word.
//
// A line of more than [MaxLine] bytes counts as several, so that a text without line ends, such as JSON, can be read as well. An end of a line at the end
// of a text begins no further line. A text is never split, since it may have millions of lines.
package lines

import (
	"fmt"
	"iter"
	"strings"

	"github.com/cortex-orchestrator/cortex/internal/shorten"
)

// MaxLine is the most bytes of a line; a longer one is read as several.
const MaxLine = 1000

// line is a line of a text, or a piece of a long one.
type line struct {
	text string // without the end
	next string // what follows in the same line of the text
	ends bool   // an end of line follows
}

// all yields the lines of text.
func all(text string) iter.Seq[line] {
	return func(yield func(line) bool) {
		for whole := range strings.Lines(text) {
			rest, ends := strings.CutSuffix(whole, "\n")
			for len(rest) > MaxLine {
				piece := shorten.To(rest, MaxLine)
				rest = rest[len(piece):]
				if !yield(line{text: piece, next: rest}) {
					return
				}
			}
			if !yield(line{text: rest, ends: ends}) {
				return
			}
		}
	}
}

// Count returns the number of lines of text.
func Count(text string) int {
	n := 0
	for range all(text) {
		n++
	}
	return n
}

// Head returns the first lines of text, at most most, in at most room bytes.
func Head(text string, most, room int) string {
	part, _, _ := From(text, 1, most, room)
	return part
}

// From returns lines of text from line from on, at most most, in at most room bytes, and the numbers of the first and the last of them. A negative from
// counts from the end: -1 is the last line. Of a line that has no room, as much is returned as fits if it is the first. There are no lines, and first is
// above last, when text has none from there on.
func From(text string, from, most, room int) (part string, first, last int) {
	if from < 0 {
		from += Count(text) + 1
	}
	first = max(from, 1)
	last = first - 1
	var b strings.Builder
	n := 0
	for l := range all(text) {
		if n++; n < first {
			continue
		}
		end := ""
		if l.ends {
			end = "\n"
		}
		if b.Len()+len(l.text)+len(end) > room {
			if last < first && room > 0 {
				b.WriteString(shorten.To(l.text, room))
				last = n
			}
			break
		}
		b.WriteString(l.text + end)
		if last = n; n-first+1 == most {
			break
		}
	}
	return b.String(), first, last
}

// With returns the lines of text that contain find, in whatever case, each after its number, in at most room bytes; and the number of those for which
// there is no room.
func With(text, find string, room int) (found string, more int) {
	find = strings.ToLower(find)
	var b strings.Builder
	n := 0
	for l := range all(text) {
		n++
		if !strings.Contains(strings.ToLower(l.text+l.next[:min(len(l.next), max(len(find)-1, 0))]), find) {
			continue
		}
		row := fmt.Sprintf("%d: %s\n", n, l.text)
		if more > 0 || b.Len()+len(row) > room {
			more++
			continue
		}
		b.WriteString(row)
	}
	return b.String(), more
}
