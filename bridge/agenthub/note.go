package agenthub

import (
	"context"
	"encoding/json"
	"fmt"
	"strings"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"github.com/cortex-orchestrator/cortex/cortex/storage"
)

// A chat is noted before its peer is told that it was accepted, and the note is deleted just before the answer is sent. So a restart answers what was
// accepted, and answers nothing twice.

// notes returns where chats are noted; nil if the store cannot do that, and chats end with the process.
func (cs *chats) notes() storage.Notes {
	n, _ := cs.b.at.Store.(storage.Notes)
	return n
}

func (c *chat) key() string { return c.Turn.ContextID + "." + c.Turn.MessageID }

// keep notes a chat.
func (cs *chats) keep(c *chat) error {
	notes := cs.notes()
	if notes == nil {
		return nil
	}
	ctx := cs.b.ctx
	value, err := json.Marshal(c)
	if err != nil {
		return err
	}
	old, err := notes.Note(ctx, cs.b.at.Tenant, storage.NoteReply, c.key())
	if err == nil {
		_, err = notes.PutNote(ctx, cs.b.at.Tenant, storage.NoteReply, storage.Note{Key: c.key(), Value: value, Version: old.Version})
	}
	if err != nil {
		return status.Error(codes.Unavailable, fmt.Sprintf("note the message: %v", err))
	}
	return nil
}

// drop deletes the note of a chat.
func (cs *chats) drop(c *chat) {
	notes := cs.notes()
	if notes == nil {
		return
	}
	if err := notes.DeleteNote(context.WithoutCancel(cs.b.ctx), cs.b.at.Tenant, storage.NoteReply, c.key(), 0); err != nil {
		cs.b.at.Logger.Warn("a message may be answered again after a restart", "peer", c.Peer, "err", err)
	}
}

// resume waits for the answers to the chats that an earlier process has accepted.
func (cs *chats) resume(ctx context.Context) error {
	notes := cs.notes()
	if notes == nil {
		return nil
	}
	unread := 0
	for n, err := range notes.Notes(ctx, cs.b.at.Tenant, storage.NoteReply) {
		if err != nil {
			return fmt.Errorf("read the notes of messages: %w", err)
		}
		c := &chat{accepted: make(chan struct{})}
		if json.Unmarshal(n.Value, c) != nil || c.key() != n.Key {
			if strings.HasPrefix(n.Key, ownContext) {
				unread++
			}
			continue
		}
		cs.accept(c, nil)
		if is, first, err := cs.enter(c); err == nil && first {
			cs.b.wg.Go(func() { cs.run(is, cs.watch(is)) })
		}
	}
	if unread > 0 {
		cs.b.at.Logger.Warn("notes of AgentHub's messages cannot be read: their peers get no answers unless they send them again", "n", unread)
	}
	return nil
}
