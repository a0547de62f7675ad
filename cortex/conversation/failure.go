package conversation

import "github.com/cortex-orchestrator/cortex/prompt"

// Failure is an error whose text is meant for the person who waits for an answer.
type Failure string

func (f Failure) Error() string { return string(f) }

// maxExplained bounds what people see of an error, in characters.
const maxExplained = 500

// Explain returns err's text on one line. The text may contain untrusted words.
func Explain(err error) string { return prompt.Clean(err.Error(), maxExplained) }
