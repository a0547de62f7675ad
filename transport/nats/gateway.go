package nats

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/a2aproject/a2a-go/v2/a2a"
	natsgo "github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"
	"golang.org/x/time/rate"

	"github.com/cortex-orchestrator/cortex/transport"
	"github.com/cortex-orchestrator/cortex/transport/nats/auth"
)

const (
	jsAPI = "$JS.API." // the server's API for its streams
	jsAck = "$JS.ACK."

	maxAgentReason = 500 // bytes of the reason with which an agent gives up

	gatewayQueue = "cortex" // queue group: one of several orchestrators answers

	// Bounds of the messages that wait for authorize, which only queues them; each caller's queue has its own bounds.
	maxWaitingRequests = 1 << 20
	maxWaitingBytes    = 256 << 20
)

// gateway checks and forwards what agents and people of a tenant send, as package auth describes it. The server guarantees who the sender is. The
// gateway has its own connections: a server finishes a read before it handles anything else on that connection, and reads of callers must not delay
// the orchestrator.
type gateway struct {
	bus     *Bus
	tenant  string
	begin   int // offset of the role in a subject
	nc      *conn
	copies  func(subject string) int // number of subscriptions that receive what is published to a subject
	counts  *conn                    // for counts and single messages, during which the server handles nothing else on a connection
	batches *conn                    // for several messages, and for searches: each may take the server many times as long
	ctx     context.Context          //nolint:containedctx // of the callers' requests, until close
	end     context.CancelFunc

	unknownLog rate.Sometimes // limits the log of messages of no caller
	ownChunks  int            // chunks of files that one sender may store
	letters    *rate.Limiter  // bytes of the dead letters of all agents
	paying     sync.Mutex     // while dead letters are counted
	room       fileSpace

	mu      sync.Mutex
	callers map[string]*caller // by the prefix of their subjects
	shelves map[string]*shelf  // by sender
	closed  bool
	all     sync.WaitGroup

	counting sync.Mutex // one count of a stream's subjects at a time
}

// serveGateway serves the gateway of a tenant until the bus is closed. Only an orchestrator does so; without credentials there is no gateway.
func (b *Bus) serveGateway(ctx context.Context, tenant string) error {
	if b.who == nil || b.who.Role != auth.Orchestrator {
		return nil
	}
	b.opening.Lock()
	defer b.opening.Unlock()
	b.mu.Lock()
	open := b.gateways[tenant] != nil
	b.mu.Unlock()
	if open {
		return nil
	}
	nc, err := b.connect("gateway")
	if err != nil {
		return err
	}
	counts, err := b.connect("gateway, counts")
	if err != nil {
		nc.Close()
		return err
	}
	batches, err := b.connect("gateway, batches")
	if err != nil {
		nc.Close()
		counts.Close()
		return err
	}
	g := &gateway{bus: b, tenant: tenant, begin: len(auth.GatewayOf(tenant)), nc: &conn{Conn: nc}, counts: &conn{Conn: counts}, batches: &conn{Conn: batches}, copies: b.copies(nc), unknownLog: rate.Sometimes{Interval: time.Second}, callers: map[string]*caller{}, ownChunks: maxOwnChunks, letters: rate.NewLimiter(lettersPace, lettersBurst)}
	g.ctx, g.end = context.WithCancel(context.Background())
	sub, err := nc.QueueSubscribe(auth.GatewayOf(tenant)+">", gatewayQueue, g.authorize)
	if err == nil {
		err = sub.SetPendingLimits(maxWaitingRequests, maxWaitingBytes)
	}
	if err == nil {
		err = g.nc.flush(ctx, sub)
	}
	b.mu.Lock()
	if err == nil && b.closed {
		err = transport.ErrClosed
	}
	if err == nil {
		b.gateways[tenant] = g
		g.all.Go(func() { g.sweep(g.ctx) })
	}
	b.mu.Unlock()
	if err != nil {
		g.close()
		return err
	}
	return nil
}

// close cancels the callers' requests and waits until all goroutines have ended.
func (g *gateway) close() {
	g.mu.Lock()
	g.closed = true
	g.mu.Unlock()
	g.end()
	g.nc.Close()
	g.counts.Close()
	g.batches.Close()
	g.all.Wait()
}

