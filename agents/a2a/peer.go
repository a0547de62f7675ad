package a2a

import (
	"errors"
	"fmt"
	"net/url"
	"strings"
	"time"
)

// wellKnown is where a card is, below the address of its agent.
const wellKnown = "/.well-known/agent-card.json"

// Peer says how to reach an agent.
type Peer struct {
	// URL is the address of the agent, below which its card is at the well-known path, or, if it ends with .json, of its card.
	URL string
	// Name is the agent's name in Cortex; "" is the name on its card, with Prefix before it.
	Name, Prefix string
	// Hosts are hosts that the card may name beside its own.
	Hosts []string
	// Refresh is the time between two readings of the card; 0 is what the server says, or else DefaultRefresh.
	Refresh time.Duration
	// Credentials are sent to the origins that they are for, and to no others; nil is none.
	Credentials *Credentials
	// Public refuses addresses in private networks, for peers from a list that somebody else wrote.
	Public bool
}

// Check returns what is wrong with the peer's URL, or nil.
func (p *Peer) Check() error {
	_, err := p.card()
	return err
}

// card returns the URL of the peer's card.
func (p *Peer) card() (*url.URL, error) {
	u, err := url.Parse(p.URL)
	switch {
	case err != nil || u.Hostname() == "" || u.Scheme != "http" && u.Scheme != "https":
		return nil, fmt.Errorf("%.100q: want a URL such as https://example.com", shownURL(p.URL))
	case u.User != nil:
		return nil, errors.New("a name and a password do not belong into a URL: give them in the file of credentials")
	}
	u.Fragment = ""
	if !strings.HasSuffix(u.Path, ".json") {
		u = u.JoinPath(wellKnown)
	}
	return u, nil
}

// shownURL returns a URL without its query and user.
func shownURL(text string) string {
	u, err := url.Parse(text)
	if err != nil || u.Host == "" {
		return text
	}
	return (&url.URL{Scheme: u.Scheme, Host: u.Host, Path: u.Path}).String()
}
