package table

import "strings"

// Parts formats the table in full, below each other in as many parts as a screen with this many columns needs. Each part begins with the first keys
// columns, which say what a row is. With width 0 it is one part.
func (t *Table) Parts(width, keys int) string {
	all := layout{columns: t.Columns, rows: t.clean()}
	for i := range t.Columns {
		all.shown = append(all.shown, i)
	}
	widths := all.natural()
	used := func(columns []int) (sum int) {
		for _, i := range columns {
			sum += widths[i] + gap
		}
		return sum - gap
	}
	begin := all.shown[:min(keys, len(all.shown))]
	part := append([]int{}, begin...)
	var out []string
	for _, i := range all.shown[len(begin):] {
		if len(part) > len(begin) && width > 0 && used(part)+gap+widths[i] > width {
			out = append(out, t.of(part).Render(0, nil))
			part = append([]int{}, begin...)
		}
		part = append(part, i)
	}
	return strings.Join(append(out, t.of(part).Render(0, nil)), "\n")
}

// of returns a table of some of the columns.
func (t *Table) of(columns []int) *Table {
	part := &Table{}
	for _, i := range columns {
		part.Columns = append(part.Columns, t.Columns[i])
	}
	for _, r := range t.rows {
		cells := make([]string, len(columns))
		for n, i := range columns {
			if i < len(r.cells) {
				cells[n] = r.cells[i]
			}
		}
		part.Row(cells...)
	}
	return part
}
