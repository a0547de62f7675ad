package rockbot

import (
	"github.com/cortex-orchestrator/cortex/bridge/kit"
	"github.com/cortex-orchestrator/cortex/transport"
)

// space is the name space of the ids that are derived here.
var space = kit.NewSpace("2f1d5c0a-9b3e-5e6c-8a53-3f7f0b1c9d44")

// sender returns the sender that a caller is in Cortex. No agent of Cortex has such a name.
func sender(source string) string {
	const prefix = "rockbot:"
	if transport.CheckID(prefix+source) != nil {
		return prefix + space.ID("source", source)
	}
	return prefix + source
}