// authorize queues a message of a caller; it must not wait for one caller's turn, since all others' messages come after it. The reply subject is
// the caller's choice, so it must be one that the caller may subscribe to: an answer to any other would be published with the orchestrator's
// permissions.
func (g *gateway) authorize(m *natsgo.Msg) {
	c := g.caller(m.Subject)
	switch {
	case c == nil:
		g.unknownLog.Do(func() { g.bus.log.Warn("not let in: it is nobody's", "subject", oneLine(m.Subject, 200)) })
	case m.Reply != "" && !strings.HasPrefix(m.Reply, c.replies):
		c.warn(g.bus.log, "not let in: no answer can be given", "subject", oneLine(m.Subject, 200), "reply", oneLine(m.Reply, 200))
	case !g.queue(c, m) && c.shed.Allow(): // bounded, since other callers' messages wait behind a refusal
		g.refuse(c, m.Subject[len(c.prefix):], m, fmt.Errorf("%w: %s: wait for answers before asking for more", errTooMuch, c.who))
	}
}

// refuse answers a message with the reason of its refusal.
func (g *gateway) refuse(c *caller, subject string, m *natsgo.Msg, why error) {
	c.warn(g.bus.log, "not let in", "who", c.who.String(), "subject", oneLine(subject, 200), "err", oneLine(why.Error(), 500))
	if m.Reply != "" {
		_ = g.nc.PublishMsg(answer(m.Reply, subject, why)) // a caller without an answer asks again
	}
}

// answer returns the message that refuses a request, in the form of the server's own errors for that subject.
func answer(reply, subject string, err error) *natsgo.Msg {
	code := codeOf(err)
	text := err.Error()
	if kind := kindOf(code); kind != nil {
		text = strings.TrimPrefix(text, kind.Error()+": ") // the receiver of the code adds it again
	}
	text = oneLine(text, 500)
	m := natsgo.NewMsg(reply)
	if strings.HasPrefix(subject, jsAPI+"CONSUMER.MSG.NEXT.") || strings.HasPrefix(subject, jsAPI+"DIRECT.GET.") {
		m.Header.Set("Status", fmt.Sprint(code))
		m.Header.Set("Description", text)
		return m
	}
	m.Data, err = json.Marshal(map[string]any{"error": &jetstream.APIError{Code: code, Description: text}})
	if err != nil {
		m.Data = nil // impossible for these values
	}
	return m
}

// admit checks m, whose subject behind the gateway is subject, and forwards it. The error wraps ErrForbidden when the caller may not send it.
func (g *gateway) admit(c *caller, subject string, m *natsgo.Msg) error {
	var out *natsgo.Msg
	var err error
	who := c.who
	if err := g.limitCopies(c, m.Reply); err != nil {
		return err
	}
	if api := strings.HasPrefix(subject, "$JS."); api && len(m.Data) > maxRequest {
		return fmt.Errorf("%w: a request of %d bytes, at most %d are read", errTooLarge, len(m.Data), maxRequest)
	}
	switch agent := who.Role == auth.Agent; {
	case strings.HasPrefix(subject, inboxPrefix):
		out, err = g.event(c, subject, m)
	case strings.HasPrefix(subject, livePrefix):
		out, err = g.live(c, subject, m)
	case strings.HasPrefix(subject, filePrefix):
		err = g.file(c, subject, m)
	case subject == jsAPI+"STREAM.MSG.GET."+fileStream:
		out, err = g.chunk(c, strings.TrimPrefix(subject, jsAPI), m)
	case strings.HasPrefix(subject, jsAPI) && agent:
		out, err = g.work(c, strings.TrimPrefix(subject, jsAPI), m)
	case strings.HasPrefix(subject, jsAPI):
		out, err = g.read(c, strings.TrimPrefix(subject, jsAPI), m)
	case strings.HasPrefix(subject, cardPrefix) && agent:
		out, err = g.card(c, subject, m)
	case strings.HasPrefix(subject, deadPrefix) && agent:
		err = g.dead(c, subject, m)
	case strings.HasPrefix(subject, jsAck) && agent:
		out, err = g.ack(c, subject, m)
	default:
		err = forbidden(who, "publish to "+subject)
	}
	if err != nil || out == nil {
		return err
	}
	out.Reply = m.Reply
	return g.nc.PublishMsg(out)
}

