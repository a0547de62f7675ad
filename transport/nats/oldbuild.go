package nats

import (
	"context"
	"fmt"
	"strconv"
	"strings"

	natsgo "github.com/nats-io/nats.go"

	"github.com/cortex-orchestrator/cortex/transport"
)

const (
	maxOldWaiting = 256 // messages of older builds that wait for their answer; senders of further ones repeat them
	maxOldTold    = 100 // senders that the log names
)

// errOldBuild is the error for a program that publishes to the partitions of builds before 0.1.0.
var errOldBuild = fmt.Errorf("%w: it comes from a program of a build before 0.1.0, which this Cortex does not understand: upgrade that program", transport.ErrInvalid)

// ofOldBuild reports whether subject is the one to which an older build publishes an event for the address a.
func ofOldBuild(a inboxAddress, subject string) bool {
	token := strings.Split(strings.TrimPrefix(subject, inboxPrefix), ".")
	p, err := strconv.Atoi(token[min(2, len(token)-1)])
	if err != nil || p < 0 || p >= oldPartitions {
		return false
	}
	token[2] = strconv.Itoa(transport.Partition(a.tenant, a.context))
	return inboxPrefix+strings.Join(token, ".") == inboxSubject(a)
}

// refuseOldBuilds answers programs that publish to partitions that only older builds had, until the bus is closed. No stream stores such events,
// and the programs would repeat them for ever. On a server with keys, the gateway answers them.
func (b *Bus) refuseOldBuilds(ctx context.Context) error {
	if b.who != nil || !b.beginAskingPeers() {
		return nil
	}
	if !b.refusing.CompareAndSwap(false, true) {
		b.checks.Done()
		return nil
	}
	sent := make(chan *natsgo.Msg, maxOldWaiting)
	var last *natsgo.Subscription
	var err error
	for p := transport.Partitions; p < oldPartitions && err == nil; p++ {
		last, err = b.nc.ChanQueueSubscribe(inboxPrefix+"*.*."+strconv.Itoa(p)+".>", gatewayQueue, sent)
	}
	if err == nil {
		err = b.nc.flush(ctx, last)
	}
	go func() {
		defer b.checks.Done()
		told := map[string]bool{}
		for {
			select {
			case <-b.done:
				return
			case m := <-sent:
				a, err := parseInboxSubject(m.Subject)
				if who := oneLine(a.from, 100); err == nil && !told[who] && len(told) < maxOldTold {
					told[who] = true
					b.log.Warn("a program of a build before 0.1.0 is refused: upgrade it", "from", who, "tenant", a.tenant, "to", oneLine(a.to, 100))
				}
				if m.Reply != "" {
					_ = b.nc.PublishMsg(answer(m.Reply, m.Subject, errOldBuild)) // a sender without an answer repeats the event
				}
			}
		}
	}()
	return err
}
