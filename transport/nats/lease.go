package nats

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"strconv"
	"strings"
	"time"

	natsgo "github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"github.com/cortex-orchestrator/cortex/transport"
)

const (
	leaseBucket = "CORTEX_LEASE"
	leaseStream = "KV_" + leaseBucket

	leaseTTL   = 3 * time.Second        // a key of the bucket expires after this time unless it is written again
	leaseRenew = time.Second            // period of renewals
	leaseRetry = 100 * time.Millisecond // the same, after a renewal has failed
	leaseWait  = time.Second            // bounds the wait for an answer of the server
	// leasePatience is how long leases may fail before it is a warning: others may take over meanwhile.
	leasePatience = 10 * time.Second
)

var (
	errLeaseTaken = errors.New("the key was written by another")
	errNoLeases   = errors.New("the bucket of leases is not there, or has no leader at this moment")
	errLost       = errors.New("the lease is lost")
)

// member is the value of an ordered subscriber's key.
type member struct {
	Label string    `json:"label"`
	Since time.Time `json:"since"`
}

// lease is the value of a partition's key.
type lease struct {
	Owner string `json:"owner"` // a subscriber's id; empty: no owner
	Epoch uint64 `json:"epoch"` // grows with each owner

	rev uint64 // revision of the key in the bucket; 0: no key
}

// newEpoch returns an epoch greater than old. The bucket of a single server is lost with the process, so old may be 0: the clock makes the epoch
// grow anyway.
func newEpoch(old uint64) uint64 { return max(old+1, uint64(time.Now().UnixNano())) }

// leaseTable is the content of the bucket for one ordered inbox.
type leaseTable struct {
	members map[string]member
	leases  [transport.Partitions]lease
	revs    map[string]uint64 // the newest revision that each subscriber has written
}

// leaseTable reads the bucket. A replica may answer with an older state.
func (b *Bus) leaseTable(ctx context.Context, t transport.Topic) (*leaseTable, error) {
	ctx, cancel := context.WithTimeout(ctx, leaseWait)
	defer cancel()
	sub, err := b.nc.SubscribeSync(b.nc.NewInbox())
	if err != nil {
		return nil, err
	}
	defer func() { _ = sub.Unsubscribe() }()
	prefix := leaseSubject(t, "")
	ask, err := json.Marshal(map[string]any{"multi_last": []string{prefix + ">"}})
	if err != nil {
		return nil, err
	}
	if err := b.nc.PublishRequest(jsAPI+"DIRECT.GET."+leaseStream, sub.Subject, ask); err != nil {
		return nil, err
	}
	l := &leaseTable{members: map[string]member{}, revs: map[string]uint64{}}
	for {
		m, err := sub.NextMsgWithContext(ctx)
		if errors.Is(err, natsgo.ErrNoResponders) {
			return nil, errNoLeases
		}
		if err != nil {
			return nil, err
		}
		switch status := m.Header.Get("Status"); status {
		case "":
			l.enter(strings.TrimPrefix(m.Header.Get("Nats-Subject"), prefix), m)
		case "204", "404": // the end, or no keys
			return l, nil
		case "503":
			return nil, errNoLeases
		default:
			return nil, fmt.Errorf("read leases: %s %s", status, m.Header.Get("Description"))
		}
	}
}

// enter adds a key to the table. It treats an unreadable key like a missing one.
func (l *leaseTable) enter(key string, m *natsgo.Msg) {
	rev, err := strconv.ParseUint(m.Header.Get("Nats-Sequence"), 10, 64)
	if err != nil {
		return
	}
	deleted := m.Header.Get(headerKVOperation) != ""
	if id, ok := strings.CutPrefix(key, memberKey); ok {
		var v member
		if json.Unmarshal(m.Data, &v) == nil && !deleted {
			l.members[id] = v
		}
		l.revs[id] = max(l.revs[id], rev)
		return
	}
	number, ok := strings.CutPrefix(key, partitionKey)
	p, err := strconv.Atoi(number)
	if !ok || err != nil || p < 0 || p >= transport.Partitions {
		return
	}
	v := &l.leases[p]
	if json.Unmarshal(m.Data, v) != nil || deleted {
		v.Owner = ""
	}
	v.rev = rev
	if v.Owner != "" {
		l.revs[v.Owner] = max(l.revs[v.Owner], rev)
	}
}

// anyRevision makes putKey write whatever the present revision is.
const anyRevision = ^uint64(0)

// putKey writes a key of the bucket if its revision is rev (0: no key), and returns the new revision. It returns errLeaseTaken when the revision is
// another, errNoLeases when the bucket is missing or has no leader. With gone, it marks the key as deleted. It also works while the bus is being
// closed.
func (b *Bus) putKey(ctx context.Context, subject string, v any, gone bool, rev uint64) (uint64, error) {
	data, err := json.Marshal(v)
	if err != nil {
		return 0, err
	}
	m := &natsgo.Msg{Subject: subject, Data: data, Header: natsgo.Header{
		jetstream.MsgTTLHeader: {strconv.Itoa(int(leaseTTL/time.Second)) + "s"},
	}}
	if gone {
		m.Header[headerKVOperation] = []string{"DEL"}
	}
	opts := []jetstream.PublishOpt{jetstream.WithRetryAttempts(0)}
	if rev != anyRevision {
		opts = append(opts, jetstream.WithExpectLastSequencePerSubject(rev))
	}
	ctx, cancel := context.WithTimeout(ctx, leaseWait)
	defer cancel()
	ack, err := b.js.PublishMsg(ctx, m, opts...)
	var api *jetstream.APIError
	switch {
	case err == nil:
		return ack.Sequence, nil
	case errors.As(err, &api) && (api.ErrorCode == jetstream.JSErrCodeStreamWrongLastSequence || api.ErrorCode == jetstream.JSErrCodeStreamWrongLastSequenceConstant):
		return 0, errLeaseTaken
	case errors.Is(err, jetstream.ErrNoStreamResponse):
		return 0, errNoLeases
	}
	return 0, err
}

// ensureLeases makes the bucket if it is missing, since a single server keeps it in memory only. A bucket without a leader is not missing.
func (b *Bus) ensureLeases(ctx context.Context) error {
	ctx, cancel := b.asking(ctx)
	defer cancel()
	if _, err := lookUp(ctx, b.js, leaseStream); !errors.Is(err, jetstream.ErrStreamNotFound) {
		return err
	}
	inbox, err := lookUp(ctx, b.js, inboxStream)
	if err != nil {
		return err
	}
	for _, c := range streams(inbox.CachedInfo().Config.Replicas) {
		if c.Name == leaseStream {
			return ensureStream(ctx, b.js, c, true)
		}
	}
	return nil
}
