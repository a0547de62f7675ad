package calc

import (
	"math"
	"math/big"
)

// definition is a function in expressions, with its numbers of arguments.
type definition struct {
	min, max int
	call     func(args []*big.Rat) (*big.Rat, error)
}

const maxArgs = 1000

var functions = map[string]definition{
	"sqrt": {1, 1, sqrt},
	"cbrt": {1, 1, floats(math.Cbrt)},
	"abs":  {1, 1, func(a []*big.Rat) (*big.Rat, error) { return new(big.Rat).Abs(a[0]), nil }},
	"floor": {1, 1, func(a []*big.Rat) (*big.Rat, error) {
		return floor(a[0]), nil
	}},
	"ceil": {1, 1, func(a []*big.Rat) (*big.Rat, error) {
		v := floor(new(big.Rat).Neg(a[0]))
		return v.Neg(v), nil
	}},
	"round":   {1, 2, round},
	"min":     {1, maxArgs, func(a []*big.Rat) (*big.Rat, error) { return pick(a, -1), nil }},
	"max":     {1, maxArgs, func(a []*big.Rat) (*big.Rat, error) { return pick(a, 1), nil }},
	"sum":     {1, maxArgs, sum},
	"average": {1, maxArgs, average},
	"mean":    {1, maxArgs, average},
	"pow":     {2, 2, func(a []*big.Rat) (*big.Rat, error) { return power(a[0], a[1]) }},
	"sin":     {1, 1, floats(math.Sin)},
	"cos":     {1, 1, floats(math.Cos)},
	"tan":     {1, 1, floats(math.Tan)},
	"asin":    {1, 1, floats(math.Asin)},
	"acos":    {1, 1, floats(math.Acos)},
	"atan":    {1, 1, floats(math.Atan)},
	"log":     {1, 1, logarithm(math.Log10)},
	"log10":   {1, 1, logarithm(math.Log10)},
	"log2":    {1, 1, logarithm(math.Log2)},
	"ln":      {1, 1, logarithm(math.Log)},
	"exp":     {1, 1, floats(math.Exp)},

	"factorial": {1, 1, factorial},
}

// floats adapts a function of package math. It rounds results to 15 decimals, so that sin(pi) is 0.
func floats(f func(float64) float64) func([]*big.Rat) (*big.Rat, error) {
	return func(a []*big.Rat) (*big.Rat, error) {
		x, _ := a[0].Float64()
		y := f(x)
		if math.Abs(y) < 10 {
			y = math.Round(y*1e15) / 1e15
		}
		return rat(y)
	}
}

// logarithm adapts a function that is undefined at 0 and below.
func logarithm(f func(float64) float64) func([]*big.Rat) (*big.Rat, error) {
	return func(a []*big.Rat) (*big.Rat, error) {
		if a[0].Sign() <= 0 {
			return rat(math.NaN())
		}
		return floats(f)(a)
	}
}

// maxFactorial bounds the number whose factorial is computed, which has 2,568 digits then.
const maxFactorial = 1000

func factorial(a []*big.Rat) (*big.Rat, error) {
	if !a[0].IsInt() || a[0].Sign() < 0 {
		return rat(math.NaN())
	}
	if a[0].Cmp(big.NewRat(maxFactorial, 1)) > 0 {
		return nil, errTooLarge
	}
	return new(big.Rat).SetInt(new(big.Int).MulRange(1, a[0].Num().Int64())), nil
}

// sqrt is exact for squares of fractions.
func sqrt(a []*big.Rat) (*big.Rat, error) {
	if a[0].Sign() < 0 {
		return rat(math.NaN())
	}
	n, d := new(big.Int).Sqrt(a[0].Num()), new(big.Int).Sqrt(a[0].Denom())
	if root := new(big.Rat).SetFrac(n, d); new(big.Rat).Mul(root, root).Cmp(a[0]) == 0 {
		return root, nil
	}
	x, _ := a[0].Float64()
	return rat(math.Sqrt(x))
}

// round rounds half away from zero, to the number of decimals in the second argument.
func round(a []*big.Rat) (*big.Rat, error) {
	scale := big.NewRat(1, 1)
	if len(a) == 2 {
		var err error
		if !a[1].IsInt() || a[1].Cmp(big.NewRat(100, 1)) > 0 || a[1].Cmp(big.NewRat(-100, 1)) < 0 {
			return nil, errTooLarge
		}
		if scale, err = power(big.NewRat(10, 1), a[1]); err != nil {
			return nil, err
		}
	}
	v := new(big.Rat).Mul(new(big.Rat).Abs(a[0]), scale)
	v = floor(v.Add(v, big.NewRat(1, 2)))
	if a[0].Sign() < 0 {
		v.Neg(v)
	}
	return v.Quo(v, scale), nil
}

func pick(a []*big.Rat, sign int) *big.Rat {
	best := a[0]
	for _, v := range a[1:] {
		if v.Cmp(best) == sign {
			best = v
		}
	}
	return best
}

func sum(a []*big.Rat) (*big.Rat, error) {
	v := new(big.Rat)
	for _, x := range a {
		v.Add(v, x)
	}
	return v, nil
}

func average(a []*big.Rat) (*big.Rat, error) {
	v, err := sum(a)
	return v.Quo(v, big.NewRat(int64(len(a)), 1)), err
}
