package nats

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	natsgo "github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"github.com/cortex-orchestrator/cortex/internal/openfiles"
	"github.com/cortex-orchestrator/cortex/transport"
)

// Healthy implements transport.Health.
func (b *Bus) Healthy(ctx context.Context) error {
	if b.isClosed() {
		return transport.ErrClosed
	}
	if s := b.nc.Status(); s != natsgo.CONNECTED {
		return b.explainAbsence(fmt.Errorf("%w: connection to the NATS server is %s", transport.ErrUnavailable, strings.ToLower(s.String())))
	}
	b.askPeersNow()
	if err := b.tooOld(); err != nil {
		return err
	}
	if err := b.mayWork(); err != nil {
		return err
	}
	ctx, cancel := context.WithTimeout(ctx, apiTimeout)
	defer cancel()
	s, err := b.js.Stream(ctx, inboxStream)
	switch {
	case err != nil && isUnavailable(err) && b.nc.ConnectedClusterName() != "":
		return fmt.Errorf("%w: %s (stream %s: %w)", transport.ErrUnavailable, noMajority, inboxStream, err)
	case err != nil:
		return streamError(inboxStream, err)
	}
	if err := checkLeader(s.CachedInfo().Config); err != nil {
		return err
	}
	if b.who.Limited() {
		return nil
	}
	// A server whose disk is full, or was, still answers reads: only a write tells. It waits for large ones of others that came before.
	if err := b.nc.store(ctx, sentinel(), writePatience); err != nil && !errors.Is(err, transport.ErrForbidden) {
		return fmt.Errorf("%w: %s (%w)", transport.ErrUnavailable, b.unwritten(ctx, err), err)
	} else if err != nil {
		return err
	}
	return nil
}

// writePatience is how long the write of Healthy may take. It leaves time to find out why it has failed.
const writePatience = 3 * time.Second

// errNoStore is the error of a server that cannot write the files of a new stream.
const errNoStore jetstream.ErrorCode = 10049

const (
	noMajority = "the NATS server does not answer: has the cluster lost its majority?"

	// silence is how long a leader must not have heard of another server to count it as disconnected. They greet each other every second.
	silence = 1500 * time.Millisecond
)

// unwritten describes why a write has failed with err. A server whose disk is full may not answer at all, like one that has lost the others; it
// still reports how many others it hears of.
func (b *Bus) unwritten(ctx context.Context, err error) string {
	var api *jetstream.APIError
	if openfiles.None(err) {
		return "the NATS server has as many files open as it may: allow it more with `ulimit -n` and start it again"
	}
	if !isUnavailable(err) || errors.As(err, &api) && api.ErrorCode == errNoResources || b.nc.ConnectedClusterName() == "" {
		return takesNoWrite("the NATS server")
	}
	s, err := lookUp(ctx, b.js, inboxStream)
	if err != nil || s.CachedInfo().Cluster == nil {
		return noMajority
	}
	return unanswered(s.CachedInfo().Cluster)
}

// unanswered describes why a stream of a cluster accepts no write.
func unanswered(c *jetstream.ClusterInfo) string {
	here := 1
	for _, peer := range c.Replicas {
		if !peer.Offline && peer.Active < silence {
			here++
		}
	}
	if all := len(c.Replicas) + 1; c.Leader == "" || 2*here <= all {
		return noMajority
	}
	return takesNoWrite("NATS server " + oneLine(c.Leader, 100))
}

func takesNoWrite(server string) string {
	return server + " takes no write: it has too much to do, or its disk is full or was, or it had no files left to open; its log says which, and after the latter two it has to be started again when that is mended"
}

// Waiting implements transport.InboxDepth. Timers are not counted: they are not in the inbox yet. The server counts an event a moment after it has
// stored it, so a busy one may say that nothing waits right after a Publish.
func (b *Bus) Waiting(ctx context.Context, t transport.Topic) (int, error) {
	return b.count(ctx, t, func(info *jetstream.ConsumerInfo) int { return int(info.NumPending) + info.NumAckPending })
}

// Untaken implements transport.InboxBacklog.
func (b *Bus) Untaken(ctx context.Context, t transport.Topic) (int, error) {
	return b.count(ctx, t, func(info *jetstream.ConsumerInfo) int { return int(info.NumPending) })
}

// Age implements transport.InboxAge. Timers are not counted: they are not in the inbox yet. What was acknowledged is not in the stream any more.
func (b *Bus) Age(ctx context.Context, t transport.Topic) (waiting int, oldest time.Time, err error) {
	if waiting, err = b.Waiting(ctx, t); err != nil || waiting == 0 {
		return waiting, time.Time{}, err
	}
	m, err := b.message(ctx, inboxStream, inboxFilter(t), 1)
	switch {
	case errors.Is(err, transport.ErrNotFound): // all were handled meanwhile
		return 0, time.Time{}, nil
	case err != nil:
		return 0, time.Time{}, err
	}
	return waiting, m.Time, nil
}

// count returns the sum of a number over the consumers of an inbox, or the number of all its events when it has no consumers.
func (b *Bus) count(ctx context.Context, t transport.Topic, of func(*jetstream.ConsumerInfo) int) (int, error) {
	if err := checkTopic(t); err != nil {
		return 0, err
	}
	if t.Kind != transport.KindInbox {
		return 0, fmt.Errorf("%w: topic kind %q has no depth", transport.ErrInvalid, t.Kind)
	}
	if b.isClosed() {
		return 0, transport.ErrClosed
	}
	ctx, cancel := context.WithTimeout(ctx, apiTimeout)
	defer cancel()
	if n, ok, err := b.consumers(ctx, t, of); ok || err != nil {
		return n, translate(err)
	}
	// No subscriber yet, or none for a long time.
	s, err := b.js.Stream(ctx, inboxStream)
	if err != nil {
		return 0, translate(err)
	}
	info, err := s.Info(ctx, jetstream.WithSubjectFilter(inboxFilter(t)))
	if err != nil {
		return 0, translate(err)
	}
	n := 0
	for _, count := range info.State.Subjects {
		n += int(count)
	}
	return n, nil
}

// consumers returns the sum of a number over the consumers of an inbox: those of its partitions, or that of the whole. ok is false when neither set
// is complete.
func (b *Bus) consumers(ctx context.Context, t transport.Topic, of func(*jetstream.ConsumerInfo) int) (n int, ok bool, err error) {
	kinds := [][]int{make([]int, transport.Partitions), {whole}}
	for p := range kinds[0] {
		kinds[0][p] = p
	}
	if t.ID != transport.Cortex {
		slices.Reverse(kinds) // agents usually subscribe without order
	}
	for _, kind := range kinds {
		n, ok = 0, true
		for _, p := range kind {
			info, err := b.consumer(ctx, partitionID{t, p})
			if err != nil {
				return 0, false, err
			}
			if ok = info != nil; !ok {
				break
			}
			n += of(info)
		}
		if ok {
			break
		}
	}
	return n, ok, nil
}
