package mcp

import (
	"cmp"
	"context"
	"time"

	sdk "github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/cortex-orchestrator/cortex/client"
	"github.com/cortex-orchestrator/cortex/cortex/conversation"
	"github.com/cortex-orchestrator/cortex/cortex/storage"
)

// caller is who makes a call.
type caller struct {
	*client.Client        // asks in their name
	scope          string // within which the same words may be the same call
}

// callerOf returns who made a request.
func (s *Server) callerOf(extra *sdk.RequestExtra, session *sdk.ServerSession, about *sdk.Implementation) *caller {
	own := *s.cfg.Client
	if extra != nil && extra.TokenInfo != nil {
		own.User = extra.TokenInfo.UserID
	}
	c := &caller{Client: &own}
	if extra != nil && extra.Header != nil {
		c.scope = own.User + " "
		if id := session.ID(); id != "" {
			c.scope += id
		} else if about != nil { // without sessions: programs of one name
			c.scope += "of " + about.Name
		}
	}
	return c
}

// user returns the sender of the caller's messages.
func (c *caller) user() string {
	return cmp.Or(c.User, "user")
}

// loadTime bounds how long the store and the transport may take when a call does not wait for an answer: with Config.Wait, less than a minute.
const loadTime = 10 * time.Second

// load returns a conversation, or nil if it does not exist or is not the caller's.
func (s *Server) load(ctx context.Context, c *caller, contextID string) (*conversation.Conversation, error) {
	ctx, end := context.WithTimeout(ctx, loadTime)
	defer end()
	conv, err := storage.Load(storage.WithRequester(ctx, c.user()), s.cfg.Store, c.Tenant, contextID)
	if err != nil || conv.Seq == 0 || !conv.Admits(c.user()) {
		return nil, err
	}
	return conv, nil
}
