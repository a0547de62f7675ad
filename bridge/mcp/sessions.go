package mcp

import (
	"cmp"
	"context"
	"maps"
	"net/http"
	"slices"
	"sync"
	"time"

	"github.com/modelcontextprotocol/go-sdk/auth"
	sdk "github.com/modelcontextprotocol/go-sdk/mcp"
)

const (
	sessionTime  = time.Hour // without a request, before 2026-07-28
	mostSessions = 64        // of a caller
)

// sessions bounds the sessions of a caller: the one that was used least recently makes room.
type sessions struct {
	next http.Handler

	mu sync.Mutex
	of map[string]*own // by caller
}

// own is what one caller has.
type own struct {
	sessions  map[string]*session
	beginning int // requests that may begin one
}

type session struct {
	used    time.Time
	running int // requests
}

func (s *sessions) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	user, id := userOf(auth.TokenInfoFromContext(r.Context())), r.Header.Get(headerSession)
	if id != "" {
		s.step(user, id, 1)
		s.next.ServeHTTP(w, r)
		if s.step(user, id, -1); r.Method == http.MethodDelete {
			s.drop(user, id)
		}
		return
	}
	old, ok := s.reserve(user, time.Now())
	for _, id := range old { // their clients are told that they are unknown, and begin others
		end := r.Clone(r.Context())
		end.Method, end.Body = http.MethodDelete, http.NoBody
		end.Header.Set(headerSession, id)
		s.next.ServeHTTP(nowhere{}, end)
	}
	if !ok {
		http.Error(w, "too many sessions of yours are at work: end some", http.StatusTooManyRequests)
		return
	}
	defer s.release(user)
	s.next.ServeHTTP(w, r)
}

// userOf returns the caller that a token names, or "".
func userOf(token *auth.TokenInfo) string {
	if token == nil {
		return ""
	}
	return token.UserID
}

// begun is a middleware that takes note of sessions as they begin, also of those whose client is gone by then.
func (s *sessions) begun(next sdk.MethodHandler) sdk.MethodHandler {
	return func(ctx context.Context, method string, req sdk.Request) (sdk.Result, error) {
		if method != "initialize" {
			return next(ctx, method, req)
		}
		var token *auth.TokenInfo
		if extra := req.GetExtra(); extra != nil {
			token = extra.TokenInfo
		}
		user, id := userOf(token), req.GetSession().ID()
		s.mu.Lock()
		s.ownOf(user).sessions[id] = &session{used: time.Now()}
		s.mu.Unlock()
		res, err := next(ctx, method, req)
		if err != nil {
			s.drop(user, id)
		}
		return res, err
	}
}

// reserve takes a place for a session that may begin, and reports whether there is one; release gives it back. The caller ends the old sessions.
func (s *sessions) reserve(user string, now time.Time) (old []string, ok bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	o := s.ownOf(user)
	maps.DeleteFunc(o.sessions, func(_ string, of *session) bool { return of.running == 0 && now.Sub(of.used) > sessionTime }) // they have ended
	for len(o.sessions)+o.beginning >= mostSessions {
		if len(o.sessions) == 0 {
			return old, false
		}
		oldest := slices.MinFunc(slices.Collect(maps.Keys(o.sessions)), func(a, b string) int {
			return cmp.Or(cmp.Compare(o.sessions[a].running, o.sessions[b].running), o.sessions[a].used.Compare(o.sessions[b].used))
		})
		if o.sessions[oldest].running > 0 {
			return old, false
		}
		delete(o.sessions, oldest)
		old = append(old, oldest)
	}
	o.beginning++
	return old, true
}

func (s *sessions) release(user string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	o := s.ownOf(user)
	o.beginning--
	s.tidy(user, o)
}

// step notes that a request of a session begins or ends.
func (s *sessions) step(user, id string, n int) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if o := s.of[user]; o != nil && o.sessions[id] != nil {
		o.sessions[id].running += n
		o.sessions[id].used = time.Now()
	}
}

// drop forgets a session that has ended.
func (s *sessions) drop(user, id string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if o := s.of[user]; o != nil {
		delete(o.sessions, id)
		s.tidy(user, o)
	}
}

// ownOf returns what a caller has. The caller of it holds s.mu.
func (s *sessions) ownOf(user string) *own {
	if s.of == nil {
		s.of = make(map[string]*own)
	}
	if s.of[user] == nil {
		s.of[user] = &own{sessions: make(map[string]*session)}
	}
	return s.of[user]
}

// tidy forgets a caller who has nothing. The caller of it holds s.mu.
func (s *sessions) tidy(user string, o *own) {
	if len(o.sessions)+o.beginning == 0 {
		delete(s.of, user)
	}
}

// nowhere is the writer of an answer that nobody gets.
type nowhere struct{}

func (nowhere) Header() http.Header         { return make(http.Header) }
func (nowhere) Write(b []byte) (int, error) { return len(b), nil }
func (nowhere) WriteHeader(int)             {}
