package calc

import (
	"regexp"
	"strconv"
	"strings"
)

// maxParts bounds the requests in one text.
const maxParts = 10

var (
	joint = regexp.MustCompile(`(?i)[;?]\s*|,?\s+(?:and|then)\s+(?:then\s+)?|,\s+`)
	asks  = regexp.MustCompile(`(?i)^(?:what|who|whom|whose|when|where|why|which|how|is|are|can|could|tell)\b`)
)

// parts answers several requests in one text, each on a line, and names those that were not understood. It reports false when that is not worth it:
// a single one is understood, and what is around it are words such as "and return the result".
func parts(request string) (string, bool) {
	all := joint.Split(request, maxParts+1)
	if len(all) < 2 || len(all) > maxParts || call.MatchString(request) || rephrase(request) != request {
		return "", false // its commas may be those of a list
	}
	var lines, strange []string
	asked := false
	for _, part := range all {
		part = strings.Trim(part, " .,!")
		switch {
		case part == "":
		case Understands(part) != "":
			line, err := Answer(part)
			if err != nil {
				line = shorten(part) + ": " + err.Error()
			}
			lines = append(lines, line)
		default:
			asked = asked || asks.MatchString(part)
			strange = append(strange, strconv.Quote(shorten(part)))
		}
	}
	if len(lines) == 0 || len(lines) < 2 && !asked {
		return "", false
	}
	if len(strange) > 0 {
		lines = append(lines, "I do not understand "+strings.Join(strange, " or ")+".")
	}
	return strings.Join(lines, "\n"), true
}
