package rtfs

import (
	"bytes"
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptrace"
	"net/netip"
	"net/url"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"time"

	"github.com/cortex-orchestrator/cortex/bridge/kit"
	"github.com/cortex-orchestrator/cortex/internal/httpclient"
	"github.com/cortex-orchestrator/cortex/internal/httpserver"
	"github.com/cortex-orchestrator/cortex/internal/openfiles"
	"github.com/cortex-orchestrator/cortex/internal/publicnet"
	"github.com/cortex-orchestrator/cortex/internal/webhook"
)

// Bounds of a call to an agent.
const (
	maxURL       = 2048
	maxEndpoints = 8       // of an agent, which are called in turn
	maxAnswer    = 4 << 20 // bytes
	dialTime     = 10 * time.Second
)

// Bounds of what answers take that are being read, in bytes. Who registers agents can have all of them called at the same time, and say much, slowly.
const (
	freeAnswer  = 64 << 10 // the beginning of an answer, which needs no room
	mostAnswers = 128 << 20
	ownAnswers  = 16 << 20         // of a machine
	answerTime  = 30 * time.Second // for the rest of an answer that has room
)

// mostPosts is how many calls may be under way, each of which has a connection, and a place among the agents at work. More are refused, and do not wait: they would
// have their places meanwhile.
const mostPosts = 512

var errBusy = errors.New("too many calls to agents are under way, or to those of its machine: nothing was sent to it")

// underWay counts the calls that are under way.
type underWay struct {
	most int

	mu sync.Mutex
	n  int
	of map[string]int // by machine, by requester, and by both
}

// begin reports whether one more call to a machine may be made for a requester. Then end has to be called. Neither has more than a share of all, and a requester no
// more than a share of what a machine alone may have.
func (u *underWay) begin(machine, requester string) bool {
	u.mu.Lock()
	defer u.mu.Unlock()
	keys := u.keys(machine, requester)
	machines := u.most * 3 / 4
	if u.n >= u.most || kit.Sated(u.of[keys[0]], u.n, u.most) || kit.Sated(u.of[keys[1]], u.n, u.most) || kit.Sated(u.of[keys[2]], u.of[keys[0]], machines) {
		return false
	}
	u.n++
	for _, k := range keys {
		u.of[k]++
	}
	return true
}

func (u *underWay) end(machine, requester string) {
	u.mu.Lock()
	defer u.mu.Unlock()
	u.n--
	for _, k := range u.keys(machine, requester) {
		if u.of[k]--; u.of[k] == 0 {
			delete(u.of, k)
		}
	}
}

func (u *underWay) keys(machine, requester string) [3]string {
	return [3]string{"machine " + machine, "requester " + requester, "both " + machine + " " + requester}
}

var errSlow = errors.New("its answer is long, and arrives too slowly")

// poster posts to addresses that agents have named. Those who register can lead it nowhere where they could not go themselves: it goes to addresses of
// the internet; to this machine only if only this machine can register; and to hosts that the operator names.
type poster struct {
	local bool // whoever registers is on this machine
	hosts webhook.Hosts

	guarded, free *http.Client
	posts         underWay
	room          *httpserver.Room // for answers
	patience      time.Duration    // for the rest of one that has room
}

func newPoster(local bool, hosts []string) *poster {
	p := &poster{local: local, hosts: hosts, posts: underWay{most: min(mostPosts, openfiles.Models()), of: map[string]int{}}, room: httpserver.NewRoom(mostAnswers, ownAnswers), patience: answerTime}
	p.guarded, p.free = newClient(p.control), newClient(nil)
	return p
}

// newClient returns a client that sends each request once: without a connection that was used before, package net/http has no reason to send one again.
func newClient(control func(context.Context, string, string, syscall.RawConn) error) *http.Client {
	t := httpclient.NewTransport(0)
	t.Proxy = nil // behind a proxy, an address could not be checked
	t.DialContext = (&net.Dialer{Timeout: dialTime, ControlContext: control}).DialContext
	t.DisableKeepAlives, t.ForceAttemptHTTP2 = true, false
	return &http.Client{Transport: t, CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }}
}

// control refuses connections to addresses where agents are not allowed to be.
func (p *poster) control(_ context.Context, _, address string, _ syscall.RawConn) error {
	at, err := netip.ParseAddrPort(address)
	if err != nil {
		return err
	}
	return p.check(at.Addr())
}

