package jsonl

import (
	"encoding/json"
	"fmt"

	"github.com/cortex-orchestrator/cortex/internal/nesting"
)

// MaxDepth bounds the nesting of a line to a program: readers of JSON fail at different depths, Python's at about a thousand.
const MaxDepth = 200

// DepthError is the error for a line that is nested too deeply.
type DepthError struct{}

// Error implements error.
func (DepthError) Error() string {
	return fmt.Sprintf("the data is nested deeper than %d levels", MaxDepth)
}

// Encode returns a line to a program, with its line feed. The error is a [DepthError], or that of [json.Marshal].
func Encode(line any) ([]byte, error) {
	b, err := json.Marshal(line)
	if err != nil {
		return nil, err
	}
	if nesting.Depth(b) > MaxDepth {
		return nil, DepthError{}
	}
	return append(b, '\n'), nil
}
