package nats

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	natsgo "github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"github.com/cortex-orchestrator/cortex/transport"
	"github.com/cortex-orchestrator/cortex/transport/nats/auth"
)

const (
	jsAPI = "$JS.API." // of the server, for what is asked of its streams
	jsAck = "$JS.ACK."

	doorQueue  = "cortex" // of several orchestrators one answers
	doorOpens  = 64       // inboxes that are made ready at the same time
	maxReading = 5 * time.Minute
)

// Streams that people read. Those of conversations are of package jetstore.
var (
	readable = []string{"CORTEX_LOG", "KV_CORTEX_SNAP", "KV_CORTEX_SPENT", "KV_CORTEX_NOTES", "KV_CORTEX_LEASE", agentsStream, deadStream}
	listed   = []string{"CORTEX_LOG", "KV_CORTEX_NOTES", "KV_CORTEX_LEASE", agentsStream} // by a consumer of their own
)

// door lets through what agents and people of a tenant may do, as package auth describes it. The server vouches for who it is.
type door struct {
	bus    *Bus
	tenant string
	opens  chan struct{} // one for each inbox that is being made ready
}

// serveDoor serves the door of a tenant as long as the bus lives. It is the orchestrator's part, and nobody needs it where
// everybody is let in.
func (b *Bus) serveDoor(ctx context.Context, tenant string) error {
	if b.who == nil || b.who.Role != auth.Orchestrator {
		return nil
	}
	b.mu.Lock()
	if b.doors[tenant] {
		b.mu.Unlock()
		return nil
	}
	d := &door{b, tenant, make(chan struct{}, doorOpens)}
	sub, err := b.nc.QueueSubscribe(auth.DoorOf(tenant)+">", doorQueue, d.knock)
	if err == nil {
		if b.doors == nil {
			b.doors = map[string]bool{}
		}
		b.doors[tenant] = true
	}
	b.mu.Unlock()
	if err != nil {
		return err
	}
	return b.nc.flush(ctx, sub)
}

// knock forwards a message, or answers why not. Where the server's answer goes is the visitor's choice, so it has to be where the
// visitor may listen: anywhere else it would be published in the server's name.
func (d *door) knock(m *natsgo.Msg) {
	who, subject := auth.Visitor(d.tenant, m.Subject)
	if who == nil || m.Reply != "" && !strings.HasPrefix(m.Reply, auth.Replies(who)+".") {
		d.bus.log.Warn("not let in: no answer can be given", "subject", oneLine(m.Subject, 200), "reply", oneLine(m.Reply, 200))
		return
	}
	err := d.admit(who, subject, m)
	if err == nil {
		return
	}
	d.bus.log.Warn("not let in", "who", who.String(), "subject", oneLine(subject, 200), "err", err)
	if m.Reply != "" {
		_ = d.bus.nc.PublishMsg(answer(m.Reply, subject, err)) // who hears nothing asks again
	}
}

// answer says that a request was refused, in the words of what was asked.
func answer(reply, subject string, err error) *natsgo.Msg {
	code, text := codeForbidden, oneLine(strings.TrimPrefix(err.Error(), transport.ErrForbidden.Error()+": "), 500)
	if !errors.Is(err, transport.ErrForbidden) {
		code = 503
	}
	m := natsgo.NewMsg(reply)
	if strings.HasPrefix(subject, jsAPI+"CONSUMER.MSG.NEXT.") || strings.HasPrefix(subject, jsAPI+"DIRECT.GET.") {
		m.Header.Set("Status", fmt.Sprint(code))
		m.Header.Set("Description", text)
		return m
	}
	m.Data, err = json.Marshal(map[string]any{"error": &jetstream.APIError{Code: code, Description: text}})
	if err != nil {
		m.Data = nil // not possible for these
	}
	return m
}

