package kit_test

import (
	"context"
	"testing"
	"testing/synctest"
	"time"

	"github.com/cortex-orchestrator/cortex/bridge/kit"
)

// TestArriving checks that a call ends whose message does not arrive in time, and that one whose message does goes on.
func TestArriving(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		parent, stop := context.WithCancel(t.Context())
		silent, asked := kit.Arriving(parent), kit.Arriving(parent)
		time.Sleep(kit.ArriveTime - time.Nanosecond)
		kit.Arrived(asked)
		if silent.Err() != nil {
			t.Error("a call has ended before its time")
		}
		time.Sleep(time.Hour)
		if silent.Err() == nil || asked.Err() != nil {
			t.Errorf("the call without a message: %v, and the one with its message: %v", silent.Err(), asked.Err())
		}
		stop()
		synctest.Wait()
		if asked.Err() == nil {
			t.Error("a call goes on when its connection has ended")
		}
		kit.Arrived(t.Context()) // of no call
	})
}
