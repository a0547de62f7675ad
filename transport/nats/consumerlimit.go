package nats

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/nats-io/nats.go/jetstream"

	"github.com/cortex-orchestrator/cortex/transport"
	"github.com/cortex-orchestrator/cortex/transport/nats/auth"
)

// A stream has a limited number of consumers. Agents leave some to the orchestrator. The orchestrator removes others when none is left, which can
// happen on a server without permissions.
const (
	reservedPart  = 50 // one in so many of a stream's consumers is not for the inboxes of agents
	roomConsumers = 64 // how many makeRoom removes

	// errMaxConsumers is the server's error when a stream has as many consumers as it may.
	errMaxConsumers jetstream.ErrorCode = 10026
)

func isConsumerLimit(err error) bool {
	var api *jetstream.APIError
	return errors.As(err, &api) && api.ErrorCode == errMaxConsumers
}

// leaveRoom returns ErrUnavailable when too few consumers are left to make one for an agent's inbox.
func (b *Bus) leaveRoom(ctx context.Context, t transport.Topic) error {
	if transport.IsReserved(t.ID) {
		return nil
	}
	s, err := lookUp(ctx, b.js, inboxStream)
	if err != nil {
		return err
	}
	n, most := s.CachedInfo().State.Consumers, s.CachedInfo().Config.MaxConsumers
	if reserved := max(most/reservedPart, transport.Partitions); most > 0 && n >= most-reserved {
		return fmt.Errorf("%w: stream %s has %d consumers, and the last %d of %d are for the orchestrator; an agent that does not run leaves its own after %v",
			transport.ErrUnavailable, inboxStream, n, reserved, most, consumerIdle)
	}
	return nil
}

// isOurs reports whether this package made a consumer of the inbox.
func isOurs(info *jetstream.ConsumerInfo) bool {
	filters := filtersOf(info.Config)
	token := strings.Split(strings.TrimPrefix(filters[0], inboxPrefix), ".")
	if len(token) < 3 || !strings.HasPrefix(filters[0], inboxPrefix) {
		return false
	}
	t := transport.Topic{Kind: transport.KindInbox}
	if unescapeAll(field{&t.Tenant, token[0], true}, field{&t.ID, token[1], false}) != nil {
		return false
	}
	for p := whole; p < transport.Partitions; p++ {
		if s := (partitionID{t, p}); s.consumer() == info.Name {
			return slices.Equal(filters, []string{s.filter()})
		}
	}
	return false
}

// makeRoom removes consumers of the inbox so that the orchestrator can make its own. It removes them in this order:
//
//  1. unused consumers that other programs made,
//  2. used consumers that other programs made,
//  3. unused consumers of agents. Such an agent makes its consumer again when it is back, and its events stay.
//
// It removes neither durable consumers of other programs nor consumers that agents use. When only such consumers are left, the error names them.
func (b *Bus) makeRoom(ctx context.Context) error {
	stream, err := b.js.Stream(ctx, inboxStream)
	if err != nil {
		return err
	}
	var ranks [3][]string
	all, lasting := 0, map[string]int{} // by the beginning of their names
	list := stream.ListConsumers(ctx)
	for info := range list.Info() {
		all++
		used := info.NumWaiting > 0 || info.PushBound || info.NumAckPending > 0
		switch ours := isOurs(info); {
		case !ours && info.Config.Durable != "":
			name, _, _ := strings.Cut(info.Name, "-")
			lasting[oneLine(name, 40)]++
		case !ours && !used:
			ranks[0] = append(ranks[0], info.Name)
		case !ours:
			ranks[1] = append(ranks[1], info.Name)
		case !used && strings.HasPrefix(info.Name, "agent-"):
			ranks[2] = append(ranks[2], info.Name)
		}
	}
	if err := list.Err(); err != nil {
		return err
	}
	removed := 0
	for _, name := range slices.Concat(ranks[:]...) {
		if removed >= roomConsumers {
			break
		}
		if err := b.deleteConsumer(ctx, name); err != nil {
			return err
		}
		removed++
	}
	if removed == 0 {
		return fmt.Errorf("%w: stream %s has %d consumers and takes no more, and all are in use or made to last (%s): remove some with `nats consumer rm`",
			transport.ErrUnavailable, inboxStream, all, strings.Join(slices.Sorted(maps.Keys(lasting)), ", "))
	}
	b.log.Warn("consumers removed: there was no room for the orchestrator's own", "stream", inboxStream, "consumers", all, "removed", removed,
		"of_others", min(removed, len(ranks[0])+len(ranks[1])))
	return nil
}

// sweep removes consumers of people and agents in the streams that are read through a gateway: older versions allowed any number, which exist as
// long as somebody listens. Their deliver subject shows that they are a caller's. It tries again, ever more rarely, what an overloaded server refused.
func (g *gateway) sweep(ctx context.Context) {
	removed := 0
	left := slices.Collect(maps.Keys(readStreams))
	for wait := time.Second; ; wait = min(2*wait, time.Minute) {
		left = slices.DeleteFunc(left, func(name string) bool {
			n, err := g.sweepStream(ctx, name)
			if removed += n; err != nil {
				g.bus.log.Debug("consumers of people not removed yet", "stream", name, "err", err)
			}
			return err == nil
		})
		if len(left) == 0 {
			break
		}
		select {
		case <-ctx.Done():
			return
		case <-time.After(wait):
		}
	}
	if removed > 0 {
		g.bus.log.Warn("consumers of people removed: Cortex reads for them", "removed", removed)
	}
}

// sweepStream removes such consumers of one stream, and returns how many.
func (g *gateway) sweepStream(ctx context.Context, name string) (removed int, err error) {
	stream, err := lookUp(ctx, g.bus.js, name)
	switch {
	case errors.Is(err, jetstream.ErrStreamNotFound):
		return 0, nil
	case err != nil:
		return 0, err
	case stream.CachedInfo().State.Consumers == 0:
		return 0, nil
	}
	list := stream.ListConsumers(ctx)
	var theirs []string
	for info := range list.Info() {
		if to := info.Config.DeliverSubject; strings.HasPrefix(to, auth.RepliesOf(auth.Person)) || strings.HasPrefix(to, auth.RepliesOf(auth.Agent)) {
			theirs = append(theirs, info.Name)
		}
	}
	if err := list.Err(); err != nil {
		return 0, err
	}
	for _, c := range theirs {
		if err := stream.DeleteConsumer(ctx, c); err != nil && !errors.Is(err, jetstream.ErrConsumerNotFound) {
			return removed, err
		}
		removed++
	}
	return removed, nil
}
