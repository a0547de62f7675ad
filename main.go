// Cortex is a self-hosted orchestrator for LLM agents: `cortex chat` starts everything, `cortex agent` joins a program of
// yours, `cortex help` shows the rest.
package main

import (
	"github.com/cortex-orchestrator/cortex/app"
	"github.com/cortex-orchestrator/cortex/bridge/agenthub"
	"github.com/cortex-orchestrator/cortex/bridge/rockbot"
	"github.com/cortex-orchestrator/cortex/bridge/rtfs"
	"github.com/cortex-orchestrator/cortex/mirror"
)

func main() {
	app.Main(app.Options{Roles: []app.Role{agenthub.Role(), rockbot.Role(), rtfs.Role(), mirror.Role()}})
}
