package calc

import (
	"cmp"
	"fmt"
	"maps"
	"math/big"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"unicode"
)

// maxExponent bounds the exponent of a number such as 1e6.
const maxExponent = 1000

// token is a piece of an expression.
type token struct {
	kind     tokenKind
	text     string // of an operator, function or constant
	value    *big.Rat
	from, to int // in the request
}

type tokenKind byte

const (
	number   tokenKind = 'n'
	operator tokenKind = 'o' // + - * / ^ mod
	function tokenKind = 'f'
	constant tokenKind = 'c'
	open     tokenKind = '('
	closed   tokenKind = ')'
	comma    tokenKind = ','
	percent  tokenKind = '%'
	of       tokenKind = 'O'
	off      tokenKind = '-' // as in "10% off 80"
	filler   tokenKind = ' ' // ignored
	unknown  tokenKind = '?'
)

// endsOperand reports whether an operand may end with t.
func (t token) endsOperand() bool {
	return t.kind == number || t.kind == closed || t.kind == constant || t.kind == percent
}

// startsOperand reports whether an operand may begin with t, after a sign.
func (t token) startsOperand() bool {
	return t.kind == number || t.kind == open || t.kind == constant || t.kind == function
}

// unknownError is the error for a word that is not arithmetic.
type unknownError struct{ word string }

func (e *unknownError) isCurrency() bool {
	return slices.Contains(currencies, strings.ToLower(e.word))
}

func (e *unknownError) Error() string {
	if e.isCurrency() {
		return fmt.Sprintf("I know no exchange rates, and so nothing of %q", shorten(e.word))
	}
	return fmt.Sprintf("I do not understand %q: %v", shorten(e.word), errHelp)
}

// instructing are words of a request for a conversion that are none of its units.
var instructing = strings.Fields("convert change turn how many much is are in into to as")

// currencies are the words for money that are asked for most.
var currencies = strings.Fields("usd eur gbp jpy chf cny inr cad aud dollar dollars euro euros yen yuan rupee rupees franc francs bitcoin btc")

// strange returns the error for tokens of which the first is unknown. It names a unit, or a word such as "convert", only when nothing else is unknown:
// what keeps "10 km in miles or so" from being a conversion is not "km".
func strange(tokens []token) error {
	for _, t := range tokens {
		if t.kind == unknown && !IsUnit(t.text) && !slices.Contains(instructing, strings.ToLower(t.text)) {
			return &unknownError{t.text}
		}
	}
	return &unknownError{tokens[0].text}
}

// lexemes maps words, phrases and signs to tokens.
var lexemes = map[string]token{
	"plus": op("+"), "minus": op("-"), "less": op("-"), "times": op("*"), "tiems": op("*"), "multiplied by": op("*"), "over": op("/"), "divided by": op("/"),
	"add": op("+"), "subtract": op("-"), "take away": op("-"), "multiply by": op("*"), "divide by": op("/"),
	"mod": op("mod"), "modulo": op("mod"), "raised to": op("^"), "to the power of": op("^"), "raised to the power of": op("^"),
	"square root": fn("sqrt"), "square root of": fn("sqrt"), "sqaure root of": fn("sqrt"), "squre root of": fn("sqrt"), "cube root of": fn("cbrt"), "absolute value of": fn("abs"),
	"percent": {kind: percent, text: "percent"}, "per cent": {kind: percent, text: "percent"}, "of": {kind: of},
	"tip on": {kind: of}, "tip of": {kind: of}, "tip for": {kind: of}, "tax on": {kind: of}, "vat on": {kind: of}, "interest on": {kind: of}, "off": {kind: off},
	"pi": {kind: constant, text: "pi"}, "π": {kind: constant, text: "pi"}, "e": {kind: constant, text: "e"},
	"zero": num(0, 1), "half": num(1, 2), "quarter": num(1, 4), "third": num(1, 3),

	"+": op("+"), "-": op("-"), "−": op("-"), "–": op("-"), "*": op("*"), "×": op("*"), "·": op("*"), "⋅": op("*"), "/": op("/"), "÷": op("/"),
	"^": op("^"), "**": op("^"), "²": to(2), "³": to(3), "squared": to(2), "cubed": to(3), "√": fn("sqrt"), "%": {kind: percent}, ",": {kind: comma},
	"(": {kind: open}, "[": {kind: open}, ")": {kind: closed}, "]": {kind: closed},

	"a": {kind: filler}, "an": {kind: filler}, "the": {kind: filler}, "$": {kind: filler}, "€": {kind: filler}, "£": {kind: filler}, "¥": {kind: filler},
}

func op(text string) token    { return token{kind: operator, text: text} }
func fn(text string) token    { return token{kind: function, text: text} }
func num(a, b int64) token    { return token{kind: number, value: big.NewRat(a, b)} }
func to(n int64) token        { return token{kind: number, text: "^", value: big.NewRat(n, 1)} } // an exponent, with its operator
func shorten(s string) string { return fmt.Sprintf("%.40s", s) }

