package rtfs

import (
	"strconv"

	"github.com/google/uuid"
)

// namespace is the name space of the ids that are derived here.
var namespace = uuid.MustParse("8f0b4c0e-5a0d-5f39-9b7c-2f6a1c7d3e15")

// derived returns the id that follows from words.
func derived(words ...string) string {
	var b []byte
	for _, w := range words {
		b = strconv.AppendQuote(b, w)
	}
	return uuid.NewSHA1(namespace, b).String()
}
