package cli

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"net/url"
	"os"
	"strings"
	"time"

	"github.com/cortex-orchestrator/cortex/cortex/storage"
	"github.com/cortex-orchestrator/cortex/internal/datadir"
	"github.com/cortex-orchestrator/cortex/internal/home"
	"github.com/cortex-orchestrator/cortex/internal/rest"
	"github.com/cortex-orchestrator/cortex/transport"
	"github.com/cortex-orchestrator/cortex/transport/nats/auth"
)

// link is a connection to a Cortex: its transport and its store. A node has one, too.
type link struct {
	bus    transport.Transport
	store  storage.Store // nil for an agent
	url    string        // where others can reach the same server, without passwords
	tenant string
	sender string // the sender that this process proves to be; "" where nothing has to be proven
	absent error  // the error when no Cortex is found there
}

func (l *link) Close() {
	l.bus.Close()
	closeStore(l.store) //nolint:errcheck // what is written is written
}

// join connects to a running server, the one of --nats or the one that a node left in the data folder. It returns nil when none runs. onConn, unless
// nil, is called when the connection is lost and when it is restored.
func (s *settings) join(ctx context.Context, name string, log *slog.Logger, onConn func(up bool, err error)) (*link, error) {
	if err := s.checkFiles(); err != nil {
		return nil, err
	}
	if s.private() {
		return nil, nil
	}
	if s.transport != "" {
		return s.plugIn(ctx, log, onConn)
	}
	o, store := &home.Options{URL: s.nats, Name: name, Logger: log, OnConn: onConn}, s.store
	if s.nats == "" {
		a, ok, err := datadir.Find(ctx, s.data)
		if err != nil || !ok {
			return nil, err
		}
		o.URL, o.Locate = a.URL, func() (home.Place, error) { return datadir.WhereNow(s.data) }
		if store, err = s.storeOf(a); err != nil {
			return nil, err
		}
		s.node.joined = a.Node.Of("well-known")
		s.node.strict = a.Node.Of("strict-abilities") == "true"
		if err := s.findCreds(a.Node.Of("auth")); err != nil {
			return nil, err
		}
	}
	o.Creds, o.TLS = s.creds, s.tls
	conn, err := s.program.Home.Dial(ctx, o)
	if err != nil {
		return nil, err
	}
	if conn.Who != nil && conn.Who.Role == auth.Agent && s.agent == "" {
		conn.Bus.Close()
		return nil, fmt.Errorf("%w: the credentials are for %s: give a person's with --creds", transport.ErrForbidden, conn.Who)
	}
	return s.connect(ctx, conn, o.URL, store, log)
}

// refusesTLS reports whether err means that one side rejects the other's TLS, in which case a retry does not help.
func refusesTLS(err error) bool {
	var cert *tls.CertificateVerificationError
	var record tls.RecordHeaderError
	if errors.As(err, &cert) || errors.As(err, &record) {
		return true
	}
	for _, said := range []string{"remote error: tls:", "secure connection not available"} { // by the server, and by a client whose server has no TLS
		if err != nil && strings.Contains(err.Error(), said) {
			return true
		}
	}
	return false
}

// shownURL returns the URLs of a server without passwords.
func shownURL(list string) string {
	all := strings.Split(list, ",")
	for i, a := range all {
		u, err := url.Parse(a)
		if err != nil || u.User == nil {
			continue
		}
		if _, ok := u.User.Password(); !ok { // the user name is a token
			u.User = url.UserPassword("token", "")
		}
		all[i] = u.Redacted()
	}
	return strings.Join(all, ",")
}

// shutOut returns why this process has to end after a connection error, or nil. A process without credentials has to end when the Cortex of the data
// folder requires keys by now. In other cases the server may accept the process later.
func (s *settings) shutOut(err error) error {
	if !s.inFolder() || s.creds != "" || !errors.Is(err, transport.ErrForbidden) {
		return nil
	}
	return fmt.Errorf("the cortex on %s has keys now, and had none when it was joined: start this again, and it takes the credentials that are there for it", s.data)
}

