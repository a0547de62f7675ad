package calc

import (
	"math/big"
	"strings"
)

const (
	exactDigits   = 15 // a decimal fraction of at most this many digits is not rounded
	roundedDigits = 12 // digits of other results
)

// format formats v, and reports whether the text is exact.
func format(v *big.Rat) (string, bool) {
	if v.IsInt() {
		return v.Num().String(), true
	}
	if n, exact := v.FloatPrec(); exact && n <= exactDigits {
		if s := v.FloatString(n); len(strings.TrimLeft(s, "-0.")) <= exactDigits+1 {
			return s, true
		}
	}
	whole := len(new(big.Int).Quo(v.Num(), v.Denom()).String())
	prec := roundedDigits
	if whole > roundedDigits-2 && whole <= 2*exactDigits {
		prec = whole + 2
	}
	s := new(big.Float).SetPrec(200).SetRat(v).Text('g', prec)
	back, ok := new(big.Rat).SetString(s)
	return s, ok && back.Cmp(v) == 0
}
