package measure

import (
	"fmt"
	"time"

	"github.com/cortex-orchestrator/cortex/internal/bench"
	"github.com/cortex-orchestrator/cortex/internal/screen"
	"github.com/cortex-orchestrator/cortex/internal/table"
	"github.com/cortex-orchestrator/cortex/internal/view"
)

// measure runs a measurement within --time-limit, if the command has one, with a progress bar, and prints the figures.
func (b *bencher) measure(f func(time.Duration, bench.Progress) ([]bench.Figure, error)) error {
	if err := b.check(); err != nil {
		return err
	}
	bar := screen.NewBar(b.e.stderr)
	figures, err := f(b.limit, bar.Draw)
	bar.Erase()
	if err != nil {
		return err
	}
	return b.print(figures, missedSpeed)
}

// What a missed target means.
const (
	missedSpeed  = "missed: the value is not as required. What else the machine does slows Cortex, too: measure again when it is idle."
	missedGrowth = "missed: more has grown than may, or something was lost. `cortex bench soak --help` says what may grow; all else is a fault of Cortex."
)

// print prints figures beside their targets. why says what it means that one is missed.
func (b *bencher) print(figures []bench.Figure, why string) error {
	if b.asJSON {
		out := view.NewJSON(b.e.stdout)
		for _, f := range figures {
			if err := out.Encode(f); err != nil {
				return err
			}
		}
		return nil
	}
	missed := 0
	t := table.New("FIGURE", "VALUE", "REQUIRED", "AIM", "")
	for _, f := range figures {
		required, aim, verdict := "", "", ""
		sign := "≥"
		if f.Less {
			sign = "≤"
		}
		if f.Asked() {
			required = fmt.Sprintf("%s %g %s", sign, f.Least, f.Unit)
			verdict = "met"
			if !f.Met() {
				verdict = "missed"
				missed++
			}
		}
		if f.Aim != 0 {
			aim = fmt.Sprintf("%g %s", f.Aim, f.Unit)
		}
		t.Row(f.What, number(f.Value)+" "+f.Unit, required, aim, verdict)
	}
	if err := b.e.showWhole(t, 1); err != nil || missed == 0 {
		return err
	}
	fmt.Fprintln(b.e.stdout)
	_, err := screen.Print(b.e.stdout, "%s", why)
	return err
}

// tell prints a table, unless its rows were printed as JSON, and figures.
func (b *bencher) tell(t *table.Table, figures []bench.Figure) error {
	if !b.asJSON {
		if err := b.e.showWhole(t, 2); err != nil {
			return err
		}
		fmt.Fprintln(b.e.stdout)
	}
	return b.print(figures, missedSpeed)
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
