package openai

import (
	"bytes"
	"cmp"
	"encoding/json"
	"errors"
	"unicode/utf8"

	"github.com/cortex-orchestrator/cortex/llm"
)

// The SDK encodes a request's messages three times over, since it reflects, escapes and checks what it has just made. They are nearly all of a request, and
// the same ones are sent again at each decision, so they are written here and put in place of none of the SDK's.
const noMessages = `"messages":null`

// appendMessages appends the messages of r as the SDK would encode them, but for characters that JSON need not escape.
func (c *Client) appendMessages(b []byte, r *llm.Request) []byte {
	b = append(b, '[')
	if r.System != "" {
		b = appendMessage(b, c.cfg.SystemRole, r.System)
	}
	for i := range r.Messages {
		m := &r.Messages[i]
		if i > 0 || r.System != "" {
			b = append(b, ',')
		}
		if len(m.Parts) == 1 && m.Parts[0].Image == nil {
			b = appendMessage(b, string(m.Role), m.Parts[0].Text)
			continue
		}
		b = c.appendParts(b, c.shown(*m))
	}
	return append(b, ']')
}

// appendMessage appends a message of text, the only form that some endpoints accept.
func appendMessage(b []byte, role, text string) []byte {
	b = appendQuoted(append(b, `{"role":`...), role)
	b = appendQuoted(append(b, `,"content":`...), cmp.Or(text, emptyText))
	return append(b, '}')
}

// appendParts appends a message of several parts, if it still has those.
func (c *Client) appendParts(b []byte, m llm.Message) []byte {
	if len(m.Parts) == 1 && m.Parts[0].Image == nil {
		return appendMessage(b, string(m.Role), m.Parts[0].Text)
	}
	b = appendQuoted(append(b, `{"role":`...), string(m.Role))
	b = append(b, `,"content":[`...)
	for i, p := range m.Parts {
		if i > 0 {
			b = append(b, ',')
		}
		if p.Image != nil {
			b = appendQuoted(append(b, `{"type":"image_url","image_url":{"url":`...), dataURL(p.Image))
			b = append(b, '}', '}')
			continue
		}
		b = appendQuoted(append(b, `{"type":"text","text":`...), cmp.Or(p.Text, emptyText))
		b = append(b, '}')
	}
	return append(b, ']', '}')
}

// appendQuoted appends s as a JSON string, with a replacement for what is no UTF-8.
func appendQuoted(b []byte, s string) []byte {
	const hex = "0123456789abcdef"
	b = append(b, '"')
	begin := 0
	for i := 0; i < len(s); {
		c := s[i]
		if c >= ' ' && c < utf8.RuneSelf && c != '"' && c != '\\' {
			i++
			continue
		}
		if c >= utf8.RuneSelf {
			r, n := utf8.DecodeRuneInString(s[i:])
			if r != utf8.RuneError || n > 1 {
				i += n
				continue
			}
			b = append(append(b, s[begin:i]...), "\uFFFD"...)
			i++
			begin = i
			continue
		}
		b = append(b, s[begin:i]...)
		switch c {
		case '"', '\\':
			b = append(b, '\\', c)
		case '\n':
			b = append(b, '\\', 'n')
		case '\t':
			b = append(b, '\\', 't')
		case '\r':
			b = append(b, '\\', 'r')
		default:
			b = append(b, '\\', 'u', '0', '0', hex[c>>4], hex[c&15])
		}
		i++
		begin = i
	}
	return append(append(b, s[begin:]...), '"')
}

// withMessages returns the SDK's request with the messages of r, and with extra fields before the others.
func (c *Client) withMessages(body []byte, extra map[string]any, r *llm.Request) ([]byte, error) {
	fields, err := json.Marshal(extra)
	if err != nil {
		return nil, err
	}
	at := bytes.Index(body, []byte(noMessages)) // a text cannot have it, since quotes are escaped there; the model's name is all that is before it
	if at < 1 || body[0] != '{' {
		return nil, errors.New("the SDK's request has no place for messages")
	}
	texts, _ := r.Size()
	out := make([]byte, 0, len(fields)+len(body)+texts+texts/8+64*len(r.Messages)+64)
	out = append(out, fields[:len(fields)-1]...)
	if len(extra) > 0 {
		out = append(out, ',')
	}
	at += len(noMessages) - len("null")
	out = c.appendMessages(append(out, body[1:at]...), r)
	return append(out, body[at+len("null"):]...), nil
}
