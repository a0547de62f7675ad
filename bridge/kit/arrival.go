package kit

import (
	"context"
	"errors"
	"time"
)

// ArriveTime is how long the message of a call may take to arrive, as long as a request of HTTP may take.
const ArriveTime = 30 * time.Second

var errLate = errors.New("the message of the call did not arrive in time")

type arrivalKey struct{}

// Arriving returns the context of a call of gRPC that has begun, and whose message is awaited. It ends after ArriveTime, and with it the call, unless
// Arrived is called before: a call that never has a message would keep its place for ever. It is for the tap of a server.
func Arriving(ctx context.Context) context.Context {
	ctx, cancel := context.WithCancelCause(ctx)
	late := time.AfterFunc(ArriveTime, func() { cancel(errLate) })
	context.AfterFunc(ctx, func() { late.Stop() })
	return context.WithValue(ctx, arrivalKey{}, late)
}

// Arrived says that the message of a call has arrived, whose context Arriving has made.
func Arrived(ctx context.Context) {
	if late, ok := ctx.Value(arrivalKey{}).(*time.Timer); ok {
		late.Stop()
	}
	if one, ok := ctx.Value(placeKey{}).(*place); ok {
		one.in.mu.Lock()
		defer one.in.mu.Unlock()
		one.arriving = false
	}
}
