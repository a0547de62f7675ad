// Package table lays out rows of texts for people: the lists of the commands and of the chat. It counts the columns that a terminal takes for
// them, and has what else depends on that.
package table

import (
	"regexp"
	"slices"
	"strings"

	"github.com/cortex-orchestrator/cortex/prompt"
)

// Column is a column of a table.
type Column struct {
	Title string
	// Least is the width to which its texts are cut where a screen has no room for all, those of the widest column first; 0: they are whole.
	Least int
	// Rank says how early the column is left out where cutting makes no room: those with the highest rank first, those with none never.
	Rank int
	// IDs has the ids that Cortex makes stand there by their beginning, as other commands take them, before anything else is cut.
	IDs bool
	// Wide is how wide the column is at least.
	Wide int
}

// Table is rows of texts, which may be anybody's: each is shown as one clean line. A table whose columns have no titles has no head.
type Table struct {
	Columns []Column
	// Wrap has the last column go on below itself, where otherwise it is cut.
	Wrap bool

	rows []row
}

type row struct {
	cells []string
	marks []string // to be read however narrow the screen is
}

// New returns a table with these titles. Texts are cut where there is no room, and no column is left out.
func New(titles ...string) *Table {
	t := &Table{}
	for _, title := range titles {
		t.Columns = append(t.Columns, Column{Title: title, Least: least})
	}
	return t
}

// Row adds a row. Cells at its end may be missing.
func (t *Table) Row(cells ...string) { t.rows = append(t.rows, row{cells: cells}) }

// Mark wants a text of the last row to be read however narrow the screen is: where the row has no room for all of it, it comes below.
func (t *Table) Mark(text string) {
	if text != "" {
		last := &t.rows[len(t.rows)-1]
		last.marks = append(last.marks, text)
	}
}

// Len returns the number of rows.
func (t *Table) Len() int { return len(t.rows) }

// Cut leaves out what is behind the first n rows, and returns how many that were.
func (t *Table) Cut(n int) int {
	more := max(0, len(t.rows)-n)
	t.rows = t.rows[:len(t.rows)-more]
	return more
}

const (
	gap       = 2       // spaces between columns
	least     = 12      // to which a column is cut that says nothing else
	narrowest = 8       // to which each is cut where nothing else helps
	maxPad    = 60      // columns that a long text takes from the other rows where nobody looks
	maxCell   = 1 << 20 // characters of a text
)

// Render returns the table, for a screen of some columns or, with 0, whole. quiet is how its head is shown; nil: as it is. Columns in which
// there is nothing are left out.
func (t *Table) Render(width int, quiet func(string) string) string {
	head, rows := t.clean()
	l := layout{width: width, columns: t.Columns, head: head, rows: rows}
	l.leaveOut(func(i int) bool {
		return !slices.ContainsFunc(rows, func(r row) bool { return r.cells[i] != "" })
	})
	if len(l.columns) == 0 {
		return ""
	}
	switch {
	case t.Wrap && width > 0:
		return l.wrapped(quiet)
	case width > 0:
		l.fit()
	default:
		for _, w := range l.natural() {
			l.widths = append(l.widths, min(w, maxPad))
		}
	}
	var b strings.Builder
	l.writeHead(&b, quiet)
	for _, r := range l.rows {
		b.WriteString(l.line(r.cells) + "\n")
		if width > 0 {
			l.writeMarks(&b, r)
		}
	}
	return b.String()
}

// clean returns what is shown of the head and the rows, all of them with as many cells.
func (t *Table) clean() (head []string, rows []row) {
	for _, c := range t.Columns {
		head = append(head, c.Title)
	}
	for _, r := range t.rows {
		cells := make([]string, len(t.Columns))
		for i, cell := range r.cells {
			cells[i] = prompt.Clean(cell, maxCell)
			if i == 0 { // where it says what the cell is a part of
				cells[i] = cell[:len(cell)-len(strings.TrimLeft(cell, " "))] + cells[i]
			}
		}
		var marks []string
		for _, m := range r.marks {
			marks = append(marks, prompt.Clean(m, maxCell))
		}
		rows = append(rows, row{cells, marks})
	}
	return head, rows
}

// layout is a table on a screen.
type layout struct {
	width   int
	columns []Column
	head    []string
	rows    []row
	widths  []int
}

// leaveOut leaves out columns.
func (l *layout) leaveOut(which func(int) bool) {
	var stay []int
	for i := range l.columns {
		if !which(i) {
			stay = append(stay, i)
		}
	}
	l.columns, l.head = pick(l.columns, stay), pick(l.head, stay)
	rows := make([]row, len(l.rows))
	for n, r := range l.rows {
		rows[n] = row{pick(r.cells, stay), r.marks}
	}
	l.rows = rows
}

func pick[T any](all []T, which []int) []T {
	some := make([]T, len(which))
	for n, i := range which {
		some[n] = all[i]
	}
	return some
}

// natural returns how wide the columns would be if there was room.
func (l *layout) natural() []int {
	widths := make([]int, len(l.columns))
	for i, title := range l.head {
		widths[i] = max(Width(title), l.columns[i].Wide)
		for _, r := range l.rows {
			widths[i] = max(widths[i], Width(r.cells[i]))
		}
	}
	return widths
}

