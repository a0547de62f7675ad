package cortex

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"sync"
	"time"

	"golang.org/x/time/rate"

	"github.com/cortex-orchestrator/cortex/cortex/cache"
	"github.com/cortex-orchestrator/cortex/cortex/conversation"
	"github.com/cortex-orchestrator/cortex/cortex/storage"
	"github.com/cortex-orchestrator/cortex/internal/recent"
	"github.com/cortex-orchestrator/cortex/transport"
)

// refuse answers a message that is not logged with why it is refused. A client that misses the answer on the live topic gets it from a note, see
// [storage.RefusalOf].
func (o *Orchestrator) refuse(ctx context.Context, e *transport.Event, why string) error {
	now := o.cfg.Now()
	return o.answerUnlogged(ctx, e, conversation.Refusal(o.cfg.Tenant, e, why, now), why, now)
}

// answerUnlogged sends the answer to message e, which is not logged, and stores it for a client that misses it.
func (o *Orchestrator) answerUnlogged(ctx context.Context, e *transport.Event, answer []conversation.Effect, why string, now time.Time) error {
	if notes, ok := o.cfg.Store.(storage.Notes); ok && !conversation.ToInbox(e) {
		if err := o.refusals.Keep(ctx, notes, o.cfg.Tenant, e, why, now); err != nil {
			return err
		}
	}
	for _, out := range answer {
		err := o.publishOrDrop(ctx, out.Topic, out.Event)
		if err != nil && out.Topic.Kind != transport.KindLive {
			return err
		}
	}
	return nil
}

// publishOrDrop publishes an event about one that is given up or refused. It logs and drops what can never be published.
func (o *Orchestrator) publishOrDrop(ctx context.Context, t transport.Topic, e *transport.Event) error {
	err := o.cfg.Transport.Publish(ctx, t, e)
	switch {
	case err == nil:
		return nil
	case errors.Is(err, transport.ErrInvalid), errors.Is(err, transport.ErrFull):
		o.log.WarnContext(ctx, "answer dropped: it cannot be published", "context_id", e.ContextID, "to", t.ID, "err", err)
		return nil
	}
	return transport.Temporary(fmt.Errorf("tell %s: %w", t.ID, err))
}

// bar refuses e without making it a dead letter. A replay would be refused for the same reason, and a sender who floods somebody else's
// conversation would displace dead letters that are still useful.
func (o *Orchestrator) bar(ctx context.Context, conv *cache.Fold, e *transport.Event, why string, now time.Time) error {
	if _, ok := transport.Request(e); !ok {
		return o.ignore(ctx, conv, e, why, now)
	}
	o.stats.Refused.Add(1)
	o.log.InfoContext(ctx, "message refused", "context_id", e.ContextID, "from", e.From, "owner", conv.Owner)
	if err := o.refuse(ctx, e, why); err != nil {
		return err
	}
	o.folds.Put(conv)
	return nil
}

// errUnstorable marks an entry that no store accepts.
var errUnstorable = errors.New("entry cannot be stored")

func isRequest(e *transport.Event) bool {
	_, ok := transport.Request(e)
	return ok
}

// turnAway refuses a request because of err, as [Orchestrator.bar] does: whoever sent many would displace dead letters that can still be replayed.
func (o *Orchestrator) turnAway(ctx context.Context, e *transport.Event, why string, err error) error {
	if err := o.refuse(ctx, e, why); err != nil {
		return err
	}
	o.stats.Refused.Add(1)
	o.log.WarnContext(ctx, "message refused", "context_id", e.ContextID, "from", e.From, "err", err)
	return nil
}

// unreadable makes the error of loading a conversation permanent if its log is damaged, so that the event can be replayed when the store is repaired. A request is
// refused then; what nobody would replay is dropped; and of an agent's results a share is kept, since it may send any number.
func (o *Orchestrator) unreadable(ctx context.Context, e *transport.Event, err error) error {
	switch {
	case !errors.Is(err, conversation.ErrDamaged) || transport.IsPermanent(err):
		return err
	case isRequest(e):
		return o.turnAway(ctx, e, textDamaged, err)
	case isPassing(e) || !o.letters.allow(e, o.cfg.Now()):
		o.stats.Ignored.Add(1)
		o.log.WarnContext(ctx, "event ignored: its conversation cannot be read", "context_id", e.ContextID, "task_id", e.TaskID, "from", e.From, "err", err)
		return nil
	}
	return transport.Permanent(fmt.Errorf("%w: %w", err, conversation.Failure(textDamaged)))
}

// isPassing reports whether e means nothing any more when its conversation can be read again.
func isPassing(e *transport.Event) bool {
	switch e.Payload.(type) {
	case *transport.Cancel, *transport.Share, *transport.Post, *transport.ReadBoard:
		return true
	}
	r, ok := conversation.ResultOf(e)
	return ok && !r.Settles()
}

// Bounds of the dead letters that are kept of one agent's results for damaged conversations, or that no store takes, in bytes: at once, and in a day. A short one counts as letterLeast.
const (
	letterBurst   = 16 << 20
	letterLeast   = 16 << 10
	letterSenders = 1024
)

// letterShares has what agents have left of dead letters.
type letterShares struct {
	mu sync.Mutex
	of recent.Cache[string, *rate.Limiter]
}

// allow counts the dead letter of an event, and reports whether its sender may have one more.
func (l *letterShares) allow(e *transport.Event, now time.Time) bool {
	if _, ok := conversation.ResultOf(e); !ok || e.From == transport.Cortex {
		return true
	}
	b, _ := json.Marshal(e.Payload)
	l.mu.Lock()
	defer l.mu.Unlock()
	share, ok := l.of.Get(e.From)
	if !ok {
		share = rate.NewLimiter(letterBurst/rate.Limit((24*time.Hour).Seconds()), letterBurst)
		l.of.Put(e.From, share, 1)
		if l.of.Len() > letterSenders {
			l.of.Drop()
		}
	}
	return share.AllowN(now, max(len(b), letterLeast))
}

// textDamaged is the answer in a conversation that cannot be read.
const textDamaged = "The record of this conversation is damaged, so that it cannot go on. Begin another one with /new, and say it again there. " +
	"`cortex doctor` tells whoever runs Cortex what is lost, and repairs the rest."
