package cli

import (
	"fmt"
	"io"
	"slices"
	"strings"
	"time"

	"github.com/rivo/uniseg"

	"github.com/cortex-orchestrator/cortex/prompt"
)

// table prints aligned columns. Cells may hold anybody's text: each becomes one clean line of at most 60 characters.
type table struct {
	w    io.Writer
	rows [][]string
}

func newTable(w io.Writer, header ...string) *table {
	t := &table{w: w}
	t.row(header...)
	return t
}

func (t *table) row(cells ...string) {
	row, full := make([]string, len(cells)), 0
	for i := range cells {
		if row[i] = cleanCell(cells[i]); row[i] != "" {
			full = i + 1
		}
	}
	t.rows = append(t.rows, row[:full])
}

// cleanCell is what a table shows of anybody's text.
func cleanCell(text string) string { return prompt.Clean(text, 60) }

func (t *table) flush() error { return writeColumns(t.w, "", t.rows) }

// gap is how many spaces are between columns.
const gap = 2

// writeColumns writes rows with their cells below each other. A column is as wide as its widest cell that is not the last of its row. What
// follows an empty row has columns of its own.
func writeColumns(w io.Writer, indent string, rows [][]string) error {
	if i := slices.IndexFunc(rows, func(row []string) bool { return len(row) == 0 }); i >= 0 {
		if err := writeColumns(w, indent, rows[:i]); err != nil {
			return err
		}
		if _, err := io.WriteString(w, "\n"); err != nil {
			return err
		}
		return writeColumns(w, indent, rows[i+1:])
	}
	var widths []int
	for _, row := range rows {
		for i := range max(0, len(row)-1) {
			if i == len(widths) {
				widths = append(widths, 0)
			}
			widths[i] = max(widths[i], uniseg.StringWidth(row[i]))
		}
	}
	var b strings.Builder
	for _, row := range rows {
		line := indent
		for i, cell := range row {
			if i < len(row)-1 {
				cell = pad(cell, widths[i]+gap)
			}
			line += cell
		}
		b.WriteString(strings.TrimRight(line, " ") + "\n")
	}
	_, err := io.WriteString(w, b.String())
	return err
}

// pad fills s with spaces to width columns of a terminal.
func pad(s string, width int) string {
	return s + strings.Repeat(" ", max(0, width-uniseg.StringWidth(s)))
}

// cut returns the beginning of s, with an ellipsis, where s takes more than width columns of a terminal.
func cut(s string, width int) string {
	if uniseg.StringWidth(s) <= width {
		return s
	}
	var b strings.Builder
	left := width - 1
	for g := uniseg.NewGraphemes(s); g.Next() && g.Width() <= left; left -= g.Width() {
		b.WriteString(g.Str())
	}
	return strings.TrimRight(b.String(), " ") + "…"
}

// ago is a time as people say it.
func ago(t, now time.Time) string {
	switch d := now.Sub(t); {
	case t.IsZero():
		return ""
	case d < time.Minute:
		return fmt.Sprintf("%d s ago", max(0, int(d.Seconds())))
	case d < time.Hour:
		return fmt.Sprintf("%d min ago", int(d.Minutes()))
	case d < 24*time.Hour:
		return fmt.Sprintf("%d h ago", int(d.Hours()))
	}
	return t.Local().Format("2006-01-02")
}
