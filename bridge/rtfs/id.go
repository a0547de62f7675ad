package rtfs

import "github.com/cortex-orchestrator/cortex/bridge/kit"

// space is the name space of the ids that are derived here.
var space = kit.NewSpace("8f0b4c0e-5a0d-5f39-9b7c-2f6a1c7d3e15")
