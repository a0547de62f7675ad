// Package hubtest plays the programs of AgentHub on the wire, for tests: they behave as the originals do, also where that is not wise.
package hubtest

import (
	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials/insecure"

	"github.com/cortex-orchestrator/cortex/bridge/agenthub/hubpb"
)

// Dial connects to a hub as the programs do: without keys, and without waiting. close ends the connection.
func Dial(address string) (hub hubpb.AgentHubClient, closeConn func(), err error) {
	conn, err := grpc.NewClient(address, grpc.WithTransportCredentials(insecure.NewCredentials()))
	if err != nil {
		return nil, nil, err
	}
	return hubpb.NewAgentHubClient(conn), func() { _ = conn.Close() }, nil
}
