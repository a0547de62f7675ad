package torture

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"strconv"
	"time"

	"github.com/a2aproject/a2a-go/v2/a2a"

	"github.com/cortex-orchestrator/cortex/cortex/conversation"
	"github.com/cortex-orchestrator/cortex/cortex/storage"
	"github.com/cortex-orchestrator/cortex/internal/rest"
	"github.com/cortex-orchestrator/cortex/transport"
)

// seedUser is the sender of messages from before the run.
const seedUser = "user:seed"

// lengthen writes entries to the log of a conversation, so that it is long from the beginning: turns that were answered at once.
func lengthen(ctx context.Context, store storage.Store, contextID string, entries int) error {
	after := conversation.Version(0)
	for n := 1; n <= entries; n++ {
		id := "seed-" + strconv.Itoa(n)
		e := &conversation.Entry{
			Seq: uint64(n), Time: time.Now(), Turn: id,
			Cause: &transport.Event{
				ID: id, Time: time.Now(), From: seedUser, To: transport.Cortex, ContextID: contextID,
				Payload: &a2a.Message{ID: id, ContextID: contextID, Role: a2a.MessageRoleUser, Parts: a2a.ContentParts{a2a.NewTextPart("what is the weather of day " + strconv.Itoa(n))}},
			},
		}
		answer := fmt.Appendf(nil, `{"decision":{"kind":"respond","say":"The weather of day %d was as it is."}}`, n)
		if err := json.Unmarshal(answer, e); err != nil {
			return err
		}
		var err error
		if after, err = add(ctx, store, contextID, after, e); err != nil {
			return fmt.Errorf("make %s long: %w", contextID, err)
		}
	}
	return nil
}

// add appends e as the only writer: a conflict means that it is stored already, or that the server has just become the leader and is still catching
// up.
func add(ctx context.Context, store storage.Store, contextID string, after conversation.Version, e *conversation.Entry) (conversation.Version, error) {
	for tries := 1; ; tries++ {
		v, err := store.Append(ctx, "", contextID, after, e)
		if !errors.Is(err, storage.ErrConflict) || tries == 10 {
			return v, err
		}
		for known, lerr := range store.Load(ctx, "", contextID, after) {
			if lerr == nil && known.Seq == e.Seq {
				return known.Version, nil
			}
		}
		if err := rest.For(ctx, again); err != nil {
			return 0, err
		}
	}
}
