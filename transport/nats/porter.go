package nats

import (
	"fmt"
	"strings"

	natsgo "github.com/nats-io/nats.go"

	"github.com/cortex-orchestrator/cortex/transport"
	"github.com/cortex-orchestrator/cortex/transport/nats/auth"
)

// While the disk is nearly full, what is sent to Cortex is mapped to the porter's subject. What the porter lets pass is mapped back: a server maps a
// subject once, so that it then reaches its stream. The answer of the stream goes to the sender.
const (
	gotPrefix = "cortex.v1.porter."
	letPrefix = "cortex.v1.passed."

	messagesToCortex = inboxPrefix + "*." + transport.Cortex + ".*.*.*"
	porterGets       = gotPrefix + "$1.$2.$3.$4"
	porterLets       = letPrefix + "*.*.*.*"
	cortexInboxes    = inboxPrefix + "$1." + transport.Cortex + ".$2.$3.$4"
)

// smallEvent is the size, in bytes, up to which an event of work in progress is taken however little is free. A larger one is held back like a new message:
// its agent sends it again until there is room or its task has ended.
const smallEvent = 64 << 10

// porter answers, in one account, what the server does not take while its disk is nearly full, and passes everything else on.
type porter struct {
	room *diskRoom
	nc   *natsgo.Conn
}

// hire makes sure that an account has a porter. The caller holds r.mu.
func (r *diskRoom) hire(account string) error {
	if r.porters[account] != nil {
		return nil
	}
	if r.porters == nil {
		r.porters = map[string]*porter{}
	}
	opts := []natsgo.Option{
		natsgo.InProcessServer(r.conns), natsgo.Name("cortex (porter)"), natsgo.MaxReconnects(-1), natsgo.ErrorHandler(func(_ *natsgo.Conn, _ *natsgo.Subscription, err error) {
			r.log.Debug("porter", "account", account, "err", err)
		}),
	}
	if r.auth != "" {
		creds, err := auth.Admins(r.auth)
		if err != nil {
			return err
		}
		if creds[account] == "" {
			return fmt.Errorf("%s has no credentials of its orchestrator: add the tenant once more (`cortex auth add tenant`)", r.auth)
		}
		opts = append(opts, natsgo.UserCredentials(creds[account]))
	}
	nc, err := natsgo.Connect("", opts...)
	if err != nil {
		return err
	}
	p := &porter{r, nc}
	files, err := nc.Subscribe(noRoomPrefix+">", p.file)
	if err == nil {
		err = files.SetPendingLimits(maxWaitingRequests, maxWaitingBytes)
	}
	var events *natsgo.Subscription
	if err == nil {
		events, err = nc.Subscribe(gotPrefix+"*.*.*.*", p.event)
	}
	if err == nil {
		err = events.SetPendingLimits(maxWaitingRequests, maxWaitingBytes)
	}
	if err == nil {
		err = nc.FlushTimeout(apiTimeout)
	}
	if err != nil {
		nc.Close()
		return err
	}
	r.porters[account] = p
	return nil
}

// dismiss ends all porters.
func (r *diskRoom) dismiss() {
	r.mu.Lock()
	defer r.mu.Unlock()
	for _, p := range r.porters {
		if p != nil {
			p.nc.Close()
		}
	}
	clear(r.porters)
}

// refuse tells a sender why. One that gets no answer repeats its request.
func (p *porter) refuse(m *natsgo.Msg, why error) {
	if m.Reply != "" {
		_ = p.nc.PublishMsg(answer(m.Reply, "", why))
	}
}

// file refuses a chunk of a file.
func (p *porter) file(m *natsgo.Msg) {
	free, size, err := p.room.disk(p.room.dir)
	if err != nil {
		return
	}
	p.refuse(m, fmt.Errorf("%w: the disk of the store has %s free, and files leave at least %s to everything else: %s",
		transport.ErrFilesFull, transport.SizeText(int64(free)), transport.SizeText(int64(reserveOf(size))), roomAdvice))
}

// event refuses an event of Cortex's inbox, or passes it on.
func (p *porter) event(m *natsgo.Msg) {
	address := strings.TrimPrefix(m.Subject, gotPrefix)
	tenant, rest, _ := strings.Cut(address, ".")
	subject := inboxPrefix + tenant + "." + transport.Cortex + "." + rest
	e, err := decodeInbox(m, subject)
	_, cancel := e.Payload.(*transport.Cancel)
	if err != nil || isNewWork(transport.Inbox(e.Tenant, e.To), e) || !cancel && e.From != transport.Cortex && len(m.Data) > smallEvent {
		if err := p.room.forMessage(len(m.Data)); err != nil {
			p.refuse(m, err)
			return
		}
	}
	_ = p.nc.PublishMsg(&natsgo.Msg{Subject: letPrefix + address, Reply: m.Reply, Header: m.Header, Data: m.Data})
}
