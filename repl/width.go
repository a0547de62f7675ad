package repl

import "github.com/cortex-orchestrator/cortex/internal/table"

// Texts of the chat are measured and broken as those of tables are.

func textWidth(s string) int { return table.Width(s) }

func upTo(s string, width int) string { return table.UpTo(s, width) }

func fit(s string, width int) string { return table.Fit(s, width) }

// WrapText breaks those lines of a text between their words that are wider than width; what goes on stands below the beginning of its line.
func WrapText(text string, width int) string { return wrapText(text, width) }

// Wrap breaks s as [table.Wrap] does.
func Wrap(s string, width int) []string { return table.Wrap(s, width) }
