package transport

import (
	"github.com/a2aproject/a2a-go/v2/a2a"
)

// Frequent payloads, and events, are decoded and encoded in one pass by the reader and the writer of this package, if they are plain: encoding/json
// makes three passes over each part of a message, since a2a's types have methods. Other JSON is left to encoding/json, so the meaning is the same.

// maxPlain bounds the nesting of a plain value.
const maxPlain = 32

// field is a field of an object: its name, a pointer to its value, and whether it is encoded when it is empty.
type field struct {
	name   string
	value  any
	always bool
}

// fields are the fields of an object, terminated by one without a name.
type fields [14]field

// fieldsOf returns the fields of an object in the order of encoding/json; none for an unknown type.
func fieldsOf(p any) (f fields) {
	switch p := p.(type) {
	case *a2a.Message:
		return fields{
			{"messageId", &p.ID, true},
			{"contextId", &p.ContextID, false},
			{"extensions", &p.Extensions, false},
			{"metadata", &p.Metadata, false},
			{"parts", &p.Parts, true},
			{"referenceTaskIds", &p.ReferenceTasks, false},
			{"role", &p.Role, true},
			{"taskId", (*string)(&p.TaskID), false},
		}
	case *a2a.Task:
		return fields{
			{"id", (*string)(&p.ID), true},
			{"artifacts", &p.Artifacts, false},
			{"contextId", &p.ContextID, true},
			{"history", &p.History, false},
			{"metadata", &p.Metadata, false},
			{"status", &p.Status, true},
		}
	case *a2a.TaskStatus:
		return fields{
			{"message", &p.Message, false},
			{"state", &p.State, true},
			{"timestamp", &p.Timestamp, false},
		}
	case *a2a.Artifact:
		return fields{
			{"artifactId", (*string)(&p.ID), true},
			{"description", &p.Description, false},
			{"extensions", &p.Extensions, false},
			{"metadata", &p.Metadata, false},
			{"name", &p.Name, false},
			{"parts", &p.Parts, true},
		}
	case *a2a.TaskStatusUpdateEvent:
		return fields{
			{"contextId", &p.ContextID, true},
			{"status", &p.Status, true},
			{"taskId", (*string)(&p.TaskID), true},
			{"metadata", &p.Metadata, false},
		}
	case *a2a.TaskArtifactUpdateEvent:
		return fields{
			{"append", &p.Append, false},
			{"artifact", &p.Artifact, true},
			{"contextId", &p.ContextID, true},
			{"lastChunk", &p.LastChunk, false},
			{"taskId", (*string)(&p.TaskID), true},
			{"metadata", &p.Metadata, false},
		}
	case *partJSON:
		return fields{
			{"text", &p.text, false},
			{"raw", &p.raw, false},
			{"data", &p.data, false},
			{"url", &p.url, false},
			{"filename", &p.filename, false},
			{"mediaType", &p.mediaType, false},
			{"metadata", &p.metadata, false},
		}
	case *eventJSON:
		return fields{
			{"id", &p.ID, true},
			{"time", &p.Time, true},
			{"from", &p.From, true},
			{"to", &p.To, false},
			{"tenant", &p.Tenant, false},
			{"contextId", &p.ContextID, false},
			{"taskId", (*string)(&p.TaskID), false},
			{"traceparent", &p.Traceparent, false},
			{"tracestate", &p.Tracestate, false},
			{"deliverAt", &p.DeliverAt, false},
			{"kind", &p.Kind, true},
			{"v", &p.Version, true},
			{"payload", &p.Payload, false},
			{"data", &p.Data, false},
		}
	}
	return f
}

// partJSON is the encoding of an a2a part: with one content.
type partJSON struct {
	text, url           *string
	raw                 *[]byte
	data                *any
	filename, mediaType string
	metadata            map[string]any
}

func toJSON(p *a2a.Part) partJSON {
	j := partJSON{filename: p.Filename, mediaType: p.MediaType, metadata: p.Metadata}
	switch c := p.Content.(type) {
	case a2a.Text:
		j.text = (*string)(&c)
	case a2a.Raw:
		j.raw = (*[]byte)(&c)
	case a2a.Data:
		j.data = &c.Value
	case a2a.URL:
		if c != "" {
			j.url = (*string)(&c)
		}
	}
	return j
}

// part returns the part that j encodes, or false unless it has exactly one content.
func (j *partJSON) part() (*a2a.Part, bool) {
	p, n := &a2a.Part{Filename: j.filename, MediaType: j.mediaType, Metadata: j.metadata}, 0
	if j.text != nil {
		p.Content = a2a.Text(*j.text)
		n++
	}
	if j.raw != nil {
		p.Content = a2a.Raw(*j.raw)
		n++
	}
	if j.data != nil {
		p.Content = a2a.Data{Value: *j.data}
		n++
	}
	if j.url != nil && *j.url != "" {
		p.Content = a2a.URL(*j.url)
		n++
	}
	return p, n == 1
}
