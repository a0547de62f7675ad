package rockbot

import (
	"github.com/cortex-orchestrator/cortex/bridge/kit"
)

// space is the name space of the ids that are derived here.
var space = kit.NewSpace("2f1d5c0a-9b3e-5e6c-8a53-3f7f0b1c9d44")

// sender returns the sender that a caller is in Cortex. No agent of Cortex has such a name.
func sender(source string) string { return space.Sender("rockbot:", "source", source) }
