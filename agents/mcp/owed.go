package mcp

import (
	"context"
	"fmt"
	"sync/atomic"

	"github.com/modelcontextprotocol/go-sdk/jsonrpc"
	sdk "github.com/modelcontextprotocol/go-sdk/mcp"
	"golang.org/x/time/rate"
)

// maxOwed bounds the requests of a server that are not answered yet. The SDK keeps any number of them, and a server need not read the answers. A program
// with more of them is ended; a server at an address gets no more answers until it has taken some.
const maxOwed = 256

var errOwed = fmt.Errorf("the server asks more than %d things at a time", maxOwed)

// owing is a transport whose connection ends when the server has more than maxOwed requests open, or sends a message that is too heavy.
type owing struct{ sdk.Transport }

// Connect implements [sdk.Transport].
func (o owing) Connect(ctx context.Context) (sdk.Connection, error) {
	c, err := o.Transport.Connect(ctx)
	if err != nil {
		return nil, err
	}
	return &owed{Connection: c, pace: newPace()}, nil
}

// owed is a connection that counts the answers that are owed to the server.
type owed struct {
	sdk.Connection
	n    atomic.Int32
	pace *rate.Limiter
}

// Read implements [sdk.Connection].
func (o *owed) Read(ctx context.Context) (jsonrpc.Message, error) {
	m, err := o.Connection.Read(ctx)
	if err == nil {
		err = keepPace(ctx, o.pace, 1)
	}
	if err == nil && isHeavy(m) {
		return nil, errHeavy
	}
	if r, ok := m.(*jsonrpc.Request); ok && err == nil && r.IsCall() && o.n.Add(1) > maxOwed {
		return nil, errOwed
	}
	return m, err
}

// Write implements [sdk.Connection].
func (o *owed) Write(ctx context.Context, m jsonrpc.Message) error {
	if _, ok := m.(*jsonrpc.Response); ok {
		defer o.n.Add(-1)
	}
	return o.Connection.Write(ctx, m)
}
