package a2a_test

import (
	"context"
	"testing"

	"github.com/a2aproject/a2a-go/v2/a2a"
	"github.com/a2aproject/a2a-go/v2/a2aclient"
	"github.com/a2aproject/a2a-go/v2/a2aclient/agentcard"
)

func hello(ctx context.Context, address string) (a2a.SendMessageResult, error) {
	card, err := agentcard.DefaultResolver.Resolve(ctx, address)
	if err != nil {
		return nil, err
	}
	c, err := a2aclient.NewFromCard(ctx, card)
	if err != nil {
		return nil, err
	}
	return c.SendMessage(ctx, &a2a.SendMessageRequest{Message: a2a.NewMessage(a2a.MessageRoleUser, a2a.NewTextPart("hello"))})
}

// TestReadme runs the lines of the README.
func TestReadme(t *testing.T) {
	w := newWorld(t, false)
	got, err := hello(t.Context(), w.serve(w.server(), nil))
	must(t, err)
	if task, ok := got.(*a2a.Task); !ok || answer(task) != "done: hello" {
		t.Errorf("%+v", got)
	}
}
