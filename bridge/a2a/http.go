package a2a

import (
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"mime"
	"net"
	"net/http"
	"net/netip"
	"net/url"
	"strings"
	"sync"
	"time"

	"github.com/a2aproject/a2a-go/v2/a2a"
	"github.com/a2aproject/a2a-go/v2/a2asrv"

	"github.com/cortex-orchestrator/cortex/bridge/kit"
	"github.com/cortex-orchestrator/cortex/internal/httpserver"
	"github.com/cortex-orchestrator/cortex/internal/lapse"
	"github.com/cortex-orchestrator/cortex/internal/nesting"
	"github.com/cortex-orchestrator/cortex/transport"
)

// MaxBody bounds a request, in bytes.
const MaxBody = 4 << 20

// maxHeavy bounds what a request takes when it is decoded, in bytes, as far as that can be estimated.
const maxHeavy = 16 << 20

const (
	keepAlive = 15 * time.Second // between signs of life on a stream
	writeTime = 30 * time.Second // of a piece of an answer
)

// Identify returns the sender that a bearer token is for.
type Identify func(token string) (user string, err error)

// Requests returns the handler of calls in any binding. The context of a call comes from [Server.With].
func (s *Server) Requests() a2asrv.RequestHandler {
	return s.requests(func(said string) bool {
		return said == string(a2a.Version) || strings.HasPrefix(said, string(a2a.Version)+".")
	})
}

// requests returns the handler of calls of the versions that are taken.
func (s *Server) requests(takes func(version string) bool) a2asrv.RequestHandler {
	return &a2asrv.InterceptedHandler{Handler: s, Interceptors: []a2asrv.CallInterceptor{&versions{takes: takes}}, Logger: s.cfg.Logger}
}

// Handler serves A2A over HTTP: the cards, JSON-RPC and HTTP+JSON, of Cortex at "/" and of each agent at "/agents/ID/". With nil, nobody has a token,
// and only programs on this machine are served.
func (s *Server) Handler(identify Identify) http.Handler {
	checked := s.Requests()
	options := []a2asrv.TransportOption{a2asrv.WithTransportKeepAlive(keepAlive), a2asrv.WithTransportPanicHandler(func(v any) error {
		s.cfg.Logger.Error("an A2A call has panicked", "panic", fmt.Sprint(v))
		return a2a.ErrInternalError
	})}
	rpc, rest := a2asrv.NewJSONRPCHandler(checked, options...), a2asrv.NewRESTHandler(checked, options...)
	old := s.oldHandlers(options)
	serve := func(w http.ResponseWriter, r *http.Request) {
		agent, path := r.PathValue("agent"), "/"+r.PathValue("path")
		if agent != "" && !isAgent(agent) {
			http.NotFound(w, r)
			return
		}
		r = r.WithContext(context.WithValue(r.Context(), baseKey{}, baseURL(r)))
		if path == cardPath && (r.Method == http.MethodGet || r.Method == http.MethodHead) {
			s.serveCard(w, r, agent, identify != nil)
			return
		}
		user, again, ok := admit(w, r, identify)
		if !ok {
			return
		}
		httpserver.By(r.Context(), user)
		ctx, end := lapse.While(r.Context(), again)
		defer end()
		r = r.WithContext(s.WithToken(s.With(ctx, user, agent), bearerOf(r)))
		defer s.Done(r.Context())
		next, own := rest, path != "/"
		if !own {
			next = rpc
		}
		s.carry(w, r, path, next, old, own)
	}
	mux := http.NewServeMux()
	mux.HandleFunc("/{path...}", serve)
	mux.HandleFunc("/agents/{agent}", serve)
	mux.HandleFunc("/agents/{agent}/{path...}", serve)
	return http.NewCrossOriginProtection().Handler(mux)
}

// isAgent reports whether an agent can have this id.
func isAgent(id string) bool { return transport.CheckID(id) == nil && !transport.IsReserved(id) }

// baseURL returns the address that the client has used: that of this server, or of a proxy in front of it.
func baseURL(r *http.Request) string {
	if r.TLS != nil || r.Header.Get("X-Forwarded-Proto") == "https" {
		return "https://" + r.Host
	}
	return "http://" + r.Host
}

