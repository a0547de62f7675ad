// Cortex is a self-hosted orchestrator for LLM agents: `cortex chat` starts everything, `cortex agent` joins a program of
// yours, `cortex help` shows the rest.
package main

import "github.com/cortex-orchestrator/cortex/internal/program"

func main() { program.Main() }
