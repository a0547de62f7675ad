package cli

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/google/uuid"
	"github.com/spf13/cobra"

	"github.com/cortex-orchestrator/cortex/cortex/conversation"
	"github.com/cortex-orchestrator/cortex/cortex/storage"
	"github.com/cortex-orchestrator/cortex/internal/datadir"
	"github.com/cortex-orchestrator/cortex/internal/lookalike"
	"github.com/cortex-orchestrator/cortex/internal/view"
	"github.com/cortex-orchestrator/cortex/prompt"
	"github.com/cortex-orchestrator/cortex/transport"
	"github.com/cortex-orchestrator/cortex/transport/nats/auth"
)

func (e *env) newShare() *cobra.Command {
	var revoke bool
	c := &cobra.Command{
		Use:   "share CONVERSATION NAME…",
		Short: "Let others speak in a conversation of yours",
		Long: `Let others speak in a conversation that you began, where a server has keys: people by the names that ` + "`" + `cortex auth add user` + "`" + ` gave
them, agents as agent:ID. Reading it needs no leave: people of a tenant may read all its conversations.`,
		Example: "  cortex conversations share demo bob\n  cortex conversations share demo bob agent:weather --revoke",
		Args: func(_ *cobra.Command, args []string) error {
			if len(args) < 2 {
				return usagef("which conversation, and with whom? cortex conversations share demo bob")
			}
			return nil
		},
		RunE: func(cmd *cobra.Command, args []string) error {
			ids, err := sharers(args[1:])
			if err != nil {
				return err
			}
			p := &transport.Share{With: ids}
			if revoke {
				p = &transport.Share{Revoke: ids}
			}
			return e.withLink(cmd.Context(), func(ctx context.Context, l *link) error {
				id, err := (&where{id: args[0]}).find(ctx, l)
				if err != nil {
					return err
				}
				return e.share(ctx, l, id, p)
			})
		},
		ValidArgsFunction: first(e.completeIDs(conversationIDs)),
	}
	c.Flags().BoolVar(&revoke, "revoke", false, "they may speak there no longer")
	return c
}

// sharers converts the names of people and agents to ids.
func sharers(names []string) (ids []string, err error) {
	for _, name := range names {
		id, agent := strings.CutPrefix(name, "agent:")
		if !agent && name != "user" {
			id = "user:" + userName(name)
		}
		if err := transport.CheckID(id); err != nil || id == "user:" || agent && (id == "user" || strings.HasPrefix(id, "user:")) {
			return nil, usagef("%s is nobody's name: it is as in `cortex auth list`, or agent:ID", prompt.Clean(name, 64))
		}
		ids = append(ids, id)
	}
	if len(ids) > transport.MaxShare {
		return nil, usagef("%d names: at most %d are allowed at once", len(ids), transport.MaxShare)
	}
	return ids, nil
}

// share sends p, and waits until it takes effect.
func (e *env) share(ctx context.Context, l *link, contextID string, p *transport.Share) error {
	if l.sender == "" {
		e.say("everybody may speak in every conversation, since the server has no keys: `cortex auth init` makes some")
		return nil
	}
	conv, err := storage.Load(ctx, l.store, l.tenant, contextID)
	if err != nil {
		return err
	}
	if conv.Seq == 0 {
		return noConversation(contextID)
	}
	if conv.Seq >= conversation.MaxEntries && len(p.With) > 0 {
		return fmt.Errorf("conversation %s is full, so nobody can be let in any more", contextID)
	}
	known := func(id string) bool { return slices.Contains(conv.Shared, id) }
	if n := len(conv.Shared); n+len(slices.DeleteFunc(slices.Clone(p.With), known)) > conversation.MaxShared {
		return fmt.Errorf("conversation %s is shared with %d already, and at most %d are possible: take it from others with --revoke first", contextID, n, conversation.MaxShared)
	}
	c := l.operator()
	event := &transport.Event{
		ID: uuid.NewString(), Time: time.Now(), From: c.User, To: transport.Cortex, Tenant: l.tenant, ContextID: contextID, Payload: p,
	}
	if why := conv.WhyRefused(event); why != "" {
		return errors.New(inside(why) + " Only they let others in")
	}
	if err := l.bus.Publish(ctx, transport.Inbox(l.tenant, transport.Cortex), event); err != nil {
		return fmt.Errorf("share %s: %w", contextID, err)
	}
	done, err := l.until(ctx, contextID, func(conv *conversation.Conversation) bool { return holds(conv, p) })
	if err != nil {
		return err
	}
	if !done {
		return fmt.Errorf("conversation %s is not shared so yet: it is when the Cortex that runs comes to it; `cortex conversations` shows it", contextID)
	}
	e.tell("%s", view.ShareLine(p))
	e.warnOfNames(ctx, conv, p.With)
	return nil
}

// warnOfNames prints a warning about names that are probably mistakes: they look like other names, or have no keys. The latter is known only on the
// machine with the folder of keys.
func (e *env) warnOfNames(ctx context.Context, conv *conversation.Conversation, ids []string) {
	var issued []string
	if a, ok, err := datadir.Find(ctx, e.settings.data); err == nil && ok && e.settings.inFolder() {
		all, err := auth.List(a.Node.Of("auth"))
		for _, i := range all {
			if err == nil && i.Tenant == e.settings.tenant {
				issued = append(issued, i.ID)
			}
		}
	}
	var alike lookalike.Set
	for _, id := range slices.Concat(issued, conv.Shared, ids, []string{conv.Owner}) {
		alike.Add(userName(id))
	}
	for _, id := range ids {
		if mark := alike.Mark(userName(id)); mark != "" {
			e.say("warning: %s %s", prompt.Clean(id, pageWord), prompt.Clean(mark, pageWord))
		}
		if issued != nil && !slices.Contains(issued, id) {
			e.say("warning: nobody has keys as %s: `cortex auth list` has the names", prompt.Clean(id, pageWord))
		}
	}
}

// holds reports whether p has taken effect in a conversation.
func holds(conv *conversation.Conversation, p *transport.Share) bool {
	missing := func(id string) bool { return id != conv.Owner && !slices.Contains(conv.Shared, id) }
	in := func(id string) bool { return slices.Contains(conv.Shared, id) }
	return !slices.ContainsFunc(p.With, missing) && !slices.ContainsFunc(p.Revoke, in)
}

// inside returns a sentence in the form that continues an error.
func inside(sentence string) string { return strings.ToLower(sentence[:1]) + sentence[1:] }
