package cli

import (
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/a2aproject/a2a-go/v2/a2a"
	"github.com/spf13/cobra"

	"github.com/cortex-orchestrator/cortex/cortex/conversation"
	"github.com/cortex-orchestrator/cortex/cortex/storage"
	"github.com/cortex-orchestrator/cortex/evaluate"
	"github.com/cortex-orchestrator/cortex/llm"
	"github.com/cortex-orchestrator/cortex/prompt"
	"github.com/cortex-orchestrator/cortex/repl"
	"github.com/cortex-orchestrator/cortex/transport"
)

// maxSaid bounds how much of a text by a model is shown, in characters.
const maxSaid = 4000

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
				_, err = printText(e.stdout, "%s", repl.Sanitize(text))
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
	said := func(text string) string { return prompt.Clean(text, maxSaid) } // external text, which must not look like one of Cortex's own lines
	for _, e := range last {
		out.WriteString(retried[e.Seq])
		out.WriteString(whyJudged(e, alike))
		if e.Failure != "" {
			fmt.Fprintf(&out, "failed   %s\n", said(e.Failure))
			whyChosen(&out, e, offered)
			offered = e.Shortlist
		}
		if e.Summary != nil {
			fmt.Fprintf(&out, "%s\n", summaryLine(e))
		}
		if e.Usage != (llm.Usage{}) {
			fmt.Fprintf(&out, "   %s\n", usageLine(e.Usage))
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
		fmt.Fprintf(&out, "   %s\n", costLine(d))
	}
	if total := conv.Usage; total != (llm.Usage{}) {
		fmt.Fprintf(&out, "this conversation: %s\n", usageLine(total))
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
func whyJudged(e *conversation.Entry, alike *lookalikes) string {
	r, ok := conversation.ResultOf(e.Cause)
	if !ok || !r.Settles() {
		return ""
	}
	var out strings.Builder
	for _, v := range ownVerdicts(e.Cause) {
		fmt.Fprintf(&out, "   checked by %s itself: %s\n", prompt.Clean(alike.Named(e.Cause.From), 128), verdictLine(&v))
	}
	for _, v := range e.Verdicts {
		fmt.Fprintf(&out, "   checked: %s\n", verdictLine(&v))
	}
	return out.String()
}

// verdictLine describes a verdict. All in it may be an agent's words.
func verdictLine(v *evaluate.Verdict) string {
	name := prompt.Clean(v.Evaluator, 64)
	if v.Round > 0 {
		name += fmt.Sprintf(", round %d", v.Round)
	}
	what := fmt.Sprintf("passed (%.2f)", v.Score)
	if !v.Pass {
		what = map[evaluate.Action]string{evaluate.Redact: "redacted", evaluate.Fail: "failed", evaluate.Ask: "you were asked"}[v.Action]
		what = cmp.Or(what, fmt.Sprintf("not passed (%.2f)", v.Score))
	}
	if advice := prompt.Clean(v.Advice, maxSaid); advice != "" {
		what += ": " + advice
	}
	return name + ": " + what
}

// maxOwnVerdicts bounds how many verdicts are shown of those that an agent reports.
const maxOwnVerdicts = 16

// ownVerdicts returns what an agent's own evaluators said of its result.
func ownVerdicts(e *transport.Event) []evaluate.Verdict {
	var said *a2a.Message
	switch p := e.Payload.(type) {
	case *a2a.Task:
		said = p.Status.Message
	case *a2a.TaskStatusUpdateEvent:
		said = p.Status.Message
	case *a2a.Message:
		said = p
	}
	if said == nil {
		return nil
	}
	for _, p := range said.Parts {
		if p == nil || p.Metadata[transport.MetaVerdicts] == nil {
			continue
		}
		var all []evaluate.Verdict
		if b, err := transport.EncodeValue(p.Metadata[transport.MetaVerdicts]); err == nil && json.Unmarshal(b, &all) == nil {
			return all[:min(len(all), maxOwnVerdicts)]
		}
	}
	return nil
}

// whyRetried lists the tasks that an entry has retried: with which agent, in place of which, and why. The entry was the last one applied to conv.
func whyRetried(conv *conversation.Conversation, e *conversation.Entry, alike *lookalikes) string {
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
	by := "by " + prompt.Clean(d.Model, maxSaid)
	if d.Model == "fake" {
		by = "by words, offline, without a model"
	}
	parts := []string{by}
	if d.Usage != (llm.Usage{}) {
		parts = append(parts, usageLine(d.Usage))
	}
	if d.Repairs > 0 {
		parts = append(parts, fmt.Sprintf("corrected %d times", d.Repairs))
	}
	return strings.Join(parts, ", ")
}
