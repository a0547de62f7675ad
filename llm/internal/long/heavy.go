package long

import "github.com/cortex-orchestrator/cortex/internal/nesting"

// heavy is what a long piece may take when it is decoded, in bytes, as far as that can be estimated: more than its own length by much only if it is no answer.
const heavy = 16 << 20

// Heavy reports whether a piece takes too much when it is decoded, though its length is allowed: a list of empty objects takes a hundred times that.
func Heavy(piece []byte) bool { return len(piece) > small && nesting.Weight(piece) > heavy }
