package nats

import (
	"fmt"
	"strings"

	natsgo "github.com/nats-io/nats.go"

	"github.com/cortex-orchestrator/cortex/transport"
	"github.com/cortex-orchestrator/cortex/transport/nats/auth"
)

// While the disk is nearly full, what is sent to Cortex is mapped to the interceptor's subject. What the interceptor lets pass is mapped back: a server maps a
// subject once, so that it then reaches its stream. The answer of the stream goes to the sender.
const (
	interceptedPrefix = "cortex.v1.interceptor."
	passedPrefix      = "cortex.v1.passed."

	messagesToCortex = inboxPrefix + "*." + transport.Cortex + ".*.*.*"
	intercepted      = interceptedPrefix + "$1.$2.$3.$4"
	passedOn         = passedPrefix + "*.*.*.*"
	cortexInboxes    = inboxPrefix + "$1." + transport.Cortex + ".$2.$3.$4"
)

// smallEvent is the size, in bytes, up to which an event of work in progress is taken as long as work is done. A larger one may be refused, see forWork:
// its agent sends it again until there is room or its task has ended.
const smallEvent = 64 << 10

// interceptor answers, in one account, what the server does not take while its disk is nearly full, and passes everything else on.
type interceptor struct {
	room *diskRoom
	nc   *natsgo.Conn
	held allowance // guarded by room.mu
}

// intercept makes sure that an account has an interceptor. The caller holds r.mu.
func (r *diskRoom) intercept(account string) error {
	if r.interceptors[account] != nil {
		return nil
	}
	if r.interceptors == nil {
		r.interceptors = map[string]*interceptor{}
	}
	opts := []natsgo.Option{
		natsgo.InProcessServer(r.conns), natsgo.Name("cortex (interceptor)"), natsgo.MaxReconnects(-1), natsgo.ErrorHandler(func(_ *natsgo.Conn, _ *natsgo.Subscription, err error) {
			r.log.Debug("interceptor", "account", account, "err", err)
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
	i := &interceptor{room: r, nc: nc}
	files, err := nc.Subscribe(noRoomPrefix+">", i.file)
	if err == nil {
		err = files.SetPendingLimits(maxWaitingRequests, maxWaitingBytes)
	}
	var events *natsgo.Subscription
	if err == nil {
		events, err = nc.Subscribe(interceptedPrefix+"*.*.*.*", i.event)
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
	r.interceptors[account] = i
	return nil
}

// closeInterceptors closes all interceptors.
func (r *diskRoom) closeInterceptors() {
	r.mu.Lock()
	defer r.mu.Unlock()
	for _, i := range r.interceptors {
		if i != nil {
			i.nc.Close()
		}
	}
	clear(r.interceptors)
}

// refuse tells a sender why. One that gets no answer repeats its request.
func (i *interceptor) refuse(m *natsgo.Msg, why error) {
	if m.Reply != "" {
		_ = i.nc.PublishMsg(answer(m.Reply, "", why))
	}
}

// file refuses a chunk of a file.
func (i *interceptor) file(m *natsgo.Msg) {
	free, size, err := i.room.disk(i.room.dir)
	if err != nil {
		return
	}
	i.refuse(m, fmt.Errorf("%w: the disk of the store has %s free, and files leave at least %s to everything else: %s",
		transport.ErrFilesFull, transport.SizeText(int64(free)), transport.SizeText(int64(reserveOf(size))), roomAdvice))
}

// event refuses an event of Cortex's inbox, or passes it on.
func (i *interceptor) event(m *natsgo.Msg) {
	address := strings.TrimPrefix(m.Subject, interceptedPrefix)
	tenant, rest, _ := strings.Cut(address, ".")
	subject := inboxPrefix + tenant + "." + transport.Cortex + "." + rest
	if err := i.check(m, subject); err != nil {
		i.refuse(m, err)
		return
	}
	_ = i.nc.PublishMsg(&natsgo.Msg{Subject: passedPrefix + address, Reply: m.Reply, Header: m.Header, Data: m.Data})
}

// check returns ErrFull for an event that there is no room for now.
func (i *interceptor) check(m *natsgo.Msg, subject string) error {
	e, err := decodeInbox(m, subject)
	switch {
	case err != nil || isNewWork(transport.Inbox(e.Tenant, e.To), e):
		return i.room.forMessage(len(m.Data))
	case e.From == transport.Cortex:
		return nil
	}
	if err := i.room.whileHeld(i, e.From, m.Size()); err != nil {
		return err
	}
	if len(m.Data) > smallEvent {
		return i.room.forWork(len(m.Data))
	}
	return nil
}
