package nats

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/nats-io/nats.go/jetstream"

	"github.com/cortex-orchestrator/cortex/transport"
)

// takeBack ends the subject on which a sender asks a gateway to remove a file that it has stored.
const takeBack = ".remove"

// takeBack removes a file of the caller, such as one whose upload was stopped, and refuses to when an event or an entry of the log names it. It
// keeps no record of uploads: the next request of the same caller may reach the gateway of another process.
func (g *gateway) takeBack(c *caller, object, reply string) error {
	o, _, err := parseChunkSubject(object + ".0")
	if err != nil || objectSubject(o) != object || o.Tenant != g.tenant || o.From != c.who.ID {
		return forbidden(c.who, "remove "+object)
	}
	if err := g.charge(c, countCost, 0); err != nil {
		return err
	}
	ctx, cancel := context.WithTimeout(g.ctx, withdrawWithin)
	defer cancel()
	if err := g.remove(ctx, c, o); err != nil {
		return err
	}
	if reply == "" {
		return nil
	}
	return g.nc.Publish(reply, []byte("{}"))
}

// remove removes a file of the caller that nothing names; the error wraps ErrForbidden when something does. A reference moves from the inbox to
// the log, so remove reads the inbox first and cannot miss one on its way.
func (g *gateway) remove(ctx context.Context, c *caller, o transport.Object) error {
	awaited, err := g.bus.awaited(ctx, g.tenant, o.ContextID, func(m *jetstream.RawStreamMsg) error { return g.chargeLook(c, m) })
	if err != nil {
		return err
	}
	named := awaited[o]
	if !named {
		if named, err = g.logged(ctx, c, o); err != nil {
			return err
		}
	}
	if named {
		return fmt.Errorf("%w, which a message names: it goes with its conversation", forbidden(c.who, "remove file "+o.ID))
	}
	delete(c.uploads, o)
	g.shelf(c.who.ID).know(0, time.Time{})
	return g.bus.RemoveObject(ctx, o)
}

// logged reports whether the log of a file's conversation names it.
func (g *gateway) logged(ctx context.Context, c *caller, o transport.Object) (bool, error) {
	subject := readStreams[logStream] + transport.Escape(g.tenant) + "." + transport.Escape(o.ContextID)
	for seq := uint64(1); ; {
		m, err := g.look(ctx, c, logStream, subject, seq)
		if errors.Is(err, transport.ErrNotFound) {
			return false, nil
		}
		if err != nil {
			return false, fmt.Errorf("read the log of %s: %w", o.ContextID, err)
		}
		if slices.Contains(transport.NamedFiles(g.tenant, m.Data), o) {
			return true, nil
		}
		seq = m.Sequence + 1
	}
}
