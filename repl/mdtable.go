package repl

import (
	"slices"
	"strings"

	extast "github.com/yuin/goldmark/extension/ast"

	"github.com/cortex-orchestrator/cortex/internal/table"
)

// table returns the body of a table. Columns are as wide as their cells, and the widest shrink to fit. On a screen that is too narrow for that, the
// cells of each row are stacked, after the names of their columns.
func (w *walker) table(n *extast.Table) func(int, bool) [][]span {
	var rows [][][]span
	for row := n.FirstChild(); row != nil; row = row.NextSibling() {
		look := w.look
		if row.Kind() == extast.KindTableHeader {
			look = with(look, lookBold)
		}
		var cells [][]span
		for cell := row.FirstChild(); cell != nil; cell = cell.NextSibling() {
			cells = append(cells, w.inline(cell, look, nil))
		}
		for len(cells) < len(n.Alignments) {
			cells = append(cells, nil)
		}
		rows = append(rows, cells[:len(n.Alignments)])
	}
	dim := with(w.look, lookDim)
	return func(width int, _ bool) [][]span {
		const gap, least = 2, 8
		widths := make([]int, len(n.Alignments))
		for _, row := range rows {
			for i, cell := range row {
				for line := range strings.SplitSeq(plainText(cell), "\n") {
					widths[i] = max(widths[i], table.Width(line), 1)
				}
			}
		}
		bounds := make([]int, len(widths))
		for i, w := range widths {
			bounds[i] = min(w, least)
		}
		if !table.Narrow(widths, bounds, width-gap*(len(widths)-1)) {
			return stacked(rows, width)
		}
		var lines [][]span
		for at, row := range rows {
			lines = append(lines, tableRow(row, widths, n.Alignments, gap)...)
			if at == 0 {
				var rule []string
				for _, w := range widths {
					rule = append(rule, strings.Repeat("─", w))
				}
				lines = append(lines, []span{{strings.Join(rule, strings.Repeat(" ", gap)), dim}})
			}
		}
		return lines
	}
}

// tableRow returns the lines of a row.
func tableRow(row [][]span, widths []int, align []extast.Alignment, gap int) [][]span {
	var cells [][][]span
	height := 1
	for i, cell := range row {
		cells = append(cells, wrapSpans(cell, widths[i], true))
		height = max(height, len(cells[i]))
	}
	lines := make([][]span, height)
	for y := range lines {
		behind := 0 // spaces still to be written
		for i, cell := range cells {
			var text []span
			if y < len(cell) {
				text = cell[y]
			}
			left, free := 0, max(widths[i]-table.Width(plainText(text)), 0)
			switch align[i] {
			case extast.AlignRight:
				left = free
			case extast.AlignCenter:
				left = free / 2
			}
			if len(text) > 0 {
				lines[y] = append(append(lines[y], span{text: strings.Repeat(" ", behind+left)}), text...)
				behind = free - left + gap
			} else {
				behind += widths[i] + gap
			}
		}
	}
	return lines
}

// maxName bounds the name of a column where it is repeated for each row, in screen columns.
const maxName = 100

// stacked returns the non-empty cells of each row, one below the other.
func stacked(rows [][][]span, width int) [][]span {
	var lines [][]span
	names := make([][]span, len(rows[0]))
	for i, name := range rows[0] {
		names[i] = slices.Concat(cutSpans(name, maxName), []span{{text: ": "}})
	}
	for _, row := range rows[1:] {
		begins := len(lines) > 0
		for i, cell := range row {
			if plainText(cell) == "" {
				continue
			}
			if begins {
				lines, begins = append(lines, nil), false
			}
			lines = append(lines, wrapSpans(slices.Concat(names[i], cell), width, true)...)
		}
	}
	if len(lines) == 0 { // the table has no rows yet
		for _, cell := range rows[0] {
			lines = append(lines, wrapSpans(cell, width, true)...)
		}
	}
	return lines
}
