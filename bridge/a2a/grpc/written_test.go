package grpc_test

import (
	"context"
	"fmt"
	"strings"
	"testing"

	"github.com/a2aproject/a2a-go/v2/a2a"
	pb "github.com/a2aproject/a2a-go/v2/a2apb/v1"
	sdk "google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/credentials/insecure"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/encoding/protowire"

	bridge "github.com/cortex-orchestrator/cortex/bridge/a2a"
)

// many returns the card of an agent with so many skills that the extended card is more than what a connection takes before its client reads.
func many(context.Context) ([]*a2a.AgentCard, error) {
	card := &a2a.AgentCard{Name: "many"}
	for i := range 500 {
		card.Skills = append(card.Skills, a2a.AgentSkill{ID: fmt.Sprint(i), Name: "a skill", Description: strings.Repeat("x", 1000)})
	}
	return []*a2a.AgentCard{card}, nil
}

// TestAnswersAreWritten has clients make large calls, and not read the answers: such calls take the room that their user has, until they are read, canceled,
// or their connection is gone.
func TestAnswersAreWritten(t *testing.T) {
	const calls = 34 // more than a user may have
	request := &pb.GetExtendedAgentCardRequest{}
	unknown := protowire.AppendTag(nil, 1000, protowire.BytesType)
	request.ProtoReflect().SetUnknown(protowire.AppendBytes(unknown, make([]byte, bridge.MaxBody-64)))
	for name, leave := range map[string]func(*sdk.ClientConn, context.CancelFunc, []sdk.ClientStream) error{
		"read": func(_ *sdk.ClientConn, _ context.CancelFunc, all []sdk.ClientStream) error {
			for _, s := range all {
				if err := s.RecvMsg(&pb.AgentCard{}); err != nil {
					return err
				}
			}
			return nil
		},
		"canceled":      func(_ *sdk.ClientConn, stop context.CancelFunc, _ []sdk.ClientStream) error { stop(); return nil },
		"not connected": func(c *sdk.ClientConn, _ context.CancelFunc, _ []sdk.ClientStream) error { return c.Close() },
	} {
		t.Run(name, func(t *testing.T) {
			address := serveAgents(t, 8, many)
			lazy, err := sdk.NewClient(address, sdk.WithTransportCredentials(insecure.NewCredentials()), sdk.WithStaticStreamWindowSize(1<<16), sdk.WithStaticConnWindowSize(1<<16))
			if err != nil {
				t.Fatal(err)
			}
			t.Cleanup(func() { _ = lazy.Close() })
			ctx, stop := context.WithCancel(as(t, "good"))
			var answered []sdk.ClientStream
			refused := 0
			for range calls {
				s, err := lazy.NewStream(ctx, &sdk.StreamDesc{}, pb.A2AService_GetExtendedAgentCard_FullMethodName)
				if err == nil {
					err = s.SendMsg(request)
				}
				if err == nil {
					err = s.CloseSend()
				}
				if err != nil {
					t.Fatal(err)
				}
				head, err := s.Header() // comes before the answer
				if err != nil {
					t.Fatal(err)
				}
				if len(head.Get("content-type")) > 0 {
					answered = append(answered, s)
				} else {
					refused++
				}
			}
			other, asks := dial(t, address), as(t, "good")
			big := func() codes.Code {
				_, err := pb.NewA2AServiceClient(other).GetExtendedAgentCard(asks, request)
				return status.Code(err)
			}
			if refused == 0 || len(answered) < 2 || big() != codes.ResourceExhausted {
				t.Fatalf("%d calls are answered, and %d refused; another one: %v", len(answered), refused, big())
			}
			if err := leave(lazy, stop, answered); err != nil {
				t.Fatal(err)
			}
			for big() != codes.OK {
				if asks.Err() != nil {
					t.Fatalf("when they are %s, another call: %v", name, big())
				}
			}
		})
	}
}
