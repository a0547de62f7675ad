package nats

import (
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
	// minLevel is the API level of server 2.14: consumer reset, and schedules that are what they are today. Older servers
	// drop what they do not know from a config without an error.
	minLevel = 4
	needed   = "Cortex needs nats-server 2.14 or later on every server of a cluster: upgrade it"
)

// checkServers refuses servers that are too old: the one that the connection is made to, and the one that leads the cluster, which
// answers for the account. Those that lead the streams are checked with each stream (see checkLeader), all of a cluster by peers.
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

// checkConnected refuses the server that a connection is made to.
func checkConnected(nc *natsgo.Conn) error {
	return checkVersion(nc.ConnectedServerName(), nc.ConnectedUrlRedacted(), nc.ConnectedServerVersion())
}

func checkVersion(name, address, version string) error {
	if older(version, 2, 14) {
		return fmt.Errorf("%w: server %s (%s) is nats-server %.20s; %s", transport.ErrIncompatible, oneLine(name, 100), oneLine(address, 200), version, needed)
	}
	return nil
}

// checkLeader refuses a stream whose leader says that it is too old. Servers before 2.11 do not say; they are found by what
// they drop from the config.
func checkLeader(c jetstream.StreamConfig) error {
	level, err := strconv.Atoi(c.Metadata["_nats.level"])
	if err != nil || level >= minLevel {
		return nil
	}
	return fmt.Errorf("%w: stream %s: the server that leads it is nats-server %.20s; %s", transport.ErrIncompatible, c.Name, c.Metadata["_nats.ver"], needed)
}

// peers is what the servers of a cluster say of themselves. A question goes to all of them over the connection that is there, so
// that also those answer whose addresses are not known, or not to be reached from here. It is put when the connection is made, when
// it is made again or a server is discovered, now and then, and when somebody asks whether all is well. A server without a cluster,
// such as that in this process, is not asked: the connection says what it is.
type peers struct {
	heard chan struct{} // has something when an answer has come

	mu    sync.Mutex
	sub   *natsgo.Subscription // of the answers; nil before the first question
	mute  bool                 // nobody may ask, or nobody answers
	asked time.Time
	round int
	known map[string]peer // by their names
	told  map[string]bool // that they are too old
}

// peer is a server.
type peer struct {
	Name    string `json:"name"`
	Host    string `json:"host"`
	ID      string `json:"id"`
	Cluster string `json:"cluster"`
	Version string `json:"ver"`

	round int // of the question that it has answered last
}

const (
	// peersSubject is where the servers of a cluster answer each account with what they have of it, and who they are.
	peersSubject = "$SYS.REQ.ACCOUNT.PING.STATZ"
	peersAsk     = `{"include_unused":true}` // also those that have nothing

	peersEvery = 30 * time.Second       // how often they are asked
	peersAgain = 5 * time.Second        // the same, while somebody wants to know
	peersSoon  = time.Second            // after one was discovered, which the others may not have heard of yet
	peersQuiet = 250 * time.Millisecond // without another answer, when there is an end of waiting for those that may not be there
	peersGone  = 2                      // questions without an answer, after which a server is not there
)

// lookAround asks the servers of the cluster what they are, and sees to it that it is done again.
func (b *Bus) lookAround() {
	if !b.begin() {
		return
	}
	defer b.looking.Done()
	if b.who.Limited() || b.nc.ConnectedClusterName() == "" {
		return
	}
	to, ok := b.peers.ask()
	if !ok {
		return
	}
	var err error
	if to == nil {
		if to, err = b.nc.Subscribe(b.nc.NewInbox(), b.met); err == nil {
			to = b.peers.listen(to)
		}
	}
	if err == nil {
		err = b.nc.PublishRequest(peersSubject, to.Subject, []byte(peersAsk))
	}
	if err != nil {
		b.log.Debug("servers of the cluster not asked", "err", err)
	}
	b.lookIn(peersEvery)
}

// begin counts a lookAround in, which Close waits for; it reports false when the bus is closed.
func (b *Bus) begin() bool {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.closed {
		return false
	}
	b.looking.Add(1)
	return true
}

// ask begins a question; it reports false when none is to be put.
func (p *peers) ask() (to *natsgo.Subscription, ok bool) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.mute {
		return nil, false
	}
	p.asked = time.Now()
	p.round++
	return p.sub, true
}

// listen makes sub that of the answers, unless one was made at the same moment.
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

// lookIn has lookAround called after d.
func (b *Bus) lookIn(d time.Duration) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.look != nil && !b.closed {
		b.look.Reset(d)
	}
}

// lookNow is lookIn for who wants to know now, unless that was known a moment ago.
func (b *Bus) lookNow() {
	b.peers.mu.Lock()
	due := b.peers.sub != nil && time.Since(b.peers.asked) >= peersAgain
	b.peers.mu.Unlock()
	if due {
		b.lookIn(0)
	}
}

// met takes in a server's answer.
func (b *Bus) met(m *natsgo.Msg) {
	if m.Header.Get("Status") != "" { // nobody answers: the servers have no account for it
		b.muted()
		return
	}
	var answer struct {
		Server peer `json:"server"`
	}
	if err := json.Unmarshal(m.Data, &answer); err != nil || answer.Server.Version == "" || answer.Server.Cluster != b.nc.ConnectedClusterName() {
		return
	}
	s, p := answer.Server, &b.peers
	if s.Name == "" {
		s.Name = s.ID
	}
	p.mu.Lock()
	s.round = p.round
	p.known[s.Name] = s
	p.mu.Unlock()
	b.tellOld(s.Name, checkVersion(s.Name, s.Host, s.Version))
	p.wake()
}

// tellOld logs once why a server is too old, unless Dial is going to say it; nil says that it is not.
func (b *Bus) tellOld(name string, why error) {
	p := &b.peers
	p.mu.Lock()
	tell := why != nil && !p.told[name] && b.dialed.Load()
	if tell || why == nil {
		p.told[name] = tell
	}
	p.mu.Unlock()
	if tell {
		b.log.Warn("nats server too old", "err", why)
	}
}

// muted has the servers not asked any more.
func (b *Bus) muted() {
	b.peers.mu.Lock()
	b.peers.mute = true
	b.peers.mu.Unlock()
	b.peers.wake()
}

func (p *peers) wake() {
	select {
	case p.heard <- struct{}{}:
	default:
	}
}

// checkPeers asks the servers of the cluster, waits until as many have answered as are known or no more answers come, and refuses
// those that are too old.
func (b *Bus) checkPeers(ctx context.Context) error {
	b.lookAround()
	ctx, cancel := context.WithTimeout(ctx, lookTimeout)
	defer cancel()
	for b.peers.missing(max(len(b.nc.Servers()), 2)) { // of a cluster that does not tell its addresses, one may be known
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

// missing reports whether fewer than n servers have answered a question that was put.
func (p *peers) missing(n int) bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.sub != nil && !p.mute && len(p.known) < n
}

// tooOld returns an error when a server is too old, of those that the last questions have found.
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

// older reports whether a version is before major.minor. One that cannot be read is not: the API level decides.
func older(version string, major, minor int) bool {
	parts := strings.SplitN(strings.TrimPrefix(version, "v"), ".", 3)
	if len(parts) < 2 {
		return false
	}
	x, err := strconv.Atoi(parts[0])
	y, err2 := strconv.Atoi(parts[1])
	return err == nil && err2 == nil && (x < major || x == major && y < minor)
}
