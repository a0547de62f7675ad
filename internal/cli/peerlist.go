package cli

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/url"
	"os"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/cortex-orchestrator/cortex/agents"
	peers "github.com/cortex-orchestrator/cortex/agents/a2a"
	"github.com/cortex-orchestrator/cortex/internal/datadir"
	"github.com/cortex-orchestrator/cortex/internal/llms"
	"github.com/cortex-orchestrator/cortex/prompt"
)

// peerKey is the key of the config file that lists A2A agents of others. The key a2a is the address of the flag --a2a.
const peerKey = "a2a_agents"

// maxPeers bounds the entries of that list.
const maxPeers = 1000

// peerEntry is an entry of a2a_agents in the config file: an agent, or a list of agents.
type peerEntry struct {
	URL         string   `json:"url"`
	Directory   string   `json:"directory"` // FILE or URL, as --a2a-directory takes it
	Name        string   `json:"name"`
	Prefix      string   `json:"prefix"`
	Credentials string   `json:"credentials"` // FILE
	AllowHost   []string `json:"allow_host"`
	Refresh     string   `json:"refresh"`
	Concurrency int      `json:"concurrency"`

	refresh time.Duration
}

// readPeers reads the list. Its errors begin with the key.
func (s *settings) readPeers(raw json.RawMessage) error {
	var all []json.RawMessage
	if err := json.Unmarshal(raw, &all); err != nil || len(all) == 0 {
		return fmt.Errorf("%s: want a list, such as `- url: https://example.com`; the address at which Cortex itself is an A2A server is a2a", peerKey)
	}
	if len(all) > maxPeers {
		return fmt.Errorf("%s: there are %d: at most %d can be listed here, and more in a file that directory names", peerKey, len(all), maxPeers)
	}
	seen := map[string]int{}
	for i, one := range all {
		p, err := s.readPeer(one)
		if err != nil {
			return fmt.Errorf("%s[%d]%w", peerKey, i, err)
		}
		at := p.URL + p.Directory
		if first, twice := seen[at]; twice {
			return fmt.Errorf("%s[%d]: it is the same as entry %d", peerKey, i, first+1)
		}
		seen[at] = i
		s.peers = append(s.peers, p)
	}
	return nil
}

// readPeer reads an entry of the list: the URL alone, or keys and values.
func (s *settings) readPeer(raw json.RawMessage) (*peerEntry, error) {
	p := new(peerEntry)
	if json.Unmarshal(raw, &p.URL) != nil || p.URL == "" {
		d := json.NewDecoder(bytes.NewReader(raw))
		d.DisallowUnknownFields()
		if err := d.Decode(p); err != nil {
			return nil, errors.New(llms.ExplainJSON(err))
		}
		if strings.Contains(string(raw), `:""`) {
			return nil, errors.New(": a value is empty: give it, or leave its key out")
		}
	}
	switch {
	case (p.URL == "") == (p.Directory == ""):
		return nil, errors.New(": want url, or directory for a list of agents")
	case p.Name != "" && (p.Prefix != "" || p.URL == ""):
		return nil, errors.New(".name: it is the name of one agent: give it with url, and without prefix")
	case p.Concurrency < 0:
		return nil, fmt.Errorf(".concurrency: %d: it must not be negative", p.Concurrency)
	}
	if p.Refresh != "" {
		var err error
		if p.refresh, err = time.ParseDuration(p.Refresh); err != nil || p.refresh < time.Second {
			return nil, fmt.Errorf(".refresh: %q: want a time of at least a second, such as 5m", p.Refresh)
		}
	}
	if p.URL != "" {
		if err := p.peer(p.URL, nil).Check(); err != nil {
			return nil, fmt.Errorf(".url: %w", err)
		}
	}
	p.Credentials = s.beside(p.Credentials)
	if u, err := url.Parse(p.Directory); err != nil || u.Scheme != "http" && u.Scheme != "https" {
		p.Directory = s.beside(p.Directory)
	}
	return p, nil
}

// peer returns the peer at a URL.
func (p *peerEntry) peer(at string, keys *peers.Credentials) *peers.Peer {
	return &peers.Peer{URL: at, Name: p.Name, Prefix: p.Prefix, Hosts: p.AllowHost, Refresh: p.refresh, Credentials: keys}
}

// keys reads the credentials of the entry; nil where it has none.
func (p *peerEntry) keys(ctx context.Context) (*peers.Credentials, error) {
	if p.Credentials == "" {
		return nil, nil
	}
	return peers.ReadCredentials(ctx, p.Credentials)
}

