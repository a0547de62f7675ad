package vertex

import (
	"regexp"

	pb "cloud.google.com/go/aiplatform/apiv1beta1/aiplatformpb"

	"github.com/cortex-orchestrator/cortex/llm"
)

// newer are the reasons for the end of an answer that the protocol has got since the SDK was frozen.
var newer = map[pb.Candidate_FinishReason]string{
	10: "MODEL_ARMOR",
	11: "IMAGE_SAFETY",
	12: "IMAGE_PROHIBITED_CONTENT",
	13: "IMAGE_RECITATION",
	14: "IMAGE_OTHER",
	15: "UNEXPECTED_TOOL_CALL",
	16: "NO_IMAGE",
}

// nameOf returns the protocol's name for a reason; its number, if it has none yet.
func nameOf(reason pb.Candidate_FinishReason) string {
	if name, ok := newer[reason]; ok {
		return name
	}
	return reason.String()
}

// ends are the reasons that make an answer none, by the words in them: Google makes new ones of the old words.
var ends = []struct {
	reason *regexp.Regexp
	kind   error
}{
	{regexp.MustCompile(`(?i)SAFETY|RECITATION|LANGUAGE|BLOCKLIST|PROHIBITED|SPII|ARMOR`), llm.ErrRefused},
	{regexp.MustCompile(`(?i)MALFORMED|TOOL_CALL`), llm.ErrEmpty},
	{regexp.MustCompile(`(?i)^MAX_TOKENS$`), llm.ErrLength},
	{regexp.MustCompile(`(?i)^(OTHER|NO_IMAGE|IMAGE_OTHER|CONTINUATION)$`), llm.ErrTruncated},
	{regexp.MustCompile(`(?i)^MISSING_THOUGHT_SIGNATURE$`), llm.ErrBadRequest},
}

// ending returns what is wrong with an answer that ended for the reason, or nil. A reason that nobody knows yet is a good
// one.
func ending(reason string) error {
	for _, e := range ends {
		if e.reason.MatchString(reason) {
			return e.kind
		}
	}
	return nil
}
