package view

import (
	"context"
	"errors"
	"strings"
	"time"

	"golang.org/x/sync/errgroup"

	"github.com/cortex-orchestrator/cortex/cortex/conversation"
	"github.com/cortex-orchestrator/cortex/cortex/storage"
	"github.com/cortex-orchestrator/cortex/llm"
)

func Conversations(ctx context.Context, r *Reader, most int) (list []storage.ContextInfo, more bool, err error) {
	for c, err := range r.Store.Contexts(ctx, r.Tenant) {
		if err != nil {
			return nil, false, err
		}
		if len(list) == most {
			return list, true, nil
		}
		list = append(list, c)
	}
	return list, false, nil
}

type ConversationJSON struct {
	ContextID string    `json:"contextId"`
	Title     string    `json:"title"`
	Updated   time.Time `json:"updated"`
	Turns     int       `json:"turns"`
	Entries   int       `json:"entries"` // length of its log
	Usage     llm.Usage `json:"usage"`
	Owner     string    `json:"owner"`
	Shared    []string  `json:"sharedWith"`
	Damaged   bool      `json:"damaged,omitempty"` // turns, usage and owner are unknown
}

// Details are the parts of a list's row that come from the outline of a conversation, not from its log.
type Details struct {
	Turns   int
	Usage   llm.Usage // spent on it
	Owner   string
	Shared  []string
	Damaged bool // nothing else is known
}

// Whose formats the owner of a conversation and those it is shared with, for a list.
func (d *Details) Whose() string {
	if d.Damaged {
		return "?"
	}
	if len(d.Shared) == 0 {
		return d.Owner
	}
	return d.Owner + ", shared with " + strings.Join(d.Shared, ", ")
}

// detailsAhead bounds the conversations that are loaded at the same time.
const detailsAhead = 4

// DetailsOf returns the details of each conversation. It loads conversations whose outlines lack them, and stores new outlines where it may.
func DetailsOf(ctx context.Context, r *Reader, list []storage.ContextInfo) (map[string]*Details, error) {
	all := make(map[string]*Details, len(list))
	for _, s := range list {
		all[s.ContextID] = &Details{}
	}
	g, ctx := errgroup.WithContext(ctx)
	g.SetLimit(detailsAhead)
	for _, s := range list {
		d := all[s.ContextID]
		if o := s.Outline; o.Whole() {
			*d = Details{Turns: o.Turns, Usage: o.Usage, Owner: o.Owner, Shared: o.Shared}
			continue
		}
		g.Go(func() error {
			conv, err := storage.Load(ctx, r.Store, r.Tenant, s.ContextID)
			if errors.Is(err, conversation.ErrDamaged) {
				d.Damaged = true
				return nil
			}
			if err != nil {
				return err
			}
			*d = Details{Turns: conv.Begun, Usage: conv.Usage, Owner: conv.Owner, Shared: conv.Shared}
			if kept, ok := r.Store.(storage.Outlines); ok && conv.Version == s.Version {
				_ = kept.PutOutline(ctx, r.Tenant, s.ContextID, storage.OutlineOf(conv, s.Title, s.Updated)) // outlines are a cache: an error does no harm
			}
			return nil
		})
	}
	return all, g.Wait()
}

func ConversationsJSON(list []storage.ContextInfo, known map[string]*Details) []ConversationJSON {
	out := make([]ConversationJSON, len(list))
	for i, s := range list {
		d := known[s.ContextID]
		out[i] = ConversationJSON{s.ContextID, s.Title, s.Updated, d.Turns, s.Entries, d.Usage, d.Owner, append([]string{}, d.Shared...), d.Damaged}
	}
	return out
}
