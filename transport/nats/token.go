package nats

import (
	"fmt"
	"strings"
)

const hexDigits = "0123456789ABCDEF"

// escape returns id as one token that is legal in a subject, in the key of a bucket and, with a separator outside its
// alphabet, in the name of a consumer. Different ids have different tokens.
func escape(id string) string {
	switch id {
	case "":
		return "_"
	case "_":
		return "=5F"
	}
	n := 0
	for i := range len(id) {
		if !plain(id[i]) {
			n++
		}
	}
	if n == 0 {
		return id
	}
	b := make([]byte, 0, len(id)+2*n)
	for i := range len(id) {
		if c := id[i]; plain(c) {
			b = append(b, c)
		} else {
			b = append(b, '=', hexDigits[c>>4], hexDigits[c&15])
		}
	}
	return string(b)
}

// unescape returns the id that escape made token of, or an error for a token that escape does not make.
func unescape(token string) (string, error) {
	if token == "_" {
		return "", nil
	}
	id := token
	if strings.IndexByte(token, '=') >= 0 {
		b := make([]byte, 0, len(token))
		for i := 0; i < len(token); i++ {
			c := token[i]
			if c == '=' && i+2 < len(token) {
				hi, lo := strings.IndexByte(hexDigits, token[i+1]), strings.IndexByte(hexDigits, token[i+2])
				if hi >= 0 && lo >= 0 {
					c, i = byte(hi<<4|lo), i+2
				}
			}
			b = append(b, c)
		}
		id = string(b)
	}
	if id == "" || escape(id) != token {
		return "", fmt.Errorf("%.200q is not a token", token)
	}
	return id, nil
}

func plain(c byte) bool {
	return c >= 'a' && c <= 'z' || c >= 'A' && c <= 'Z' || c >= '0' && c <= '9' || c == '-' || c == '_'
}
