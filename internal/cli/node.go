package cli

import (
	"cmp"
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"net/url"
	"os"
	"slices"
	"strings"
	"sync/atomic"
	"syscall"
	"time"

	"github.com/a2aproject/a2a-go/v2/a2a"
	"golang.org/x/sync/errgroup"

	"github.com/cortex-orchestrator/cortex/agents"
	"github.com/cortex-orchestrator/cortex/cortex"
	"github.com/cortex-orchestrator/cortex/cortex/registry"
	"github.com/cortex-orchestrator/cortex/cortex/storage"
	"github.com/cortex-orchestrator/cortex/internal/directory"
	"github.com/cortex-orchestrator/cortex/internal/garbage"
	"github.com/cortex-orchestrator/cortex/internal/home"
	"github.com/cortex-orchestrator/cortex/internal/openfiles"
	"github.com/cortex-orchestrator/cortex/prompt"
	"github.com/cortex-orchestrator/cortex/transport"
	"github.com/cortex-orchestrator/cortex/transport/nats/auth"
)

// link is a connection to a Cortex: its bus and its store. A node has one too.
type link struct {
	bus    transport.Transport
	store  storage.Store // nil for an agent
	url    string        // where others can reach the same bus, without passwords
	tenant string
	sender string // what this process sends as; "" where nobody has to prove that
	absent error  // for who finds no Cortex there
}

func (l *link) Close() {
	l.bus.Close()
	closeStore(l.store) //nolint:errcheck // what is written is written
}

