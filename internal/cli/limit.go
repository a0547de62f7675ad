package cli

import (
	"fmt"
	"math"

	"github.com/spf13/pflag"

	"github.com/cortex-orchestrator/cortex/internal/screen"
)

// limit is the value of --limit: the number of rows to show, 0 for all. Without the flag, a terminal gets a screenful and everything else all rows.
type limit int

const (
	screenful       = 100
	noLimit   limit = math.MinInt
)

func (l *limit) add(f *pflag.FlagSet) {
	f.IntVarP((*int)(l), "limit", "n", int(noLimit), fmt.Sprintf("`N`: show at most this many; 0 shows all (default %d on a terminal, else all)", screenful))
	f.Lookup("limit").DefValue = "0" // the help does not show this default
}

func (l limit) check() error {
	if l < 0 && l != noLimit {
		return usagef("--limit %d: it must be at least 0, which is no limit", int(l))
	}
	return nil
}

// most returns how many rows of a list to show.
func (e *env) most(l limit, asJSON bool) int {
	switch {
	case l > 0:
		return int(l)
	case l == noLimit && !asJSON && screen.IsTerminal(e.stdout):
		return screenful
	}
	return math.MaxInt
}

// sayMore prints on a terminal that a list is not complete.
func (e *env) sayMore(more bool) {
	if more && screen.IsTerminal(e.stdout) {
		screen.Print(e.stdout, "… and more: --limit 0 lists all")
	}
}
