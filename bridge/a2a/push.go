package a2a

import (
	"cmp"
	"context"
	"encoding/hex"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/a2aproject/a2a-go/v2/a2a"
	"github.com/a2aproject/a2a-go/v2/a2asrv"
	"golang.org/x/net/http/httpguts"

	"github.com/cortex-orchestrator/cortex/transport"
)

// Push has a Server push notifications. The zero value is of use; its fields are not changed later.
type Push struct {
	// Leads reports whether this process is the one of several replicas that delivers them now; nil: it is. While two processes believe it, a
	// notification may go out twice.
	Leads func() bool
	// Hosts may have private addresses, and need no TLS: names or addresses, each alone or with a port.
	Hosts []string
	// Key names the credentials that a bearer token is made of, and Holds reports whether they still hold, which held at a time: what was to be pushed for
	// somebody whose credentials hold no longer is dropped. nil: nobody has a token.
	Key   func(token string) string
	Holds func(key string, then time.Time) bool
	// Timeout is how long a receiver may take for a notification; 0 means 15 s.
	Timeout time.Duration
	// Rest waits for a time between two attempts, or returns the error of ctx when that ends; nil: by the clock of this machine.
	Rest func(ctx context.Context, d time.Duration) error
	// Random returns a number from 0 to 1 for the length of a pause; nil: a random one.
	Random func() float64
}

// Bounds of push notification configs.
const (
	mostTargets = 8       // of a task
	mostPushes  = 512     // of a person, for tasks that are not over
	maxSecret   = 4 << 10 // bytes of a token, and of credentials
	maxScheme   = 64
)

var errNoPush = a2a.NewError(a2a.ErrPushNotificationNotSupported, "this server pushes no notifications: subscribe to the task, or get it again")

// pushes reports whether notifications are pushed.
func (s *Server) pushes() bool { return s.outbox != nil }

// checkPush returns an error for a config that cannot be carried out.
func (s *Server) checkPush(p *a2a.PushConfig) error {
	if !s.pushes() {
		return errNoPush
	}
	if p.ID != "" && transport.CheckID(p.ID) != nil {
		return invalid("id: %v", transport.CheckID(p.ID))
	}
	if p.URL == "" {
		return invalid("url is missing")
	}
	if _, err := s.outbox.web.Parse(p.URL); err != nil {
		return invalid("url: %v", err)
	}
	if len(p.Token) > maxSecret || !httpguts.ValidHeaderFieldValue(p.Token) {
		return invalid("token: it has more than %d bytes, or a control character", maxSecret)
	}
	if p.Auth == nil {
		return nil
	}
	if len(p.Auth.Scheme) > maxScheme || !httpguts.ValidHeaderFieldName(p.Auth.Scheme) {
		return invalid("authentication.scheme: %s is none", quoted(p.Auth.Scheme))
	}
	if len(p.Auth.Credentials) > maxSecret || !httpguts.ValidHeaderFieldValue(p.Auth.Credentials) {
		return invalid("authentication.credentials: they have more than %d bytes, or a control character", maxSecret)
	}
	return nil
}

// CreateTaskPushConfig implements a2asrv.RequestHandler. A config with the id of another one of the task takes its place, and goes on where that was.
func (s *Server) CreateTaskPushConfig(ctx context.Context, req *a2a.PushConfig) (*a2a.PushConfig, error) {
	c, r, err := s.pushTask(ctx, req.TaskID, func() error { return s.checkPush(req) })
	if err != nil {
		return nil, err
	}
	t := s.newTarget(c, req, isOldCall(ctx))
	if t.ID == "" {
		t.ID = hex.EncodeToString(random(wordSize))
	}
	t.Next = r.after()
	if _, err := s.keepTarget(ctx, c, r.id, t); err != nil {
		return nil, err
	}
	if r.version > 0 { // or what was erased just now would leave it behind
		if _, err := s.find(ctx, c, r.id); err != nil {
			_ = s.dropTarget(ctx, c, r.id, t.ID, t.Made) // the outbox drops it later
			return nil, err
		}
	}
	out := *req
	out.ID = t.ID
	return &out, nil
}

// pushTask returns a task of the caller, when check has nothing against the call.
func (s *Server) pushTask(ctx context.Context, id a2a.TaskID, check func() error) (*caller, *record, error) {
	c, err := callerOf(ctx)
	switch {
	case err != nil:
		return nil, nil, err
	case !s.pushes():
		return nil, nil, errNoPush
	}
	r, err := s.find(ctx, c, id)
	if err != nil {
		return nil, nil, err
	}
	return c, r, check()
}

// after returns from where a config that is made now gets what happens to the task. Of a task that is over, it gets the end: a client that wanted to be
// told in time would wait for ever.
func (r *record) after() spot {
	switch last := r.now(); {
	case last.state.Terminal():
		return spot{Version: last.version}
	case r.version > 0:
		return spot{Version: r.version + 1}
	}
	return spot{}
}

