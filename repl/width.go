package repl

import "github.com/cortex-orchestrator/cortex/internal/table"

// Texts of the chat are measured and broken as those of tables are.

func textWidth(s string) int { return table.Width(s) }

func upTo(s string, width int) string { return table.UpTo(s, width) }

func fit(s string, width int) string { return table.Fit(s, width) }

// Wrap breaks s as [table.Wrap] does.
func Wrap(s string, width int) []string { return table.Wrap(s, width) }
