package cli

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"maps"
	"slices"
	"strings"

	"github.com/spf13/pflag"

	"github.com/cortex-orchestrator/cortex/cortex/conversation"
	"github.com/cortex-orchestrator/cortex/cortex/storage"
	"github.com/cortex-orchestrator/cortex/internal/datadir"
	"github.com/cortex-orchestrator/cortex/internal/home"
	"github.com/cortex-orchestrator/cortex/transport"
	"github.com/cortex-orchestrator/cortex/transport/nats/auth"
)

// A program may have its own transports and stores in place of NATS. --transport and --store select them.

// plugs adds the flags for the program's own transports and stores. Cortex itself has none.
func (s *settings) plugs(f *pflag.FlagSet) {
	if names := slices.Sorted(maps.Keys(s.program.Transports)); len(names) > 0 {
		f.StringVar(&s.transport, "transport", "", "`URL`: a transport instead of NATS: "+strings.Join(names, ", ")+", or a URL that begins with one, such as NAME://HOST")
		setting(f, "transport")
	}
	if names := slices.Sorted(maps.Keys(s.program.Stores)); len(names) > 0 {
		f.StringVar(&s.store, "store", "", "`URL`: a store instead of NATS: "+strings.Join(names, ", ")+", or a URL that begins with one, such as NAME://HOST")
		setting(f, "store")
	}
}

// scheme returns the scheme of a URL, or the whole text when it has no colon.
func scheme(url string) string {
	name, _, _ := strings.Cut(url, ":")
	return name
}

// lookup returns what a URL's scheme names. Its error does not show the URL, which may contain a password.
func lookup[T any](s *settings, flag, url string, of map[string]T) (T, error) {
	p, ok := of[scheme(url)]
	if !ok {
		return p, s.wrong(flag, ": there is no %q: it is one of %s", scheme(url), strings.Join(slices.Sorted(maps.Keys(of)), ", "))
	}
	return p, nil
}

// checkPlugs checks the values of --transport and --store.
func (s *settings) checkPlugs() error {
	if s.store != "" {
		if _, err := lookup(s, "store", s.store, s.program.Stores); err != nil {
			return err
		}
	}
	if s.transport == "" {
		return nil
	}
	if _, err := lookup(s, "transport", s.transport, s.program.Transports); err != nil {
		return err
	}
	for _, flag := range []string{"nats", "creds", "tls-ca", "tls-cert", "tls-key"} {
		if s.given[flag] != 0 {
			return s.wrong(flag, " is for NATS, and %s names another transport: give one of them", s.called("transport"))
		}
	}
	return nil
}

// inFolder reports whether the Cortex in question is that of the data folder, with an embedded server.
func (s *settings) inFolder() bool { return s.nats == "" && s.transport == "" }

// private reports whether the transport reaches no other process.
func (s *settings) private() bool {
	return s.transport != "" && s.program.Transports[scheme(s.transport)].Private
}

// remote reports whether processes meet at a server other than that of the data folder.
func (s *settings) remote() bool { return !s.inFolder() && !s.private() }

// errPrivate is the error of commands that need a transport that reaches other processes.
func (s *settings) errPrivate() error {
	return fmt.Errorf("--transport %s reaches no other process: it is for `cortex chat`, `cortex ask` and `cortex serve`, and for agents that are built in", scheme(s.transport))
}

// target describes the purpose for which a transport or store of the program is opened.
func (s *settings) target(url string, log *slog.Logger, onConn func(up bool, err error)) (*Target, error) {
	if err := datadir.Make(s.data); err != nil {
		return nil, err
	}
	if onConn == nil {
		onConn = func(bool, error) {}
	}
	return &Target{URL: url, Data: s.data, Tenant: s.tenant, Logger: log, OnConn: onConn}, nil
}

