package calc

import (
	"errors"
	"fmt"
	"math"
	"math/big"
	"strconv"
	"strings"

	"github.com/expr-lang/expr/ast"
	"github.com/expr-lang/expr/parser"
)

// maxBits bounds the numerator and the denominator of every intermediate number, in bits.
const maxBits = 1 << 13

var (
	errTooLarge = errors.New("the result is too large for me")
	errZero     = errors.New("division by zero has no result")
)

// evaluate computes an expression. Package expr defines the grammar of operators; this package decides what an expression may contain.
func evaluate(s string) (*big.Rat, error) {
	tokens, err := lex(s)
	if err != nil {
		return nil, err
	}
	source, numbers, err := rewrite(tokens)
	if err != nil {
		return nil, err
	}
	tree, err := parser.Parse(source)
	if err != nil {
		return nil, fmt.Errorf("%q is not a complete expression", shorten(s))
	}
	return (&evaluator{numbers}).eval(tree.Node)
}

// rewrite converts tokens to the language of package expr, with a name instead of each number, so that numbers keep their digits.
func rewrite(tokens []token) (string, []*big.Rat, error) {
	if len(tokens) == 0 {
		return "", nil, errHelp
	}
	var err error
	if tokens, err = percentages(tokens); err != nil {
		return "", nil, err
	}
	var b strings.Builder
	var numbers []*big.Rat
	wrapped := false // the next operand is the argument of a function without parentheses
	for i, t := range tokens {
		if i > 0 && tokens[i-1].endsOperand() && t.startsOperand() {
			if t.kind == number {
				return "", nil, errors.New("there are two numbers with nothing between them")
			}
			b.WriteString(" * ")
		}
		switch t.kind {
		case number:
			fmt.Fprintf(&b, "n%d", len(numbers))
			numbers = append(numbers, t.value)
		case constant:
			b.WriteString(t.text)
		case operator:
			b.WriteString(map[string]string{"^": " ** ", "mod": " % "}[t.text])
			if t.text != "^" && t.text != "mod" {
				b.WriteString(" " + t.text + " ")
			}
		case function:
			b.WriteString("f_" + t.text)
			switch {
			case i+1 < len(tokens) && tokens[i+1].kind == open:
			case i+1 < len(tokens) && (tokens[i+1].kind == number || tokens[i+1].kind == constant):
				b.WriteString("(")
				wrapped = true
				continue
			default:
				return "", nil, fmt.Errorf("%s needs a number in parentheses, such as %s(2)", t.text, t.text)
			}
		case open:
			b.WriteString("(")
		case closed:
			b.WriteString(")")
		case comma:
			b.WriteString(", ")
		case unknown:
			return "", nil, strange(tokens[i:])
		default:
			return "", nil, errHelp
		}
		if wrapped {
			b.WriteString(")")
			wrapped = false
		}
	}
	return b.String(), numbers, nil
}

// percentages replaces percent signs, "of" and "off" by their meaning: 12% is 12/100, as a share of what follows "of", or as a share of everything
// before a "+" or "-" at the end. Between two operands, % is the remainder.
func percentages(in []token) ([]token, error) {
	var out []token
	for i, t := range in {
		last := i == len(in)-1
		switch t.kind {
		case percent:
			if t.text == "" && !last && in[i+1].startsOperand() {
				out = append(out, op("mod"))
				continue
			}
			if len(out) == 0 || !out[len(out)-1].endsOperand() {
				return nil, errors.New("there is no number before a percent sign")
			}
			hundredth := num(1, 100)
			if n := len(out); out[n-1].kind == number {
				share := token{kind: number, value: new(big.Rat).Mul(out[n-1].value, hundredth.value)}
				out[n-1] = share
				if last && n >= 3 && out[n-2].kind == operator && (out[n-2].text == "+" || out[n-2].text == "-") && out[n-3].endsOperand() && balanced(out[:n-2]) {
					sign := out[n-2]
					out = append(append([]token{{kind: open}}, out[:n-2]...), token{kind: closed}, op("*"), token{kind: open}, num(1, 1), sign, share, token{kind: closed})
				}
				continue
			}
			start := operandStart(out)
			out = append(out[:start:start], append([]token{{kind: open}}, append(out[start:], op("*"), hundredth, token{kind: closed})...)...)
		case of:
			switch {
			case len(out) == 0:
				return nil, errHelp
			case out[len(out)-1].kind == function: // "sqrt of 16"
			case out[len(out)-1].endsOperand():
				out = append(out, op("*"))
			default:
				return nil, errHelp
			}
		case off:
			if len(out) == 0 || out[len(out)-1].kind != number || i == 0 || in[i-1].kind != percent {
				return nil, errHelp
			}
			out[len(out)-1].value = new(big.Rat).Sub(big.NewRat(1, 1), out[len(out)-1].value)
			out = append(out, op("*"))
		default:
			out = append(out, t)
		}
	}
	return out, nil
}

func balanced(tokens []token) bool {
	depth := 0
	for _, t := range tokens {
		switch t.kind {
		case open:
			depth++
		case closed:
			depth--
		}
	}
	return depth == 0
}