// pushAlong keeps the config that comes with the message of b, before that is sent. Its id follows from the message, so that it is the same one when
// the message is sent again. It returns nil when the config is not new.
func (s *Server) pushAlong(ctx context.Context, c *caller, b *begun, p *a2a.PushConfig) (*target, error) {
	t := s.newTarget(c, p, isOldCall(ctx))
	t.ID = cmp.Or(t.ID, hex.EncodeToString(digest(wordSize, "push", string(b.r.id), b.x.id, p.URL)))
	if b.m == nil || len(b.r.exchanges) > 1 {
		t.Next = b.r.after()
	}
	made, err := s.keepTarget(ctx, c, b.r.id, t)
	if err != nil || !made {
		return nil, err
	}
	return t, nil
}

// newTarget returns what is kept of a config.
func (s *Server) newTarget(c *caller, p *a2a.PushConfig, old bool) *target {
	t := &target{ID: p.ID, URL: p.URL, Token: p.Token, Old: old, Made: c.Clock().UTC()}
	if key := s.outbox.push.Key; key != nil && c.token != "" {
		t.By = key(c.token)
	}
	if p.Auth != nil {
		t.Scheme, t.Credentials = p.Auth.Scheme, p.Auth.Credentials
	}
	return t
}

// config returns the config as its client gave it.
func (t *target) config(id a2a.TaskID, tenant string) *a2a.PushConfig {
	p := &a2a.PushConfig{Tenant: tenant, TaskID: id, ID: t.ID, URL: t.URL, Token: t.Token}
	if t.Scheme != "" {
		p.Auth = &a2a.PushAuthInfo{Scheme: t.Scheme, Credentials: t.Credentials}
	}
	return p
}

// GetTaskPushConfig implements a2asrv.RequestHandler.
func (s *Server) GetTaskPushConfig(ctx context.Context, req *a2a.GetTaskPushConfigRequest) (*a2a.PushConfig, error) {
	n, err := s.pushOf(ctx, req.TaskID)
	if err != nil {
		return nil, err
	}
	if t := n.target(req.ID); t != nil {
		return t.config(req.TaskID, req.Tenant), nil
	}
	return nil, a2a.NewError(a2a.ErrTaskNotFound, fmt.Sprintf("the task has no push notification config %s", quoted(req.ID)))
}

// pushOf returns the configs of a task of the caller.
func (s *Server) pushOf(ctx context.Context, id a2a.TaskID) (*pushNote, error) {
	c, r, err := s.pushTask(ctx, id, func() error { return nil })
	if err != nil {
		return nil, err
	}
	n, err := s.pushNote(ctx, pushKey(c, r.id))
	return n, s.told(err)
}

// ListTaskPushConfigs implements a2asrv.RequestHandler. The order is that of the ids.
func (s *Server) ListTaskPushConfigs(ctx context.Context, req *a2a.ListTaskPushConfigRequest) (*a2a.ListTaskPushConfigResponse, error) {
	asked, token := pageOf(ctx, req)
	size := cmp.Or(asked, defaultPage)
	n, err := s.pushOf(ctx, req.TaskID)
	switch {
	case err != nil:
		return nil, err
	case size < 1 || size > mostPage:
		return nil, invalid("pageSize is %d: it is from 1 to %d", asked, mostPage)
	}
	slices.SortFunc(n.Targets, func(a, b *target) int { return strings.Compare(a.ID, b.ID) })
	out := &a2a.ListTaskPushConfigResponse{Configs: []*a2a.PushConfig{}}
	for _, t := range n.Targets {
		if t.ID <= token { // which is the id that was last
			continue
		}
		if len(out.Configs) == size {
			out.NextPageToken = out.Configs[size-1].ID
			break
		}
		out.Configs = append(out.Configs, t.config(req.TaskID, req.Tenant))
	}
	return out, nil
}

// DeleteTaskPushConfig implements a2asrv.RequestHandler. What is not there is deleted.
func (s *Server) DeleteTaskPushConfig(ctx context.Context, req *a2a.DeleteTaskPushConfigRequest) error {
	c, r, err := s.pushTask(ctx, req.TaskID, func() error { return nil })
	if err != nil {
		return err
	}
	return s.dropTarget(ctx, c, r.id, req.ID, time.Time{})
}

// isOldCall reports whether a client of A2A 0.3 makes a call.
func isOldCall(ctx context.Context) bool {
	call, ok := a2asrv.CallContextFrom(ctx)
	if !ok {
		return false
	}
	said, ok := call.ServiceParams().Get(strings.ToLower(a2a.SvcParamVersion))
	return !ok || len(said) == 0 || isOld(strings.TrimSpace(said[0]))
}
