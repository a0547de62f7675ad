package cli

import (
	"fmt"
	"runtime"
	"strings"

	"github.com/cortex-orchestrator/cortex/internal/screen"
	"github.com/cortex-orchestrator/cortex/internal/table"
)

// commandLines returns a shell command that is indented, as lines that fit the width of a terminal: it is broken between two of its words, and before
// a flag or a program where possible, with a backslash, so that the lines can still be copied into a shell. A width of 0 has no end. The shells of
// Windows know no such backslash.
func commandLines(command, indent string, width int) string {
	if width <= 0 || table.Width(indent+command) <= width || runtime.GOOS == "windows" {
		return indent + command
	}
	var lines []string
	line, room := "", width-table.Width(indent)-len(` \`)
	for _, unit := range commandUnits(command) {
		switch {
		case line == "":
			line = unit
		case table.Width(line)+1+table.Width(unit) <= room:
			line += " " + unit
		default:
			lines, line = append(lines, line), "    "+unit
		}
	}
	return indent + strings.Join(append(lines, line), " \\\n"+indent)
}

// sayCommand prints a sentence and its command on standard error, below each other on a terminal that is too narrow for both.
func (e *env) sayCommand(sentence, command string) {
	width := screen.Width(e.stderr)
	if width > 0 && table.Width(sentence)+1+table.Width(command) > width {
		fmt.Fprintf(e.stderr, "%s\n%s\n", sentence, commandLines(command, "    ", width))
		return
	}
	fmt.Fprintf(e.stderr, "%s %s\n", sentence, command)
}

// commandUnits splits a shell command at the spaces outside of quotation marks where a flag begins, or the words behind the last one.
func commandUnits(command string) []string {
	var words []string
	begin, quote := 0, byte(0)
	for i := range len(command) {
		switch c := command[i]; {
		case quote != 0:
			if c == quote {
				quote = 0
			}
		case c == '\'' || c == '"':
			quote = c
		case c == ' ':
			words, begin = append(words, command[begin:i]), i+1
		}
	}
	words = append(words, command[begin:])
	var units []string
	for i, w := range words {
		if i > 0 && !strings.HasPrefix(w, "-") && (strings.HasPrefix(words[i-1], "-") && words[i-1] != "--" || i < 3) {
			units[len(units)-1] += " " + w // a command of several words, or the value of a flag
			continue
		}
		units = append(units, w)
	}
	return units
}
