package view

import (
	"fmt"
	"strings"

	"github.com/cortex-orchestrator/cortex/cortex/conversation"
	"github.com/cortex-orchestrator/cortex/llm"
	"github.com/cortex-orchestrator/cortex/prompt"
)

// UsageLine formats tokens and costs.
func UsageLine(u llm.Usage) string {
	line := fmt.Sprintf("%d tokens in", u.Input)
	if u.Estimated {
		line = "about " + line
	}
	if u.Cached > 0 {
		line += fmt.Sprintf(" (%d cached)", u.Cached)
	}
	line += fmt.Sprintf(", %d out", u.Output)
	if u.Reasoning > 0 {
		line += fmt.Sprintf(" (%d thought)", u.Reasoning)
	}
	if u.Cost > 0 {
		line += ", cost " + CostText(u.Cost)
	}
	return line
}

// CostText formats an amount with two significant digits if it is small, or else with cents. The currency is that of the prices.
func CostText(cost float64) string {
	switch {
	case cost == 0:
		return "-"
	case cost >= 1:
		return fmt.Sprintf("%.2f", cost)
	case cost >= 0.0001:
		return fmt.Sprintf("%.4f", cost)
	}
	return fmt.Sprintf("%.2g", cost)
}

// SummaryLine describes how much of a conversation was summarised or left out in the prompt.
func SummaryLine(e *conversation.Entry) string {
	var parts []string
	if n := e.Summary.Turns - e.Omitted; n > 0 && e.Summary.Text != "" {
		parts = append(parts, fmt.Sprintf("the oldest %d turns were summarised for the prompt by %s", n, prompt.Clean(e.Summary.Model, MaxSaid)))
	}
	if e.Omitted > 0 {
		parts = append(parts, fmt.Sprintf("%d turns were left out of the prompt: the model could not summarise them", e.Omitted))
	}
	return strings.Join(parts, "; ")
}
