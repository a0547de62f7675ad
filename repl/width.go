package repl

import "github.com/cortex-orchestrator/cortex/internal/table"

// The chat measures and wraps text as tables do.

func textWidth(s string) int { return table.Width(s) }

func upTo(s string, width int) string { return table.UpTo(s, width) }

func fit(s string, width int) string { return table.Fit(s, width) }

// WrapText wraps the lines of a text between words to width columns; continuations are indented like the beginning of their line.
func WrapText(text string, width int) string { return wrapText(text, width) }

// Wrap is [table.Wrap].
func Wrap(s string, width int) []string { return table.Wrap(s, width) }
