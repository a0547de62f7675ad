package nats

import (
	"fmt"

	"github.com/nats-io/nats-server/v2/server"
	natsgo "github.com/nats-io/nats.go"
)

// maxCopies is how many subscriptions of a caller may get its answers. A client has one for each, and somebody may look on.
const maxCopies = 4

// copies returns a function that counts the subscriptions of a subject, as far as the server is in this process: each gets a copy, and
// whoever asks pays for one.
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

// copied returns what an answer costs whose bytes go to each subscription of its subject.
func (g *gateway) copied(reply string, bytes int) int { return bytes * max(1, g.copies(reply)) }

// once returns an error when more subscriptions than a client has would get an answer. That is an answer, too, of which each copy is a request's worth.
func (g *gateway) once(c *caller, reply string) error {
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
