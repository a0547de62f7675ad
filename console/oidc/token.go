package oidc

import (
	"encoding/base64"
	"errors"
	"fmt"
	"strings"

	"github.com/cortex-orchestrator/cortex/internal/nesting"
)

// maxSignature bounds the signature of an ID token, in bytes. A key of RSA is as long, and the time of a check grows with its square: 8192 bits are more than
// anybody has.
const maxSignature = 1 << 10

// checkToken returns an error for an ID token that would take much memory or time before its signature is known to be right.
func checkToken(raw string) error {
	parts := strings.Split(raw, ".")
	if base64.RawURLEncoding.DecodedLen(len(parts[len(parts)-1])) > maxSignature {
		return fmt.Errorf("its signature has more than %d bytes", maxSignature)
	}
	weight := 0
	for _, part := range parts {
		text, _ := base64.RawURLEncoding.DecodeString(part) // what is none is refused later
		if weight += nesting.Weight(text); weight > maxHeavy {
			return errors.New("it has too many values")
		}
	}
	return nil
}
