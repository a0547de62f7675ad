package grpc

import (
	"errors"

	"google.golang.org/grpc/encoding"

	"github.com/cortex-orchestrator/cortex/bridge/kit"
	"github.com/cortex-orchestrator/cortex/internal/protoweight"
)

// maxHeavy bounds what a decoded message takes in memory, approximately, in bytes.
const maxHeavy = 16 << 20

// newCodec returns the codec of the server: it refuses messages that would take too much memory, before it decodes them, and tells when answers are
// written.
func newCodec() encoding.CodecV2 {
	return kit.Telling{CodecV2: protoweight.NewCodec(maxHeavy, errors.New("the message has too many values: send them as a file"))}
}
