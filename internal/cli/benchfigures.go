package cli

import (
	"fmt"

	"github.com/cortex-orchestrator/cortex/internal/bench"
	"github.com/cortex-orchestrator/cortex/internal/table"
)

// measure runs a measurement with a progress bar and prints the figures.
func (b *bencher) measure(f func(bench.Progress) ([]bench.Figure, error)) error {
	bar := b.bar()
	figures, err := f(bar.draw)
	bar.erase()
	if err != nil {
		return err
	}
	return b.print(figures)
}

// print prints figures beside their targets.
func (b *bencher) print(figures []bench.Figure) error {
	if b.asJSON {
		out := newJSON(b.e.stdout)
		for _, f := range figures {
			if err := out.Encode(f); err != nil {
				return err
			}
		}
		return nil
	}
	met, missed := "met", "missed"
	if isTerminal(b.e.stdout) {
		met, missed = "✓", "✗"
	}
	t := table.New("FIGURE", "VALUE", "REQUIRED", "AIM", "")
	for _, f := range figures {
		required, aim, verdict := "", "", ""
		sign := "≥"
		if f.Less {
			sign = "≤"
		}
		if f.Asked() {
			required = fmt.Sprintf("%s %g %s", sign, f.Least, f.Unit)
			verdict = missed
			if f.Met() {
				verdict = met
			}
		}
		if f.Aim != 0 {
			aim = fmt.Sprintf("%g %s", f.Aim, f.Unit)
		}
		t.Row(f.What, number(f.Value)+" "+f.Unit, required, aim, verdict)
	}
	return b.e.showWhole(t)
}

// number formats x with three significant digits.
func number(x float64) string {
	switch {
	case x >= 100 || x <= -100:
		return fmt.Sprintf("%.0f", x)
	case x >= 10 || x <= -10:
		return fmt.Sprintf("%.1f", x)
	case x >= 1 || x <= -1:
		return fmt.Sprintf("%.2f", x)
	}
	return fmt.Sprintf("%.3f", x)
}
