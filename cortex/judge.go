package cortex

import (
	"context"

	"github.com/cortex-orchestrator/cortex/cortex/conversation"
	"github.com/cortex-orchestrator/cortex/cortex/decide"
	"github.com/cortex-orchestrator/cortex/transport"
)

// judge sets what an entry records, besides a decision, about the tasks of its cause: whether a result is accepted, tasks that must not be sent any more,
// and tasks that are tried again. A result is checked by its schema, for its files, and by the policy's evaluators, up to the first that does not accept it.
// It is not checked again when the log is read, nor when the entry, or lost, was made for the same event before and could not be stored.
func (o *Orchestrator) judge(ctx context.Context, conv *conversation.Conversation, entry *conversation.Entry, lost *decide.Lost) error {
	before := entry
	if lost != nil {
		before = lost.Entry
	}
	if entry.Cause, entry.Rejected, entry.Verdicts = before.Cause, before.Rejected, before.Verdicts; len(entry.Verdicts) == 0 {
		entry.Rejected = decide.Reject(conv, entry.Cause)
		if _, ok := transport.Request(entry.Cause); !ok && entry.Rejected == "" {
			why, err := o.unusableFiles(ctx, entry.Cause)
			if err != nil {
				return err
			}
			entry.Rejected = why
		}
		if err := o.maker.Evaluate(ctx, conv, entry); err != nil {
			return err
		}
	}
	o.maker.Redirect(conv, entry)
	return nil
}