// join connects to a running server, by --nats or by what a node left in the data folder. It returns nil when none runs.
// onConn, unless nil, is told when the connection is lost and made again.
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
		a, ok, err := findAddress(ctx, s.data)
		if err != nil || !ok {
			return nil, err
		}
		o.URL, o.Locate = a.URL, func() (home.Place, error) { return whereNow(s.data) }
		if store, err = s.storeOf(a); err != nil {
			return nil, err
		}
		if s.node.wellKnown == "" {
			s.node.wellKnown = a.Node.of("well-known")
		}
		s.node.strict = a.Node.of("strict-abilities") == "true"
		if err := s.findCreds(a.Node.of("auth")); err != nil {
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

// refusesTLS reports whether err says that one side does not accept the other's TLS: trying again does not help.
func refusesTLS(err error) bool {
	var cert *tls.CertificateVerificationError
	var record tls.RecordHeaderError
	if errors.As(err, &cert) || errors.As(err, &record) {
		return true
	}
	for _, said := range []string{"remote error: tls:", "secure connection not available"} { // of the other side, and of who wants it in vain
		if err != nil && strings.Contains(err.Error(), said) {
			return true
		}
	}
	return false
}

// shownURL returns the addresses of a server without passwords.
func shownURL(list string) string {
	all := strings.Split(list, ",")
	for i, a := range all {
		u, err := url.Parse(a)
		if err != nil || u.User == nil {
			continue
		}
		if _, ok := u.User.Password(); !ok { // a token
			u.User = url.UserPassword("token", "")
		}
		all[i] = u.Redacted()
	}
	return strings.Join(all, ",")
}

// shutOut returns why a process has to end whose connection to the Cortex of the data folder will not be made again, or nil: it had joined
// that one without credentials, and by now there are keys. Others may get in later, when their server lets them.
func (s *settings) shutOut(err error) error {
	if !s.inFolder() || s.creds != "" || !errors.Is(err, transport.ErrForbidden) {
		return nil
	}
	return fmt.Errorf("the cortex on %s has keys now, and had none when it was joined: start this again, and it takes the credentials that are there for it", s.data)
}

// findCreds takes the credentials for whoever joins from the folder of the server that runs here, unless others were given.
func (s *settings) findCreds(dir string) error {
	if dir == "" || s.creds != "" {
		return nil
	}
	if s.agent == "" {
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

// mustJoin is join for commands that are of no use alone.
func (s *settings) mustJoin(ctx context.Context, name string, log *slog.Logger, onConn func(up bool, err error)) (*link, error) {
	if s.private() {
		return nil, s.errPrivate()
	}
	l, err := s.join(ctx, name, log, onConn)
	if err == nil && l == nil {
		err = fmt.Errorf("%w on %s: start one with `cortex chat` or `cortex serve`, or name its server with --nats", errNoCortex, s.data)
	}
	return l, err
}

// awaitJoin is mustJoin for who may be there before the Cortex that it joins. It waits, and tells so once.
func (s *settings) awaitJoin(ctx context.Context, name string, log *slog.Logger, onConn func(up bool, err error), tell func(away error)) (*link, error) {
	for creds := s.creds; ; s.creds = creds { // those of another server are of no use
		l, err := s.mustJoin(ctx, name, log, onConn)
		away := errors.Is(err, transport.ErrUnavailable) || errors.Is(err, errNoCortex) || errors.Is(err, errSilent)
		if !away || refusesTLS(err) {
			return l, err
		}
		if tell != nil {
			tell(err)
			tell = nil
		}
		if err := rest(ctx, waitingPause); err != nil {
			return nil, err
		}
	}
}

// behindGateway is how long people wait for a Cortex that is just starting: with keys they reach the server through one only.
const behindGateway = 5 * time.Second

// whileAway returns err, or, while that says that somebody is away, what try returns after a pause, again and again for as long as people
// wait: longer when somebody is there, whose answer is late. It ends with ctx's error when ctx does.
func whileAway(ctx context.Context, err error, try func() error) error {
	for begin := time.Now(); errors.Is(err, transport.ErrUnavailable); {
		wait := behindGateway
		if errors.Is(err, context.DeadlineExceeded) {
			wait = syncTimeout
		}
		if time.Since(begin) >= wait {
			break
		}
		if err := rest(ctx, waitingPause); err != nil {
			return err
		}
		err = try()
	}
	return err
}

// tenantName names a tenant in a sentence.
func tenantName(tenant string) string {
	if tenant == "" {
		return "the default tenant"
	}
	return fmt.Sprintf("tenant %q", tenant)
}

// newLink returns a link without a store. After an error the connection is closed.
func newLink(conn *home.Conn, url, tenant string) (*link, error) {
	if conn.Who != nil && conn.Who.Tenant != tenant {
		conn.Bus.Close()
		return nil, fmt.Errorf("%w: the credentials are for %s, not for %s: give others with --creds, or another --tenant", transport.ErrForbidden, conn.Who, tenantName(tenant))
	}
	l := &link{bus: conn.Bus, url: shownURL(url), tenant: tenant, absent: noCortex(tenant, shownURL(url), conn.Who)}
	if conn.Who != nil {
		l.sender = conn.Who.ID
	}
	return l, nil
}

// openOwnStore opens the store that is at the server itself. Conversations are none of the business of an agent with keys.
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

// node is a running Cortex: the server, when it is embedded, and the orchestrator with its registry and built-in agents.
type node struct {
	*link
	*directory.Directory
	orchestrator *cortex.Orchestrator
	server       home.Server           // nil with --nats
	claim        *claim                // likewise
	clock        *wallClock            // of what deletes by age
	broken       atomic.Pointer[error] // why the server has given up its store, after which it may not even end
	release      func()
	closeLLM     func() error
	log          *slog.Logger
	set          *handover // how it is set
	roles        *besides  // of a service

	work, agents, watch *errgroup.Group // ended one after the other, in this order
	stopWork            context.CancelFunc
	stopAgents          context.CancelFunc
	stopWatch           context.CancelFunc // of the registry, which still sees the agents leave
}

// startNode starts everything that this process is to run, and returns once work is taken. The data folder is claimed
// unless an external server is used; then errLocked says that another process has it.
func (s *settings) startNode(ctx context.Context, log *slog.Logger, onEvent func(registry.Event)) (_ *node, err error) {
	n := &node{
		log: log, roles: new(besides), release: func() {}, closeLLM: func() error { return nil },
		work: new(errgroup.Group), agents: new(errgroup.Group), watch: new(errgroup.Group),
	}
	if err := s.checkLLM(); err != nil {
		return nil, err
	}
	wellKnown, err := s.loadWellKnown(ctx)
	if err != nil {
		return nil, err
	}
	rules, err := s.loadPolicy(log)
	if err != nil {
		return nil, err
	}
	kits, err := s.builtin()
	if err != nil {
		return nil, err
	}
	n.stopWork, n.stopAgents, n.stopWatch = func() {}, func() {}, func() {}
	defer func() {
		if err != nil {
			n.Close()
		}
	}()
	if n.set, err = s.handover(); err != nil {
		return nil, err
	}
	conn := new(outage)
	if err := n.open(ctx, s, conn.onConn); err != nil {
		return nil, err
	}
	templates, err := prompt.New(s.node.prompts)
	if err != nil {
		return nil, s.wrong("prompts", ": %w", err)
	}
	if s.node.prompts != "" {
		n.set.Templates = templates.Sum()
	}
	decider, closeLLM, err := s.openDecider(ctx, templates, log)
	if err != nil {
		return nil, err
	}
	n.closeLLM = closeLLM
	remembered := "" // the data folder is this process's only with a claim
	if n.claim != nil {
		remembered = clockFile(s.data)
	}
	n.clock = newWallClock(time.Now, newPassed(), remembered, time.Duration(s.node.retain), log)
	n.Directory = directory.New(registry.Config{
		Tenant: s.tenant, WellKnown: wellKnown, Logger: log, OnEvent: onEvent, Announce: true, Leads: n.leads, Keep: n.keeper(),
		StrictAbilities: s.node.strict,
	})
	conn.tell(n.Registry)
	n.orchestrator, err = cortex.New(cortex.Config{
		Transport: n.bus, Store: n.store, Decider: decider, Tenant: s.tenant, Label: processLabel(), TaskTimeout: s.node.taskTimeout, Logger: log,
		Authenticated: n.sender != "", DecideTimeout: s.node.llmTimeout, Budget: s.budget, Policy: rules.inForce(),
		Agents: n.Routable, Router: n.Index, Shortlist: s.node.shortlist, NoLearning: !s.node.learning,
		Decisions: openfiles.Models(),
	})
	if err != nil {
		return nil, err
	}
	n.Tell(n.orchestrator)

	// What runs ends with Close, not with ctx: the orchestrator stops before the agents leave, so that nobody is told that
	// there are none.
	workCtx, stopWork := context.WithCancel(context.WithoutCancel(ctx))
	n.work, workCtx = errgroup.WithContext(workCtx) // when one part fails, the others end, and Wait says why
	agentsCtx, stopAgents := context.WithCancel(context.WithoutCancel(ctx))
	watchCtx, stopWatch := context.WithCancel(context.WithoutCancel(ctx))
	n.stopWork, n.stopAgents, n.stopWatch = stopWork, stopAgents, stopWatch
	n.watch.Go(func() error {
		garbage.Gather(watchCtx)
		return nil
	})
	unwatched := make(chan struct{})
	n.watch.Go(func() error {
		defer close(unwatched)
		return persist(watchCtx, func(ctx context.Context) error { return n.Registry.Run(ctx, n.bus) })
	})
	n.work.Go(func() error {
		select {
		case <-unwatched:
			return n.watch.Wait()
		case <-workCtx.Done():
			return nil
		}
	})
	select {
	case <-n.Registry.Synced():
	case <-time.After(syncTimeout):
		return nil, fmt.Errorf("the list of agents did not arrive within %v: is the NATS server overloaded?", syncTimeout)
	case <-ctx.Done():
		return nil, ctx.Err()
	}
	for _, k := range kits {
		n.agents.Go(func() error {
			return agents.Serve(agentsCtx, n.bus, k.card, k.executor, &agents.Options{Tenant: s.tenant, MaxFile: int64(s.node.maxFile), Logger: log})
		})
	}
	if err := n.await(ctx, kits); err != nil {
		return nil, err
	}
	// Only now: what waits in the inbox may be for these agents.
	n.work.Go(func() error { return persist(workCtx, n.orchestrator.Run) })
	n.work.Go(func() error {
		rules.watch(workCtx)
		return nil
	})
	n.work.Go(func() error { return announce(workCtx, n.bus, s.tenant) })
	if n.claim != nil {
		n.work.Go(func() error {
			err := n.claim.watch(workCtx)
			if err != nil {
				log.Error("the data folder is lost", "err", err)
			}
			return err
		})
	}
	if n.server != nil {
		n.work.Go(func() error {
			n.server.Watch(workCtx, n.store)
			return nil
		})
		n.work.Go(func() error {
			select {
			case err := <-n.server.Broken(): // whoever watches over this process starts it again
				err = whyBroken(err)
				n.broken.Store(&err)
				return err
			case <-workCtx.Done():
				return nil
			}
		})
	}
	n.work.Go(func() error {
		n.clock.watch(workCtx)
		return nil
	})
	if keeper, ok := n.bus.(transport.FileKeeper); ok {
		n.work.Go(func() error {
			keepFiles(workCtx, n.leads, func() bool { return n.lacks(s.data) }, n.store, keeper, s.tenant, n.clock, n.left, log)
			return nil
		})
	}
	if n.clock.retain > 0 {
		store, bus, err := n.erasers()
		if err != nil {
			return nil, s.wrong("retain", ": %w", err)
		}
		n.work.Go(func() error {
			keepRetained(workCtx, n.leads, store, bus, s.tenant, n.clock, log)
			return nil
		})
	}
	if n.server != nil && n.server.URL() != "" {
		a := address{URL: n.server.URL(), Server: n.server.ID(), Version: buildVersion(), PID: os.Getpid(), Passing: s.node.passing, LLM: s.describeLLM(), Node: n.set}
		if err := leaveAddress(s.data, a); err != nil {
			return nil, fmt.Errorf("data folder: %w", err)
		}
		keepPort(s.data, n.server.URL())
	}
	return n, nil
}

// leads reports whether this node does what is done once for all replicas of a tenant: the owner of the first partition does.
func (n *node) leads() bool {
	if n.server != nil {
		return true // nobody else uses it
	}
	return n.orchestrator != nil && slices.Contains(n.orchestrator.Owned(), 0)
}

// open connects to the external server, or claims the data folder and starts an embedded one.
func (n *node) open(ctx context.Context, s *settings, onConn func(up bool, err error)) error {
	if err := s.checkFiles(); err != nil {
		return err
	}
	if s.transport != "" {
		return n.openOwn(ctx, s, onConn)
	}
	o := &home.Options{
		URL: s.nats, Name: "cortex", Creds: s.creds, Tenant: s.tenant, Logger: n.log, OnConn: onConn,
		Runs: true, Replicas: int(s.node.replicas), MaxFile: int64(s.node.maxFile),
	}
	dial := s.program.Home.Dial
	if s.nats == "" {
		c, err := claimData(ctx, s.data)
		if err != nil {
			return err
		}
		n.claim, n.release = c, c.release
		if err := s.keepKeys(); err != nil {
			return err
		}
		if err := s.missingStore(); err != nil {
			return err
		}
		if gone := s.goneStore(); gone != "" {
			n.log.Error("the store is lost: an empty one is begun", "what", gone)
		}
		so := &home.ServerOptions{
			Dir: storeDir(s.data), Listen: sameListen(ctx, s.data, s.node.listen), Sync: s.node.sync, Logger: n.log,
			Auth: s.node.auth, TLS: s.tls,
		}
		if n.server, err = startServer(ctx, s.program.Home, so, s.node.listen); err != nil {
			return err
		}
		markStore(s.data, n.log)
		if err := c.keep(storeDir(s.data)); err != nil {
			return err
		}
		dial = n.server.Dial
	} else {
		o.TLS = s.tls // else it is the server's own
	}
	conn, err := dial(ctx, o)
	if err != nil {
		return err
	}
	url := s.nats
	if n.server != nil {
		url = n.server.URL()
	}
	if who := conn.Who; who.Limited() {
		conn.Bus.Close()
		return fmt.Errorf("%w: the credentials are for %s: to run Cortex, give those of the orchestrator of %s with --creds", transport.ErrForbidden, who, tenantName(s.tenant))
	}
	n.link, err = s.connect(ctx, conn, url, s.store, n.log)
	return err
}

// startServer starts a server, at another address when the first one is taken.
func startServer(ctx context.Context, b home.Home, o *home.ServerOptions, other string) (home.Server, error) {
	srv, err := b.Start(ctx, o)
	if !errors.Is(err, syscall.EADDRINUSE) || o.Listen == other {
		return srv, err
	}
	o.Listen = other // the port of the last time is only a convenience, and was free just now
	return b.Start(ctx, o)
}

// await waits until the built-in agents can be given work, so that a first question finds them.
func (n *node) await(ctx context.Context, kits []kit) error {
	ctx, cancel := context.WithTimeout(ctx, 10*time.Second)
	defer cancel()
	poll := time.NewTicker(2 * time.Millisecond)
	defer poll.Stop()
	var broken <-chan error
	if n.server != nil {
		broken = n.server.Broken()
	}
	for {
		online := n.Routable("")
		if !slices.ContainsFunc(kits, func(k kit) bool {
			return !slices.ContainsFunc(online, func(a prompt.Agent) bool { return a.ID == k.card.Name })
		}) {
			return nil
		}
		select {
		case err := <-broken: // no card is stored
			return err
		case <-ctx.Done():
			err := ctx.Err()
			if errors.Is(err, context.DeadlineExceeded) {
				asking, cancel := context.WithTimeout(context.WithoutCancel(ctx), 2*time.Second)
				defer cancel()
				err = cmp.Or(n.healthy(asking), err) // such as that a server of others has no room
			}
			return fmt.Errorf("the built-in agents did not come up: %w", err)
		case <-poll.C:
		}
	}
}

// Close ends the node: work in progress goes back to the inbox, the agents leave, then the server stops. It is for one
// call; everything of importance is stored already.
func (n *node) Close() error {
	n.stopWork()
	err := n.work.Wait()
	n.stopAgents()
	n.roles.end(n.log) // what is asked by them is in the inbox; agents of theirs are there until Cortex gives no more work
	err = errors.Join(err, n.agents.Wait(), n.closeLLM())
	n.stopWatch()
	n.watch.Wait() //nolint:errcheck // the work was told
	if n.link != nil {
		n.link.Close()
	}
	if n.server != nil {
		n.server.Shutdown()
	}
	n.release()
	if errors.Is(err, context.Canceled) {
		return nil
	}
	return err
}

// kit is an agent that runs in this process.
type kit struct {
	card     *a2a.AgentCard
	executor agents.Executor
}

// builtin returns the built-in agents that --agents names.
func (s *settings) builtin() ([]kit, error) {
	var kits []kit
	for _, name := range s.node.agents {
		if name = strings.TrimSpace(name); name == "" || name == "none" {
			continue
		}
		card, executor, ok := s.program.lookup(name)
		if !ok {
			return nil, s.wrong("agents", ": there is no built-in agent %q: it is one of %s", name, strings.Join(s.program.builtin(), ", "))
		}
		kits = append(kits, kit{card, executor})
	}
	return kits, nil
}
