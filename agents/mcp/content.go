package mcp

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"path"
	"reflect"
	"strings"

	"github.com/a2aproject/a2a-go/v2/a2a"
	sdk "github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/cortex-orchestrator/cortex/agents"
	"github.com/cortex-orchestrator/cortex/internal/nesting"
	"github.com/cortex-orchestrator/cortex/internal/shorten"
	"github.com/cortex-orchestrator/cortex/transport"
)

const (
	maxWeight = transport.MaxWeight / 4 // bytes that it takes decoded; a heavier one becomes a file
	maxData   = 1 << 20                 // bytes of structured content; larger content becomes a file
	maxLinks  = 100
)

// result converts the result of a tool. Texts and values that are too large for a message become files.
func result(ctx context.Context, t *agents.Task, of *tool, r *sdk.CallToolResult) (*agents.Result, error) {
	o := &output{ctx: ctx, task: t, room: agents.MaxResultText}
	var err error
	if text, ok := of.unwrap(r.StructuredContent); ok {
		err = o.text(text)
	} else if r.StructuredContent != nil {
		err = o.data(r.StructuredContent)
	}
	if err != nil {
		return nil, err
	}
	for _, c := range r.Content {
		if err := o.add(c, r.StructuredContent); err != nil {
			return nil, err
		}
	}
	if o.left > 0 {
		o.parts = append(o.parts, a2a.NewTextPart(fmt.Sprintf("[%d more are left out: a result has at most %d files and %d links]", o.left, transport.MaxFiles, maxLinks)))
	}
	return &agents.Result{Parts: o.parts}, nil
}

// output is a result under construction.
type output struct {
	ctx   context.Context //nolint:containedctx // it lives as long as the call of result
	task  *agents.Task
	parts a2a.ContentParts
	room  int // bytes of text
	files int
	links int
	left  int // number of contents left out
}

func (o *output) data(v any) error {
	b, err := transport.EncodeValue(v)
	if err != nil {
		return fmt.Errorf("the structured result cannot be passed on: %w", err)
	}
	if len(b) > maxData || nesting.Weight(b) > maxWeight {
		return o.file("result.json", "application/json", b)
	}
	o.parts = append(o.parts, a2a.NewDataPart(v))
	return nil
}

func (o *output) add(c sdk.Content, data any) error {
	switch c := c.(type) {
	case *sdk.TextContent:
		if data != nil && says(c.Text, data) {
			return nil // a copy for clients that do not read structured content
		}
		return o.text(c.Text)
	case *sdk.ImageContent:
		return o.file("", c.MIMEType, c.Data)
	case *sdk.AudioContent:
		return o.file("", c.MIMEType, c.Data)
	case *sdk.ResourceLink:
		if o.links++; o.links > maxLinks || len(c.URI) > 8<<10 || c.URI == "" {
			o.left++
			return nil
		}
		name := c.Name
		if c.Title != "" {
			name = c.Title
		}
		o.parts = append(o.parts, &a2a.Part{Content: a2a.URL(c.URI), Filename: shorten.To(name, 255), MediaType: shorten.To(c.MIMEType, 255)})
	case *sdk.EmbeddedResource:
		if c.Resource == nil {
			return nil
		}
		b := c.Resource.Blob
		if len(b) == 0 {
			b = []byte(c.Resource.Text)
		}
		return o.file(path.Base(c.Resource.URI), c.Resource.MIMEType, b)
	}
	return nil
}

func (o *output) text(s string) error {
	if len(s) > o.room {
		return o.file("result.txt", "text/plain", []byte(s))
	}
	o.room -= len(s)
	if s != "" {
		o.parts = append(o.parts, a2a.NewTextPart(s))
	}
	return nil
}

func (o *output) file(name, kind string, b []byte) error {
	if o.files++; o.files > transport.MaxFiles {
		o.left++
		return nil
	}
	name = transport.FileName(name, kind, o.files)
	if o.files > 1 {
		name = fmt.Sprintf("%d-%s", o.files, name) // an artifact of the same name would replace it
	}
	return o.task.AddFile(o.ctx, name, kind, bytes.NewReader(b))
}

// unwrap returns the text in structured content that is nothing but a text by its schema.
func (t *tool) unwrap(v any) (string, bool) {
	fields, _ := v.(map[string]any)
	text, ok := fields[t.wrapped].(string)
	return text, ok && t.wrapped != "" && len(fields) == 1
}

// says reports whether text is v as JSON, or the value of one of its fields.
func says(text string, v any) bool {
	var is any
	if json.Unmarshal([]byte(text), &is) != nil {
		is = text
	}
	if reflect.DeepEqual(is, v) {
		return true
	}
	fields, _ := v.(map[string]any)
	for _, f := range fields {
		if reflect.DeepEqual(is, f) || f == text {
			return true
		}
	}
	return false
}

// failure returns the error text of a failed tool.
func failure(r *sdk.CallToolResult) string {
	var said []string
	for _, c := range r.Content {
		if t, ok := c.(*sdk.TextContent); ok && strings.TrimSpace(t.Text) != "" {
			said = append(said, strings.TrimSpace(t.Text))
		}
	}
	if len(said) == 0 && r.StructuredContent != nil {
		if b, err := json.Marshal(r.StructuredContent); err == nil {
			said = append(said, string(b))
		}
	}
	if len(said) == 0 {
		return "the tool has failed, and does not say why"
	}
	return strings.Join(said, "\n")
}
