package repl

import (
	"strconv"
	"strings"

	"github.com/cortex-orchestrator/cortex/internal/table"
)

// columns lays out words side by side, filled by columns as ls does.
func columns(words []string, width int) string {
	const gap = 2
	widest := 1
	for i, w := range words {
		words[i] = table.Fit(oneLine(w), max(width-1, 1))
		widest = max(widest, table.Width(words[i]))
	}
	across := max(1, (width-1+gap)/(widest+gap))
	down := (len(words) + across - 1) / across
	var b strings.Builder
	for row := range down {
		var line strings.Builder
		for i := row; i < len(words); i += down {
			line.WriteString(table.Pad(words[i], widest+gap))
		}
		b.WriteString(strings.TrimRight(line.String(), " ") + "\n")
	}
	return b.String()
}

// described lists words, each on a line with what it is.
func described(words []string, about func(string) string, width int) string {
	widest := 0
	for _, w := range words {
		widest = max(widest, table.Width(oneLine(w)))
	}
	var b strings.Builder
	for _, w := range words {
		line := table.Pad(oneLine(w), widest+2) + oneLine(about(w))
		b.WriteString(strings.TrimRight(table.Fit(line, max(width-1, 1)), " ") + "\n")
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

// commonPrefix returns the longest common prefix of words, which must not be empty.
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