// fit chooses the columns and their widths so that a row is a line.
func (l *layout) fit() {
	if l.fits(func(int) int { return maxCell }) {
		return
	}
	for i, c := range l.columns {
		if c.IDs {
			l.shorten(i)
		}
	}
	for !l.fits(func(i int) int { return l.columns[i].Least }) {
		ranked := 0
		for i, c := range l.columns {
			if c.Rank > l.columns[ranked].Rank {
				ranked = i
			}
		}
		if l.columns[ranked].Rank == 0 {
			break
		}
		l.leaveOut(func(i int) bool { return i == ranked })
	}
	for !l.fits(l.narrowest) && len(l.columns) > 1 {
		l.leaveOut(func(i int) bool { return i == len(l.columns)-1 })
	}
	if len(l.columns) == 1 {
		l.widths[0] = min(l.widths[0], l.width)
	}
}

// narrowest is the width to which a column is cut where nothing else helps. Of the first one, which other commands take, more is left.
func (l *layout) narrowest(i int) int {
	if i == 0 {
		return l.columns[i].Least
	}
	return narrowest
}

// fits sets the widths of the columns, none of which gets narrower than to allows, and reports whether a row is a line.
func (l *layout) fits(to func(int) int) bool {
	l.widths = l.natural()
	bounds := make([]int, len(l.widths))
	for i, w := range l.widths {
		if bounds[i] = w; to(i) > 0 {
			bounds[i] = min(to(i), w)
		}
	}
	return Narrow(l.widths, bounds, l.width-gap*(len(l.widths)-1))
}

// Narrow narrows the widest columns, none to less than its bound, until all of them take at most room. It reports whether they do.
func Narrow(widths, bounds []int, room int) bool {
	used := func(most int) (sum int) {
		for i, w := range widths {
			sum += max(min(w, most), bounds[i])
		}
		return sum
	}
	most := slices.Max(widths)
	for most = min(most, max(room, 1)); most > 1 && used(most) > room; most-- {
	}
	fits := used(most) <= room
	for i, w := range widths {
		widths[i] = max(min(w, most), bounds[i])
	}
	return fits
}

// made is an id that Cortex has made.
var made = regexp.MustCompile(`^[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}$`)

// shorten has the ids of a column stand there by their beginning: two groups, or as much as tells them apart.
func (l *layout) shorten(i int) {
	n := len("5f0c2a54-1b2c")
	for begins := map[string]string{}; ; n, begins = n+1, map[string]string{} {
		apart := true
		for _, r := range l.rows {
			id := r.cells[i]
			begin := id[:min(n, len(id))]
			other, taken := begins[begin]
			apart = apart && (!taken || other == id)
			begins[begin] = id
		}
		if apart {
			break
		}
	}
	for _, r := range l.rows {
		if made.MatchString(r.cells[i]) {
			r.cells[i] = r.cells[i][:min(n, len(r.cells[i]))]
		}
	}
}

// line returns the cells of a row below those of the others.
func (l *layout) line(cells []string) string {
	var b strings.Builder
	for i, cell := range cells {
		if l.width > 0 {
			cell = Fit(cell, l.widths[i])
		}
		b.WriteString(Pad(cell, l.widths[i]+gap))
		if Width(cell) >= l.widths[i]+gap { // it takes more than its column
			b.WriteString(strings.Repeat(" ", gap))
		}
	}
	return strings.TrimRight(b.String(), " ")
}

func (l *layout) writeHead(b *strings.Builder, quiet func(string) string) {
	head := l.line(l.head)
	if head == "" {
		return
	}
	if quiet != nil {
		head = quiet(head)
	}
	b.WriteString(head + "\n")
}

// writeMarks writes those marks of a row that it does not show whole.
func (l *layout) writeMarks(b *strings.Builder, r row) {
	for _, mark := range r.marks {
		shown := func(cell string) bool { return strings.Contains(cell, mark) }
		for i := range r.cells {
			if shown(Fit(r.cells[i], l.widths[i])) {
				mark = ""
				break
			}
		}
		for _, line := range Wrap(mark, l.width-gap) {
			b.WriteString(strings.Repeat(" ", gap) + line + "\n")
		}
	}
}

// wrapped returns the table with a last column that goes on below itself. On a screen that is too narrow for that, each row begins with its
// other cells on a line, and the last one stands below.
func (l *layout) wrapped(quiet func(string) string) string {
	const room = 16 // that is left for the last one beside the others
	l.widths = l.natural()
	last, indent := len(l.widths)-1, 0
	for _, w := range l.widths[:last] {
		indent += w + gap
	}
	var b strings.Builder
	stacked := indent+min(room, l.widths[last]) > l.width
	if stacked {
		indent = gap
	} else {
		l.writeHead(&b, quiet)
	}
	for _, r := range l.rows {
		text := strings.Join(Wrap(r.cells[last], l.width-indent), "\n"+strings.Repeat(" ", indent))
		begin := Pad(l.line(r.cells[:last]), indent)
		if stacked {
			words := slices.DeleteFunc(slices.Clone(r.cells[:last]), func(cell string) bool { return cell == "" })
			begin = strings.Repeat(" ", indent)
			if len(words) > 0 {
				begin = Fit(strings.Join(words, strings.Repeat(" ", gap)), l.width) + "\n" + begin
			}
		}
		b.WriteString(strings.TrimRight(begin+text, " \n") + "\n")
	}
	return b.String()
}