// operandStart returns the index of the first token of the operand that tokens end with.
func operandStart(tokens []token) int {
	i := len(tokens) - 1
	if tokens[i].kind != closed {
		return i
	}
	for depth := 0; i >= 0; i-- {
		switch tokens[i].kind {
		case closed:
			depth++
		case open:
			depth--
		}
		if depth == 0 {
			break
		}
	}
	if i > 0 && tokens[i-1].kind == function {
		i--
	}
	return max(i, 0)
}

// evaluator computes the syntax tree of an expression.
type evaluator struct{ numbers []*big.Rat }

func (e *evaluator) eval(n ast.Node) (*big.Rat, error) {
	v, err := e.node(n)
	if err == nil && (v.Num().BitLen() > maxBits || v.Denom().BitLen() > maxBits) {
		return nil, errTooLarge
	}
	return v, err
}

func (e *evaluator) node(n ast.Node) (*big.Rat, error) {
	switch n := n.(type) {
	case *ast.IdentifierNode:
		switch n.Value {
		case "pi":
			return rat(math.Pi)
		case "e":
			return rat(math.E)
		}
		if i, err := strconv.Atoi(strings.TrimPrefix(n.Value, "n")); err == nil && i < len(e.numbers) {
			return e.numbers[i], nil
		}
	case *ast.UnaryNode:
		v, err := e.eval(n.Node)
		if err == nil && n.Operator == "-" {
			return new(big.Rat).Neg(v), nil
		}
		return v, err
	case *ast.BinaryNode:
		a, err := e.eval(n.Left)
		if err != nil {
			return nil, err
		}
		b, err := e.eval(n.Right)
		if err != nil {
			return nil, err
		}
		return binary(n.Operator, a, b)
	case *ast.CallNode:
		callee, ok := n.Callee.(*ast.IdentifierNode)
		if !ok {
			return nil, errHelp
		}
		name := strings.TrimPrefix(callee.Value, "f_")
		f, ok := functions[name]
		if !ok {
			return nil, errHelp
		}
		if len(n.Arguments) < f.min || len(n.Arguments) > f.max {
			return nil, fmt.Errorf("%s does not take %d numbers", name, len(n.Arguments))
		}
		args := make([]*big.Rat, len(n.Arguments))
		for i, a := range n.Arguments {
			var err error
			if args[i], err = e.eval(a); err != nil {
				return nil, err
			}
		}
		return f.call(args)
	}
	return nil, errHelp
}

func binary(op string, a, b *big.Rat) (*big.Rat, error) {
	switch op {
	case "+":
		return new(big.Rat).Add(a, b), nil
	case "-":
		return new(big.Rat).Sub(a, b), nil
	case "*":
		return new(big.Rat).Mul(a, b), nil
	case "/":
		if b.Sign() == 0 {
			return nil, errZero
		}
		return new(big.Rat).Quo(a, b), nil
	case "%":
		if b.Sign() == 0 {
			return nil, errZero
		}
		q := floor(new(big.Rat).Quo(a, b))
		return new(big.Rat).Sub(a, q.Mul(q, b)), nil
	case "**", "^":
		return power(a, b)
	}
	return nil, errHelp
}

// power is exact for whole exponents.
func power(a, b *big.Rat) (*big.Rat, error) {
	if a.Sign() == 0 && b.Sign() < 0 {
		return nil, errZero
	}
	if !b.IsInt() {
		x, _ := a.Float64()
		y, _ := b.Float64()
		return rat(math.Pow(x, y))
	}
	if a.IsInt() && a.Num().BitLen() <= 1 { // 0, 1, -1, which have huge powers
		switch {
		case b.Sign() == 0, a.Sign() < 0 && b.Num().Bit(0) == 0:
			return big.NewRat(1, 1), nil
		}
		return a, nil
	}
	bits := int64(max(a.Num().BitLen(), a.Denom().BitLen()))
	if !b.Num().IsInt64() || b.Num().Int64() > maxBits || b.Num().Int64() < -maxBits || bits*b.Num().Int64() > 2*maxBits || -bits*b.Num().Int64() > 2*maxBits {
		return nil, errTooLarge
	}
	n := new(big.Int).Abs(b.Num())
	v := new(big.Rat).SetFrac(new(big.Int).Exp(a.Num(), n, nil), new(big.Int).Exp(a.Denom(), n, nil))
	if b.Sign() < 0 {
		v.Inv(v)
	}
	return v, nil
}

// rat converts f, or returns an error when it is NaN or infinite.
func rat(f float64) (*big.Rat, error) {
	switch {
	case math.IsNaN(f):
		return nil, errors.New("this has no real result")
	case math.IsInf(f, 0):
		return nil, errTooLarge
	}
	return new(big.Rat).SetFloat64(f), nil
}

func floor(v *big.Rat) *big.Rat {
	return new(big.Rat).SetInt(new(big.Int).Div(v.Num(), v.Denom())) // Euclidean, and the denominator is positive
}