func (p *poster) check(at netip.Addr) error {
	switch at = at.Unmap(); {
	case publicnet.Is(at) || p.local && at.IsLoopback():
		return nil
	case at.IsLoopback():
		return fmt.Errorf("%s is this machine, and agents on others can register: allow it with --rtfs-host", at)
	}
	return fmt.Errorf("%s is no address of the internet: allow it with --rtfs-host", at)
}

// parse returns the URL in text, or why no agent is called there. Where a name leads is seen when it is dialed.
func (p *poster) parse(text string) (*url.URL, error) {
	if len(text) > maxURL {
		return nil, fmt.Errorf("it has %d bytes, at most %d are allowed", len(text), maxURL)
	}
	u, err := url.Parse(text)
	switch {
	case err != nil || u.Scheme != "http" && u.Scheme != "https" || u.Hostname() == "":
		return nil, fmt.Errorf("%.100q is no URL of http or https", text)
	case u.User != nil:
		return nil, errors.New("a URL must have no password")
	}
	if port, err := strconv.Atoi(u.Port()); u.Port() != "" && (err != nil || port < 1 || port > 65535) {
		return nil, fmt.Errorf("%.100q has no port that there is", text)
	}
	if p.hosts.Have(u) {
		return u, nil
	}
	at, err := netip.ParseAddr(strings.Trim(u.Hostname(), "[]"))
	if name := webhook.Plain(u.Hostname()); name == "localhost" || strings.HasSuffix(name, ".localhost") {
		at, err = netip.AddrFrom4([4]byte{127, 0, 0, 1}), nil
	}
	if err != nil {
		return u, nil // a name
	}
	return u, p.check(at)
}

// reply is what an agent has answered.
type reply struct {
	status int
	body   []byte // at most maxAnswer and one more
	over   func() // gives back its room
}

// post posts to a URL. perhaps reports whether the agent may have got the request.
func (p *poster) post(ctx context.Context, to string, header http.Header, body []byte) (_ *reply, perhaps bool, err error) {
	u, err := p.parse(to)
	if err != nil {
		return nil, false, err
	}
	ctx, end := context.WithCancelCause(ctx)
	defer end(nil)
	var connected atomic.Bool
	var from atomic.Value // a text: who answers
	trace := &httptrace.ClientTrace{GotConn: func(c httptrace.GotConnInfo) {
		from.Store(machine(c.Conn.RemoteAddr().String()))
		connected.Store(true)
	}}
	r, err := http.NewRequestWithContext(httptrace.WithClientTrace(ctx, trace), http.MethodPost, u.String(), bytes.NewReader(body))
	if err != nil {
		return nil, false, err
	}
	r.Header, r.GetBody = header, nil
	client := p.guarded
	if p.hosts.Have(u) {
		client = p.free
	}
	answer, err := client.Do(r)
	if err != nil {
		if of, ok := errors.AsType[*url.Error](err); ok {
			err = of.Err
		}
		return nil, connected.Load(), err
	}
	defer answer.Body.Close()
	who, _ := from.Load().(string)
	text, over, err := p.read(ctx, end, who, answer.Body)
	if err != nil {
		return nil, true, err
	}
	return &reply{answer.StatusCode, text, over}, true, nil
}

// read reads an answer. A long one waits for room, which it keeps until over is called, and then has to arrive; end ends the call.
func (p *poster) read(ctx context.Context, end context.CancelCauseFunc, from string, body io.Reader) (text []byte, over func(), err error) {
	text, err = io.ReadAll(io.LimitReader(body, freeAnswer))
	if err != nil || len(text) < freeAnswer {
		return text, func() {}, err
	}
	for !p.room.Take(ctx, from, maxAnswer) {
		if ctx.Err() != nil {
			return nil, nil, context.Cause(ctx)
		}
	}
	over = func() { p.room.Give(from, maxAnswer) }
	late := time.AfterFunc(p.patience, func() { end(errSlow) })
	defer late.Stop()
	rest, err := io.ReadAll(io.LimitReader(body, maxAnswer+1-freeAnswer))
	if err != nil {
		over()
		return nil, nil, cmp.Or(context.Cause(ctx), err)
	}
	return append(text, rest...), over, nil
}

// machine returns what tells agents apart by the addresses that they answer from: their hosts, and on this machine their ports.
func machine(address string) string {
	if kit.IsLoopback(address) {
		return address
	}
	return kit.Host(address)
}
