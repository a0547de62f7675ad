package agenthub

import (
	"errors"
	"log/slog"
	"time"

	"golang.org/x/time/rate"
	"google.golang.org/grpc/encoding"
	"google.golang.org/grpc/mem"

	"github.com/cortex-orchestrator/cortex/bridge/agenthub/hubpb"
	"github.com/cortex-orchestrator/cortex/internal/protoweight"
)

// light is the codec of a broker's client. In place of an event that would take too much memory it returns an empty one, which nobody heeds: an error
// would end the stream, and with it what others say.
type light struct {
	encoding.CodecV2
	log  *slog.Logger
	told *rate.Sometimes
}

func newLight(log *slog.Logger) *light {
	return &light{protoweight.NewCodec(maxHeavy, protoweight.ErrHeavy), log, &rate.Sometimes{First: 1, Interval: time.Minute}}
}

// Unmarshal implements [encoding.CodecV2].
func (c *light) Unmarshal(data mem.BufferSlice, v any) error {
	err := c.CodecV2.Unmarshal(data, v)
	if _, ok := v.(*hubpb.AgentEvent); ok && errors.Is(err, protoweight.ErrHeavy) {
		c.told.Do(func() {
			c.log.Warn("event of AgentHub's broker is left out: it has too many values", "bytes", data.Len())
		})
		return nil
	}
	return err
}