// admit forwards m, which was meant for subject. The error wraps ErrForbidden for what who may not do.
func (d *door) admit(who *auth.Identity, subject string, m *natsgo.Msg) error {
	var out *natsgo.Msg
	var err error
	switch agent := who.Role == auth.Agent; {
	case strings.HasPrefix(subject, inboxPrefix):
		out, err = d.event(who, subject, m)
	case strings.HasPrefix(subject, livePrefix):
		out, err = d.live(who, subject, m)
	case strings.HasPrefix(subject, jsAPI) && agent:
		return d.work(who, strings.TrimPrefix(subject, jsAPI), m)
	case strings.HasPrefix(subject, jsAPI):
		out, err = d.read(who, strings.TrimPrefix(subject, jsAPI), m)
	case strings.HasPrefix(subject, cardPrefix) && agent:
		out, err = d.card(who, subject, m)
	case strings.HasPrefix(subject, deadPrefix) && agent:
		out, err = d.dead(who, subject, m)
	case strings.HasPrefix(subject, jsAck) && agent:
		out, err = d.ack(who, subject, m)
	default:
		err = forbidden(who, "publish to "+subject)
	}
	if err != nil {
		return err
	}
	out.Reply = m.Reply
	return d.bus.nc.PublishMsg(out)
}

func forbidden(who *auth.Identity, what string) error {
	return fmt.Errorf("%w: %s may not %s", transport.ErrForbidden, who, oneLine(what, 300))
}

// Kinds of events that agents and people send. Whatever else there is comes from the orchestrator only.
var (
	agentKinds  = []string{"message", "task", "status-update", "artifact-update", "cancel"}
	personKinds = []string{"message", "cancel", "share"}
)

// rewritten returns m for another subject, with the headers of events and no others: some headers are orders to the server.
func rewritten(subject string, m *natsgo.Msg, more ...string) *natsgo.Msg {
	out := &natsgo.Msg{Subject: subject, Header: natsgo.Header{}, Data: m.Data}
	for _, k := range append(more, headerID, headerKind, headerVersion, headerTime, headerTask, headerContext, headerTo, headerTrace) {
		if v := m.Header.Get(k); v != "" {
			out.Header[k] = []string{v}
		}
	}
	return out
}

// says checks the kind of an event, and that it has an id.
func says(who *auth.Identity, m *natsgo.Msg) error {
	kinds, kind := personKinds, m.Header.Get(headerKind)
	if who.Role == auth.Agent {
		kinds = agentKinds
	}
	switch {
	case !slices.Contains(kinds, kind):
		return forbidden(who, fmt.Sprintf("send a %.40q", kind))
	case transport.CheckID(m.Header.Get(headerID)) != nil:
		return fmt.Errorf("%w: %s is missing", transport.ErrForbidden, headerID)
	}
	return nil
}

// event lets through what who says to the orchestrator.
func (d *door) event(who *auth.Identity, subject string, m *natsgo.Msg) (*natsgo.Msg, error) {
	a, err := parseInboxSubject(subject)
	if err != nil || a.tenant != d.tenant || a.to != transport.Cortex || a.from != who.ID || inboxSubject(a) != subject {
		return nil, forbidden(who, "publish to "+subject)
	}
	if err := says(who, m); err != nil {
		return nil, err
	}
	out := rewritten(subject, m)
	out.Header[natsgo.MsgIdHdr] = []string{a.messageID(m.Header.Get(headerID))}
	return out, nil
}

// live lets through what who shows of a conversation, or tells a running orchestrator. Agents take orders from that one only.
func (d *door) live(who *auth.Identity, subject string, m *natsgo.Msg) (*natsgo.Msg, error) {
	var token [3]string
	var a struct{ tenant, id, from string }
	err := splitSubject(subject, livePrefix, token[:])
	if err == nil {
		err = unescapeAll(field{&a.tenant, token[0], true}, field{&a.id, token[1], false}, field{&a.from, token[2], false})
	}
	owner := whose(transport.Live(d.tenant, a.id)) // "" for a conversation's
	if err != nil || a.tenant != d.tenant || a.from != who.ID || owner != "" && owner != transport.Cortex {
		return nil, forbidden(who, "publish to "+subject)
	}
	if err := says(who, m); err != nil {
		return nil, err
	}
	return rewritten(subject, m), nil
}