// admit returns who asks, and a function that returns an error when they may no longer; or it answers that they may not.
func admit(w http.ResponseWriter, r *http.Request, identify Identify) (user string, again func() error, ok bool) {
	refuse := func(code int, status, why string) (string, func() error, bool) {
		w.Header().Set("Content-Type", "application/json")
		w.WriteHeader(code)
		_ = json.NewEncoder(w).Encode(map[string]any{"error": map[string]any{"code": code, "status": status, "message": why}})
		return "", nil, false
	}
	if identify == nil {
		if !isLocal(r) {
			return refuse(http.StatusForbidden, "PERMISSION_DENIED", "this Cortex has no keys, and lets in only programs on its own machine: see `cortex auth --help`")
		}
		return "", func() error { return nil }, true
	}
	token := bearerOf(r)
	err := errors.New("a bearer token is needed: `cortex auth token` makes one")
	if token != "" {
		user, err = identify(token)
	}
	if user == "" || err != nil {
		w.Header().Set("WWW-Authenticate", "Bearer")
		err = cmp.Or(err, errors.New("the token is nobody's"))
		return refuse(http.StatusUnauthorized, "UNAUTHENTICATED", err.Error())
	}
	return user, func() error { _, err := identify(token); return err }, true
}

// bearerOf returns the bearer token of a request, or "".
func bearerOf(r *http.Request) string {
	if kind, token, _ := strings.Cut(r.Header.Get("Authorization"), " "); strings.EqualFold(kind, "Bearer") {
		return strings.TrimSpace(token)
	}
	return ""
}

// isLocal reports whether a request comes from this machine, not by way of a proxy that says so, and is meant for it.
func isLocal(r *http.Request) bool {
	host, _, err := net.SplitHostPort(r.Host)
	if err != nil {
		host = r.Host
	}
	if addr, err := netip.ParseAddr(strings.Trim(host, "[]")); host != "localhost" && (err != nil || !addr.Unmap().IsLoopback()) {
		return false // a page in a browser, by a name of its own
	}
	return kit.Local(r.RemoteAddr, r.Header)
}

// carry hands a request to the handler of its binding: REST, or else JSON-RPC; or to that of an older version.
func (s *Server) carry(w http.ResponseWriter, r *http.Request, path string, next http.Handler, old *oldHandlers, rest bool) {
	c := http.NewResponseController(w)
	out := &reply{ResponseWriter: w, control: c}
	defer out.end()
	query := r.URL.Query()
	if v := query.Get("A2A-Version"); v != "" && r.Header.Get(a2a.SvcParamVersion) == "" {
		r.Header.Set(a2a.SvcParamVersion, v)
	}
	if wants(r.Header.Values(a2a.SvcParamExtensions)) {
		w.Header().Set(a2a.SvcParamExtensions, HumanInTheLoop) // which the SDK says with gRPC only
	}
	var body []byte
	if r.Method == http.MethodPost {
		who, err := callerOf(r.Context())
		if err != nil {
			out.fail(rest, http.StatusUnauthorized, -32000, "UNAUTHENTICATED", a2a.ErrUnauthenticated, "nobody is known to make this call")
			return
		}
		n := httpserver.Need(r, MaxBody)
		if !s.arriving.Take(r.Context(), who.user(), n) {
			out.fail(rest, http.StatusTooManyRequests, -32000, "RESOURCE_EXHAUSTED", a2a.ErrServerError, TooMuch)
			return
		}
		give := sync.OnceFunc(func() { s.arriving.Give(who.user(), n) })
		defer give()
		if body, err = httpserver.ReadAll(w, r, MaxBody); err != nil {
			out.fail(rest, http.StatusRequestEntityTooLarge, -32600, "INVALID_ARGUMENT", a2a.ErrInvalidRequest, "the message has more than 4 MiB, or did not arrive")
			return
		}
		if len(body) > httpserver.LargeBody {
			if !s.decoding.Take(r.Context(), who.user(), 1) {
				out.fail(rest, http.StatusTooManyRequests, -32000, "RESOURCE_EXHAUSTED", a2a.ErrServerError, TooMuch)
				return
			}
			who.held.decoded = sync.OnceFunc(func() { s.decoding.Give(who.user(), 1) })
			defer who.held.decoded()
		}
		weight := nesting.Weight(body)
		if weight > maxHeavy {
			out.fail(rest, http.StatusRequestEntityTooLarge, -32600, "INVALID_ARGUMENT", a2a.ErrInvalidRequest, "the message has too many values: send data as a file")
			return
		}
		if !s.Hold(r.Context(), weight) {
			out.fail(rest, http.StatusTooManyRequests, -32000, "RESOURCE_EXHAUSTED", a2a.ErrServerError, TooMuch)
			return
		}
		give()
		if kind := r.Header.Get("Content-Type"); !isJSON(kind) && (kind != "" || len(body) > 0) {
			out.fail(rest, http.StatusUnsupportedMediaType, -32005, "INVALID_ARGUMENT", a2a.ErrUnsupportedContentType, fmt.Sprintf("the Content-Type is %s: application/json is taken", quoted(kind)))
			return
		}
	}
	query = camelQuery(query)
	if before := old.pick(r, path, body); before != nil {
		next = before
	} else {
		if body != nil {
			body = camelBody(body, rest)
		}
		var why string
		if body, why = mendRequest(out, r, path, body, query, rest); why != "" {
			code, reason := http.StatusOK, a2a.ErrInvalidRequest
			if rest {
				code, reason = http.StatusBadRequest, a2a.ErrInvalidParams
			}
			out.fail(rest, code, -32600, "INVALID_ARGUMENT", reason, why)
			return
		}
		if rest {
			r = r.WithContext(context.WithValue(r.Context(), pageKey{}, query))
		}
	}
	if body != nil {
		r.Body, r.ContentLength = io.NopCloser(bytes.NewReader(body)), int64(len(body))
	}
	_ = c.SetReadDeadline(time.Time{}) // or the request would end with it; a test's writer has none
	r.URL = &url.URL{Path: path, RawQuery: query.Encode()}
	next.ServeHTTP(out, r)
}

