package cli

import (
	"context"
	"io"

	"github.com/cortex-orchestrator/cortex/internal/home/nats"
)

// own is the home of the tests, which is Cortex's own.
var own = nats.Home{}

// self is Cortex itself.
var self = &Program{Home: own}

// Run runs one command line of Cortex itself.
func Run(ctx context.Context, args []string, stdin io.Reader, stdout, stderr io.Writer) int {
	return self.Run(ctx, args, stdin, stdout, stderr)
}
