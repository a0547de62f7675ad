package conversation

import "github.com/cortex-orchestrator/cortex/prompt"

// Failure is an error in words for whoever waits for an answer.
type Failure string

func (f Failure) Error() string { return string(f) }

// maxExplained bounds what people are shown of an error, in characters.
const maxExplained = 500

// Explain returns err's text for showing on one line. It may have a stranger's words in it.
func Explain(err error) string { return prompt.Clean(err.Error(), maxExplained) }
