package repl

import (
	"fmt"
	"strings"

	"github.com/cortex-orchestrator/cortex/transport"
)

// blockQuote opens and closes a text of several lines.
const blockQuote = `"""`

// composer joins typed lines to messages: a line that ends with \ continues on the next one, and text between """ and """ is taken literally.
type composer struct {
	text  strings.Builder
	open  bool // the message is incomplete
	block bool // between """ and """
}

// add adds a line, and returns the message when it is complete. It drops a message that is too large, and returns an error.
func (c *composer) add(line string) (message string, done bool, err error) {
	if c.text.Len()+len(line) > transport.MaxText {
		c.reset()
		return "", false, fmt.Errorf("the message is over %d bytes and was dropped; use a file and a pipe, or say less", transport.MaxText)
	}
	if rest, ok := strings.CutPrefix(line, blockQuote); ok && !c.open {
		c.open, c.block = true, true
		if rest == "" {
			return "", false, nil
		}
		line = rest
	}
	more := false
	if c.block {
		line, more = strings.CutSuffix(line, blockQuote)
		more = !more
	} else {
		line, more = strings.CutSuffix(line, `\`)
	}
	c.text.WriteString(line)
	if more {
		c.text.WriteByte('\n')
		c.open = true
		return "", false, nil
	}
	message = c.text.String()
	if c.block {
		message = strings.TrimSuffix(message, "\n")
	}
	c.reset()
	return message, true, nil
}

func (c *composer) reset() { *c = composer{} }