// plugIn opens the transport that --transport names, and the store. An agent gets no store, since it reads no conversations.
func (s *settings) plugIn(ctx context.Context, log *slog.Logger, onConn func(up bool, err error)) (*link, error) {
	if s.store == "" && s.agent == "" {
		return nil, s.wrong("transport", " %s: Cortex's own store lies on a NATS server: name another one with --store", scheme(s.transport))
	}
	own, err := lookup(s, "transport", s.transport, s.program.Transports)
	if err != nil {
		return nil, err
	}
	at, err := s.target(s.transport, log, onConn)
	if err != nil {
		return nil, err
	}
	bus, err := own.Open(ctx, at)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", s.called("transport"), err)
	}
	l := &link{bus: bus, url: shownURL(s.transport), tenant: s.tenant}
	if l.sender, err = s.prove(bus); err == nil && s.agent == "" {
		err = s.openStore(ctx, l, s.store, log)
	}
	if err != nil {
		l.Close()
		return nil, err
	}
	l.absent = fmt.Errorf("%w at %s: start one with `cortex serve%s --transport %s --store %s`",
		datadir.ErrNoCortex, l.url, tenantFlag(s.tenant), shellWord(l.url), shellWord(shownURL(s.store)))
	return l, nil
}

// prove returns the sender that this process proves to be, or "" where nothing has to be proven.
func (s *settings) prove(bus transport.Transport) (sender string, err error) {
	b, ok := bus.(transport.Sender)
	if !ok {
		return "", nil
	}
	tenant, from := b.Sender()
	switch agent := conversation.IsAgent(from) && from != transport.Cortex; {
	case from == "":
	case tenant != s.tenant:
		return "", fmt.Errorf("%w: what this process shows at %s is for %s, not for %s", transport.ErrForbidden, scheme(s.transport), auth.TenantName(tenant), auth.TenantName(s.tenant))
	case agent && s.agent == "":
		return "", fmt.Errorf("%w: what this process shows at %s is for the agent %q", transport.ErrForbidden, scheme(s.transport), from)
	}
	return from, nil
}

// openStore opens a store of the program for l.
func (s *settings) openStore(ctx context.Context, l *link, url string, log *slog.Logger) error {
	own, err := lookup(s, "store", url, s.program.Stores)
	if err != nil {
		return err
	}
	at, err := s.target(url, log, nil)
	if err != nil {
		return err
	}
	if l.store, err = own.Open(ctx, at); err != nil {
		return fmt.Errorf("%s: %w", s.called("store"), err)
	}
	return nil
}

// connect returns a link on conn with the store at that server, or with the program's store that store names.
func (s *settings) connect(ctx context.Context, conn *home.Conn, url, store string, log *slog.Logger) (*link, error) {
	l, err := newLink(conn, url, s.tenant)
	if err != nil {
		return nil, err
	}
	if store == "" {
		err = l.openOwnStore(ctx, conn)
	} else if s.agent == "" {
		err = s.openStore(ctx, l, store, log)
	}
	if err != nil {
		l.Close()
		return nil, err
	}
	return l, nil
}

// storeOf returns the URL of the store that the Cortex at a uses: a process that joins reads the same store.
func (s *settings) storeOf(a datadir.Address) (string, error) {
	store := a.Node.Of("store")
	_, known := s.program.Stores[scheme(store)]
	switch {
	case s.store != "" && s.store != store:
		return "", s.wrong("store", ": the cortex that runs on %s keeps its conversations elsewhere: leave it out", s.data)
	case store != "" && !known:
		return "", fmt.Errorf("the cortex that runs on %s keeps its conversations in a store that this program does not have: %s", s.data, scheme(store))
	}
	return store, nil
}

// openOwn opens the program's own transport for the node.
func (n *node) openOwn(ctx context.Context, s *settings, onConn func(up bool, err error)) (err error) {
	if s.private() { // otherwise processes share the work, as on an external NATS server
		c, err := datadir.Take(ctx, s.data)
		if errors.Is(err, datadir.ErrLocked) {
			return fmt.Errorf("another cortex runs on %s, and --transport %s cannot reach it: end that one, or choose another folder with --data", s.data, scheme(s.transport))
		}
		if err != nil {
			return err
		}
		n.claim, n.release = c, c.Release
	}
	if n.link, err = s.plugIn(ctx, n.log, onConn); err != nil {
		return err
	}
	if n.sender != "" && n.sender != transport.Cortex {
		return fmt.Errorf("%w: what this process shows at %s is for %q, and not for the orchestrator of %s", transport.ErrForbidden, scheme(s.transport), n.sender, auth.TenantName(s.tenant))
	}
	return nil
}

// closeStore closes a store that has a Close method.
func closeStore(s storage.Store) error {
	if c, ok := s.(io.Closer); ok {
		return c.Close()
	}
	return nil
}
