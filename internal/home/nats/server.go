package nats

import (
	"context"
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/cortex-orchestrator/cortex/cortex/jetstore"
	"github.com/cortex-orchestrator/cortex/cortex/storage"
	"github.com/cortex-orchestrator/cortex/internal/erase"
	"github.com/cortex-orchestrator/cortex/internal/home"
	"github.com/cortex-orchestrator/cortex/transport/nats"
	"github.com/cortex-orchestrator/cortex/transport/nats/storecheck"
)

// server is a server of this process, with what is known of the conversations in it.
type server struct {
	*nats.Server
	keyed bool
	audit audit

	mu    sync.Mutex
	loose []erase.Loose // files of which nothing speaks
}

// Start implements [home.Home].
func (Home) Start(ctx context.Context, o *home.ServerOptions) (home.Server, error) {
	check := newChecks()
	srv, err := nats.StartServer(ctx, &nats.ServerOptions{
		Dir: o.Dir, Listen: o.Listen, Sync: o.Sync, Auth: o.Auth, TLS: nats.TLS(o.TLS), Inspect: check.inspect, Logger: o.Logger,
	})
	if err != nil {
		return nil, err
	}
	s := &server{Server: srv, keyed: o.Auth != "", audit: check.end(), loose: check.loose()}
	if all := s.audit.all(); all.Lost > 0 && o.Logger != nil {
		o.Logger.Error("entries of conversations are lost: see cortex doctor", "lost", all.Lost, "damaged", len(all.Damaged))
	}
	return s, nil
}

// serves reports whether a damaged conversation is one of those that the server serves: those from before it had keys are in an account of their own, and
// may have the tenant and the name of others.
func (s *server) serves(d jetstore.Damaged) bool { return s.keyed != (d.Account == "$G") }

// Dial implements [home.Server].
func (s *server) Dial(ctx context.Context, o *home.Options) (*home.Conn, error) {
	return dial(ctx, o, s)
}

// Watch implements [home.Server].
func (s *server) Watch(ctx context.Context, store storage.Store) {
	known, loose, tick := -1, []erase.Loose(nil), time.NewTicker(time.Second)
	defer tick.Stop()
	for ctx.Err() == nil {
		s.mu.Lock()
		all := notes{s.audit.all(), s.loose}
		s.mu.Unlock()
		if own, ok := store.(*jetstore.Store); ok {
			all.Damaged = append(slices.DeleteFunc(all.Damaged, s.serves), own.Damaged()...)
		}
		if len(all.Damaged) != known || !slices.Equal(all.Loose, loose) {
			known, loose = len(all.Damaged), all.Loose
			if b, err := json.Marshal(all); err == nil {
				s.Note(b)
			}
		}
		select {
		case <-tick.C:
		case <-ctx.Done():
		}
	}
}

// Left implements [home.Server].
func (s *server) Left(loose []erase.Loose) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.loose = loose
}

// Damage implements [home.Server].
func (s *server) Damage() []string {
	var lines []string
	if _, err := s.Missing(); err != nil {
		lines = append(lines, "missing: "+err.Error())
	}
	if err := s.Untrusted(); err != nil {
		lines = append(lines, "keys: "+err.Error())
	}
	if lost := s.audit.all().Lost; lost > 0 {
		lines = append(lines, fmt.Sprintf("lost: %d entries of conversations; see `cortex doctor`", lost))
	}
	var streams []string
	for _, f := range s.Found() {
		if f.Level == storecheck.Lost && !slices.Contains(streams, f.Stream) {
			streams = append(streams, f.Stream)
		}
	}
	if len(streams) > 0 {
		lines = append(lines, fmt.Sprintf("damaged: some of %s is lost or was set aside; see `cortex doctor`", strings.Join(streams, ", ")))
	}
	return lines
}
