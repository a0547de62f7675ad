package repl

import "strings"

// Some short texts in Markdown would take a thousand times their size to lay out. They are shown without formatting.
const (
	maxNesting = 50     // nested quotes and lists that begin on one line
	maxMissing = 10_000 // missing cells in the rows of tables, which the parser adds
)

// costly reports whether the layout of a text may take far more memory than the text.
func costly(text string) bool {
	columns, missing := 0, 0 // of the tables since the last empty line; of all tables
	for line := range strings.Lines(text) {
		if nesting(line) > maxNesting {
			return true
		}
		if strings.TrimSpace(line) == "" {
			columns = 0
			continue
		}
		if strings.Trim(line, "|-:> \t\r\n") == "" { // possibly the line below a table's head
			columns = max(columns, strings.Count(line, "|")+1)
		}
		if missing += max(columns-len(line), 0); missing > maxMissing {
			return true
		}
	}
	return false
}

// nesting returns how many quotes and lists begin on a line; it stops counting soon after maxNesting.
func nesting(line string) int {
	for n := 0; ; n++ {
		line = strings.TrimLeft(line, " \t\r\n")
		marker := 1
		switch {
		case line == "" || n > maxNesting:
			return n
		case line[0] == '>':
		case line[0] == '-' || line[0] == '*' || line[0] == '+':
			if strings.Trim(line, line[:1]+" \t\r\n") == "" { // a rule such as - - -, or an empty item
				return n
			}
			if line[1] != ' ' && line[1] != '\t' {
				return n
			}
		default:
			marker = len(line) - len(strings.TrimLeft(line, "0123456789")) + 1
			end := strings.TrimLeft(line[marker-1:], ".)")
			if marker == 1 || len(line)-len(end) != marker || strings.TrimLeft(end, " \t\r\n") == end && end != "" {
				return n
			}
		}
		line = line[marker:]
	}
}
