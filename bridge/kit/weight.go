package kit

import (
	"encoding/json"
	"math"

	"github.com/a2aproject/a2a-go/v2/a2a"

	"github.com/cortex-orchestrator/cortex/internal/nesting"
)

// MaxCards bounds what the cards of all agents of a bridge take in memory, in bytes: strangers make them.
const MaxCards = 256 << 20

// Weight returns what a card takes in memory, in bytes, as far as that can be estimated.
func Weight(c *a2a.AgentCard) int {
	b, err := json.Marshal(c)
	if err != nil {
		return math.MaxInt32 // it is announced to nobody
	}
	return nesting.Weight(b)
}
