// Package calc computes everyday arithmetic and conversions of units from requests in everyday words. It uses exact fractions where possible, so that
// 0.1 + 0.2 is 0.3 and large whole numbers keep all their digits.
package calc

import (
	"errors"
	"fmt"
	"math/big"
	"regexp"
	"slices"
	"strings"
)

// The two things that can be asked for.
const (
	Calculate = "calculate"
	Convert   = "convert"
)

// maxText bounds a request, in bytes.
const maxText = 1000

var (
	errTooLong = fmt.Errorf("the request is over %d bytes: give me one expression, such as 12%% of 80", maxText)
	errHelp    = errors.New("give me one expression, such as 17*23, 12% of 80, sqrt(2) or 10 km in miles")
)

// Answer computes the request in text and returns it as "17*23 = 391", with "≈" instead of "=" when the result is rounded. Of several requests each
// has a line, and a last line names those that were not understood. Errors say what was not understood or cannot be computed.
func Answer(text string) (string, error) {
	if len(text) > maxText {
		return "", errTooLong
	}
	request := clean(text)
	if request == "" {
		return "", errHelp
	}
	if answer, ok, err := convert(request); ok {
		return answer, err
	}
	if left, ok := percentage(request); ok {
		v, err := evaluate(left)
		if err != nil {
			return "", err
		}
		return equation(left, new(big.Rat).Mul(v, big.NewRat(100, 1)), "%"), nil
	}
	request = sequence(request)
	v, err := evaluate(request)
	if answer, ok := parts(clean(text)); ok && err != nil {
		return answer, nil
	}
	if _, ok := errors.AsType[*unknownError](err); ok {
		// Ignore words around one expression.
		if inner, ok := onlyExpression(request); ok {
			request = inner
			v, err = evaluate(inner)
		}
	}
	if m := aQuantity.FindStringSubmatch(request); err != nil && m != nil && IsUnit(m[1]) {
		return "", fmt.Errorf("%s in which unit? Ask for it as in \"10 km in miles\"", request)
	}
	if err != nil {
		return "", err
	}
	return equation(request, v, ""), nil
}

// Understands returns what all of text plainly asks for: Calculate, Convert, or "" when it is something else or has words around it that no request has.
func Understands(text string) string {
	if len(text) > maxText {
		return ""
	}
	request := clean(text)
	if _, ok, err := convert(request); ok && err == nil {
		return Convert
	}
	if left, ok := percentage(request); ok {
		if _, err := evaluate(left); err == nil {
			return Calculate
		}
	}
	request = sequence(request)
	tokens, err := lex(request)
	if err != nil {
		return ""
	}
	if inner, ok := onlyExpression(request); ok && len(inner) < len(request) {
		return Understands(inner)
	}
	operands, binary := 0, false
	for _, t := range tokens {
		switch t.kind {
		case number, constant:
			operands++
		case function:
			operands++
			binary = true
		case operator, percent, of: // "a third of 99"
			binary = true
		}
	}
	if len(tokens) == 1 && tokens[0].text == "pi" {
		return Calculate
	}
	if operands < 2 || !binary {
		return "" // a number, or an operation on another one
	}
	if _, err := evaluate(request); err != nil && !errors.Is(err, errZero) && !errors.Is(err, errTooLarge) {
		return ""
	}
	return Calculate
}

// Reads reports whether Answer understands text: it has an answer, or says why there is none.
func Reads(text string) bool {
	_, err := Answer(text)
	strange, ok := errors.AsType[*unknownError](err)
	return err == nil || errors.Is(err, errZero) || errors.Is(err, errTooLarge) || ok && strange.isCurrency()
}

// equation writes a result.
func equation(left string, v *big.Rat, unit string) string {
	s, exact := format(v)
	sign := "="
	if !exact {
		sign = "≈"
	}
	return strings.TrimSpace(fmt.Sprintf("%s %s %s %s", left, sign, s, unit))
}

var (
	politeness = regexp.MustCompile(`(?i)^(?:(?:hey|hi|hello|please|pls|plz|plese|pleas|(?:is it|it is|it's|would it be) possible to|(?:can|could) you to|can you|could you|tell me|give me|what(?:'s|’s|s| is| are)|h(?:ow|wo) much (?:is|are|makes?|does)|i (?:want|need|would like)(?: to)? know|i (?:want|need|have need|have|would like|wish) to|calculate|` +
		`compute|evaluate|solve|work out|calc|the (?:result|value|answer) (?:of|to)|(?:result|value) of|the expression|the following)\b[\s:,]*)+`)
	closing = regexp.MustCompile(`(?i)(?:\s*(?:[?.;]|=\s*\??|\bequals?(?: to)?|\bis|\bmakes?|\s(?:as|in) (?:a )?decimals?(?: number| form)?|,?\s*(?:please|plz|pls|thanks|thx|thank you)|\bfor me))+\s*$`)
	// toUnit has the unit before its colon: "convert to miles: 10 km".
	toUnit = regexp.MustCompile(`(?i)^(?:convert(?:ed|ing)? )?(?:in)?to (\pL+)\s*[:,]\s*(\S.*)$`)
	spaces = regexp.MustCompile(`\s+`)
	// aQuantity is a number with what may be a unit.
	aQuantity = regexp.MustCompile(`^[-−]?\d[\d.,]*\s*(\p{L}[\p{L}\s]*)$`)
)

