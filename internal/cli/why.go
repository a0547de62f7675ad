package cli

import (
	"context"
	"fmt"
	"maps"
	"os"
	"slices"
	"strings"

	"github.com/a2aproject/a2a-go/v2/a2a"
	"github.com/spf13/cobra"

	"github.com/cortex-orchestrator/cortex/cortex/conversation"
	"github.com/cortex-orchestrator/cortex/cortex/storage"
	"github.com/cortex-orchestrator/cortex/internal/screen"
	"github.com/cortex-orchestrator/cortex/internal/traces"
	"github.com/cortex-orchestrator/cortex/internal/view"
	"github.com/cortex-orchestrator/cortex/llm"
	"github.com/cortex-orchestrator/cortex/prompt"
	"github.com/cortex-orchestrator/cortex/repl"
)

// maxWhyFiles bounds how many files of a task are listed.
const maxWhyFiles = 4

func (e *env) newWhy() *cobra.Command {
	return &cobra.Command{
		Use: "why [CONVERSATION]", Short: "Show how the last answer came about",
		Long: `Show how the last answer of a conversation came about: who was asked, why, by which model, and what it cost. Without CONVERSATION it is
your last one.`,
		Example: "  cortex why\n  cortex why demo", Args: cobra.MaximumNArgs(1), ValidArgsFunction: first(e.completeIDs(conversationIDs)),
		RunE: func(cmd *cobra.Command, args []string) error {
			return e.withBackend(cmd.Context(), func(ctx context.Context, b *backend) error {
				id, err := "", error(nil)
				if len(args) > 0 {
					id, err = b.conversation(ctx, args[0])
				} else {
					id, err = b.lastConversation(ctx)
				}
				if err != nil {
					return err
				}
				conv, err := storage.Load(ctx, b.store, b.tenant, id)
				if err == nil && conv.Seq == 0 {
					err = noConversation(id)
				}
				if err != nil {
					return err
				}
				text, err := b.why(ctx, id)
				if err != nil {
					return err
				}
				_, err = screen.Print(e.stdout, "%s", repl.Sanitize(text))
				return err
			})
		},
	}
}

// why explains the last turn: each decision with its reason and cost, and each task that was tried again.
func (b *backend) why(ctx context.Context, contextID string) (string, error) {
	var last []*conversation.Entry
	alike, err := b.lookalikes(ctx)
	if err != nil {
		return "", err
	}
	retried := map[uint64]string{} // by the seq of the entry that retried the tasks
	along := map[uint64][]string{} // by the seq of the entry whose delegations have files
	conv := conversation.NewConversation(b.tenant, contextID)
	for entry, err := range b.store.Load(ctx, b.tenant, contextID, 0) {
		if err != nil {
			return "", err
		}
		if m, ok := entry.Cause.Payload.(*a2a.Message); ok && m.Role != a2a.MessageRoleAgent {
			last = last[:0]
		}
		last = append(last, entry)
		if err := conv.Apply(entry); err != nil {
			return "", err
		}
		retried[entry.Seq] = whyRetried(conv, entry, alike)
		along[entry.Seq] = whyFiles(conv, entry)
	}
	var out strings.Builder
	var offered []conversation.Shortlisted
	step := 0
	said := func(text string) string { return prompt.Clean(text, view.MaxSaid) } // external text, which must not look like one of Cortex's own lines
	for _, e := range last {
		out.WriteString(retried[e.Seq])
		out.WriteString(whyJudged(e, alike))
		whyPosted(&out, e, alike)
		if e.Failure != "" {
			fmt.Fprintf(&out, "failed   %s\n", said(e.Failure))
			whyChosen(&out, e, offered)
			offered = e.Shortlist
		}
		if e.Summary != nil {
			fmt.Fprintf(&out, "%s\n", view.SummaryLine(e))
		}
		if e.Usage != (llm.Usage{}) {
			fmt.Fprintf(&out, "   %s\n", view.UsageLine(e.Usage))
		}
		d := e.Decision
		if d == nil {
			continue
		}
		step++
		fmt.Fprintf(&out, "%d. %s", step, d.Kind)
		for i, del := range d.Delegations {
			fmt.Fprintf(&out, "\n   → %s: %s%s", said(alike.Named(del.Agent)), said(del.Task), along[e.Seq][i])
		}
		if e.Consent != "" {
			out.WriteString("\n   asked for your yes first: nothing was sent with this decision")
		}
		if d.Reason != "" {
			fmt.Fprintf(&out, "\n   because %s", said(d.Reason))
		}
		out.WriteString("\n")
		whyChosen(&out, e, offered)
		offered = e.Shortlist
		whyPatterns(&out, e, alike)
		fmt.Fprintf(&out, "   %s\n", costLine(d))
	}
	if len(last) > 0 && traces.Wanted(os.Getenv) {
		if turn := conv.Turn(last[0].Turn); turn != nil {
			fmt.Fprintf(&out, "trace %s\n", traces.ID(conv, turn))
		}
	}
	if total := conv.Usage; total != (llm.Usage{}) {
		fmt.Fprintf(&out, "this conversation: %s\n", view.UsageLine(total))
	}
	if out.Len() == 0 {
		return "nothing was decided in this conversation yet", nil
	}
	return strings.TrimSuffix(out.String(), "\n"), nil
}

