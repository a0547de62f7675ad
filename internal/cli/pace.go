package cli

import "github.com/cortex-orchestrator/cortex/client"

// forMany returns a client for servers by which many people ask, see [client.Pace]. Only those who have proven who they are have a limit: without keys, all programs
// of the machine are one person.
func (n *node) forMany() *client.Client {
	c := n.client()
	if n.sender != "" {
		c.Admit = n.pace.Admit
	}
	return c
}
