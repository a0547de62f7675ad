package nats

import (
	"fmt"

	"github.com/nats-io/nats-server/v2/server"
	natsgo "github.com/nats-io/nats.go"
)

// maxCopies bounds the subscriptions that may receive a caller's answer. A client has one; an observer may add another.
const maxCopies = 4

// copies returns a function that counts the subscriptions of a subject, if the server is in this process; otherwise it returns 0. Each subscription
// gets a copy of an answer, and the caller pays for each.
func (b *Bus) copies(nc *natsgo.Conn) func(subject string) int {
	none := func(string) int { return 0 }
	cid, err := nc.GetClientID()
	if b.server == nil || err != nil {
		return none
	}
	ns := b.server.current()
	list, err := ns.Connz(&server.ConnzOptions{CID: cid, Username: true})
	if err != nil || len(list.Conns) != 1 {
		return none
	}
	account, err := ns.LookupAccount(list.Conns[0].Account)
	if err != nil {
		return none
	}
	return account.Interest
}

// copied returns the cost in bytes of an answer, which every subscription of its subject receives.
func (g *gateway) copied(reply string, bytes int) int { return bytes * max(1, g.copies(reply)) }

// limitCopies returns errTooMuch when more than maxCopies subscriptions would receive an answer, and charges a request for each copy of that refusal.
func (g *gateway) limitCopies(c *caller, reply string) error {
	if reply == "" {
		return nil
	}
	if n := g.copies(reply); n > maxCopies {
		if err := g.charge(c, n, 0); err != nil {
			return err
		}
		return fmt.Errorf("%w: %d subscriptions of %s would get the answer, at most %d may: listen once", errTooMuch, n, c.who, maxCopies)
	}
	return nil
}