// clean reduces a request to its expression.
func clean(text string) string {
	text = strings.TrimSpace(spaces.ReplaceAllString(text, " "))
	for {
		before := text
		text = strings.Trim(text, "\"'`“”‘’ ")
		text = strings.TrimSpace(politeness.ReplaceAllString(text, ""))
		text = strings.TrimSpace(closing.ReplaceAllString(text, ""))
		if text == before {
			return toUnit.ReplaceAllString(text, "$2 in $1")
		}
	}
}

// phrases have an operation before its operands; to is the form as an expression.
var phrases = []struct {
	re *regexp.Regexp
	to string
}{
	{regexp.MustCompile(`(?i)^divide (.+) by (.+)$`), "$1 / $2"},
	{regexp.MustCompile(`(?i)^(?:split|share|divide) (?:(?:an?|the) (?:bill|check|total) of )?(.+?) (?:between|among|by|in|into)? ?(\d+)(?: (?:people|persons|friends|of us|ways|parts))?$`), "$1 / $2"},
	{regexp.MustCompile(`(?i)^(\S+) more than (.+)$`), "$2 + $1"},
	{regexp.MustCompile(`(?i)^(\S+) less than (.+)$`), "$2 - $1"},
	{regexp.MustCompile(`(?i)^(?:is )?(\S+) (?:divisible|divided evenly|evenly divisible) by (\S+)$`), "$1 / $2"},
	{regexp.MustCompile(`(?i)^multiply (.+) (?:by|with|and) (.+)$`), "$1 * $2"},
	{regexp.MustCompile(`(?i)^(?:add up|add together|sum up|add) ([^,]+(?:, [^,]+)+)$`), "sum($1)"},
	{regexp.MustCompile(`(?i)^(?:add up|add together|sum up) (.+) and (.+)$`), "$1 + $2"},
	{regexp.MustCompile(`(?i)^add (.+) (?:and|to) (.+)$`), "$1 + $2"},
	{regexp.MustCompile(`(?i)^(?:subtract|take) (.+) from (.+)$`), "$2 - $1"},
	{regexp.MustCompile(`(?i)^(?:double|twice) (.+)$`), "$1 * 2"},
	{regexp.MustCompile(`(?i)^triple (.+)$`), "$1 * 3"},
	{regexp.MustCompile(`(?i)^halve (.+)$`), "$1 / 2"},
	{regexp.MustCompile(`(?i)^(?:the )?difference (?:between|of) (.+) and (.+)$`), "$1 - $2"},
	{regexp.MustCompile(`(?i)^(?:the )?product of (.+) and (.+)$`), "$1 * $2"},
	{regexp.MustCompile(`(?i)^(?:the )?(?:sum|total) of (.+)$`), "sum($1)"},
	{regexp.MustCompile(`(?i)^(?:the )?(?:average|mean) of (.+)$`), "average($1)"},
	{regexp.MustCompile(`(?i)^(?:the )?(?:maximum|largest|biggest|max) of (.+)$`), "max($1)"},
	{regexp.MustCompile(`(?i)^(?:the )?(?:minimum|smallest|min) of (.+)$`), "min($1)"},
	{regexp.MustCompile(`(?i)^round (?:off )?(.+) to (\d) (?:decimals?|digits|(?:decimal )?places)$`), "round($1, $2)"},
	{regexp.MustCompile(`(?i)^(.+) to (\d) (?:decimals?|decimal places?)$`), "round($1, $2)"},
	{regexp.MustCompile(`(?i)^(?:increase|raise) (.+) by ([\d.,]+ ?(?:%|percent)?)$`), "$1 + $2"},
	{regexp.MustCompile(`(?i)^(?:decrease|reduce|lower) (.+) by ([\d.,]+ ?(?:%|percent)?)$`), "$1 - $2"},
	{regexp.MustCompile(`(?i)^(.+) to the (\d+)(?:st|nd|rd|th)(?: power)?$`), "$1 ^ $2"},
	{regexp.MustCompile(`(?i)^(?:the )?square of (.+)$`), "$1 ^ 2"},
	{regexp.MustCompile(`(?i)^(?:the )?cube of (.+)$`), "$1 ^ 3"},
	{regexp.MustCompile(`(?i)^(?:the )?factorial of (.+)$`), "factorial($1)"},
	{regexp.MustCompile(`(?i)^(\d+)(?:!| factorial)$`), "factorial($1)"},
}