// The kinds of events that agents and people may send. All others come only from the orchestrator.
var (
	agentKinds  = []string{"message", "task", "status-update", "artifact-update", "cancel", "bid", "post", "read-board"}
	personKinds = []string{"message", "cancel", "share"}
)

// rewritten returns m with another subject and only the headers of events: other headers could be commands to the server.
func rewritten(subject string, m *natsgo.Msg) *natsgo.Msg {
	out := &natsgo.Msg{Subject: subject, Header: natsgo.Header{}, Data: m.Data}
	for _, k := range []string{headerID, headerKind, headerVersion, headerTime, headerTask, headerContext, headerTo} {
		if v := m.Header.Get(k); v != "" {
			out.Header[k] = []string{v}
		}
	}
	traced := transport.Event{Traceparent: traceHeader(m, headerTrace), Tracestate: traceHeader(m, headerState)}
	if parent, state := traced.Trace(); parent != "" {
		out.Header[headerTrace] = []string{parent}
		if state != "" {
			out.Header[headerState] = []string{state}
		}
	}
	return out
}

// checkKind checks the kind of an event, and that it has an id: decodeHeader would only report it as too short.
func checkKind(who *auth.Identity, m *natsgo.Msg) error {
	kinds, kind := personKinds, m.Header.Get(headerKind)
	if who.Role == auth.Agent {
		kinds = agentKinds
	}
	switch {
	case !slices.Contains(kinds, kind):
		return forbidden(who, fmt.Sprintf("send a %.40q", kind))
	case m.Header.Get(headerID) == "":
		return fmt.Errorf("%w: header %s is missing", transport.ErrInvalid, headerID)
	}
	return nil
}

// readable turns the result of decoding an event into an error that wraps ErrInvalid, for an event that nobody could handle.
func readable(e *transport.Event, err error) error {
	if err != nil && !errors.Is(err, transport.ErrInvalid) {
		return fmt.Errorf("%w: %w", transport.ErrInvalid, err)
	}
	if err != nil {
		return err
	}
	if o, unknown := e.Payload.(*transport.Opaque); unknown {
		return fmt.Errorf("%w: version %.40q of %q is not known to this Cortex", transport.ErrInvalid, o.Version, o.Kind)
	}
	return nil
}

// event checks an event that the caller sends to the orchestrator's inbox, and returns the message to store. It refuses an event that nobody could
// handle, by the rules of Publish.
func (g *gateway) event(c *caller, subject string, m *natsgo.Msg) (*natsgo.Msg, error) {
	who := c.who
	a, err := parseInboxSubject(subject)
	if err != nil || a.tenant != g.tenant || a.to != transport.Cortex || a.from != who.ID || inboxSubject(a) != subject {
		if err == nil && a.tenant == g.tenant && a.to == transport.Cortex && a.from == who.ID && ofOldBuild(a, subject) {
			return nil, errOldBuild
		}
		return nil, forbidden(who, "publish to "+subject)
	}
	if err := checkKind(who, m); err != nil {
		return nil, err
	}
	out := rewritten(subject, m)
	e, err := decodeInbox(out, subject)
	if err = readable(e, err); err != nil {
		return nil, g.unreadable(c, a, m, err)
	}
	if err := transport.ForCortex(e); err != nil {
		err = fmt.Errorf("%w: %w", transport.ErrInvalid, err)
		if _, result := transport.ResultTask(e); result { // err does not say which result
			err = g.unreadable(c, a, m, err)
		}
		return nil, err
	}
	_, cancel := e.Payload.(*transport.Cancel)
	if err := g.mayWait(c, cancel); err != nil {
		return nil, err
	}
	if asksForWork(who, e) {
		err = c.chargeWork()
	} else {
		task, _ := transport.ResultTask(e)
		err = g.chargeTaskEvent(c, a.context, cmp.Or(task, e.TaskID))
	}
	if err != nil {
		return nil, err
	}
	if isNewWork(transport.Inbox(a.tenant, a.to), e) || who.Role == auth.Person && m.Header.Get(headerKind) == "message" {
		if err := g.bus.room(g.ctx, len(m.Data)); err != nil {
			return nil, err
		}
	}
	out.Header[natsgo.MsgIdHdr] = []string{a.messageID(e.ID)}
	return out, nil
}

