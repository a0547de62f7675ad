package nats

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"

	natsgo "github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"github.com/cortex-orchestrator/cortex/transport"
)

const (
	// minLevel is the API level of server 2.14, the first with resets of consumers and the present form of schedules. Older servers silently drop
	// unknown fields of a configuration.
	minLevel = 4
	needed   = "Cortex needs nats-server 2.14 or later on every server of a cluster: upgrade it"
)

// checkServers refuses servers that are too old: the connected one, and the leader of the cluster, which answers for the account. checkLeader
// checks the leader of each stream, checkPeers all servers of a cluster.
func checkServers(ctx context.Context, js jetstream.JetStream) error {
	if err := checkConnected(js.Conn()); err != nil {
		return err
	}
	asking, cancel := context.WithTimeout(ctx, lookTimeout)
	defer cancel()
	account, err := js.AccountInfo(asking)
	switch {
	case errors.Is(err, jetstream.ErrJetStreamNotEnabled), errors.Is(err, jetstream.ErrJetStreamNotEnabledForAccount):
		return fmt.Errorf("%w: JetStream is not enabled; start the server with -js: %w", transport.ErrIncompatible, err)
	case err != nil:
		return translate(err)
	case account.API.Level < minLevel:
		return fmt.Errorf("%w: the server that leads has API level %d, at least %d is needed; %s", transport.ErrIncompatible, account.API.Level, minLevel, needed)
	}
	return nil
}

// checkConnected refuses a connected server that is too old.
func checkConnected(nc *natsgo.Conn) error {
	return checkVersion(nc.ConnectedServerName(), nc.ConnectedUrlRedacted(), nc.ConnectedServerVersion())
}

func checkVersion(name, address, version string) error {
	if older(version, 2, 14) {
		return fmt.Errorf("%w: server %s (%s) is nats-server %.20s; %s", transport.ErrIncompatible, oneLine(name, 100), oneLine(address, 200), version, needed)
	}
	return nil
}

// checkLeader refuses a stream whose leader reports a version that is too old. Servers before 2.11 do not report it; they are recognised by the
// fields that they drop from the configuration.
func checkLeader(c jetstream.StreamConfig) error {
	level, err := strconv.Atoi(c.Metadata["_nats.level"])
	if err != nil || level >= minLevel {
		return nil
	}
	return fmt.Errorf("%w: stream %s: the server that leads it is nats-server %.20s; %s", transport.ErrIncompatible, c.Name, c.Metadata["_nats.ver"], needed)
}

// peers collects what the servers of a cluster report of themselves. A request goes to all of them over the present connection, so that servers
// answer whose addresses are unknown or unreachable from here. It is sent after connecting and reconnecting, when a server is discovered, every
// peersEvery, and on a health check. A server without a cluster, such as an embedded one, is not asked: the connection itself reports its version.
type peers struct {
	heard chan struct{} // holds one after an answer

	mu       sync.Mutex
	sub      *natsgo.Subscription // to the answers; nil before the first request
	silent   bool                 // these credentials may not ask, or no server answers
	asked    time.Time
	round    int
	known    map[string]peer // by name
	reported map[string]bool // names of servers that were reported as too old
}

// peer is a server of the cluster.
type peer struct {
	Name    string `json:"name"`
	Host    string `json:"host"`
	ID      string `json:"id"`
	Cluster string `json:"cluster"`
	Version string `json:"ver"`

	round int // of the last request that it has answered
}

const (
	// peersSubject is a request to which each server of a cluster answers with its state of the account and its identity.
	peersSubject = "$SYS.REQ.ACCOUNT.PING.STATZ"
	peersAsk     = `{"include_unused":true}` // include servers without data of the account

	peersEvery = 30 * time.Second       // period of requests
	peersAgain = 5 * time.Second        // the same, while health checks ask
	peersSoon  = time.Second            // after the discovery of a server, of which the others may not know yet
	peersQuiet = 250 * time.Millisecond // without another answer, after which missing servers are not waited for
	peersGone  = 2                      // requests without an answer after which a server is forgotten
)

// askPeers asks the servers of the cluster for their versions, and schedules the next request.
func (b *Bus) askPeers() {
	if !b.beginAskingPeers() {
		return
	}
	defer b.checks.Done()
	if b.who.Limited() || b.nc.ConnectedClusterName() == "" {
		return
	}
	to, ok := b.peers.ask()
	if !ok {
		return
	}
	var err error
	if to == nil {
		if to, err = b.nc.Subscribe(b.nc.NewInbox(), b.recordPeer); err == nil {
			to = b.peers.listen(to)
		}
	}
	if err == nil {
		err = b.nc.PublishRequest(peersSubject, to.Subject, []byte(peersAsk))
	}
	if err != nil {
		b.log.Debug("servers of the cluster not asked", "err", err)
	}
	b.askPeersIn(peersEvery)
}

