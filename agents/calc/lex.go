package calc

import (
	"fmt"
	"math/big"
	"regexp"
	"strconv"
	"strings"
	"unicode"
	"unicode/utf8"
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
	unknown  tokenKind = '?'
)

// endsOperand reports whether an operand may end with t.
func (t token) endsOperand() bool {
	return t.kind == number || t.kind == closed || t.kind == constant || t.kind == percent
}

// startsOperand reports whether an operand may begin with t, a sign aside.
func (t token) startsOperand() bool {
	return t.kind == number || t.kind == open || t.kind == constant || t.kind == function
}

// unknownError is about a word that is no arithmetic.
type unknownError struct{ word string }

func (e *unknownError) Error() string {
	return fmt.Sprintf("I do not understand %q: %v", shorten(e.word), errHelp)
}

var (
	digits    = regexp.MustCompile(`^(?:\d+(?:\.\d+)?|\.\d+)(?:[eE]([+-]?\d+))?`)
	thousands = regexp.MustCompile(`^\d{1,3}(?:,\d{3})+(?:\.\d+)?`)
	name      = regexp.MustCompile(`^(?:log10|log2|\p{L}+)`)
)

// wordPhrases and wordTokens are what operators and numbers are called. Longer phrases come before their beginnings.
var wordPhrases = []struct {
	phrase string
	t      token
}{
	{"raised to the power of", op("^")},
	{"to the power of", op("^")},
	{"raised to", op("^")},
	{"square root of", fn("sqrt")},
	{"square root", fn("sqrt")},
	{"cube root of", fn("cbrt")},
	{"absolute value of", fn("abs")},
	{"multiplied by", op("*")},
	{"divided by", op("/")},
	{"per cent", token{kind: percent, text: "percent"}},
}

var wordTokens = map[string]token{
	"plus": op("+"), "minus": op("-"), "less": op("-"), "times": op("*"), "over": op("/"), "mod": op("mod"), "modulo": op("mod"),
	"percent": {kind: percent, text: "percent"}, "of": {kind: of}, "off": {kind: off},
	"pi": {kind: constant, text: "pi"}, "π": {kind: constant, text: "pi"}, "e": {kind: constant, text: "e"},
	"zero": num(0, 1), "one": num(1, 1), "two": num(2, 1), "three": num(3, 1), "four": num(4, 1), "five": num(5, 1), "six": num(6, 1),
	"seven": num(7, 1), "eight": num(8, 1), "nine": num(9, 1), "ten": num(10, 1), "eleven": num(11, 1), "twelve": num(12, 1),
	"half": num(1, 2), "quarter": num(1, 4), "third": num(1, 3),
}

// signs are what characters are.
var signs = map[rune]token{
	'+': op("+"), '-': op("-"), '−': op("-"), '–': op("-"), '*': op("*"), '×': op("*"), '·': op("*"), '⋅': op("*"), '/': op("/"), '÷': op("/"),
	'^': op("^"), '²': num(2, 1), '³': num(3, 1), '√': fn("sqrt"), '%': {kind: percent}, ',': {kind: comma},
	'(': {kind: open}, '[': {kind: open}, ')': {kind: closed}, ']': {kind: closed},
}

func op(text string) token     { return token{kind: operator, text: text} }
func fn(text string) token     { return token{kind: function, text: text} }
func num(a, b int64) token     { return token{kind: number, value: big.NewRat(a, b)} }
func isCurrency(r rune) bool   { return r == '$' || r == '€' || r == '£' || r == '¥' }
func shorten(s string) string  { return fmt.Sprintf("%.40s", s) }
func isFiller(s string) bool   { return s == "a" || s == "an" || s == "the" }
func isFunction(s string) bool { _, ok := functions[s]; return ok }

// lex cuts s into tokens; words that are no arithmetic become unknown ones.
func lex(s string) ([]token, error) {
	var out []token
	var calls []bool // for each open parenthesis, whether it is a function's: there a comma separates arguments
	add := func(t token, from, to int) {
		t.from, t.to = from, to
		out = append(out, t)
	}
	for i := 0; i < len(s); {
		rest := s[i:]
		r, size := utf8.DecodeRuneInString(rest)
		if unicode.IsSpace(r) || isCurrency(r) {
			i += size
			continue
		}
		if t, n, err := lexNumber(rest, len(calls) > 0 && calls[len(calls)-1]); err != nil {
			return nil, err
		} else if n > 0 {
			add(t, i, i+n)
			i += n
			continue
		}
		if n := len(name.FindString(rest)); n > 0 {
			t, n := lexWord(rest, n, out)
			if t.kind != 0 {
				add(t, i, i+n)
			}
			i += n
			continue
		}
		t, ok := signs[r]
		switch {
		case !ok:
			t = token{kind: unknown, text: string(r)}
		case strings.HasPrefix(rest, "**"):
			t, size = op("^"), 2
		case r == '²', r == '³':
			add(op("^"), i, i+size)
		case t.kind == open:
			calls = append(calls, len(out) > 0 && out[len(out)-1].kind == function)
		case t.kind == closed:
			calls = calls[:max(0, len(calls)-1)]
		}
		add(t, i, i+size)
		i += size
	}
	return out, nil
}

// lexNumber reads the number that s begins with; its length is 0 when there is none.
func lexNumber(s string, inCall bool) (token, int, error) {
	if !inCall {
		if m := thousands.FindString(s); m != "" && !strings.HasPrefix(s[len(m):], ",") && !startsWithDigit(s[len(m):]) {
			v, _ := new(big.Rat).SetString(strings.ReplaceAll(m, ",", ""))
			return token{kind: number, value: v}, len(m), nil
		}
	}
	m := digits.FindStringSubmatch(s)
	if m == nil {
		return token{}, 0, nil
	}
	if e, err := strconv.Atoi(m[1]); m[1] != "" && (err != nil || e > maxExponent || e < -maxExponent) {
		return token{}, 0, fmt.Errorf("%s: exponents over %d are too large for me", shorten(m[0]), maxExponent)
	}
	v, ok := new(big.Rat).SetString(m[0])
	if !ok {
		return token{}, 0, fmt.Errorf("%s is no number", shorten(m[0]))
	}
	return token{kind: number, value: v}, len(m[0]), nil
}

func startsWithDigit(s string) bool { return s != "" && s[0] >= '0' && s[0] <= '9' }

// lexWord reads the word of n bytes, or the phrase, that s begins with, after the tokens before. A filler gives no token.
func lexWord(s string, n int, before []token) (token, int) {
	for _, p := range wordPhrases {
		if len(s) >= len(p.phrase) && strings.EqualFold(s[:len(p.phrase)], p.phrase) && !isLetter(s[len(p.phrase):]) {
			return p.t, len(p.phrase)
		}
	}
	word := strings.ToLower(s[:n])
	if t, ok := wordTokens[word]; ok {
		return t, n
	}
	switch {
	case isFunction(word):
		return fn(word), n
	case isFiller(word):
		return token{}, n
	case word == "x" && len(before) > 0 && before[len(before)-1].endsOperand():
		if next := strings.TrimSpace(s[n:]); next != "" && (isLetter(next) || strings.ContainsAny(next[:1], "0123456789.(-$")) {
			return op("*"), n
		}
	}
	return token{kind: unknown, text: s[:n]}, n
}

func isLetter(s string) bool {
	r, _ := utf8.DecodeRuneInString(s)
	return unicode.IsLetter(r)
}

// onlyExpression returns the part of s that is an expression, when there is exactly one, between words that are none.
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