// inPercent asks for a share in percent; of is the form as an expression.
var inPercent = []struct {
	re *regexp.Regexp
	of string
}{
	{regexp.MustCompile(`(?i)^(.+) (?:as|in) (?:an? )?(?:percent|percentage|%)$`), "$1"},
	{regexp.MustCompile(`(?i)^(.+) as (?:an? )?(?:percent|percentage|%) of (.+)$`), "$1 / $2"},
	{regexp.MustCompile(`(?i)^(.+) is what (?:percent|percentage|%) of (.+)$`), "$1 / $2"},
	{regexp.MustCompile(`(?i)^(?:what )?(?:percent|percentage|%) of (.+) is (.+)$`), "$2 / $1"},
}

// percentage returns the expression for the share that a request asks for in percent; false when it asks for none.
func percentage(s string) (string, bool) {
	for _, p := range inPercent {
		switch m := p.re.FindStringSubmatch(s); len(m) {
		case 2:
			return m[1], true
		case 3:
			return strings.NewReplacer("$1", operand(m[1]), "$2", operand(m[2])).Replace(p.of), true
		}
	}
	return "", false
}

var (
	andThen   = regexp.MustCompile(`(?i)[,;?]?\s+(?:and\s+then|then|and)\s+`)
	goesOnBy  = regexp.MustCompile(`(?i)^(?:[*/×÷^]|[-+−](?:\s|[\d.,]+$)|(?:plus|minus|times|(?:multipl(?:y|ied)|divided?)\s+by|add|subtract|take away|to the power of)\b)`)
	maxChains = 10
	// rounding follows what is to be rounded: "10 / 3 rounded to 2 decimals", "… and round it".
	rounding = regexp.MustCompile(`(?i)^(.*?\S),?\s+(?:(?:and\s+)?(?:then\s+)?round\s+(?:it|that|the result)(?:\s+(?:up|off))?|rounded(?:\s+(?:up|off))?)(?:\s+to\s+(?:the nearest (?:integer|whole number)|(\d)\s+(?:decimals?|digits|(?:decimal )?places?)))?$`)
)

// sequence turns "3 + 4 and then times 5" into "(3 + 4) times 5", as one hears it. Each part is rephrased.
func sequence(s string) string {
	if m := rounding.FindStringSubmatch(s); m != nil {
		digits := ""
		if m[2] != "" {
			digits = ", " + m[2]
		}
		return "round(" + sequence(m[1]) + digits + ")"
	}
	all := andThen.FindAllStringIndex(s, -1)
	if len(all) > maxChains {
		return rephrase(s)
	}
	for _, at := range slices.Backward(all) {
		rest := s[at[1]:]
		if !goesOnBy.MatchString(rest) || rephrase(rest) != rest || strings.ContainsAny(rest, "()") {
			continue
		}
		return "(" + sequence(s[:at[0]]) + ") " + rest
	}
	return rephrase(s)
}

// onlyNumbers are numbers with spaces between them: "1 2 3".
var onlyNumbers = regexp.MustCompile(`^[-−]?[\d.]+(?:,? [\d.]+)+$`)

var listAnd = regexp.MustCompile(`(?i),?\s+and\s+`)

// rephrase converts "divide 10 by 4" to "10 / 4". It puts parentheses around operands that are more than a number.
func rephrase(s string) string {
	for _, p := range phrases {
		m := p.re.FindStringSubmatch(s)
		if m == nil {
			continue
		}
		if len(m) == 2 && strings.HasSuffix(p.to, ")") {
			list := listAnd.ReplaceAllString(m[1], ", ")
			if onlyNumbers.MatchString(list) {
				list = strings.Join(strings.FieldsFunc(list, func(r rune) bool { return r == ' ' || r == ',' }), ", ")
			}
			return strings.Replace(p.to, "$1", list, 1)
		}
		return strings.NewReplacer("$1", operand(m[1]), "$2", operand(m[len(m)-1])).Replace(p.to)
	}
	return s
}

var plainNumber = regexp.MustCompile(`^(?:[\d.,%$€£]+|\pL+)$`)

func operand(s string) string {
	if plainNumber.MatchString(s) {
		return s
	}
	return "(" + s + ")"
}
