package transport

import (
	"fmt"
	"strings"
)

const hexDigits = "0123456789ABCDEF"

// Escape returns id as one word of letters, digits, "-", "_" and "=": legal as a word of a subject or a routing key, as the
// key of a bucket, as a part of a name. Different ids give different words; the empty one, the default tenant, gives "_".
// Transports and stores use it wherever an id becomes part of an address.
func Escape(id string) string {
	switch id {
	case "":
		return "_"
	case "_":
		return "=5F"
	}
	n := 0
	for i := range len(id) {
		if !plainByte(id[i]) {
			n++
		}
	}
	if n == 0 {
		return id
	}
	b := make([]byte, 0, len(id)+2*n)
	for i := range len(id) {
		if c := id[i]; plainByte(c) {
			b = append(b, c)
		} else {
			b = append(b, '=', hexDigits[c>>4], hexDigits[c&15])
		}
	}
	return string(b)
}

// Unescape returns the id that Escape made word of, or an error for a word that Escape does not make.
func Unescape(word string) (string, error) {
	if word == "_" {
		return "", nil
	}
	id := word
	if strings.IndexByte(word, '=') >= 0 {
		b := make([]byte, 0, len(word))
		for i := 0; i < len(word); i++ {
			c := word[i]
			if c == '=' && i+2 < len(word) {
				hi, lo := strings.IndexByte(hexDigits, word[i+1]), strings.IndexByte(hexDigits, word[i+2])
				if hi >= 0 && lo >= 0 {
					c, i = byte(hi<<4|lo), i+2
				}
			}
			b = append(b, c)
		}
		id = string(b)
	}
	if id == "" || Escape(id) != word {
		return "", fmt.Errorf("%.200q is not an escaped id", word)
	}
	return id, nil
}

func plainByte(c byte) bool {
	return c >= 'a' && c <= 'z' || c >= 'A' && c <= 'Z' || c >= '0' && c <= '9' || c == '-' || c == '_'
}
