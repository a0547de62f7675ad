package mcp

import (
	"context"
	"errors"
	"strings"
	"time"

	sdk "github.com/modelcontextprotocol/go-sdk/mcp"
)

// Bounds of what answers over HTTP take in memory at the same time, in bytes, that are not small: a resource, and a list of agents. All else has its bound
// by [maxRunning] and [maxAnswer].
const (
	mostRead = 256 << 20
	ownRead  = 64 << 20 // of a caller

	fileRoom = 32 << 20 // a file is encoded twice
	textRoom = 8 << 20
)

const (
	methodRead = "resources/read"
	methodCall = "tools/call"
	readTime   = 30 * time.Second // for a resource, to its last byte
)

var (
	errMuch = errors.New("too much of yours, or of all, is being read: ask for it again in a moment")
	errMost = errors.New("too much of yours, or of all, is being worked at: send it again in a moment")
	errGone = errors.New("the client is gone")
)

// post is a request over HTTP.
type post struct {
	ctx  context.Context //nolint:containedctx // ends when its client is gone
	over context.Context //nolint:containedctx // ends when it has been answered to its end

	decoded func() // is called when its message has been decoded
}

// postOf returns the request that a call came with, or nil when it is over.
func (s *Server) postOf(extra *sdk.RequestExtra) *post {
	of, _ := s.posts.Load(extra.Header.Get(headerPost))
	p, _ := of.(*post)
	return p
}

// decoded says that the message of a call has been decoded.
func (s *Server) decoded(extra *sdk.RequestExtra) {
	if extra == nil || extra.Header == nil {
		return
	}
	if p := s.postOf(extra); p != nil {
		p.decoded()
	}
}

// addTool adds a tool, and says of each call when its arguments have been decoded.
func addTool[In, Out any](s *Server, to *sdk.Server, t *sdk.Tool, do sdk.ToolHandlerFor[In, Out]) {
	sdk.AddTool(to, t, func(ctx context.Context, req *sdk.CallToolRequest, in In) (*sdk.CallToolResult, Out, error) {
		s.decoded(req.GetExtra())
		return do(ctx, req, in)
	})
}

// inRoom is a middleware that has large answers wait for room, which they keep until they are written. A call of a session goes on when its client is gone:
// then it keeps the room until it has ended.
func (s *Server) inRoom(next sdk.MethodHandler) sdk.MethodHandler {
	return func(ctx context.Context, method string, req sdk.Request) (sdk.Result, error) {
		if method != methodCall { // the arguments of a tool are decoded later
			s.decoded(req.GetExtra())
		}
		n := roomOf(req)
		if n == 0 {
			return next(ctx, method, req)
		}
		extra := req.GetExtra()
		p := s.postOf(extra)
		if p == nil {
			return nil, errGone
		}
		user := userOf(extra.TokenInfo)
		if !s.room.Take(p.over, user, n) {
			return nil, errMuch
		}
		defer func() { context.AfterFunc(p.over, func() { s.room.Give(user, n) }) }()
		res, err := next(ctx, method, req)
		if p.over.Err() != nil { // nobody gets it
			return nil, errGone
		}
		return res, err
	}
}

// roomOf returns what the answer to a call takes, in bytes; 0 when that is little.
func roomOf(req sdk.Request) int64 {
	switch r := req.(type) {
	case *sdk.ReadResourceRequest:
		if strings.HasPrefix(r.Params.URI, scheme+"artifacts/") {
			return fileRoom
		}
		return textRoom
	case *sdk.CallToolRequest:
		if r.Params.Name == "list_agents" {
			return textRoom
		}
	}
	return 0
}
