package cli

import (
	"fmt"
	"math"

	"github.com/spf13/pflag"
)

// limit is how much of a list is shown: as many rows as --limit says, 0 being all; without it a screenful on a terminal, else all.
type limit int

const (
	screenful       = 100
	noLimit   limit = math.MinInt
)

func (l *limit) add(f *pflag.FlagSet) {
	f.IntVarP((*int)(l), "limit", "n", int(noLimit), fmt.Sprintf("show at most `N`; 0 is all (default %d on a terminal, else all)", screenful))
	f.Lookup("limit").DefValue = "0" // a default that is not shown
}

func (l limit) check() error {
	if l < 0 && l != noLimit {
		return usagef("--limit %d: it must be at least 0, which is no limit", int(l))
	}
	return nil
}

// most returns how many rows are shown of a list of any length.
func (e *env) most(l limit, asJSON bool) int {
	switch {
	case l > 0:
		return int(l)
	case l == noLimit && !asJSON && isTerminal(e.stdout):
		return screenful
	}
	return math.MaxInt
}

// sayMore says on a terminal that a list goes on.
func (e *env) sayMore(more bool) {
	if more && isTerminal(e.stdout) {
		printText(e.stdout, "… and more: --limit 0 lists all")
	}
}