// unreadable returns why, with which an event of an agent is refused. When the event was about a task that waits for the agent, unreadable also
// tells Cortex that the task has failed: the agent may not understand the refusal, and nothing else would end the task before its deadline.
func (g *gateway) unreadable(c *caller, a inboxAddress, m *natsgo.Msg, why error) error {
	task := a2a.TaskID(m.Header.Get(headerTask))
	if kind := m.Header.Get(headerKind); c.who.Role != auth.Agent || kind == "cancel" || transport.CheckID(string(task)) != nil {
		return why
	}
	if !c.taskLimiter(a.context, task).Allow() {
		return why
	}
	if own, err := g.isOpenTask(c, a.context, task); err != nil || !own {
		return why
	}
	text := a2a.NewTextPart(fmt.Sprintf("%s sent a result that cannot be read: %s", c.who.ID, oneLine(why.Error(), 300)))
	said := a2a.NewMessage(a2a.MessageRoleAgent, text)
	said.TaskID, said.ContextID = task, a.context
	e := &transport.Event{
		ID: "unreadable-" + string(task), Time: time.Now(), From: c.who.ID, To: transport.Cortex, Tenant: g.tenant, ContextID: a.context, TaskID: task,
		Payload: &a2a.TaskStatusUpdateEvent{TaskID: task, ContextID: a.context, Status: a2a.TaskStatus{State: a2a.TaskStateFailed, Message: said}},
	}
	out, err := encode(inboxSubject(a), e, true)
	if err == nil {
		out.Header[natsgo.MsgIdHdr] = []string{a.messageID(e.ID)}
		err = g.nc.PublishMsg(out)
	}
	if err != nil {
		c.warn(g.bus.log, "not told that a result cannot be read", "who", c.who.String(), "task_id", task, "err", err)
	}
	return why
}

// live checks a live event of the caller, and returns the message to publish. Its topic is that of a conversation, or of the orchestrator. That of
// an agent is refused, because agents take orders from the orchestrator only.
func (g *gateway) live(c *caller, subject string, m *natsgo.Msg) (*natsgo.Msg, error) {
	who := c.who
	var token [3]string
	var a struct{ tenant, id, from string }
	err := splitSubject(subject, livePrefix, token[:])
	if err == nil {
		err = unescapeAll(field{&a.tenant, token[0], true}, field{&a.id, token[1], false}, field{&a.from, token[2], false})
	}
	topic := transport.Live(g.tenant, a.id)
	owner := whose(topic) // "" for a conversation's topic
	if err != nil || a.tenant != g.tenant || a.from != who.ID || owner != "" && owner != transport.Cortex {
		return nil, forbidden(who, "publish to "+subject)
	}
	if err := checkKind(who, m); err != nil {
		return nil, err
	}
	out := rewritten(subject, m)
	e, err := decodeLive(out, topic)
	if err = readable(e, err); err != nil {
		return nil, err
	}
	return out, g.charge(c, c.liveCost, max(liveCopies, g.copies(subject))*m.Size())
}

// card checks an agent's own card and returns the message to store. The message expires as if Publish had stored it.
func (g *gateway) card(c *caller, subject string, m *natsgo.Msg) (*natsgo.Msg, error) {
	agent, instance, err := parseCardSubject(subject)
	if err != nil || agent != c.who.ID || subject != cardSubject(g.tenant, agent, instance) || m.Header.Get(headerKind) != "card" {
		return nil, forbidden(c.who, "publish to "+subject)
	}
	out := rewritten(subject, m)
	e, err := decodeCard(out, g.tenant)
	if err == nil {
		err = e.Validate(transport.Cards(g.tenant))
	}
	if err = readable(e, err); err != nil {
		return nil, err
	}
	if !c.cards.Allow() {
		return nil, fmt.Errorf("%w: %s may announce itself %d times a second, and %d times at once: announce it less often", errTooMuch, c.who, agentCards, agentCardsBurst)
	}
	card := e.Payload.(*transport.Card) // decodeCard has checked the type
	if card.Gone != "" {
		if _, ok := c.instances[instance]; ok { // its marker remains for a while
			c.instances[instance] = 0
		}
	} else if err := g.roomFor(c, instance, len(out.Data)); err != nil {
		return nil, err
	}
	lifetime(out, card)
	return out, nil
}

// Bounds of the cards of one agent: all agents share a bucket of maxCards, and every subscriber reads it.
const (
	maxInstances     = 1000
	maxInstanceBytes = 4 << 20 // of all of them
)

