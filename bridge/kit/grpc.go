package kit

import (
	"context"
	"errors"
	"net"
	"time"

	"google.golang.org/grpc"
)

// stopTime is how long the calls that run have when ServeGRPC ends.
const stopTime = 2 * time.Second

// ServeGRPC serves on a listener until ctx ends, and then lets calls end that run. It returns nil then, and else why it has ended before.
func ServeGRPC(ctx context.Context, s *grpc.Server, on net.Listener) error {
	done := make(chan error, 1)
	go func() { done <- s.Serve(on) }()
	select {
	case err := <-done:
		return err
	case <-ctx.Done():
	}
	hard := time.AfterFunc(stopTime, s.Stop)
	defer hard.Stop()
	s.GracefulStop()
	if err := <-done; err != nil && !errors.Is(err, grpc.ErrServerStopped) {
		return err
	}
	return nil
}
