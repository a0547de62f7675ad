package jetstore

import (
	"encoding/hex"
	"fmt"
	"strings"
)

// token returns id as one token of a subject, also legal in a KV key: letters, digits, "_" and "-" stand for themselves,
// any other byte is "=" and two hexadecimal digits. The empty id, the default tenant, is "=" alone, which no other id gives.
func token(id string) string {
	if id == "" {
		return "="
	}
	var b strings.Builder
	for i := range len(id) {
		if c := id[i]; plain(c) {
			b.WriteByte(c)
		} else {
			fmt.Fprintf(&b, "=%02X", c)
		}
	}
	return b.String()
}

// untoken is the inverse of token. It reports false for what token never returns.
func untoken(t string) (id string, ok bool) {
	var b strings.Builder
	for i := 0; i < len(t) && t != "="; i++ {
		if t[i] != '=' {
			b.WriteByte(t[i])
			continue
		}
		raw, err := hex.DecodeString(t[i+1 : min(i+3, len(t))])
		if err != nil || len(raw) != 1 {
			return "", false
		}
		b.Write(raw)
		i += 2
	}
	id = b.String()
	return id, token(id) == t
}

func plain(c byte) bool {
	return c >= 'a' && c <= 'z' || c >= 'A' && c <= 'Z' || c >= '0' && c <= '9' || c == '_' || c == '-'
}