// roomFor returns ErrFull when an agent's instances are too many, or their cards too large together, for another card of this size.
func (g *gateway) roomFor(c *caller, instance string, size int) error {
	held := g.bus.mayWork()
	full := c.full(instance, size, held)
	if c.instances == nil || full != nil {
		if err := g.countInstances(c); err != nil {
			return err
		}
		if full = c.full(instance, size, held); full != nil {
			return full
		}
	}
	c.instances[instance] = size
	return nil
}

// full returns ErrFull when there is no room for a card of an instance, as far as the caller's instances are known. While no work is done, as held says, a
// few instances more may come, and the others refresh their cards: an agent whose card expires has gone, and its tasks with it.
func (c *caller) full(instance string, size int, held error) error {
	n, bytes := 1, size
	for i, size := range c.instances {
		if i != instance {
			n, bytes = n+1, bytes+size
		}
	}
	was, known := c.instances[instance]
	switch {
	case held != nil && bytes > maxHeldAccount/heldSenders && (!known || was > 0 && size > was):
		return fmt.Errorf("%w: %w", transport.ErrFull, held)
	case n > maxInstances:
		return fmt.Errorf("%w: %s has %d instances already, some of which may have ended less than %s ago", transport.ErrFull, c.who, n-1, markerTTL)
	case bytes > maxInstanceBytes:
		return fmt.Errorf("%w: the cards of %d instances of %s would have %d bytes together, and may have %d: run fewer instances, or make the card, which has %d bytes, smaller",
			transport.ErrFull, n, c.who, bytes, maxInstanceBytes, size)
	}
	return nil
}

// countInstances asks the server which instances of an agent have cards.
func (g *gateway) countInstances(c *caller) error {
	var info struct {
		Error *jetstream.APIError   `json:"error"`
		State jetstream.StreamState `json:"state"`
	}
	prefix := strings.TrimSuffix(cardSubject(g.tenant, c.who.ID, "x"), "x")
	if err := g.bus.ask(g.ctx, "STREAM.INFO."+agentsStream, map[string]string{"subjects_filter": prefix + "*"}, &info); err != nil {
		return err
	}
	if info.Error != nil {
		return translate(info.Error)
	}
	there := map[string]int{}
	for subject := range info.State.Subjects {
		if _, i, err := parseCardSubject(subject); err == nil {
			there[i] = c.instances[i]
		}
	}
	c.instances = there
	return nil
}

// dead lets an agent give up one of its own tasks. It makes the dead letter from the message in the inbox, not from the agent's: a replay publishes
// to the subject that the dead letter names. It then removes the event from the inbox, so that there are at most as many dead letters as tasks,
// however often an agent gives up. There is none of an answer, of which an agent may have any number: they would displace those of others.
func (g *gateway) dead(c *caller, subject string, m *natsgo.Msg) error {
	who := c.who
	was := m.Header.Get(headerSubject)
	inbox := transport.Inbox(g.tenant, who.ID)
	a, err := parseInboxSubject(was)
	if err != nil || a.tenant != g.tenant || a.to != who.ID || deadSubject(inbox, was) != subject {
		return forbidden(who, "give up what was in another inbox")
	}
	if err := g.bus.mayWork(); err != nil { // a dead letter is written before its event is erased
		return err
	}
	number, _, _ := strings.Cut(m.Header.Get(natsgo.MsgIdHdr), ".")
	seq, err := strconv.ParseUint(number, 10, 64)
	if err != nil || seq == 0 {
		return forbidden(who, "give up what it does not name")
	}
	is, err := g.look(g.ctx, c, inboxStream, was, seq)
	switch {
	case errors.Is(err, transport.ErrNotFound) || err == nil && is.Sequence != seq:
		return fmt.Errorf("%w: no event %d waits in the inbox of %s", transport.ErrNotFound, seq, who)
	case err != nil:
		return err
	}
	var reason string
	if json.Unmarshal([]byte(m.Header.Get(headerReason)), &reason) != nil {
		reason = m.Header.Get(headerReason)
	}
	ctx, cancel := context.WithTimeout(g.ctx, apiTimeout)
	defer cancel()
	said, done := fmt.Appendf(nil, `{"stream":%q,"seq":%d}`, deadStream, seq), false
	var ack struct {
		Error *jetstream.APIError `json:"error"`
	}
	if is.Header.Get(headerTask) != "" {
		deliveries, _ := strconv.Atoi(m.Header.Get(headerDeliveries))
		task := &natsgo.Msg{Subject: is.Subject, Header: is.Header, Data: is.Data}
		refund, ok := g.payLetter(c, time.Now(), max(task.Size(), letterLeast))
		if !ok {
			return fmt.Errorf("%w: %s, or agents together, have given up so much that its dead letters would displace those of others: give it up later", errTooMuch, who)
		}
		defer func() {
			if !done {
				refund()
			}
		}()
		answer, err := g.nc.RequestMsgWithContext(ctx, deadMessage(inbox, task, stored{is.Sequence, is.Time}, oneLine(reason, maxAgentReason), max(deliveries, 0), g.bus.deadLimit()))
		if err != nil {
			return translate(err)
		}
		if said = answer.Data; json.Unmarshal(said, &ack) != nil {
			return fmt.Errorf("a dead letter is answered with %q", oneLine(string(said), 100))
		}
	}
	if ack.Error == nil {
		if err := g.bus.eraseMessage(ctx, inboxStream, seq); err != nil && !errors.Is(err, transport.ErrNotFound) {
			return err // a repeated request makes the same dead letter, for a while
		}
		done = true
	}
	if m.Reply == "" {
		return nil
	}
	return g.nc.Publish(m.Reply, said)
}

