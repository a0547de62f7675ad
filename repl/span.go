package repl

import (
	"strings"
	"unicode/utf8"

	"github.com/rivo/uniseg"

	"github.com/cortex-orchestrator/cortex/internal/table"
)

// span is a piece of text with one look, the parameters of its colour sequence; "" is none.
type span struct{ text, look string }

// with combines the parameters of look and more, without duplicates, so that nested emphasis does not accumulate parameters.
func with(look, more string) string {
	if look == "" || more == "" {
		return look + more
	}
	if strings.Contains(";"+look+";", ";"+more+";") {
		return look
	}
	return look + ";" + more
}

// plainText returns the text of spans.
func plainText(spans []span) string {
	var b strings.Builder
	for _, s := range spans {
		b.WriteString(s.text)
	}
	return b.String()
}

// paintAll formats spans for a terminal.
func (s style) paintAll(spans []span) string {
	var b strings.Builder
	for _, p := range merged(spans) {
		b.WriteString(s.paint(p.look, p.text))
	}
	return b.String()
}

// wrapSpans wraps a text between its words to lines of at most width columns. Longer words, such as addresses, are broken only with hard: when the
// terminal wraps them, they can be copied as a whole. Spaces within a line are kept.
func wrapSpans(spans []span, width int, hard bool) [][]span {
	width = max(width, 1)
	text := plainText(spans)
	var lines [][]span
	rest := slicer{spans: merged(spans)}
	cut := func(from, to int) {
		to = from + len(strings.TrimRight(text[from:to], " "))
		lines = append(lines, rest.cut(from, to))
	}
	for begin := 0; begin <= len(text); {
		end := strings.IndexByte(text[begin:], '\n')
		if end < 0 {
			end = len(text) - begin
		}
		end += begin
		from, at, used := begin, begin, 0
		for _, word := range table.Together(words(text[begin:end]), "", width) {
			w := table.Width(strings.TrimRight(word, " "))
			if used > 0 && used+w > width {
				cut(from, at)
				from, used = at, 0
			}
			for hard && w > width {
				part := table.UpTo(word, width)
				if part == "" {
					part, _, _, _ = uniseg.FirstGraphemeClusterInString(word, -1)
				}
				at += len(part)
				cut(from, at)
				word, from, w = word[len(part):], at, w-table.Width(part)
			}
			at += len(word)
			used += table.Width(word)
		}
		cut(from, end)
		begin = end + 1
	}
	return lines
}

// words splits a line where it may be broken: after spaces, and beside characters of scripts without spaces.
func words(line string) []string {
	var all []string
	begin, at := 0, 0
	for rest, state := line, -1; rest != ""; {
		var piece string
		piece, rest, _, state = uniseg.FirstLineSegmentInString(rest, state)
		for i := range piece { // Unicode's rules break no line before punctuation
			if i > 0 && piece[i-1] == ' ' && path(line[at+i:]) {
				all = append(all, line[begin:at+i])
				begin = at + i
			}
		}
		at += len(piece)
		if rest == "" || strings.HasSuffix(piece, " ") || wideLast(piece) || wideFirst(rest) {
			all = append(all, line[begin:at])
			begin = at
		}
	}
	return all
}

// path reports whether s begins with a path or a command of the chat, such as /tmp, .cortex or /help.
func path(s string) bool {
	return len(s) > 1 && (s[0] == '/' || s[0] == '.') && (s[1] >= 'a' && s[1] <= 'z' || s[1] >= 'A' && s[1] <= 'Z' || s[1] >= '0' && s[1] <= '9')
}

func wideLast(s string) bool {
	r, _ := utf8.DecodeLastRuneInString(s)
	return table.Width(string(r)) > 1
}

func wideFirst(s string) bool {
	r, _ := utf8.DecodeRuneInString(s)
	return table.Width(string(r)) > 1
}

// cutSpans cuts spans to width columns, with an ellipsis. Zero-width text is bounded as well.
func cutSpans(spans []span, width int) []span {
	const bytesPerColumn = 8
	text := plainText(spans)
	end := min(len(text), width*bytesPerColumn)
	for end < len(text) && !utf8.RuneStart(text[end]) {
		end--
	}
	if end = len(table.UpTo(text[:end], width)); end == len(text) {
		return spans
	}
	rest := slicer{spans: merged(spans)}
	return append(rest.cut(0, end), span{text: "…"})
}

// slicer cuts spans into parts, from the beginning on.
type slicer struct {
	spans []span
	at    int // offset of the first span
}

// cut returns the spans between two offsets of the text, which must not be before those of the previous cut.
func (s *slicer) cut(from, to int) []span {
	var part []span
	for len(s.spans) > 0 {
		first := s.spans[0]
		end := s.at + len(first.text)
		if from, to := max(from, s.at), min(to, end); from < to {
			part = append(part, span{first.text[from-s.at : to-s.at], first.look})
		}
		if end > to {
			break
		}
		s.spans, s.at = s.spans[1:], end
	}
	return part
}

// merged merges adjacent spans of the same look, and removes empty ones.
func merged(spans []span) []span {
	var all []span
	for i := 0; i < len(spans); {
		j := i + 1
		for j < len(spans) && spans[j].look == spans[i].look {
			j++
		}
		if text := plainText(spans[i:j]); text != "" {
			all = append(all, span{text, spans[i].look})
		}
		i = j
	}
	return all
}

// WrapText breaks the lines of text that are wider than width between words. Continuation lines have the indentation of their line.
func WrapText(text string, width int) string {
	var b strings.Builder
	for line := range strings.SplitSeq(strings.TrimRight(text, "\n"), "\n") {
		line = strings.ReplaceAll(line, "\t", "    ")
		rest := strings.TrimLeft(line, " ")
		indent := line[:min(len(line)-len(rest), width/2)]
		for _, l := range wrapSpans([]span{{text: rest}}, width-len(indent), false) {
			b.WriteString(strings.TrimRight(indent+plainText(l), " ") + "\n")
		}
	}
	return b.String()
}
