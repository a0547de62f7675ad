package view

import (
	"context"
	"fmt"
	"slices"
	"strings"

	"github.com/a2aproject/a2a-go/v2/a2a"

	"github.com/cortex-orchestrator/cortex/client"
	"github.com/cortex-orchestrator/cortex/cortex/conversation"
	"github.com/cortex-orchestrator/cortex/prompt"
	"github.com/cortex-orchestrator/cortex/transport"
)

// ShareLine describes a Share.
func ShareLine(p *transport.Share) string {
	var lines []string
	if len(p.With) > 0 {
		lines = append(lines, strings.Join(p.With, ", ")+" may speak here")
	}
	if len(p.Revoke) > 0 {
		lines = append(lines, strings.Join(p.Revoke, ", ")+" may speak here no longer")
	}
	return prompt.Clean(strings.Join(lines, "; "), 1000)
}

// Transcript reads the log of a conversation and calls line for each thing said or done, oldest first, until line returns false. alike marks the
// agents in it. Files are described.
func Transcript(ctx context.Context, r *Reader, contextID string, alike *Lookalikes, line func(*client.Line) bool) error {
	conv := conversation.NewConversation(r.Tenant, contextID)
	for entry, err := range r.Store.Load(ctx, r.Tenant, contextID, 0) {
		if err != nil {
			return fmt.Errorf("load %s: %w", contextID, err)
		}
		if err := conv.Apply(entry); err != nil {
			return err
		}
		for _, l := range LinesOf(conv, entry) {
			for _, p := range l.Files {
				l.Text = strings.TrimPrefix(l.Text+"\n["+client.Describe(ctx, r.Transport, r.Tenant, p)+"]", "\n")
			}
			if l.Kind == client.LineTask || l.Kind == client.LineResult {
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

// LinesOf returns the lines of an entry, the last one of conv.
func LinesOf(conv *conversation.Conversation, entry *conversation.Entry) []*client.Line {
	var lines []*client.Line
	add := func(kind client.LineKind, who, text string, files ...*a2a.Part) {
		lines = append(lines, &client.Line{Time: entry.Time, Kind: kind, Who: who, Text: text, Files: files})
	}
	if m, ok := entry.Cause.Payload.(*a2a.Message); ok && m.Role != a2a.MessageRoleAgent {
		add(client.LineUser, entry.Cause.From, transport.Text(m.Parts), transport.FilesOf(m.Parts)...)
	}
	if p, ok := entry.Cause.Payload.(*transport.Share); ok {
		add(client.LineNote, entry.Cause.From, ShareLine(p))
	}
	if entry.Summary != nil {
		add(client.LineNote, "", SummaryLine(entry))
	}
	for _, out := range conv.Effects(entry.Seq) {
		switch p := out.Event.Payload.(type) {
		case *a2a.TaskStatusUpdateEvent:
			text := ""
			if p.Status.Message != nil {
				text = transport.Text(p.Status.Message.Parts)
			}
			if p.Status.State == a2a.TaskStateSubmitted { // it is tried again
				add(client.LineNote, "", text)
				continue
			}
			if p.Status.State != a2a.TaskStateCompleted {
				text = strings.TrimSuffix(client.StateName(p.Status.State)+": "+text, ": ")
			}
			var files []*a2a.Part
			r, ok := conversation.ResultOf(entry.Cause)
			if ok && r.TaskID == p.TaskID {
				files = r.Files
			}
			add(client.LineResult, transport.MetaString(p, transport.MetaAgentID), text, files...)
			if ok && r.TaskID == p.TaskID {
				for _, v := range slices.Concat(OwnVerdicts(entry.Cause), entry.Verdicts) {
					if !v.Pass {
						add(client.LineNote, "", "checked: "+VerdictLine(&v))
					}
				}
			}
		case *a2a.Task:
			add(client.LineTask, transport.MetaString(p, transport.MetaAgentID), transport.Text(p.History[0].Parts), transport.FilesOf(p.History[0].Parts)...)
		case *a2a.Message:
			// An agent that asked gets the answer on topics of its own, too.
			told := slices.ContainsFunc(lines, func(l *client.Line) bool { return l.Kind == client.LineAnswer && l.ID == p.ID })
			if p.Role == a2a.MessageRoleAgent && !told {
				add(client.LineAnswer, transport.Cortex, transport.Text(p.Parts), transport.FilesOf(p.Parts)...)
				lines[len(lines)-1].ID = p.ID
			}
		}
	}
	return lines
}
