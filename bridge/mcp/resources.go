package mcp

import (
	"context"
	"encoding/json"
	"fmt"
	"net/url"
	"strconv"
	"strings"
	"time"
	"unicode/utf8"

	sdk "github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/cortex-orchestrator/cortex/client"
	"github.com/cortex-orchestrator/cortex/cortex/conversation"
	"github.com/cortex-orchestrator/cortex/cortex/storage"
	"github.com/cortex-orchestrator/cortex/internal/shorten"
	"github.com/cortex-orchestrator/cortex/prompt"
	"github.com/cortex-orchestrator/cortex/transport"
)

// Bounds of resources.
const (
	mostConversations = 50
	mostExamined      = 500       // conversations whose logs are read in search of those of the caller; the others' owners are in the list
	maxTranscript     = 256 << 10 // bytes
	maxFile           = 4 << 20   // bytes
)

const scheme = "cortex://"

func (s *Server) addResources(to *sdk.Server) {
	to.AddResource(&sdk.Resource{
		URI: scheme + "agents", Name: "agents", Title: "Agents", Description: "The agents that can be given work now", MIMEType: "application/json",
	}, s.readAgents)
	to.AddResource(&sdk.Resource{
		URI: scheme + "conversations", Name: "conversations", Title: "Conversations", Description: "Your conversations, the last one first", MIMEType: "application/json",
	}, s.readConversations)
	to.AddResourceTemplate(&sdk.ResourceTemplate{
		URITemplate: scheme + "agents/{id}", Name: "agent", Title: "Agent", Description: "An agent's card", MIMEType: "application/json",
	}, s.readAgents)
	to.AddResourceTemplate(&sdk.ResourceTemplate{
		URITemplate: scheme + "conversations/{id}", Name: "conversation", Title: "Conversation", Description: "What was said in a conversation", MIMEType: "text/markdown",
	}, s.readConversation)
	to.AddResourceTemplate(&sdk.ResourceTemplate{
		URITemplate: scheme + "artifacts/{conversation}/{message}/{number}", Name: "artifact", Title: "File", Description: "A file of an answer",
	}, s.readFile)
}

// fileURI returns the URI of the n-th file of an answer, from 1, or of its text.
func fileURI(t client.Turn, n int) string {
	return scheme + "artifacts/" + escape(t.ContextID) + "/" + escape(t.MessageID) + "/" + strconv.Itoa(n)
}

// escape escapes all that a variable of a URI template does not match as it is.
func escape(s string) string {
	var b strings.Builder
	for i := range len(s) {
		if c := s[i]; c >= '0' && c <= '9' || c >= 'a' && c <= 'z' || c >= 'A' && c <= 'Z' || strings.IndexByte("-._~", c) >= 0 {
			b.WriteByte(c)
		} else {
			fmt.Fprintf(&b, "%%%02X", c)
		}
	}
	return b.String()
}

// pathOf returns the words of a URI, after the first.
func pathOf(uri string) ([]string, bool) {
	words := strings.Split(strings.TrimPrefix(uri, scheme), "/")[1:]
	for i, w := range words {
		plain, err := url.PathUnescape(w)
		if err != nil {
			return nil, false
		}
		words[i] = plain
	}
	return words, true
}

func text(uri, kind, s string) *sdk.ReadResourceResult {
	return &sdk.ReadResourceResult{Contents: []*sdk.ResourceContents{{URI: uri, MIMEType: kind, Text: s}}}
}

func asJSON(uri string, v any) (*sdk.ReadResourceResult, error) {
	b, err := json.MarshalIndent(v, "", "  ")
	if err != nil {
		return nil, err
	}
	return text(uri, "application/json", string(b)), nil
}

// readAgents reads the list of agents, or one's card.
func (s *Server) readAgents(ctx context.Context, req *sdk.ReadResourceRequest) (*sdk.ReadResourceResult, error) {
	uri := req.Params.URI
	words, ok := pathOf(uri)
	cards, err := s.cfg.Agents(ctx)
	if err != nil {
		return nil, err
	}
	if ok && len(words) == 0 {
		_, list, err := s.listAgents(ctx, nil, listInput{Limit: mostAgents})
		if err != nil {
			return nil, err
		}
		return asJSON(uri, list)
	}
	for _, c := range cards {
		if ok && len(words) == 1 && idOf(c) == words[0] {
			return asJSON(uri, c)
		}
	}
	return nil, sdk.ResourceNotFoundError(uri)
}

type conversationLine struct {
	ID      string    `json:"context_id"`
	Title   string    `json:"title"`
	Updated time.Time `json:"updated"`
	URI     string    `json:"uri"`
}

func (s *Server) readConversations(ctx context.Context, req *sdk.ReadResourceRequest) (*sdk.ReadResourceResult, error) {
	c := s.callerOf(req.Extra, req.Session, req.ClientInfo())
	list, examined, note := []conversationLine{}, 0, ""
	bounded, end := context.WithTimeout(storage.WithRequester(ctx, c.user()), loadTime)
	defer end()
	for info, err := range s.cfg.Store.Contexts(bounded, c.Tenant) {
		if err == nil && len(list) == mostConversations {
			note = fmt.Sprintf("These are the newest %d; older ones are left out.", mostConversations)
			break
		}
		own := false
		if err == nil && !namesOwner(info.Outline) {
			if examined++; examined > mostExamined {
				note = notAll
				continue
			}
		}
		if err == nil {
			own, err = s.owns(bounded, c, &info)
		}
		if err != nil && ctx.Err() == nil && bounded.Err() != nil {
			note = notAll
			break
		}
		if err != nil {
			return nil, err
		}
		if own {
			list = append(list, conversationLine{ID: info.ContextID, Title: prompt.Clean(info.Title, 80), Updated: info.Updated.UTC(), URI: scheme + "conversations/" + escape(info.ContextID)})
		}
	}
	res, err := asJSON(req.Params.URI, list)
	if err == nil && note != "" {
		res.Contents = append(res.Contents, text(req.Params.URI, "text/plain", note).Contents...)
	}
	return res, err
}

