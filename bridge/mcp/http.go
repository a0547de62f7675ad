package mcp

import (
	"bytes"
	"context"
	"encoding/json"
	"io"
	"net/http"
	"strings"
	"sync"
	"time"

	"github.com/google/uuid"
	"github.com/modelcontextprotocol/go-sdk/auth"
	sdk "github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/cortex-orchestrator/cortex/bridge/kit"
	"github.com/cortex-orchestrator/cortex/internal/httpserver"
	"github.com/cortex-orchestrator/cortex/internal/lapse"
	"github.com/cortex-orchestrator/cortex/internal/nesting"
)

// Bounds of a request, in bytes.
const (
	maxBody  = 1 << 20
	maxBegin = 64 << 10 // of one that begins a session, which keeps it
	maxHeavy = 8 << 20  // that it takes when it is decoded, as far as that can be estimated
)

// Headers of a request. The last two are never taken from outside.
const (
	headerSession = "Mcp-Session-Id"
	headerVersion = "Mcp-Protocol-Version"
	headerCall    = "Cortex-Mcp-Call" // names a call of a session
	headerPost    = "Cortex-Mcp-Post" // names the request
)

// Identify returns the sender that a bearer token is for.
type Identify func(token string) (user string, err error)

// Handler serves MCP over HTTP, all revisions at one address. With nil, nobody has a token, and only programs on this machine are served.
//
// The SDK serves 2026-07-28, which knows no sessions, and earlier revisions, which cannot ask the user without them, by different handlers.
func (s *Server) Handler(identify Identify) http.Handler {
	free, bound := s.server(), s.server()
	free.AddReceivingMiddleware(s.inRoom)
	bound.AddReceivingMiddleware(s.inRoom)
	return handler(free, bound, identify, func(h http.Handler) http.Handler { return s.mark(h, formTime+2*s.cfg.Wait) })
}

// handler serves one server without sessions and one with them. Only where nobody has a token does the name by which it is reached have to be that
// of this machine: a page in a browser can give itself another one, but has no token. With tokens it is the name of a proxy.
func handler(free, bound *sdk.Server, identify Identify, mark func(http.Handler) http.Handler) http.Handler {
	without := sdk.NewStreamableHTTPHandler(func(*http.Request) *sdk.Server { return free }, &sdk.StreamableHTTPOptions{
		Stateless: true, PropagateRequestCancellation: true, MaxRequestBodyBytes: maxBody, DisableLocalhostProtection: identify != nil,
	})
	with := &sessions{next: sdk.NewStreamableHTTPHandler(func(*http.Request) *sdk.Server { return bound }, &sdk.StreamableHTTPOptions{
		SessionTimeout: sessionTime, MaxRequestBodyBytes: maxBody, DisableLocalhostProtection: identify != nil,
	})}
	bound.AddReceivingMiddleware(with.begun)
	by := http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		switch {
		case r.Method != http.MethodPost && r.Method != http.MethodDelete: // there is nothing to say outside of calls
			w.Header().Set("Allow", "POST, DELETE")
			http.Error(w, "POST a message of MCP here", http.StatusMethodNotAllowed)
		case r.Header.Get(headerSession) == "" && r.Header.Get(headerVersion) >= stateless:
			without.ServeHTTP(w, r)
		default:
			with.ServeHTTP(w, r)
		}
	})
	return http.NewCrossOriginProtection().Handler(admit(mark(by), identify))
}

