package cli

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/cortex-orchestrator/cortex/cortex/conversation"
	"github.com/cortex-orchestrator/cortex/cortex/storage"
	"github.com/cortex-orchestrator/cortex/internal/cli/typed"
	"github.com/cortex-orchestrator/cortex/internal/datadir"
	"github.com/cortex-orchestrator/cortex/internal/erase"
	"github.com/cortex-orchestrator/cortex/internal/rest"
	"github.com/cortex-orchestrator/cortex/prompt"
	"github.com/cortex-orchestrator/cortex/transport"
)

const (
	cancelPatience = 10 * time.Second       // how long to wait until Cortex has done what it was told
	cancelPoll     = 100 * time.Millisecond // how often to check
)

func (e *env) newDelete() *cobra.Command {
	var yes, force bool
	c := &cobra.Command{
		Use:   "delete CONVERSATION...",
		Short: "Delete conversations for good",
		Long: `Delete conversations for good: what was said, done and learned in them, and what waits for them or was given up. Nobody can
bring that back. One that is not finished is deleted with --force only, which cancels it first. Who says something in a deleted
conversation begins a new one.

The server overwrites what it deletes in its files; the bytes of events that were handled before go within seconds, or within two
minutes on a server of your own. Agents erase what they keep of its tasks on their machines: here at once, elsewhere if they run,
and otherwise with time. Backups and the input history of terminals are yours to delete.`,
		Example: "  cortex conversations delete demo\n  cortex conversations delete --yes --force demo other",
		Args: func(cmd *cobra.Command, args []string) error {
			if len(args) == 0 {
				return typed.Exact("CONVERSATION")(cmd, args)
			}
			return nil
		},
		RunE: func(cmd *cobra.Command, args []string) error {
			return e.withLink(cmd.Context(), func(ctx context.Context, l *link) error {
				ids := make([]string, len(args)) // resolve all before the first one is deleted
				for i, given := range args {
					var err error
					if ids[i], err = (&where{id: given}).find(ctx, l); err != nil {
						return err
					}
				}
				for _, id := range ids {
					if err := e.deleteConversation(ctx, l, id, yes, force); err != nil {
						return err
					}
				}
				return nil
			})
		},
		ValidArgsFunction: e.completeIDs(conversationIDs),
	}
	c.Flags().BoolVarP(&yes, "yes", "y", false, "do not ask")
	c.Flags().BoolVar(&force, "force", false, "also one that is not finished: it is canceled first")
	return c
}

func (e *env) deleteConversation(ctx context.Context, l *link, contextID string, yes, force bool) error {
	if err := transport.CheckID(contextID); err != nil {
		return usagef("%s is no conversation's id: %w", prompt.Clean(contextID, 64), err)
	}
	if l.sender != "" && l.sender != transport.Cortex { // before anything is asked of people or canceled for nothing
		return mayNotDelete(contextID, fmt.Errorf("%w: the credentials are for %q", transport.ErrForbidden, l.sender))
	}
	store, bus, err := l.erasers()
	if err != nil {
		return err
	}
	conv, err := storage.Load(ctx, l.store, l.tenant, contextID)
	switch {
	case err != nil && !force:
		return fmt.Errorf("conversation %s cannot be read, --force deletes it all the same: %w", contextID, err)
	case err == nil && conv.Seq == 0 && !force:
		return noConversation(contextID)
	}
	if err == nil {
		if why := erase.Busy(conv); why != "" && !force {
			return fmt.Errorf("conversation %s %s: wait for it, or add --force to cancel it first", contextID, why)
		}
	}
	if !yes {
		if !e.onTerminal() {
			return usagef("nobody can be asked whether conversation %s is to be deleted for good: add --yes", contextID)
		}
		if ok, err := e.confirm(ctx, fmt.Sprintf("Delete conversation %s for good? [y/N] ", contextID)); err != nil || !ok {
			if err == nil {
				e.say("conversation %s is kept", contextID)
			}
			return errors.Join(err, ctx.Err())
		}
	}
	if err == nil && erase.Busy(conv) != "" {
		if err := l.cancelAll(ctx, contextID); err != nil {
			return err
		}
	}
	done, err := erase.Conversation(ctx, store, bus, l.tenant, contextID)
	if isForbidden(err) { // nothing was deleted
		return mayNotDelete(contextID, transport.ErrForbidden)
	}
	if err != nil {
		return fmt.Errorf("conversation %s is not deleted completely, do it again: %w", contextID, err)
	}
	if err := datadir.Forget(e.settings.data, l.tenant, contextID); err != nil {
		return fmt.Errorf("conversation %s is deleted, but not what agents on this machine keep of it in %s, do it again with --force: %w", contextID, e.settings.data, err)
	}
	learned := ""
	if done.Learned > 0 {
		learned = ", and what was learned from it about " + counted(done.Learned, "agent")
	}
	e.tell("deleted conversation %s: %s%s", contextID, counted(done.Entries, "record"), learned)
	return nil
}

func mayNotDelete(contextID string, why error) error {
	return fmt.Errorf("conversation %s is not deleted: ask whoever runs Cortex, who deletes with the credentials of the orchestrator (--creds): %w", contextID, why)
}

// cancelAll cancels everything open in a conversation, and waits until it has ended.
func (l *link) cancelAll(ctx context.Context, contextID string) error {
	if err := l.operator().Cancel(ctx, contextID, transport.Cancel{Reason: "the conversation is deleted"}); err != nil {
		return err
	}
	_, err := l.until(ctx, contextID, func(conv *conversation.Conversation) bool { return erase.Busy(conv) == "" })
	return err // when it has not ended, no Cortex runs or it is stuck: deleting is the way out
}

// until waits until is reports true for a conversation. It returns false after cancelPatience.
func (l *link) until(ctx context.Context, contextID string, is func(*conversation.Conversation) bool) (bool, error) {
	ctx, cancel := context.WithTimeout(ctx, cancelPatience)
	defer cancel()
	for {
		conv, err := storage.Load(ctx, l.store, l.tenant, contextID)
		switch {
		case ctx.Err() != nil:
		case err != nil:
			return false, err
		case is(conv):
			return true, nil
		}
		if err := rest.For(ctx, cancelPoll); errors.Is(err, context.DeadlineExceeded) {
			return false, nil
		} else if err != nil {
			return false, err
		}
	}
}

// confirm asks a question on the terminal.
func (e *env) confirm(ctx context.Context, question string) (bool, error) {
	fmt.Fprint(e.stdout, question)
	answer := make(chan string, 1)
	go func() { // ends with the process when the user does not answer
		line, _ := bufio.NewReader(e.stdin).ReadString('\n')
		answer <- strings.ToLower(strings.TrimSpace(line))
	}()
	select {
	case <-ctx.Done():
		return false, ctx.Err()
	case a := <-answer:
		return a == "y" || a == "yes", nil
	}
}
