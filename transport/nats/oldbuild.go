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
	maxOldWaiting = 256 // messages of older builds that wait for their answer; of more, who sent them asks again
	maxOldTold    = 100 // senders of whom the log says that they are of an older build
)

// errOldBuild is for who divides the conversations into as many partitions as builds before 0.1.0 did.
var errOldBuild = fmt.Errorf("%w: it comes from a program of a build before 0.1.0, which this Cortex does not understand: upgrade that program", transport.ErrInvalid)

// ofOldBuild reports whether an older build publishes to subject what this one publishes to a.
func ofOldBuild(a inboxAddress, subject string) bool {
	token := strings.Split(strings.TrimPrefix(subject, inboxPrefix), ".")
	p, err := strconv.Atoi(token[min(2, len(token)-1)])
	if err != nil || p < 0 || p >= oldPartitions {
		return false
	}
	token[2] = strconv.Itoa(transport.Partition(a.tenant, a.context))
	return inboxPrefix+strings.Join(token, ".") == inboxSubject(a)
}

// refuseOldBuilds answers, as long as the bus lives, who publishes to partitions that only older builds had. No stream takes that, and they would
// try for ever. Where there are keys, the gateway says so.
func (b *Bus) refuseOldBuilds(ctx context.Context) error {
	if b.who != nil || !b.begin() {
		return nil
	}
	if !b.refusing.CompareAndSwap(false, true) {
		b.looking.Done()
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
		defer b.looking.Done()
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
					_ = b.nc.PublishMsg(answer(m.Reply, m.Subject, errOldBuild)) // who hears nothing asks again
				}
			}
		}
	}()
	return err
}
