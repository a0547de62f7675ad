//go:build vertex

package cli_test

import (
	"testing"

	"github.com/cortex-orchestrator/cortex/llm/vertex/vertextest"
)

// TestVertex runs a turn over both protocols of the SDK that only this build has.
func TestVertex(t *testing.T) {
	t.Run("rest", func(t *testing.T) {
		takesATurn(t, "vertex", "transport: rest, project: p, ", vertextest.ServeREST(t, orchestrate, false).Addr)
	})
	t.Run("grpc", func(t *testing.T) {
		takesATurn(t, "vertex", "transport: grpc, project: p, ", "http://"+vertextest.ServeGRPC(t, orchestrate, false).Addr)
	})
}
