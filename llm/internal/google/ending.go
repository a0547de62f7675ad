package google

import (
	"regexp"

	"github.com/cortex-orchestrator/cortex/llm"
)

// endings are the finish reasons that mean a failure, by words in them: Google composes new reasons of the same words.
var endings = []struct {
	reason *regexp.Regexp
	kind   error
	words  string
}{
	{regexp.MustCompile(`(?i)SAFETY|RECITATION|LANGUAGE|BLOCKLIST|PROHIBITED|SPII|ARMOR`), llm.ErrRefused, "a filter ended the answer"},
	{regexp.MustCompile(`(?i)MALFORMED|TOOL_CALL`), llm.ErrEmpty, "what the model wrote cannot be read"},
	{regexp.MustCompile(`(?i)^MAX_TOKENS$`), llm.ErrLength, "the token limit ended the answer"},
	{regexp.MustCompile(`(?i)^(OTHER|NO_IMAGE|IMAGE_OTHER)$`), llm.ErrTruncated, "the endpoint ended the answer"},
	{regexp.MustCompile(`(?i)^CONTINUATION$`), llm.ErrTruncated, "the endpoint wants to be asked for the rest"},
	{regexp.MustCompile(`(?i)^MISSING_THOUGHT_SIGNATURE$`), llm.ErrBadRequest, "the endpoint wants the model's signatures back"},
}

// Ending returns what is wrong with an answer that ended for the reason, or nil. Unknown reasons count as success.
func Ending(reason string) (words string, kind error) {
	for _, e := range endings {
		if e.reason.MatchString(reason) {
			return e.words, e.kind
		}
	}
	return "", nil
}