// card lets through an agent's own card.
func (d *door) card(who *auth.Identity, subject string, m *natsgo.Msg) (*natsgo.Msg, error) {
	agent, instance, err := parseCardSubject(subject)
	if err != nil || agent != who.ID || subject != cardSubject(d.tenant, agent, instance) || m.Header.Get(headerKind) != "card" {
		return nil, forbidden(who, "publish to "+subject)
	}
	out := rewritten(subject, m, jetstream.MsgTTLHeader)
	if m.Header.Get(headerKVOperation) == "DEL" {
		out.Header[headerKVOperation] = []string{"DEL"}
	}
	return out, nil
}

// dead lets through a dead letter of an agent's own inbox: who replays it sends it to where it says that it was.
func (d *door) dead(who *auth.Identity, subject string, m *natsgo.Msg) (*natsgo.Msg, error) {
	was := m.Header.Get(headerSubject)
	a, err := parseInboxSubject(was)
	if err != nil || a.tenant != d.tenant || a.to != who.ID || deadSubject(transport.Inbox(d.tenant, who.ID), was) != subject {
		return nil, forbidden(who, "give up what was in another inbox")
	}
	out := rewritten(subject, m, headerDeliverAt, headerSubject, headerReason, headerDeliveries)
	out.Header[natsgo.MsgIdHdr] = []string{transport.Escape(d.tenant) + "." + transport.Escape(who.ID) + "." + m.Header.Get(natsgo.MsgIdHdr)}
	return out, nil
}

// ack lets through the acknowledgement of an agent's own task, in the server's present form and in the newer one, which has domain
// and account before the stream.
func (d *door) ack(who *auth.Identity, subject string, m *natsgo.Msg) (*natsgo.Msg, error) {
	token := strings.Split(subject, ".")[2:]
	if len(token) > 7 {
		token = token[2:]
	}
	own := len(token) >= 7 && token[0] == inboxStream && token[1] == consumerName(transport.Inbox(d.tenant, who.ID))
	if own {
		own = !slices.ContainsFunc(token[2:7], func(s string) bool { return s == "" || strings.Trim(s, "0123456789") != "" })
	}
	word, _, _ := strings.Cut(string(m.Data[:min(len(m.Data), 64)]), " ")
	if !own || !slices.Contains([]string{string(ackDone), string(ackNot), string(ackProgress), "+TERM", ""}, word) {
		return nil, forbidden(who, "acknowledge "+subject)
	}
	return &natsgo.Msg{Subject: subject, Data: m.Data}, nil
}

// apiRequest splits a request's subject into its method, the stream, and what follows.
func apiRequest(request string) (method, stream, rest string) {
	for _, method := range []string{
		"STREAM.INFO.", "STREAM.MSG.GET.", "DIRECT.GET.",
		"CONSUMER.DURABLE.CREATE.", "CONSUMER.CREATE.", "CONSUMER.INFO.", "CONSUMER.MSG.NEXT.", "CONSUMER.DELETE.",
	} {
		if after, ok := strings.CutPrefix(request, method); ok {
			stream, rest, _ = strings.Cut(after, ".")
			return method, stream, rest
		}
	}
	return request, "", ""
}