// beginAskingPeers counts an askPeers, for which Close waits; it returns false when the bus is closed.
func (b *Bus) beginAskingPeers() bool {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.closed {
		return false
	}
	b.checks.Add(1)
	return true
}

// ask begins a request; it returns false when none is to be sent.
func (p *peers) ask() (to *natsgo.Subscription, ok bool) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.silent {
		return nil, false
	}
	p.asked = time.Now()
	p.round++
	return p.sub, true
}

// listen makes sub the subscription to the answers, unless another call was faster.
func (p *peers) listen(sub *natsgo.Subscription) *natsgo.Subscription {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.sub == nil {
		p.sub = sub
	} else {
		_ = sub.Unsubscribe()
	}
	return p.sub
}

// askPeersIn schedules askPeers after d.
func (b *Bus) askPeersIn(d time.Duration) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.askTimer != nil && !b.closed {
		b.askTimer.Reset(d)
	}
}

// askPeersNow schedules askPeers at once, unless it ran less than peersAgain ago.
func (b *Bus) askPeersNow() {
	b.peers.mu.Lock()
	due := b.peers.sub != nil && time.Since(b.peers.asked) >= peersAgain
	b.peers.mu.Unlock()
	if due {
		b.askPeersIn(0)
	}
}

// recordPeer records a server's answer.
func (b *Bus) recordPeer(m *natsgo.Msg) {
	if m.Header.Get("Status") != "" { // no responders: the servers have no system account
		b.stopAskingPeers()
		return
	}
	var answer struct {
		Server peer `json:"server"`
	}
	if err := json.Unmarshal(m.Data, &answer); err != nil || answer.Server.Version == "" || answer.Server.Cluster != b.nc.ConnectedClusterName() {
		return
	}
	s, p := answer.Server, &b.peers
	s.Name = cmp.Or(s.Name, s.ID)
	p.mu.Lock()
	s.round = p.round
	p.known[s.Name] = s
	p.mu.Unlock()
	b.logOldServer(s.Name, checkVersion(s.Name, s.Host, s.Version))
	p.wake()
}

// logOldServer logs once that a server is too old, unless Dial is going to return that error. A nil why says that it is not.
func (b *Bus) logOldServer(name string, why error) {
	p := &b.peers
	p.mu.Lock()
	tell := why != nil && !p.reported[name] && b.dialed.Load()
	if tell || why == nil {
		p.reported[name] = tell
	}
	p.mu.Unlock()
	if tell {
		b.log.Warn("nats server too old", "err", why)
	}
}

// stopAskingPeers ends the requests to the servers.
func (b *Bus) stopAskingPeers() {
	b.peers.mu.Lock()
	b.peers.silent = true
	b.peers.mu.Unlock()
	b.peers.wake()
}

func (p *peers) wake() {
	select {
	case p.heard <- struct{}{}:
	default:
	}
}

// checkPeers asks the servers of the cluster, waits until as many have answered as are known or no more answers come, and refuses those that are
// too old.
func (b *Bus) checkPeers(ctx context.Context) error {
	b.askPeers()
	ctx, cancel := context.WithTimeout(ctx, lookTimeout)
	defer cancel()
	for b.peers.missing(max(len(b.nc.Servers()), 2)) { // a cluster that hides its addresses may have more than the one known
		quiet, stop := context.WithTimeout(ctx, peersQuiet)
		select {
		case <-b.peers.heard:
			stop()
			continue
		case <-quiet.Done():
			stop()
		}
		break
	}
	return b.tooOld()
}

// missing reports whether fewer than n servers have answered a request that was sent.
func (p *peers) missing(n int) bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.sub != nil && !p.silent && len(p.known) < n
}

// tooOld returns an error when a server that the last requests have found is too old.
func (b *Bus) tooOld() error {
	if err := checkConnected(b.nc.Conn); err != nil {
		return err
	}
	p := &b.peers
	p.mu.Lock()
	defer p.mu.Unlock()
	for _, name := range slices.Sorted(maps.Keys(p.known)) {
		s := p.known[name]
		if p.round-s.round > peersGone {
			delete(p.known, name)
			continue
		}
		if err := checkVersion(s.Name, s.Host, s.Version); err != nil {
			return err
		}
	}
	return nil
}

// older reports whether a version precedes major.minor. An unreadable version does not: the API level decides.
func older(version string, major, minor int) bool {
	parts := strings.SplitN(strings.TrimPrefix(version, "v"), ".", 3)
	if len(parts) < 2 {
		return false
	}
	x, err := strconv.Atoi(parts[0])
	y, err2 := strconv.Atoi(parts[1])
	return err == nil && err2 == nil && (x < major || x == major && y < minor)
}
