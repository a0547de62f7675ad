package router

import (
	"strings"
	"unicode"
	"unicode/utf8"

	"github.com/kljensen/snowball/english"

	"github.com/cortex-orchestrator/cortex/internal/token"
)

// Bounds of a text; what exceeds them is ignored.
const (
	maxText  = 8 << 10 // bytes
	maxTerms = 512     // distinct words
	maxWord  = 40      // bytes of a word
	maxStems = 1 << 14 // cached
)

// kind is the kind of a term.
type kind uint8

const (
	word kind = iota // a stemmed word, a character of a script without spaces, a number, a calculation
	pair             // two adjacent words
	gram             // four letters of a word
)

// term is a feature of a text, identified by its hash.
type term struct {
	hash  uint64
	kind  kind
	count int32   // in the text
	prior float32 // the share of texts on any subject that contain it; see vocab
}

const (
	hashSeed  = 14695981039346656037
	gramSeed  = hashSeed + 7
	hashPrime = 1099511628211
)

func hashString(h uint64, s string) uint64 {
	for i := range len(s) {
		h = (h ^ uint64(s[i])) * hashPrime
	}
	return h
}

// mix mixes the bits of a hash, so that hashes of hashes do not collide.
func mix(h uint64) uint64 {
	h ^= h >> 31
	h *= 0x9e3779b97f4a7c15
	return h ^ h>>29
}

// reader parses texts into terms. It is reused, and not safe for concurrent use.
type reader struct {
	terms []term
	at    map[uint64]int // index in terms, by hash
	words int            // distinct
	texts int            // number of texts read
	stems map[string]string
	buf   []byte

	last      uint64 // hash of the previous word, for pairs; 0 at the start
	lastPrior float32
}

func newReader() *reader { return &reader{at: map[uint64]int{}, stems: map[string]string{}} }

// read returns the distinct terms of s, in the order of s. They are valid until the next call.
func (r *reader) read(s string) []term {
	r.terms, r.words, r.last = r.terms[:0], 0, 0
	r.texts++
	clear(r.at)
	s = s[:min(len(s), maxText)]
	number, operator := false, false // what was read last, ignoring spaces and parentheses
	held := ""                       // an operator in words, kept until a number follows or not: "5 times 3" is not about time
	release := func() {
		if held != "" {
			r.word(held, 0, true)
		}
		held = ""
	}
	for i := 0; i < len(s) && r.words < maxTerms; {
		c, size := utf8.DecodeRuneInString(s[i:])
		switch {
		case unicode.IsDigit(c):
			if n := token.Date(s[i:]); n > 0 {
				i += n
				release()
				r.word("#date", 0.2, false)
				number, operator = false, false
				continue
			}
			i += token.Number(s[i:])
			held = ""
			if number && operator {
				r.word("#calc", 0.01, false)
			}
			r.word("#", 0.3, false)
			number, operator = true, false
			continue
		case unicode.IsLetter(c):
			n := r.letters(s[i:])
			w := string(r.buf)
			i += n
			i += token.Suffix(s[i:])
			switch {
			case number && operators[w]:
				release()
				operator, held = true, w
				continue
			case operator && (w == "by" || w == "of"):
			default:
				number, operator = false, false
			}
			release()
			if !spaced(c) {
				r.word(w, 0.02, false)
			} else {
				r.word(w, 0, true)
			}
			continue
		case strings.ContainsRune("+-*/^%×÷−·", c):
			operator = operator || number
		case !unicode.IsSpace(c) && c != '(' && c != ')':
			number, operator = false, false
			release()
			if strings.ContainsRune(".!?;:,\n", c) {
				r.last = 0
			}
		}
		i += size
	}
	release()
	return r.terms
}

// letters reads the word at the start of s into buf, in lower case and without accents, and returns its length in bytes.
func (r *reader) letters(s string) int {
	r.buf = r.buf[:0]
	for i, c := range s {
		switch {
		case !spaced(c):
			if i == 0 {
				r.buf = utf8.AppendRune(r.buf, c)
				return len(string(c))
			}
			return i
		case unicode.IsLetter(c):
			if len(r.buf) < maxWord {
				r.buf = utf8.AppendRune(r.buf, fold(unicode.ToLower(c)))
			}
		case unicode.IsDigit(c):
			if len(r.buf) < maxWord {
				r.buf = utf8.AppendRune(r.buf, c)
			}
		case c >= 0x300 && c < 0x370: // combining accents
		case unicode.Is(unicode.M, c):
			if len(r.buf) < maxWord {
				r.buf = utf8.AppendRune(r.buf, c)
			}
		default:
			return i
		}
	}
	return len(s)
}

// word adds the terms of a word: itself, the pair with the previous word, and its parts.
func (r *reader) word(w string, prior float32, stem bool) {
	h := uint64(hashSeed)
	if stem {
		s := r.stem(w)
		prior = common[s]
		h = hashString(h, s)
		if prior < commonPrior {
			r.grams(w)
		}
	} else {
		h = hashString(h, w)
	}
	h = mix(h)
	r.add(h, word, prior)
	if r.last != 0 {
		r.add(mix(r.last*3+h), pair, min(prior, r.lastPrior)/10)
	}
	r.last, r.lastPrior = h, prior
}

// add counts a term.
func (r *reader) add(h uint64, k kind, prior float32) {
	if i, ok := r.at[h]; ok {
		r.terms[i].count++
		return
	}
	if k == word {
		r.words++
	}
	r.at[h] = len(r.terms)
	r.terms = append(r.terms, term{h, k, 1, prior})
}

// gramLen is the length of a part of a word, in letters, including the spaces around the word.
const gramLen = 4

// grams adds the parts of a word: inflected forms share most of them, in any language.
func (r *reader) grams(w string) {
	s := " " + w + " "
	var starts [gramLen]int // where the latest letters start
	n := 0
	for i := range s {
		if n >= gramLen {
			r.add(mix(hashString(gramSeed, s[starts[n%gramLen]:i])), gram, 0)
		}
		starts[n%gramLen] = i
		n++
	}
	r.add(mix(hashString(gramSeed, s[starts[max(0, n-gramLen)%gramLen]:])), gram, 0)
}

func (r *reader) stem(w string) string {
	for i := range len(w) {
		if w[i] < 'a' || w[i] > 'z' {
			return w
		}
	}
	if s, ok := r.stems[w]; ok {
		return s
	}
	if len(r.stems) >= maxStems {
		clear(r.stems)
	}
	s := english.Stem(w, true)
	r.stems[w] = s
	return s
}

// commonPrior is the prior from which a word alone has no significance.
const commonPrior = 0.2

var operators = map[string]bool{
	"plus": true, "minus": true, "times": true, "x": true, "divided": true, "multiplied": true, "mod": true, "modulo": true,
}
