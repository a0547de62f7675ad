package mcp

import (
	"time"

	sdk "github.com/modelcontextprotocol/go-sdk/mcp"
)

const (
	stateless = "2026-07-28" // the first revision in which the client repeats a call with the user's reply
	replyKey  = "reply"      // of the form in that revision, and of its field
	formTime  = 30 * time.Minute
)

// canElicit reports whether the host can put a form to its user.
func canElicit(req *sdk.CallToolRequest) bool {
	c := req.ClientCapabilities()
	return c != nil && c.Elicitation != nil && (c.Elicitation.Form != nil || c.Elicitation.URL == nil)
}

// form returns the question of an answer as a form with one field.
func (a *answer) form() *sdk.ElicitParams {
	field := map[string]any{"type": "string", "title": "Reply"}
	if a.held {
		field = map[string]any{"type": "string", "title": "Do it?", "enum": []string{"yes", "no"}}
	}
	return &sdk.ElicitParams{
		Mode: "form", Message: a.Question,
		RequestedSchema: map[string]any{"type": "object", "properties": map[string]any{replyKey: field}, "required": []string{replyKey}},
	}
}

// replyOf returns the user's reply in a form; false when there is none. To decline what waits for a yes is a no.
func replyOf(r *sdk.ElicitResult, held bool) (string, bool) {
	switch {
	case r == nil:
		return "", false
	case r.Action == "decline" && held:
		return "no", true
	case r.Action != "accept":
		return "", false
	}
	text, _ := r.Content[replyKey].(string)
	return text, text != ""
}
