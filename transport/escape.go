package transport

import (
	"fmt"
	"strings"
)

const hexDigits = "0123456789ABCDEF"

// Escape returns id as one word of letters, digits, "-", "_" and "=", which is valid as a word of a subject or a routing key, as a key of a bucket,
// and as a part of a name. Different ids give different words; the empty id, the default tenant, gives "_". Transports and stores use it wherever an
// id is part of an address.
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

// Unescape returns the id of a word that Escape made, or an error for any other word.
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