// findCreds takes the credentials for joining from the key folder of the local server, unless credentials were given.
func (s *settings) findCreds(dir string) error {
	if dir == "" || s.creds != "" {
		return nil
	}
	switch {
	case s.admin:
		s.creds = auth.Admin(dir, s.tenant)
		return nil
	case s.agent == "":
		s.creds = auth.People(dir, s.tenant)
		return nil
	}
	s.creds = auth.AgentFile(dir, s.tenant, s.agent)
	if _, err := os.Stat(s.creds); errors.Is(err, fs.ErrNotExist) {
		return fmt.Errorf("the server wants to know who %s is: make credentials with `cortex auth add agent %s%s --auth %s`",
			s.agent, shellWord(s.agent), tenantFlag(s.tenant), shellWord(dir))
	}
	return nil
}

// mustJoin is join for commands that need a running Cortex: it returns an error when none runs.
func (s *settings) mustJoin(ctx context.Context, name string, log *slog.Logger, onConn func(up bool, err error)) (*link, error) {
	if s.private() {
		return nil, s.errPrivate()
	}
	l, err := s.join(ctx, name, log, onConn)
	if err == nil && l == nil {
		err = fmt.Errorf("%w on %s: start one with `cortex chat` or `cortex serve`, or name its server with --nats", datadir.ErrNoCortex, s.data)
	}
	return l, err
}

// awaitJoin is mustJoin for commands that may start before Cortex does. It retries until Cortex is there, and calls tell once while it waits.
func (s *settings) awaitJoin(ctx context.Context, name string, log *slog.Logger, onConn func(up bool, err error), tell func(away error)) (*link, error) {
	for creds := s.creds; ; s.creds = creds { // the other server's credentials are of no use
		l, err := s.mustJoin(ctx, name, log, onConn)
		away := errors.Is(err, transport.ErrUnavailable) || errors.Is(err, datadir.ErrNoCortex) || errors.Is(err, datadir.ErrSilent)
		if !away || refusesTLS(err) {
			return l, err
		}
		if tell != nil {
			tell(err)
			tell = nil
		}
		if err := rest.For(ctx, waitingPause); err != nil {
			return nil, err
		}
	}
}

// behindGateway is how long users wait for a Cortex that is starting: with keys, they reach the server only through its gateway.
const behindGateway = 5 * time.Second

// whileAway calls try with pauses while err, and then the error of try, is ErrUnavailable, and returns the last error. It gives up after
// behindGateway, or after syncTimeout when the error was a deadline, since then somebody is there but slow. It returns ctx's error when ctx ends.
func whileAway(ctx context.Context, err error, try func() error) error {
	for begin := time.Now(); errors.Is(err, transport.ErrUnavailable); {
		wait := behindGateway
		if errors.Is(err, context.DeadlineExceeded) {
			wait = syncTimeout
		}
		if time.Since(begin) >= wait {
			break
		}
		if err := rest.For(ctx, waitingPause); err != nil {
			return err
		}
		err = try()
	}
	return err
}

// newLink returns a link without a store. It closes the connection when it returns an error.
func newLink(conn *home.Conn, url, tenant string) (*link, error) {
	if conn.Who != nil && conn.Who.Tenant != tenant {
		conn.Bus.Close()
		return nil, fmt.Errorf("%w: the credentials are for %s, not for %s: give others with --creds, or another --tenant", transport.ErrForbidden, conn.Who, auth.TenantName(tenant))
	}
	l := &link{bus: conn.Bus, url: shownURL(url), tenant: tenant, absent: noCortex(tenant, shownURL(url), conn.Who)}
	if conn.Who != nil {
		l.sender = conn.Who.ID
	}
	return l, nil
}

// openOwnStore opens the store at the server. An agent with keys gets none, since it may not read conversations.
func (l *link) openOwnStore(ctx context.Context, conn *home.Conn) error {
	if conn.Who != nil && conn.Who.Role == auth.Agent {
		return nil
	}
	open := func() (err error) {
		l.store, err = conn.Store(ctx)
		return err
	}
	err := open()
	if !conn.Who.Limited() {
		return err
	}
	err = whileAway(ctx, err, open)
	switch {
	case errors.Is(err, context.DeadlineExceeded) && ctx.Err() == nil:
		return unanswered(l.url, l.sender, err)
	case errors.Is(err, transport.ErrUnavailable):
		return l.absent
	}
	return err
}