// checkPeers returns what is wrong with the files that the list names. Servers are not asked.
func (s *settings) checkPeers(ctx context.Context) error {
	for i, p := range s.peers {
		at := peerKey + "[" + strconv.Itoa(i) + "]"
		err := error(nil)
		if _, err = p.keys(ctx); err != nil {
			at += ".credentials"
		} else if u, bad := url.Parse(p.Directory); p.Directory != "" && (bad != nil || u.Scheme != "http" && u.Scheme != "https") {
			at += ".directory"
			_, err = os.Stat(p.Directory)
		}
		if err != nil {
			return usagef("%s: %w", s.config, s.doc.Explain(fmt.Errorf("%s: %w", at, err)))
		}
	}
	return nil
}

// list returns the settings of the entry, for people. They have no secrets, which are in the file of credentials.
func (p *peerEntry) list(at, from string) []settingJSON {
	refresh, most := p.Refresh, ""
	if p.Concurrency > 0 {
		most = strconv.Itoa(p.Concurrency)
	}
	var all []settingJSON
	for _, f := range [][2]string{
		{"url", peers.BareURL(p.URL)},
		{"directory", peers.BareURL(p.Directory)},
		{"name", p.Name},
		{"prefix", p.Prefix},
		{"credentials", p.Credentials},
		{"allow_host", strings.Join(p.AllowHost, ",")},
		{"refresh", refresh},
		{"concurrency", most},
	} {
		if f[1] != "" {
			all = append(all, settingJSON{at + "." + f[0], f[1], from})
		}
	}
	return all
}

// guests are the A2A agents of a service.
type guests struct {
	peers.Company
	stop    context.CancelFunc
	running sync.WaitGroup
}

// startPeers runs the agents of a2a_agents in this process, until [guests.end].
func (n *node) startPeers(ctx context.Context, s *settings) {
	if len(s.peers) == 0 {
		return
	}
	ctx, stop := context.WithCancel(context.WithoutCancel(ctx))
	n.guests = &guests{stop: stop, Company: peers.Company{
		Options: &peers.Options{Dir: datadir.A2A(s.data), Version: buildVersion(), Logger: n.log}, Renamed: "name or prefix in " + peerKey,
		Tell: func(at string, err error) {
			n.log.Warn("an A2A agent is tried again and again", "url", peers.BareURL(at), "err", prompt.Clean(oneLine(err), 300))
		},
	}}
	for _, p := range s.peers {
		n.guests.running.Go(func() { n.runEntry(ctx, s, p) })
	}
}

// end ends the agents, and waits for them.
func (g *guests) end() {
	if g != nil {
		g.stop()
		g.running.Wait()
	}
}

// trouble returns a line for each agent that does not work.
func (g *guests) trouble() []string {
	if g == nil {
		return nil
	}
	return g.Company.Trouble()
}

// runEntry runs the agents of an entry until ctx ends.
func (n *node) runEntry(ctx context.Context, s *settings, p *peerEntry) {
	g := n.guests
	serve := func(ctx context.Context, a *peers.Agent) error {
		if err := peers.Alone(ctx, n.bus, n.tenant, a.Card(), g.Renamed); err != nil {
			return err
		}
		return agents.Serve(ctx, n.bus, a.Card(), a, &agents.Options{
			Tenant: n.tenant, Tracer: s.node.tracer, Concurrency: p.Concurrency, MaxFile: int64(s.node.maxFile), Logger: n.log, Changes: a.Changes(),
			Deliveries: -1, Grace: peerGrace, // their tasks go on when this process is started again
			Forget: func(tenant, contextID string) error { return datadir.Forget(s.data, tenant, contextID) },
		})
	}
	var all []*peers.Peer
	g.Persist(ctx, p.URL+p.Directory, func() error {
		keys, err := p.keys(ctx)
		if err != nil {
			return fmt.Errorf("credentials: %w", err)
		}
		all, err = p.peers(ctx, keys, func(at string, err error) {
			n.log.Warn("an entry of a list of A2A agents is left out", "list", peers.BareURL(p.Directory), "entry", at, "err", prompt.Clean(oneLine(err), 300))
		})
		return err
	})
	var running sync.WaitGroup
	for _, one := range all {
		running.Go(func() { g.Keep(ctx, one, serve) })
	}
	running.Wait()
}

// peerGrace is how long a task that waits for a peer may go on when its agent ends: it is followed by the next one.
const peerGrace = 2 * time.Second

// peers returns the peers of an entry. Of a list, skip is called with each entry that cannot be used.
func (p *peerEntry) peers(ctx context.Context, keys *peers.Credentials, skip func(at string, err error)) ([]*peers.Peer, error) {
	if p.URL != "" {
		return []*peers.Peer{p.peer(p.URL, keys)}, nil
	}
	list, err := peers.ReadDirectory(ctx, p.Directory)
	if err != nil {
		return nil, err
	}
	var all []*peers.Peer
	for _, entry := range list.Entries {
		if entry.Err != nil {
			skip(entry.At, entry.Err)
			continue
		}
		one := p.peer(entry.URL, keys)
		one.Public = list.Public
		all = append(all, one)
	}
	return all, nil
}
