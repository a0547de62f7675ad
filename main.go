// Cortex is a self-hosted orchestrator for LLM agents: `cortex chat` starts everything, `cortex agent` joins a program of
// yours, `cortex help` shows the rest.
package main

import (
	"context"
	"os"

	"github.com/cortex-orchestrator/cortex/internal/cli"
)

func main() {
	os.Exit(cli.Run(context.Background(), os.Args[1:], os.Stdin, os.Stdout, os.Stderr))
}
