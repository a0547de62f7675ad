package repl

import (
	"strconv"
	"strings"
)

// table is rows of texts for a screen of some width. Columns are as wide as their contents; the last one takes what is
// left and goes on below itself, up to three lines. On a screen that is too narrow for that, each row begins with its other
// cells on a line, and the last one stands below.
type table struct {
	head []string
	rows [][]string
}

// maxRows bounds a table on the screen.
const maxRows = 200

func (t *table) add(cells ...string) { t.rows = append(t.rows, cells) }

// render returns the table for a screen; its cells are sanitized here.
func (t *table) render(width int, s style) string {
	const gap, lastMin, cellMax = 2, 16, 40
	rows, more := t.rows, 0
	if len(rows) > maxRows {
		rows, more = rows[:maxRows], len(rows)-maxRows
	}
	clean := make([][]string, 0, len(rows)+1)
	for _, row := range append([][]string{t.head}, rows...) {
		cells := make([]string, len(row))
		for i, cell := range row {
			cells[i] = oneLine(cell)
		}
		clean = append(clean, cells)
	}
	last := len(t.head) - 1
	widths := make([]int, last)
	used := 0
	for i := range widths {
		for _, row := range clean {
			widths[i] = min(max(widths[i], textWidth(row[i])), cellMax)
		}
		used += widths[i] + gap
	}
	stacked := used+lastMin > width-1
	if stacked {
		clean, used = clean[1:], gap
	}

	var b strings.Builder
	for n, row := range clean {
		var line strings.Builder
		for i, w := range widths {
			if stacked {
				w = 0
			}
			line.WriteString(pad(fit(row[i], cellMax), w) + strings.Repeat(" ", gap))
		}
		text := line.String()
		if stacked {
			text = fit(strings.TrimRight(text, " "), width-1) + "\n" + strings.Repeat(" ", gap)
		}
		room := max(width-1-used, 1)
		pieces := Wrap(row[last], room)
		if len(pieces) > 3 {
			pieces = append(pieces[:2], fit(strings.Join(pieces[2:], " "), room))
		}
		text += strings.Join(pieces, "\n"+strings.Repeat(" ", used))
		text = strings.TrimRight(text, " \n")
		if n == 0 && !stacked {
			text = s.dim(text)
		}
		b.WriteString(text + "\n")
	}
	if more > 0 {
		b.WriteString(s.dim("… and "+strconv.Itoa(more)+" more") + "\n")
	}
	return b.String()
}

// columns returns words side by side, filled by columns as ls does.
func columns(words []string, width int) string {
	const gap = 2
	widest := 1
	for i, w := range words {
		words[i] = fit(oneLine(w), max(width-1, 1))
		widest = max(widest, textWidth(words[i]))
	}
	across := max(1, (width-1+gap)/(widest+gap))
	down := (len(words) + across - 1) / across
	var b strings.Builder
	for row := range down {
		var line strings.Builder
		for i := row; i < len(words); i += down {
			line.WriteString(pad(words[i], widest+gap))
		}
		b.WriteString(strings.TrimRight(line.String(), " ") + "\n")
	}
	return b.String()
}

// count returns "1 line", "2 lines".
func count(n int, noun string) string {
	if n != 1 {
		noun += "s"
	}
	return strconv.Itoa(n) + " " + noun
}

// commonPrefix returns what all words begin with; there is at least one.
func commonPrefix(words []string) string {
	prefix := words[0]
	for _, w := range words[1:] {
		n := 0
		for i, r := range prefix {
			if !strings.HasPrefix(w[min(i, len(w)):], string(r)) {
				break
			}
			n = i + len(string(r))
		}
		prefix = prefix[:n]
	}
	return prefix
}