// split matches lexemes, or other text; splitArguments is for texts with calls of functions, in which a comma separates arguments.
var split, splitArguments, call = func() (split, arguments, call *regexp.Regexp) {
	longest := func(a, b string) int { return cmp.Or(len(b)-len(a), strings.Compare(a, b)) }
	phrases := slices.DeleteFunc(slices.SortedFunc(maps.Keys(lexemes), longest), func(s string) bool { return !strings.Contains(s, " ") })
	names := strings.Join(slices.SortedFunc(maps.Keys(functions), longest), "|")
	const thousands, rest = `\d{1,3}(?:,\d{3})+(?:\.\d+)?|`, `(?:\d+(?:\.\d+)?|\.\d+)(?:e[+-]?\d+)?|\*\*|\pL+|\PZ`
	begin := `(?i)(?:` + strings.Join(phrases, "|") + `|` + names + `|` + inWords + `)\b|`
	return regexp.MustCompile(begin + thousands + rest), regexp.MustCompile(begin + rest), regexp.MustCompile(`(?i)\b(?:` + names + `)\s*[(\[]`)
}()

// lex splits s into tokens; words that are not arithmetic become unknown tokens.
func lex(s string) ([]token, error) {
	re := split
	if call.MatchString(s) {
		re = splitArguments
	}
	var out []token
	for _, at := range re.FindAllStringIndex(s, -1) {
		text := strings.ToLower(s[at[0]:at[1]])
		t, known := lexemes[text]
		_, isFunction := functions[text]
		switch {
		case known:
		case isFunction:
			t = fn(text)
		case isNumeral.MatchString(text):
			t = token{kind: number, value: numeral(text)}
		case strings.ContainsAny(text, "0123456789"):
			_, exponent, _ := strings.Cut(text, "e")
			if e, err := strconv.Atoi(exponent); exponent != "" && (err != nil || e > maxExponent || e < -maxExponent) {
				return nil, fmt.Errorf("%s: exponents over %d are too large for me", shorten(text), maxExponent)
			}
			v, ok := new(big.Rat).SetString(strings.ReplaceAll(text, ",", ""))
			if !ok {
				return nil, fmt.Errorf("%s is no number", shorten(text))
			}
			t = token{kind: number, value: v}
		case text == "x" && len(out) > 0 && out[len(out)-1].endsOperand() && beforeOperand.MatchString(s[at[1]:]):
			t = op("*")
		default:
			t = token{kind: unknown, text: s[at[0]:at[1]]}
		}
		if t.kind == number && t.text == "^" {
			out = append(out, token{kind: operator, text: "^", from: at[0], to: at[1]})
		}
		if t.kind != filler {
			t.from, t.to = at[0], at[1]
			out = append(out, t)
		}
	}
	return out, nil
}

// beforeOperand matches the possible beginnings of an operand, or of words for one.
var beforeOperand = regexp.MustCompile(`^\s*[\pL0-9.($-]`)

// around are words that may surround an expression without changing what is asked.
var around = func() map[string]bool {
	m := map[string]bool{}
	for _, w := range strings.Fields(`what wat waht whats is are was be it its that this does do makes make much how many can could would will you u we me us i am tell give say show get find know need
		want like to please pls plz plese thanks thank thx hey hi hello ok okay so then now and just exactly quick quickly quickest fast really again for my friend dear mate buddy boss
		result results answer value sum math maths calculation expression equation problem compute computed calculate calculated calculating calclate evaluate evaluating computing solving evaluated solve work out
		s re ll d m calc equal equals cortex there if wonder wondering curious question let lets here homework help with today return and`) {
		m[w] = true
	}
	return m
}()

// onlyExpression returns the expression in s, if there is exactly one, surrounded by nothing but words of a request.
func onlyExpression(s string) (string, bool) {
	tokens, err := lex(s)
	if err != nil || strings.ContainsAny(s, "=<>!") {
		return "", false
	}
	var found []string
	for len(tokens) > 0 {
		n := 0
		for n < len(tokens) && tokens[n].kind != unknown {
			n++
		}
		if n < len(tokens) && unicode.IsLetter([]rune(tokens[n].text)[0]) && !around[strings.ToLower(tokens[n].text)] && !slices.Contains(currencies, strings.ToLower(tokens[n].text)) {
			return "", false
		}
		run := tokens[:n]
		tokens = tokens[min(n+1, len(tokens)):]
		for len(run) > 0 && (run[len(run)-1].kind == of || run[len(run)-1].kind == comma) {
			run = run[:len(run)-1]
		}
		numbers, operations := 0, 0
		for _, t := range run {
			switch t.kind {
			case number:
				numbers++
			case operator, function, percent:
				operations++
			}
		}
		switch {
		case numbers == 0:
		case operations == 0, !run[0].startsOperand() && run[0].text != "-", !run[len(run)-1].endsOperand():
			return "", false // a number that may matter
		default:
			found = append(found, s[run[0].from:run[len(run)-1].to])
		}
	}
	if len(found) != 1 {
		return "", false
	}
	return found[0], true
}
