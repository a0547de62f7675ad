package cli

import (
	"context"
	"fmt"
	"slices"
	"strings"

	"github.com/a2aproject/a2a-go/v2/a2a"

	"github.com/cortex-orchestrator/cortex/client"
	"github.com/cortex-orchestrator/cortex/cortex/conversation"
	"github.com/cortex-orchestrator/cortex/cortex/storage"
	"github.com/cortex-orchestrator/cortex/repl"
	"github.com/cortex-orchestrator/cortex/transport"
)

// transcript reads the log of a conversation and calls line for each thing said or done, oldest first, until line returns false. alike marks the
// agents in it; tr has the stored files, whose sizes are shown.
func transcript(ctx context.Context, tr transport.Transport, store storage.Store, tenant, contextID string, alike *lookalikes, line func(*repl.Line) bool) error {
	conv := conversation.NewConversation(tenant, contextID)
	for entry, err := range store.Load(ctx, tenant, contextID, 0) {
		if err != nil {
			return fmt.Errorf("load %s: %w", contextID, err)
		}
		if err := conv.Apply(entry); err != nil {
			return err
		}
		for _, l := range linesOf(conv, entry) {
			for _, p := range l.Files {
				l.Text = strings.TrimPrefix(l.Text+"\n["+client.Describe(ctx, tr, tenant, p)+"]", "\n")
			}
			if l.Kind == repl.LineTask || l.Kind == repl.LineResult {
				alike.Add(l.Who) // the agent may be gone
				l.Who = alike.Named(l.Who)
			}
			if !line(l) {
				return nil
			}
		}
	}
	return nil
}

// linesOf returns the lines of an entry, the last one of conv.
func linesOf(conv *conversation.Conversation, entry *conversation.Entry) []*repl.Line {
	var lines []*repl.Line
	add := func(kind repl.LineKind, who, text string, files ...*a2a.Part) {
		lines = append(lines, &repl.Line{Time: entry.Time, Kind: kind, Who: who, Text: text, Files: files})
	}
	if m, ok := entry.Cause.Payload.(*a2a.Message); ok && m.Role != a2a.MessageRoleAgent {
		add(repl.LineUser, entry.Cause.From, transport.Text(m.Parts), transport.FilesOf(m.Parts)...)
	}
	if p, ok := entry.Cause.Payload.(*transport.Share); ok {
		add(repl.LineNote, entry.Cause.From, shareLine(p))
	}
	if entry.Summary != nil {
		add(repl.LineNote, "", summaryLine(entry))
	}
	for _, out := range conv.Effects(entry.Seq) {
		switch p := out.Event.Payload.(type) {
		case *a2a.TaskStatusUpdateEvent:
			text := ""
			if p.Status.Message != nil {
				text = transport.Text(p.Status.Message.Parts)
			}
			if p.Status.State == a2a.TaskStateSubmitted { // it is tried again
				add(repl.LineNote, "", text)
				continue
			}
			if p.Status.State != a2a.TaskStateCompleted {
				text = strings.TrimSuffix(repl.StateName(p.Status.State)+": "+text, ": ")
			}
			var files []*a2a.Part
			r, ok := conversation.ResultOf(entry.Cause)
			if ok && r.TaskID == p.TaskID {
				files = r.Files
			}
			add(repl.LineResult, transport.MetaString(p, transport.MetaAgentID), text, files...)
			if ok && r.TaskID == p.TaskID {
				for _, v := range slices.Concat(ownVerdicts(entry.Cause), entry.Verdicts) {
					if !v.Pass {
						add(repl.LineNote, "", "checked: "+verdictLine(&v))
					}
				}
			}
		case *a2a.Task:
			add(repl.LineTask, transport.MetaString(p, transport.MetaAgentID), transport.Text(p.History[0].Parts), transport.FilesOf(p.History[0].Parts)...)
		case *a2a.Message:
			// An agent that asked gets the answer on topics of its own, too.
			told := slices.ContainsFunc(lines, func(l *repl.Line) bool { return l.Kind == repl.LineAnswer && l.ID == p.ID })
			if p.Role == a2a.MessageRoleAgent && !told {
				add(repl.LineAnswer, transport.Cortex, transport.Text(p.Parts), transport.FilesOf(p.Parts)...)
				lines[len(lines)-1].ID = p.ID
			}
		}
	}
	return lines
}