// isJSON reports whether a content type is that of JSON.
func isJSON(kind string) bool {
	kind, _, err := mime.ParseMediaType(kind)
	return err == nil && (kind == "application/json" || kind == "application/a2a+json")
}

// versions is an interceptor that refuses calls for another version of the protocol, and activates the extension that a call names. A tenant is the agent that is called, where the address does not
// say it, as with gRPC.
type versions struct {
	a2asrv.PassthroughCallInterceptor
	takes func(version string) bool
}

// Before implements a2asrv.CallInterceptor.
func (v versions) Before(ctx context.Context, call *a2asrv.CallContext, _ *a2asrv.Request) (context.Context, any, error) {
	said := ""
	if all, ok := call.ServiceParams().Get(strings.ToLower(a2a.SvcParamVersion)); ok && len(all) > 0 {
		said = strings.TrimSpace(all[0])
	}
	if !v.takes(said) {
		said = cmp.Or(said, "missing, which means 0.3")
		return ctx, nil, a2a.NewError(a2a.ErrVersionNotSupported, fmt.Sprintf("the header A2A-Version is %s: %s is supported", strings.Trim(quoted(said), `"`), a2a.Version))
	}
	if all, ok := call.ServiceParams().Get(strings.ToLower(a2a.SvcParamExtensions)); ok && wants(all) {
		call.Extensions().Activate(&hitlExtension)
	}
	to := call.Tenant()
	c, err := callerOf(ctx)
	if err != nil {
		return ctx, nil, err
	}
	if c.held.decoded != nil {
		c.held.decoded()
	}
	switch {
	case c.agent != "" && !isAgent(c.agent) || to != "" && !isAgent(to) || to != "" && c.agent != "" && to != c.agent:
		return ctx, nil, invalid("tenant: there is no %s here", quoted(cmp.Or(to, c.agent)))
	case to == "" || to == c.agent:
		return ctx, nil, nil
	}
	return context.WithValue(ctx, callerKey{}, &caller{c.Client, to, c.held, c.token}), nil, nil
}