// whyFiles lists the files of each delegation of an entry, which was the last one applied to conv.
func whyFiles(conv *conversation.Conversation, e *conversation.Entry) []string {
	if e.Decision == nil {
		return nil
	}
	all := make([]string, len(e.Decision.Delegations))
	turn := conv.Turn(e.Turn)
	for i := range e.Decision.Delegations {
		if turn == nil {
			break
		}
		for j, p := range conv.Along(turn, &e.Decision.Delegations[i]) {
			if j == maxWhyFiles {
				all[i] += " and more"
				break
			}
			all[i] += " +" + prompt.Clean(conversation.AlongName(p, j), 64)
		}
	}
	return all
}

// whyJudged lists what evaluators said of the result that is the cause of an entry: the agent's own, which is its word, and the policy's.
func whyJudged(e *conversation.Entry, alike *view.Lookalikes) string {
	r, ok := conversation.ResultOf(e.Cause)
	if !ok || !r.Settles() {
		return ""
	}
	var out strings.Builder
	for _, v := range view.OwnVerdicts(e.Cause) {
		fmt.Fprintf(&out, "   checked by %s itself: %s\n", prompt.Clean(alike.Named(e.Cause.From), 128), view.VerdictLine(&v))
	}
	for _, v := range e.Verdicts {
		fmt.Fprintf(&out, "   checked: %s\n", view.VerdictLine(&v))
	}
	return out.String()
}

// whyRetried lists the tasks that an entry has retried: with which agent, in place of which, and why. The entry was the last one applied to conv.
func whyRetried(conv *conversation.Conversation, e *conversation.Entry, alike *view.Lookalikes) string {
	var out strings.Builder
	for _, id := range slices.Sorted(maps.Keys(e.Retries)) {
		t := conv.Tasks[id]
		if t == nil || len(t.Tried) == 0 || t.Tried[len(t.Tried)-1].EndedSeq != e.Seq {
			continue // the task ended in another way
		}
		before, agent := t.Tried[len(t.Tried)-1], prompt.Clean(alike.Named(t.Agent), 128)
		by := agent + " once more"
		if before.Agent != t.Agent {
			by = agent + " instead of " + prompt.Clean(alike.Named(before.Agent), 128)
		}
		fmt.Fprintf(&out, "   ↻ attempt %d: %s: %s\n", t.Attempt, by, prompt.Clean(before.Why, 160))
	}
	return out.String()
}

func costLine(d *llm.Decision) string {
	by := view.By(d)
	if d.Model != "fake" && !view.ByRule(d) {
		by = "by " + by
	}
	parts := []string{by}
	if d.Usage != (llm.Usage{}) {
		parts = append(parts, view.UsageLine(d.Usage))
	}
	if d.Repairs > 0 {
		times := "times"
		if d.Repairs == 1 {
			times = "time"
		}
		parts = append(parts, fmt.Sprintf("corrected %d %s", d.Repairs, times))
	}
	return strings.Join(parts, ", ")
}