// admit lets in who may ask.
func admit(h http.Handler, identify Identify) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if identify == nil {
			if !kit.Local(r.RemoteAddr, r.Header) {
				http.Error(w, "this Cortex has no keys, and lets in only programs on its own machine: see `cortex auth --help`", http.StatusForbidden)
				return
			}
			h.ServeHTTP(w, r)
			return
		}
		kind, token, _ := strings.Cut(r.Header.Get("Authorization"), " ")
		user, err := "", error(nil)
		if strings.EqualFold(kind, "Bearer") {
			user, err = identify(strings.TrimSpace(token))
		}
		if user == "" || err != nil {
			why := "a bearer token is needed: `cortex auth token` makes one"
			if err != nil {
				why = err.Error()
			}
			w.Header().Set("WWW-Authenticate", "Bearer")
			http.Error(w, why, http.StatusUnauthorized)
			return
		}
		httpserver.By(r.Context(), user)
		ctx, end := lapse.While(r.Context(), func() error { _, err := identify(strings.TrimSpace(token)); return err })
		defer end()
		r = r.WithContext(ctx)
		is := func(context.Context, string, *http.Request) (*auth.TokenInfo, error) {
			return &auth.TokenInfo{UserID: user}, nil
		}
		auth.RequireBearerToken(is, &auth.RequireBearerTokenOptions{AllowMissingExpiration: true})(h).ServeHTTP(w, r)
	})
}

// mark gives a request the time that a call takes, and lets the call find out which one it is and whether its client is still there.
func (s *Server) mark(h http.Handler, long time.Duration) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		r.Header.Del(headerCall)
		r.Header.Del(headerPost)
		if r.Method == http.MethodPost {
			body, err := io.ReadAll(http.MaxBytesReader(w, r.Body, maxBody))
			if err != nil {
				http.Error(w, "the message has more than 1 MiB, or did not arrive", http.StatusRequestEntityTooLarge)
				return
			}
			if stays := r.Header.Get(headerSession) == "" && r.Header.Get(headerVersion) < stateless; stays && len(body) > maxBegin {
				http.Error(w, "the message has more than 64 KiB, and no session: initialize one first", http.StatusRequestEntityTooLarge)
				return
			}
			decoded := func() {}
			if user := userOf(auth.TokenInfoFromContext(r.Context())); len(body) > httpserver.LargeBody {
				if !s.turns.Take(r.Context(), user, 1) {
					http.Error(w, errMost.Error(), http.StatusTooManyRequests)
					return
				}
				decoded = sync.OnceFunc(func() { s.turns.Give(user, 1) })
			}
			defer decoded()
			if nesting.Weight(body) > maxHeavy {
				http.Error(w, "the message has too many values: send less at a time, or a file", http.StatusRequestEntityTooLarge)
				return
			}
			if text := bytes.TrimLeft(body, " \t\r\n"); len(text) > 0 && text[0] == '[' {
				http.Error(w, "send one message at a time: batches are no part of MCP any more", http.StatusBadRequest)
				return
			}
			r.Body = io.NopCloser(bytes.NewReader(body))
			var m struct {
				ID     json.RawMessage `json:"id"`
				Method string          `json:"method"`
			}
			known := json.Unmarshal(body, &m) == nil
			if session := r.Header.Get(headerSession); session != "" && known && m.ID != nil {
				r.Header.Set(headerCall, session+"/"+string(m.ID))
			}
			id := uuid.NewString()
			r.Header.Set(headerPost, id)
			over, done := context.WithCancel(context.WithoutCancel(r.Context()))
			defer done()
			s.posts.Store(id, &post{r.Context(), over, decoded})
			defer s.posts.Delete(id)
			allowed := long
			if m.Method == methodRead {
				allowed = readTime // its room is not kept by who reads slowly
			}
			end := time.Now().Add(allowed)
			c := http.NewResponseController(w)
			_ = c.SetReadDeadline(end) // a test's writer has none
			_ = c.SetWriteDeadline(end)
		}
		h.ServeHTTP(w, r)
	})
}

// callID names the call of a session, so that the same one again is known; "" without a session.
func callID(extra *sdk.RequestExtra) string {
	if extra == nil || extra.Header == nil {
		return ""
	}
	return extra.Header.Get(headerCall)
}

// isGone reports whether the result of a call reaches nobody.
func (s *Server) isGone(ctx context.Context, extra *sdk.RequestExtra) bool {
	if ctx.Err() != nil {
		return true
	}
	if extra == nil || extra.Header == nil {
		return false
	}
	p := s.postOf(extra)
	return p == nil || p.ctx.Err() != nil
}