// reply is a response that gets the time that it takes. A stream whose first event is an error is answered with that error instead of a stream.
type reply struct {
	http.ResponseWriter
	control *http.ResponseController
	held    bool         // a stream is about to begin
	done    bool         // an error was given in its place
	first   bytes.Buffer // its first event
	wrote   bool
	failed  int // status of an answer that is about to be written, which may have to be mended; 0 is none

	body    []byte // of the request
	path    string
	rest    bool
	deletes bool // the answer has nothing to say
}

// WriteHeader implements http.ResponseWriter.
func (w *reply) WriteHeader(code int) {
	w.wrote = true
	if code == http.StatusOK && w.Header().Get("Content-Type") == "text/event-stream" {
		w.held = true
		return
	}
	if code == http.StatusInternalServerError {
		w.failed = code
		return
	}
	w.ResponseWriter.WriteHeader(code)
}

// Write implements http.ResponseWriter.
func (w *reply) Write(b []byte) (int, error) {
	_ = w.control.SetWriteDeadline(time.Now().Add(writeTime)) // a test's writer has none
	w.wrote = true
	switch {
	case w.done:
		return len(b), nil
	case !w.held:
		out, code := w.mended(b)
		if w.failed != 0 {
			w.ResponseWriter.WriteHeader(cmp.Or(code, w.failed))
			w.failed = 0
		}
		if _, err := w.ResponseWriter.Write(out); err != nil {
			return 0, err
		}
		return len(b), nil
	}
	w.first.Write(b)
	if !bytes.HasSuffix(w.first.Bytes(), []byte("\n\n")) {
		return len(b), nil
	}
	if said, code := failure(w.first.Bytes()); said != nil {
		w.held, w.done = false, true
		h := w.Header()
		h.Set("Content-Type", "application/json")
		h.Del("X-Accel-Buffering")
		h.Del("Connection")
		out, better := w.mended(append(said, '\n'))
		w.ResponseWriter.WriteHeader(cmp.Or(better, code))
		_, err := w.ResponseWriter.Write(out)
		return len(b), err
	}
	return len(b), w.release()
}

// release begins the stream.
func (w *reply) release() error {
	w.held = false
	w.ResponseWriter.WriteHeader(http.StatusOK)
	_, err := w.ResponseWriter.Write(w.first.Bytes())
	w.first = bytes.Buffer{}
	return err
}

// Flush implements http.Flusher.
func (w *reply) Flush() {
	if !w.held {
		_ = w.control.Flush()
	}
}

// end ends a stream without events, or an answer that has nothing to say.
func (w *reply) end() {
	switch {
	case w.held:
		_ = w.release()
	case w.failed != 0:
		w.ResponseWriter.WriteHeader(w.failed)
	case w.rest && w.deletes && !w.wrote:
		_, _ = w.ResponseWriter.Write([]byte("{}\n"))
	}
}

// failure returns the error that is the first event of a stream, and the HTTP status for it; nil if it is none.
func failure(event []byte) (body []byte, code int) {
	_, data, ok := bytes.Cut(event, []byte("data: "))
	if !ok {
		return nil, 0
	}
	data = bytes.TrimSpace(data)
	var said struct {
		JSONRPC string `json:"jsonrpc"`
		Error   *struct {
			Code int `json:"code"`
		} `json:"error"`
	}
	if json.Unmarshal(data, &said) != nil || said.Error == nil {
		return nil, 0
	}
	if said.JSONRPC != "" {
		return data, http.StatusOK
	}
	if code = said.Error.Code; code < 400 || code > 599 {
		code = http.StatusInternalServerError
	}
	return data, code
}

// fail answers a request that no handler gets.
func (w *reply) fail(rest bool, code, rpc int, status string, reason error, why string) {
	details := []any{map[string]any{"@type": "type.googleapis.com/google.rpc.ErrorInfo", "reason": a2a.ErrorReason(reason), "domain": a2a.ProtocolDomain}}
	said := map[string]any{"error": map[string]any{"code": code, "status": status, "message": why, "details": details}}
	if !rest {
		said = map[string]any{"jsonrpc": "2.0", "id": nil, "error": map[string]any{"code": rpc, "message": why, "data": details}}
	}
	w.Header().Set("Content-Type", "application/json")
	w.WriteHeader(code)
	_ = json.NewEncoder(w).Encode(said)
}