// work forwards what an agent asks of its own inbox. The consumer is made as the orchestrator would make it, whatever is asked for:
// it could have the server publish anything anywhere.
func (d *door) work(who *auth.Identity, request string, m *natsgo.Msg) error {
	inbox := transport.Inbox(d.tenant, who.ID)
	name := consumerName(inbox)
	method, stream, rest := apiRequest(request)
	out := &natsgo.Msg{Subject: jsAPI + request, Reply: m.Reply, Data: m.Data}
	consumer, _, _ := strings.Cut(rest, ".")
	switch {
	case stream != inboxStream:
		return forbidden(who, "ask for "+request)
	case rest == name && (method == "CONSUMER.INFO." || method == "CONSUMER.MSG.NEXT."):
		return d.bus.nc.PublishMsg(out)
	case consumer == name && (method == "CONSUMER.CREATE." || method == "CONSUMER.DURABLE.CREATE."):
		select {
		case d.opens <- struct{}{}:
		default:
			return fmt.Errorf("%w: too many inboxes are being made ready", transport.ErrUnavailable)
		}
		go func() { // ends when the server has answered, or has not for apiTimeout
			defer func() { <-d.opens }()
			d.open(inbox, m)
		}()
		return nil
	case method == "STREAM.INFO." && rest == "":
		var asked struct {
			Subjects string `json:"subjects_filter,omitempty"`
			Offset   int    `json:"offset,omitempty"`
		}
		if len(m.Data) > 0 && json.Unmarshal(m.Data, &asked) != nil || asked.Subjects != "" && asked.Subjects != inboxFilter(inbox) {
			return forbidden(who, "look into other inboxes")
		}
		var err error
		if out.Data, err = json.Marshal(asked); err != nil {
			return err
		}
		return d.bus.nc.PublishMsg(out)
	}
	return forbidden(who, "ask for "+request)
}

// open makes an agent's inbox ready, and has the server answer what has come of it.
func (d *door) open(inbox transport.Topic, m *natsgo.Msg) {
	ctx, cancel := context.WithTimeout(context.Background(), apiTimeout)
	defer cancel()
	err := d.bus.ensureConsumer(ctx, inbox)
	if err != nil {
		d.bus.log.Warn("inbox not made ready", "inbox", inbox.ID, "err", err)
		err = d.bus.nc.PublishMsg(answer(m.Reply, "", fmt.Errorf("%w: %w", transport.ErrUnavailable, err)))
	} else {
		err = d.bus.nc.PublishRequest(jsAPI+"CONSUMER.INFO."+inboxStream+"."+consumerName(inbox), m.Reply, nil)
	}
	if err != nil {
		d.bus.log.Debug("visitor not answered", "err", err) // it asks again
	}
}

// read forwards what a person asks of the streams.
func (d *door) read(who *auth.Identity, request string, m *natsgo.Msg) (*natsgo.Msg, error) {
	method, stream, rest := apiRequest(request)
	ok := false
	switch method {
	case "INFO":
		ok = true
	case "STREAM.INFO.":
		ok = rest == "" && (stream == inboxStream || slices.Contains(readable, stream))
	case "STREAM.MSG.GET.":
		ok = rest == "" && slices.Contains(readable, stream)
	case "DIRECT.GET.":
		ok = slices.Contains(readable, stream)
	case "CONSUMER.INFO.":
		ok = stream == inboxStream || slices.Contains(listed, stream)
	case "CONSUMER.MSG.NEXT.", "CONSUMER.DELETE.":
		ok = slices.Contains(listed, stream) // their names are random, and nobody lists them
	case "CONSUMER.CREATE.":
		ok = slices.Contains(listed, stream) && harmless(who, m.Data)
	}
	if !ok {
		return nil, forbidden(who, "ask for "+request)
	}
	return &natsgo.Msg{Subject: jsAPI + request, Data: m.Data}, nil
}

// harmless reports whether a request for a consumer is for one that only reads, to where who may listen, and is soon forgotten.
func harmless(who *auth.Identity, request []byte) bool {
	var r struct {
		Config struct {
			Durable   string        `json:"durable_name"`
			Deliver   string        `json:"deliver_subject"`
			Ack       string        `json:"ack_policy"`
			Threshold time.Duration `json:"inactive_threshold"`
		} `json:"config"`
	}
	if json.Unmarshal(request, &r) != nil {
		return false
	}
	c := r.Config
	return c.Durable == "" && c.Ack == "none" && c.Threshold >= 0 && c.Threshold <= maxReading &&
		(c.Deliver == "" || strings.HasPrefix(c.Deliver, auth.Replies(who)+"."))
}
