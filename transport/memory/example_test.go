package memory_test

import (
	"context"
	"fmt"

	"github.com/a2aproject/a2a-go/v2/a2a"

	"github.com/cortex-orchestrator/cortex/transport"
	"github.com/cortex-orchestrator/cortex/transport/memory"
)

// An inbox keeps an event until a handler has returned nil for it.
func Example() {
	bus := memory.New(nil)
	defer bus.Close()
	ctx, cancel := context.WithCancel(context.Background())
	defer cancel()

	// Nobody listens yet: the event waits.
	inbox := transport.Inbox("", "echo")
	err := bus.Publish(ctx, inbox, &transport.Event{
		ID: "event-1", From: transport.Cortex, ContextID: "conversation-1",
		Payload: a2a.NewMessage(a2a.MessageRoleUser, a2a.NewTextPart("say it again")),
	})
	if err != nil {
		fmt.Println(err)
		return
	}

	sub, err := bus.Subscribe(ctx, inbox, nil)
	if err != nil {
		fmt.Println(err)
		return
	}
	err = sub.Serve(ctx, func(_ context.Context, e *transport.Event) error {
		m := e.Payload.(*a2a.Message)
		fmt.Printf("delivery %d from %s: %s\n", e.Delivery, e.From, transport.Text(m.Parts))
		if e.Delivery == 1 {
			return fmt.Errorf("busy, try again")
		}
		cancel()
		return nil
	})
	fmt.Println(err)
	// Output:
	// delivery 1 from cortex: say it again
	// delivery 2 from cortex: say it again
	// context canceled
}
