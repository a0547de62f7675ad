package long

import (
	"context"
	"io"
	"runtime"

	"github.com/cortex-orchestrator/cortex/internal/pace"
)

// answers is the pace at which answers are read, in bytes. Decoding 4 MB takes an eighth of a second or so of a processor. A model that is fast writes 30 KB of
// frames a second, and hardly any decision is longer than what does not count.
var answers = pace.New(runtime.GOMAXPROCS(0)*4<<20, 256<<10)

// Body returns the body of an answer, which is read at a pace, all long ones of this process together: reading what a broken endpoint sends to a hundred
// calls at the same time would take the processors from all else. ctx is that of the call.
func Body(ctx context.Context, body io.ReadCloser) io.ReadCloser { return answers.Body(ctx, body) }