// payLetter takes a dead letter of so many bytes from what its agent may have of them, and all agents together. Nothing is taken if there is less: a reservation that is
// canceled gives back nothing of what was reserved meanwhile.
func (g *gateway) payLetter(c *caller, now time.Time, bytes int) (refund func(), ok bool) {
	g.paying.Lock()
	defer g.paying.Unlock()
	var paid []*rate.Reservation
	shares := []*rate.Limiter{c.letters, g.letters}
	for _, share := range shares {
		if share.TokensAt(now) < float64(bytes) {
			return nil, false
		}
	}
	for _, share := range shares {
		paid = append(paid, share.ReserveN(now, bytes))
	}
	return func() {
		for _, p := range paid {
			p.CancelAt(now)
		}
	}, true
}

// ack checks the acknowledgement of one of an agent's own tasks, in the server's present form and in the newer one, which has domain and account
// before the stream. The server removes what is acknowledged whoever's it is, unless another consumer waits for it: timers have none.
func (g *gateway) ack(c *caller, subject string, m *natsgo.Msg) (*natsgo.Msg, error) {
	token := strings.Split(subject, ".")[2:]
	if len(token) > 7 {
		token = token[2:]
	}
	inbox := transport.Inbox(g.tenant, c.who.ID)
	own := len(token) >= 7 && token[0] == inboxStream && token[1] == consumerName(inbox)
	if own {
		own = !slices.ContainsFunc(token[2:7], func(s string) bool { return s == "" || strings.Trim(s, "0123456789") != "" })
	}
	word, _, _ := strings.Cut(string(m.Data[:min(len(m.Data), 64)]), " ")
	if !own || !slices.Contains([]string{string(ackDone), string(ackNot), string(ackProgress), "+TERM", ""}, word) {
		return nil, forbidden(c.who, "acknowledge "+subject)
	}
	if word != string(ackNot) && word != string(ackProgress) { // these concern only what the server has delivered
		seq, err := strconv.ParseUint(token[3], 10, 64)
		if err != nil {
			return nil, forbidden(c.who, "acknowledge "+subject)
		}
		if filter := inboxFilter(inbox); !g.bus.nc.hasPut(seq, strings.TrimSuffix(filter, ">")) {
			if err := g.charge(c, infoCost, 0); err != nil { // as many a second as an agent may tell of tasks
				return nil, err
			}
			is, err := g.look(g.ctx, c, inboxStream, filter, seq)
			switch {
			case errors.Is(err, transport.ErrNotFound) || err == nil && is.Sequence != seq:
				if m.Reply == "" {
					return nil, nil
				}
				return nil, g.nc.Publish(m.Reply, nil) // it was acknowledged before, or is another's
			case err != nil:
				return nil, err
			}
		}
	}
	return &natsgo.Msg{Subject: subject, Data: m.Data}, nil
}
