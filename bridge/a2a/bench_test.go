package a2a_test

import (
	"testing"

	"github.com/cortex-orchestrator/cortex/client"
	"github.com/cortex-orchestrator/cortex/transport"
)

// BenchmarkSend compares a delegated turn by way of the A2A server with the same turn without it.
func BenchmarkSend(b *testing.B) {
	w := newWorld(b, false)
	url := w.serve(w.server(), nil)
	b.Run("client", func(b *testing.B) {
		c := &client.Client{Transport: w.bus, Log: client.ReadLog(w.store, "")}
		for b.Loop() {
			m := client.Text(c.NextID(), "hello")
			m.To = &transport.Direct{Agent: "worker"}
			for _, err := range c.Ask(b.Context(), m) {
				must(b, err)
			}
		}
	})
	for _, binding := range bindings {
		c := w.join(binding, url+"/agents/worker")
		b.Run(string(binding), func(b *testing.B) {
			for b.Loop() {
				_, err := c.SendMessage(b.Context(), said("hello"))
				must(b, err)
			}
		})
	}
}
