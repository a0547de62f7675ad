package agenthub

import (
	"context"
	"fmt"
	"strings"
	"time"

	"github.com/a2aproject/a2a-go/v2/a2a"
	"google.golang.org/protobuf/types/known/structpb"
	"google.golang.org/protobuf/types/known/timestamppb"

	"github.com/cortex-orchestrator/cortex/agents"
	"github.com/cortex-orchestrator/cortex/bridge/agenthub/hubpb"
	"github.com/cortex-orchestrator/cortex/transport"
)

// maxFiles bounds the files of a task or an answer, in bytes: peers take messages of 4 MiB.
const maxFiles = 2 << 20

// doneWords begins what programs say at the end of each task, which is no answer.
const doneWords = "Task completed with status"

// partsOf returns the content of a peer's message or artifact.
func partsOf(all []*hubpb.Part) a2a.ContentParts {
	var parts a2a.ContentParts
	for _, p := range all {
		switch c := p.GetPart().(type) {
		case *hubpb.Part_Text:
			if c.Text != "" {
				parts = append(parts, a2a.NewTextPart(c.Text))
			}
		case *hubpb.Part_Data:
			if data := c.Data.GetData(); data != nil {
				parts = append(parts, a2a.NewDataPart(data.AsMap()))
			}
		case *hubpb.Part_File:
			f := &a2a.Part{Filename: c.File.GetName(), MediaType: c.File.GetMimeType()}
			switch of := c.File.GetFile().(type) {
			case *hubpb.FilePart_FileWithBytes:
				f.Content = a2a.Raw(of.FileWithBytes)
			case *hubpb.FilePart_FileWithUri:
				f.Content = a2a.URL(of.FileWithUri)
			default:
				continue
			}
			parts = append(parts, f)
		}
	}
	return parts
}

// content returns parts for a peer, without files that are stored with the transport.
func content(parts a2a.ContentParts) []*hubpb.Part {
	var all []*hubpb.Part
	for _, p := range parts {
		if p == nil {
			continue
		}
		switch c := p.Content.(type) {
		case a2a.Text:
			all = append(all, textPart(string(c)))
		case a2a.Data:
			all = append(all, dataPart(c.Value))
		case a2a.Raw:
			all = append(all, filePart(p.Filename, p.MediaType, c))
		case a2a.URL:
			if !transport.IsFileRef(p) {
				all = append(all, &hubpb.Part{Part: &hubpb.Part_File{File: &hubpb.FilePart{
					File: &hubpb.FilePart_FileWithUri{FileWithUri: string(c)}, Name: p.Filename, MimeType: p.MediaType,
				}}})
			}
		}
	}
	return all
}

// given returns what a task asks for, with its files.
func given(ctx context.Context, t *agents.Task) ([]*hubpb.Part, error) {
	var rest a2a.ContentParts // in place of files, which are last
	for _, p := range t.Message.Parts {
		if _, _, _, file := transport.FileOf(p); !file {
			rest = append(rest, p)
		}
	}
	all, room := content(rest), int64(maxFiles)
	for _, f := range t.Files() {
		b, err := f.Bytes(ctx, room)
		if err != nil {
			return nil, fmt.Errorf("the file cannot be sent to an agent of AgentHub, which takes %d MiB in all: %w", maxFiles>>20, err)
		}
		room -= int64(len(b))
		all = append(all, filePart(f.Name, f.Type, b))
	}
	return all, nil
}

func textPart(text string) *hubpb.Part {
	return &hubpb.Part{Part: &hubpb.Part_Text{Text: strings.ToValidUTF8(text, "\uFFFD")}}
}

func filePart(name, kind string, b []byte) *hubpb.Part {
	return &hubpb.Part{Part: &hubpb.Part_File{File: &hubpb.FilePart{
		File: &hubpb.FilePart_FileWithBytes{FileWithBytes: b}, Name: strings.ToValidUTF8(name, ""), MimeType: strings.ToValidUTF8(kind, ""),
	}}}
}

// dataPart returns structured content: as such if it is an object, which is all that the wire has, else as JSON.
func dataPart(v any) *hubpb.Part {
	b, err := transport.EncodeValue(v)
	if err != nil {
		return textPart(fmt.Sprint(v))
	}
	data := new(structpb.Struct)
	if data.UnmarshalJSON(b) != nil {
		return textPart(string(b))
	}
	return &hubpb.Part{Part: &hubpb.Part_Data{Data: &hubpb.DataPart{Data: data}}}
}

// words returns the texts of a message.
func words(m *hubpb.Message) string { return transport.Text(partsOf(m.GetContent())) }

// said returns what a status says, without the words that say nothing.
func said(s *hubpb.TaskStatus) string {
	text := words(s.GetUpdate())
	if strings.HasPrefix(text, doneWords) {
		return ""
	}
	return text
}

// metadata returns pairs of names and values, without empty values.
func metadata(pairs ...string) *structpb.Struct {
	m := map[string]*structpb.Value{}
	for i := 0; i < len(pairs); i += 2 {
		if v := strings.ToValidUTF8(pairs[i+1], "\uFFFD"); v != "" {
			m[pairs[i]] = structpb.NewStringValue(v)
		}
	}
	return &structpb.Struct{Fields: m}
}

// meta returns a text in metadata.
func meta(s *structpb.Struct, name string) string { return s.GetFields()[name].GetStringValue() }

// asMap returns metadata as Cortex has them.
func asMap(s *structpb.Struct) map[string]any {
	if len(s.GetFields()) == 0 {
		return nil
	}
	return s.AsMap()
}

// states are the states of tasks in Cortex.
var states = map[hubpb.TaskState]a2a.TaskState{
	hubpb.TaskState_TASK_STATE_SUBMITTED:      a2a.TaskStateSubmitted,
	hubpb.TaskState_TASK_STATE_WORKING:        a2a.TaskStateWorking,
	hubpb.TaskState_TASK_STATE_COMPLETED:      a2a.TaskStateCompleted,
	hubpb.TaskState_TASK_STATE_FAILED:         a2a.TaskStateFailed,
	hubpb.TaskState_TASK_STATE_CANCELLED:      a2a.TaskStateCanceled,
	hubpb.TaskState_TASK_STATE_INPUT_REQUIRED: a2a.TaskStateInputRequired,
	hubpb.TaskState_TASK_STATE_REJECTED:       a2a.TaskStateRejected,
	hubpb.TaskState_TASK_STATE_AUTH_REQUIRED:  a2a.TaskStateAuthRequired,
}

// cancelled returns the status of a canceled task.
func cancelled(t *hubpb.Task, reason string, now time.Time) *hubpb.TaskStatus {
	at := timestamppb.New(now)
	return &hubpb.TaskStatus{State: hubpb.TaskState_TASK_STATE_CANCELLED, Timestamp: at, Update: &hubpb.Message{
		MessageId: fmt.Sprintf("cancel_%s_%d", t.Id, at.Seconds), ContextId: t.ContextId, TaskId: t.Id, Role: hubpb.Role_ROLE_AGENT,
		Content: []*hubpb.Part{textPart("Task cancelled: " + reason)},
	}}
}

// route returns the routing of an event of Cortex.
func route(to, eventType string, priority hubpb.Priority) *hubpb.AgentEventMetadata {
	return &hubpb.AgentEventMetadata{FromAgentId: transport.Cortex, ToAgentId: to, EventType: eventType, Priority: priority}
}