// notAll is said where some conversations may be missing.
const notAll = "Not all conversations of this Cortex were looked at, since there are too many: yours may be among the others. Call it again later."

// namesOwner reports whether an outline says whose the conversation is; o may be nil.
func namesOwner(o *storage.Outline) bool { return o != nil && o.Owner != "" }

// owns reports whether a conversation is the caller's, or shared with them. One that cannot be read is nobody's.
func (s *Server) owns(ctx context.Context, c *caller, info *storage.ContextInfo) (bool, error) {
	if o := info.Outline; namesOwner(o) {
		conv := conversation.Conversation{Seq: 1, Owner: o.Owner, Shared: o.Shared}
		return conv.Admits(c.user()), nil
	}
	conv, err := s.load(ctx, c, info.ContextID)
	if err != nil && ctx.Err() != nil {
		return false, err
	}
	return err == nil && conv != nil, nil
}

// readConversation reads what was said, as far as it is not only in the log.
func (s *Server) readConversation(ctx context.Context, req *sdk.ReadResourceRequest) (*sdk.ReadResourceResult, error) {
	uri := req.Params.URI
	words, ok := pathOf(uri)
	if !ok || len(words) != 1 || transport.CheckID(words[0]) != nil {
		return nil, sdk.ResourceNotFoundError(uri)
	}
	conv, err := s.load(ctx, s.callerOf(req.Extra, req.Session, req.ClientInfo()), words[0])
	if err != nil {
		return nil, err
	}
	if conv == nil {
		return nil, sdk.ResourceNotFoundError(uri)
	}
	var parts []string
	room := maxTranscript
	for i := len(conv.Turns) - 1; i >= 0 && room > 0; i-- { // the newest are kept
		t := conv.Turns[i]
		said := "**" + prompt.Clean(t.From, 100) + "**: " + shorten.Marked(t.User, maxAnswer, "…")
		for _, p := range t.Files {
			said += "\n[" + transport.FileLine(p) + "]"
		}
		if !t.Open() {
			said += "\n\n**cortex**: " + shorten.Marked(t.Answer, maxAnswer, "…")
			for _, p := range t.Out {
				said += "\n[" + transport.FileLine(p) + "]"
			}
		} else {
			said += "\n\n(Cortex is at work.)"
		}
		room -= len(said)
		parts = append(parts, said)
	}
	if len(parts) < len(conv.Turns) || conv.Omitted > 0 {
		parts = append(parts, "(What was said before is left out.)")
	}
	if conv.Summary != "" {
		parts = append(parts, "(Before that, in short: "+shorten.Marked(conv.Summary, maxAnswer, "…")+")")
	}
	var b strings.Builder
	for i := len(parts) - 1; i >= 0; i-- {
		b.WriteString(parts[i] + "\n\n")
	}
	return text(uri, "text/markdown", b.String()), nil
}

// readFile reads a file of an answer to the caller.
func (s *Server) readFile(ctx context.Context, req *sdk.ReadResourceRequest) (*sdk.ReadResourceResult, error) {
	uri := req.Params.URI
	c := s.callerOf(req.Extra, req.Session, req.ClientInfo())
	words, ok := pathOf(uri)
	if !ok || len(words) != 3 || transport.CheckID(words[0]) != nil || transport.CheckID(words[1]) != nil {
		return nil, sdk.ResourceNotFoundError(uri)
	}
	n, err := strconv.Atoi(words[2])
	if err != nil || n < 0 {
		return nil, sdk.ResourceNotFoundError(uri)
	}
	if conv, err := s.load(ctx, c, words[0]); err != nil || conv == nil {
		if err == nil {
			err = sdk.ResourceNotFoundError(uri)
		}
		return nil, err
	}
	said, ok, err := c.Log(ctx, client.Turn{ContextID: words[0], From: c.user(), MessageID: words[1]})
	if err != nil {
		return nil, err
	}
	if !ok || n > len(transport.FilesOf(said.Parts)) {
		return nil, sdk.ResourceNotFoundError(uri)
	}
	if n == 0 {
		return text(uri, "text/plain", transport.Text(said.Parts)), nil
	}
	p := transport.FilesOf(said.Parts)[n-1]
	_, kind, _, _ := transport.FileOf(p)
	files, _ := c.Transport.(transport.Files)
	b, err := transport.ReadPart(ctx, files, c.Tenant, p, maxFile)
	if err != nil {
		return nil, fmt.Errorf("%s: %w; `cortex conversations history %s` tells more", transport.FileLine(p), err, prompt.ShellWord(words[0]))
	}
	if strings.HasPrefix(kind, "text/") && utf8.Valid(b) {
		return text(uri, kind, string(b)), nil
	}
	return &sdk.ReadResourceResult{Contents: []*sdk.ResourceContents{{URI: uri, MIMEType: kind, Blob: b}}}, nil
}
