// Package weighed compiles the regular expressions of strangers. A few bytes can take megabytes, or seconds, when package regexp reads or compiles them, so
// what they take is computed first.
package weighed

import (
	"errors"
	"fmt"
	"regexp"
	"regexp/syntax"
	"strings"
	"unicode/utf8"
)

// Regexp is a regular expression of package regexp.
type Regexp struct {
	*regexp.Regexp
	Instructions int // at most so many does its program have
	Weight       int // at most so many bytes does it take; what takes a millisecond to read weighs about 32 KiB, too
	pattern      string
}

// String returns the pattern as it was given.
func (r *Regexp) String() string { return r.pattern }

// ErrLarge is the error for a pattern over its bounds; what is wrong is said before it.
var ErrLarge = errors.New("the pattern is too large")

// What the parts of a pattern weigh.
const (
	base        = 1 << 10
	character   = 48
	instruction = 64
	namedClass  = 12 << 10 // such as \pL
	foldedRange = 64 << 10 // whose characters are folded one by one
)

// maxGroups bounds the groups of a pattern: a match has room for all of them in each of its threads, of which it may have one for each instruction.
const maxGroups = 100

// Compile compiles a pattern that has at most so many instructions, and weight. MatchString and what else does not ask for groups match as those of package
// regexp; the numbers of groups differ.
func Compile(pattern string, instructions, weight int) (*Regexp, error) {
	w := Reading(pattern)
	if w > weight {
		return nil, fmt.Errorf(`%w: make it shorter, with fewer named classes such as \pL, and fewer ranges that ignore case`, ErrLarge)
	}
	re, err := syntax.Parse(pattern, syntax.Perl)
	if err != nil {
		return nil, err
	}
	if re.MaxCap() > maxGroups {
		return nil, fmt.Errorf("%w: use fewer groups, or (?:…)", ErrLarge)
	}
	n := 2 + size(re, instructions+1)
	if w += n * instruction; n > instructions || w > weight {
		return nil, fmt.Errorf("%w: use fewer or smaller repetitions", ErrLarge)
	}
	// For some patterns that begin with ^, package regexp makes a second program, with a copy of their classes for each instruction: 12 bytes took 8 MB. With
	// a group in front, it does not.
	compiled, err := regexp.Compile("()" + pattern)
	if err != nil {
		return nil, err
	}
	return &Regexp{compiled, n, w, pattern}, nil
}

// Reading returns the weight of a pattern besides its program. It is found in the text, since reading alone can take seconds.
func Reading(pattern string) int {
	w := base + character*len(pattern) + namedClass*(strings.Count(pattern, `\p`)+strings.Count(pattern, `\P`))
	if !ignoresCase(pattern) {
		return w
	}
	for i := range len(pattern) - 1 {
		if pattern[i] == '-' && endsFar(pattern[i+1:]) {
			w += foldedRange
		}
	}
	return w
}

// endsFar reports whether the end of a range, which text begins with, may be far from its beginning: a character beyond ASCII, or the number of one.
func endsFar(text string) bool {
	return text[0] >= utf8.RuneSelf || text[0] == '\\' && len(text) > 1 && strings.IndexByte("x01234567", text[1]) >= 0
}

// ignoresCase reports whether a pattern, or a part of it, ignores case.
func ignoresCase(pattern string) bool {
	for _, part := range strings.Split(pattern, "(?")[1:] {
		flags := part[:len(part)-len(strings.TrimLeft(part, "imsU"))]
		if strings.Contains(flags, "i") {
			return true
		}
	}
	return false
}

// size returns how many instructions the program of re has at most, or limit when there are more. The program may be too large to make it.
func size(re *syntax.Regexp, limit int) int {
	subs := 0
	for _, sub := range re.Sub {
		subs = min(subs+size(sub, limit), limit)
	}
	switch re.Op {
	case syntax.OpLiteral:
		return min(max(1, len(re.Rune)), limit)
	case syntax.OpCapture, syntax.OpStar:
		return min(2+subs, limit)
	case syntax.OpConcat:
		return subs
	case syntax.OpAlternate:
		return min(len(re.Sub)+subs, limit)
	case syntax.OpRepeat:
		if re.Max < 0 {
			return min(2+max(re.Min, 1)*subs, limit)
		}
		return min(max(1, re.Max*subs+re.Max-re.Min), limit)
	default:
		return min(1+subs, limit)
	}
}
