package cli

import (
	"context"
	"encoding/json"
	"fmt"
	"log/slog"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/cortex-orchestrator/cortex/cortex/jetstore"
	"github.com/cortex-orchestrator/cortex/transport/nats"
	"github.com/cortex-orchestrator/cortex/transport/nats/storecheck"
)

// storeDir is the folder of the embedded server's store.
func storeDir(data string) string { return filepath.Join(data, "nats") }

// storeHealth is what is known of the conversations in an embedded server's store.
type storeHealth struct {
	audits map[string]*jetstore.Audit // by account
	ended  map[string]jetstore.Audited
}

func newStoreHealth() *storeHealth { return &storeHealth{audits: map[string]*jetstore.Audit{}} }

// inspect is a [nats.Inspector].
func (h *storeHealth) inspect(account, stream string, since uint64) func(*storecheck.Record) {
	if stream != jetstore.Stream {
		return nil
	}
	a := jetstore.NewAudit(since)
	h.audits[account] = a
	return func(r *storecheck.Record) {
		if r.Gone {
			a.Gone(r.Seq)
		} else {
			a.Message(r.Seq, r.Subject, r.Header, r.Data)
		}
	}
}

// end ends the audits, and returns all of them as one.
func (h *storeHealth) end() jetstore.Audited {
	if h.ended == nil {
		h.ended = map[string]jetstore.Audited{}
		for account, a := range h.audits {
			found := a.End()
			for i := range found.Damaged {
				found.Damaged[i].Account = account
			}
			h.ended[account] = found
		}
		h.audits = nil
	}
	all := jetstore.Audited{Damaged: []jetstore.Damaged{}}
	for _, found := range h.ended {
		all.Conversations += found.Conversations
		all.Entries += found.Entries
		all.Lost += found.Lost
		all.Damaged = append(all.Damaged, found.Damaged...)
	}
	return all
}

// tell says what the check at the start has found in the conversations.
func (h *storeHealth) tell(ctx context.Context, log *slog.Logger, store *jetstore.Store) {
	all := h.end()
	if all.Lost > 0 {
		log.Error("entries of conversations are lost: see cortex doctor", "lost", all.Lost, "damaged", len(all.Damaged))
	}
	if store == nil {
		return
	}
	for _, d := range all.Damaged {
		store.NoteDamaged(ctx, d)
	}
}

// watch keeps what is known of damaged conversations where `cortex doctor` finds it, until ctx ends.
func (h *storeHealth) watch(ctx context.Context, server *nats.Server, store *jetstore.Store) {
	known := -1
	for ctx.Err() == nil {
		all := h.end()
		if store != nil {
			all.Damaged = store.Damaged()
		}
		if len(all.Damaged) != known {
			known = len(all.Damaged)
			if b, err := json.Marshal(all); err == nil {
				server.Note(b)
			}
		}
		_ = rest(ctx, time.Second)
	}
}

// jetstore returns Cortex's own store; nil when the conversations are in another one.
func (n *node) jetstore() *jetstore.Store {
	store, _ := n.store.(*jetstore.Store)
	return store
}

// damage says what of the store is damaged, a line for each kind, for who asks whether the node is ready.
func (n *node) damage() []string {
	var lines []string
	if store := n.jetstore(); store != nil {
		if damaged := len(store.Damaged()); damaged > 0 {
			lines = append(lines, fmt.Sprintf("damaged: %d of the conversations; `cortex doctor` names them", damaged))
		}
	}
	if n.health == nil {
		return lines
	}
	if _, err := n.server.Missing(); err != nil {
		lines = append(lines, "missing: "+err.Error())
	}
	if lost := n.health.end().Lost; lost > 0 {
		lines = append(lines, fmt.Sprintf("lost: %d entries of conversations; see `cortex doctor`", lost))
	}
	var streams []string
	for _, f := range n.server.Found() {
		if f.Level == storecheck.Lost && !slices.Contains(streams, f.Stream) {
			streams = append(streams, f.Stream)
		}
	}
	if len(streams) > 0 {
		lines = append(lines, fmt.Sprintf("damaged: what was found in %s at a start was set aside; see `cortex doctor`", strings.Join(streams, ", ")))
	}
	return lines
}

// whyBroken says what it means that the server has given up its store.
func whyBroken(err error) error {
	text := err.Error()
	if !strings.Contains(text, "corrupt") {
		return err
	}
	return fmt.Errorf("the store was damaged while the server had it open: start again, what is damaged is set aside then: %s", text[max(0, strings.Index(text, "JetStream")):])
}
