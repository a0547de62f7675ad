package mcp

import (
	"cmp"
	"context"
	"encoding/json"
	"path"
	"reflect"
	"strings"

	sdk "github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/cortex-orchestrator/cortex/agents"
	"github.com/cortex-orchestrator/cortex/agents/internal/result"
)

// maxCopies bounds the pieces of a result among which copies of its structured content are looked for.
const maxCopies = 16

// resultOf converts the result of a tool. Texts and values that are too large for a message become files.
func resultOf(ctx context.Context, t *agents.Task, of *tool, r *sdk.CallToolResult) (*agents.Result, error) {
	o := result.New(ctx, t)
	var err error
	if text, ok := of.unwrap(r.StructuredContent); ok {
		err = o.Text(text)
	} else {
		err = o.Data(r.StructuredContent)
	}
	if err != nil {
		return nil, err
	}
	data := r.StructuredContent
	if len(r.Content) > maxCopies { // no copy of it comes in so many pieces, and each is compared with all of its fields
		data = nil
	}
	for _, c := range r.Content {
		if err := add(o, c, data); err != nil {
			return nil, err
		}
	}
	return o.Result(), nil
}

func add(o *result.Builder, c sdk.Content, data any) error {
	switch c := c.(type) {
	case *sdk.TextContent:
		if data != nil && says(c.Text, data) {
			return nil // a copy for clients that do not read structured content
		}
		return o.Text(c.Text)
	case *sdk.ImageContent:
		return o.File("", c.MIMEType, c.Data)
	case *sdk.AudioContent:
		return o.File("", c.MIMEType, c.Data)
	case *sdk.ResourceLink:
		o.Link(c.URI, cmp.Or(c.Title, c.Name), c.MIMEType, c.URI != "")
	case *sdk.EmbeddedResource:
		if c.Resource == nil {
			return nil
		}
		b := c.Resource.Blob
		if len(b) == 0 {
			b = []byte(c.Resource.Text)
		}
		return o.File(path.Base(c.Resource.URI), c.Resource.MIMEType, b)
	}
	return nil
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
