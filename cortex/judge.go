package cortex

import (
	"context"

	"github.com/cortex-orchestrator/cortex/cortex/conversation"
	"github.com/cortex-orchestrator/cortex/cortex/decide"
	"github.com/cortex-orchestrator/cortex/transport"
)

// judge sets what an entry records, besides a decision, about the tasks of its cause, which is no request: which overdue tasks never reached their agent,
// whether a result is accepted, tasks that must not be sent any more, and tasks that are tried again. A result is checked by its schema, for its files, and by
// the policy's evaluators, up to the first that does not accept it. It is not checked again when the log is read, nor when the entry, or lost, was made for the same event before and could not be stored.
func (o *Orchestrator) judge(ctx context.Context, conv *conversation.Conversation, entry *conversation.Entry, lost *decide.Lost, place *decide.Place) error {
	if err := o.markWaited(ctx, conv, entry); err != nil {
		return transport.Temporary(err)
	}
	before := entry
	if lost != nil {
		before = lost.Entry
	}
	if entry.Cause, entry.Rejected, entry.Verdicts = before.Cause, before.Rejected, before.Verdicts; len(entry.Verdicts) == 0 {
		why, err := o.maker.Reject(conv, entry.Cause, place)
		if why == "" && err == nil {
			why, err = o.unusableFiles(ctx, entry.Cause)
		}
		if err != nil {
			return err
		}
		entry.Rejected = why
		if err := o.maker.Evaluate(ctx, conv, entry, place); err != nil {
			return err
		}
		place.Leave() // also where nothing is to be checked any more
	}
	o.maker.Redirect(conv, entry)
	return nil
}

// markWaited records in the entry for a deadline which of the overdue tasks are still in the queue, and which wait in their agent's inbox
// to be fetched. After its deadline the queue does not send a task any more.
func (o *Orchestrator) markWaited(ctx context.Context, conv *conversation.Conversation, entry *conversation.Entry) error {
	search, ok := o.cfg.Transport.(transport.InboxSearch)
	if _, deadline := entry.Cause.Payload.(*transport.Deadline); !ok || !deadline || o.queue.backlog == nil {
		return nil
	}
	for _, t := range conv.Lapsing(entry) {
		if t.Gone || t.Phase != conversation.Given {
			continue
		}
		work := conv.Work(t)
		waits, err := search.Holds(ctx, transport.Inbox(o.cfg.Tenant, transport.Queue), work)
		if err != nil {
			return err
		}
		if !waits {
			if o.unfetched(ctx, search, t.Agent, work) {
				entry.Unfetched = append(entry.Unfetched, t.ID)
			}
			continue
		}
		handed, err := search.Holds(ctx, transport.Inbox(o.cfg.Tenant, t.Agent), work) // a task is put there before it leaves the queue
		if err != nil {
			return err
		}
		if !handed {
			entry.Waited = append(entry.Waited, t.ID)
		}
	}
	return nil
}

// unfetched reports whether a task waits in its agent's inbox to be fetched, as does everything in it. After a kill of the server it may have been
// fetched before. It is false if that cannot be found out: the answer is only shown to people.
func (o *Orchestrator) unfetched(ctx context.Context, search transport.InboxSearch, agent string, work *transport.Event) bool {
	inbox := transport.Inbox(o.cfg.Tenant, agent)
	if o.queue.depth == nil {
		return false
	}
	waiting, err := o.queue.depth.Waiting(ctx, inbox)
	if err != nil || waiting == 0 {
		return false
	}
	untaken, err := o.queue.backlog.Untaken(ctx, inbox)
	if err != nil || untaken < waiting {
		return false
	}
	holds, err := search.Holds(ctx, inbox, work)
	return err == nil && holds
}
