package repl

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"testing"
	"testing/synctest"
	"time"

	"github.com/a2aproject/a2a-go/v2/a2a"

	"github.com/cortex-orchestrator/cortex/client"
	"github.com/cortex-orchestrator/cortex/client/clienttest"
	"github.com/cortex-orchestrator/cortex/transport"
	"github.com/cortex-orchestrator/cortex/transport/memory"
)

// awayFor is a transport that is unavailable for the first calls that a message needs. Some messages are stored nevertheless.
type awayFor struct {
	transport.Transport
	watching, sending int // calls that fail
	taken             bool
	err               error
	ids               []string
}

func (a *awayFor) Subscribe(ctx context.Context, t transport.Topic, o *transport.SubscribeOptions) (transport.Subscription, error) {
	if t.Kind == transport.KindLive && a.watching > 0 {
		a.watching--
		return nil, a.err
	}
	return a.Transport.Subscribe(ctx, t, o)
}

func (a *awayFor) Publish(ctx context.Context, t transport.Topic, e *transport.Event) error {
	if _, ok := transport.Request(e); !ok {
		return a.Transport.Publish(ctx, t, e)
	}
	a.ids = append(a.ids, e.ID)
	if a.sending == 0 {
		return a.Transport.Publish(ctx, t, e)
	}
	a.sending--
	if a.taken {
		if err := a.Transport.Publish(ctx, t, e); err != nil {
			return err
		}
	}
	return a.err
}

// TestAskTriesAgain makes Cortex unavailable between the connection and the question: the question is sent when it is back, once, and given up after
// a while.
func TestAskTriesAgain(t *testing.T) {
	away := fmt.Errorf("%w: killed", transport.ErrUnavailable)
	for name, test := range map[string]struct {
		awayFor
		tries int
		want  error
	}{
		"watching":        {awayFor{watching: 3, err: away}, 1, nil},
		"sending":         {awayFor{sending: 3, err: away}, 4, nil},
		"taken":           {awayFor{sending: 3, taken: true, err: away}, 4, nil},
		"for good":        {awayFor{sending: 1000, err: away}, 61, transport.ErrUnavailable},
		"full":            {awayFor{sending: 1, err: transport.ErrFull}, 1, transport.ErrFull},
		"not allowed":     {awayFor{sending: 1, err: transport.ErrForbidden}, 1, transport.ErrForbidden},
		"canceled":        {awayFor{sending: 1000, err: away}, 5, context.DeadlineExceeded},
		"as it should be": {awayFor{}, 1, nil},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				bus := memory.New(nil)
				defer bus.Close()
				away := &test.awayFor
				away.Transport = bus
				heard := 0
				script := &clienttest.Script{Bus: bus}
				stop := script.Serve(func(e *transport.Event) {
					if _, ok := transport.Request(e); ok {
						heard++
						script.Answer(e, "hello to you")
					}
				})
				defer stop()
				ctx := t.Context()
				if name == "canceled" {
					var cancel context.CancelFunc
					ctx, cancel = context.WithTimeout(ctx, 4500*time.Millisecond)
					defer cancel()
				}
				var out bytes.Buffer
				asker := &client.Client{Transport: away, Log: func(context.Context, client.Turn) (*a2a.Message, bool, error) {
					return a2a.NewMessage(a2a.MessageRoleAgent, a2a.NewTextPart("hello to you")), true, nil
				}}
				err := Ask(ctx, Config{Client: asker, Stdout: &out, Stderr: &bytes.Buffer{}}, "hello")
				if !errors.Is(err, test.want) || test.want == nil && (err != nil || out.String() != "hello to you\n" || heard != 1) {
					t.Errorf("Ask = %v, %q written, asked %d times; want %v", err, out.String(), heard, test.want)
				}
				for _, id := range away.ids {
					if id != away.ids[0] {
						t.Errorf("sent as %q, want one id", away.ids)
					}
				}
				if len(away.ids) != test.tries {
					t.Errorf("tried %d times, want %d", len(away.ids), test.tries)
				}
			})
		})
	}
}
