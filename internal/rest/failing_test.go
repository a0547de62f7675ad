package rest_test

import (
	"errors"
	"testing"
	"testing/synctest"
	"time"

	"github.com/cortex-orchestrator/cortex/internal/rest"
)

// What fails for long is told once, and again after it has succeeded.
func TestFailing(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		away := errors.New("away")
		var f rest.Failing
		for i, step := range []struct {
			after time.Duration
			err   error
			want  bool
		}{
			{0, nil, false},
			{0, away, false},
			{59 * time.Second, away, false},
			{time.Second, away, true},
			{time.Hour, away, false},
			{0, nil, false},
			{time.Hour, away, false},
			{time.Minute, away, true},
		} {
			time.Sleep(step.after) // by the bubble's clock
			if got := f.Tell(step.err, time.Minute); got != step.want {
				t.Errorf("step %d: Tell() = %v", i, got)
			}
		}
	})
}
