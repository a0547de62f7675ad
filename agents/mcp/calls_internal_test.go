package mcp

import (
	"bytes"
	"context"
	"errors"
	"log/slog"
	"strings"
	"testing"

	sdk "github.com/modelcontextprotocol/go-sdk/mcp"
)

// Questions that belong to no call are canceled, and fill no log.
func TestStrayQuestions(t *testing.T) {
	var log bytes.Buffer
	c := calls{log: slog.New(slog.NewTextHandler(&log, nil))}
	for range 100 {
		if r, err := c.elicit(t.Context(), &sdk.ElicitRequest{Params: &sdk.ElicitParams{Message: "Well?"}}); err != nil || r.Action != "cancel" {
			t.Fatalf("elicit = %v, %v", r, err)
		}
	}
	if n := strings.Count(log.String(), "\n"); n != 1 {
		t.Errorf("the log has %d lines, want 1:\n%.300s", n, log.String())
	}
}

// TestWithdrawnQuestion has a server withdraw its question: the call counts as one that may ask, so that no other one begins beside it.
func TestWithdrawnQuestion(t *testing.T) {
	c := &calls{log: slog.New(slog.DiscardHandler)}
	one := &call{token: "one", asked: make(chan *live, 1), done: make(chan struct{})}
	if err := c.enter(t.Context(), one); err != nil {
		t.Fatal(err)
	}
	ctx, withdraw := context.WithCancel(t.Context())
	withdraw()
	if got, err := c.elicit(ctx, &sdk.ElicitRequest{Params: &sdk.ElicitParams{Message: "sure?"}}); err != nil || got.Action != "cancel" {
		t.Errorf("a withdrawn question: %+v, %v", got, err)
	}
	if err := c.enter(ctx, &call{token: "other"}); !errors.Is(err, context.Canceled) {
		t.Errorf("another call begins beside it: %v", err)
	}
	c.leave(one)
	if err := c.enter(ctx, &call{token: "other"}); err != nil {
		t.Errorf("behind it: %v", err)
	}
}
