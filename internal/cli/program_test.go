package cli

import (
	"context"
	"io"

	"github.com/cortex-orchestrator/cortex/internal/home/nats"
)

// own is the home of the tests: that of Cortex.
var own = nats.Home{}

// self is Cortex itself, without additions.
var self = &Program{Home: own}

// Run runs one command line of self.
func Run(ctx context.Context, args []string, stdin io.Reader, stdout, stderr io.Writer) int {
	return self.Run(ctx, args, stdin, stdout, stderr)
}
