// Package program is what the program cortex is made of, besides what every program on package app has: for main, and for the tests that run it.
package program

import (
	"github.com/cortex-orchestrator/cortex/app"
	"github.com/cortex-orchestrator/cortex/bridge/agenthub"
	"github.com/cortex-orchestrator/cortex/bridge/rockbot"
	"github.com/cortex-orchestrator/cortex/bridge/rtfs"
	"github.com/cortex-orchestrator/cortex/mirror"
)

// Main runs the command line and exits.
func Main() {
	app.Main(app.Options{Roles: []app.Role{agenthub.Role(), rockbot.Role(), rtfs.Role(), mirror.Role()}})
}
