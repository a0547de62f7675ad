package mcp

import (
	"bytes"
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
