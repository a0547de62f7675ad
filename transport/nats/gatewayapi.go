package nats

import (
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"math"
	"slices"
	"strings"
	"time"

	natsgo "github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"github.com/cortex-orchestrator/cortex/transport"
)

// readStreams are the streams that people read, and what their subjects begin with, behind which the tenant comes. Those of conversations
// are of package jetstore. Nobody has a consumer of them through a gateway: a stream has room for so many.
var readStreams = map[string]string{
	logStream:         "cortex.v1.log.",
	snapStream:        "$KV.CORTEX_SNAP.",
	"KV_CORTEX_SPENT": "$KV.CORTEX_SPENT.",
	"KV_CORTEX_NOTES": "$KV.CORTEX_NOTES.",
	leaseStream:       leasePrefix,
	agentsStream:      cardPrefix,
	deadStream:        deadPrefix,
}

// The stream of the keys of notes, of which people read those of outlines: the notes themselves say nothing.
const (
	keyStream       = "CORTEX_KEYS"
	outlineKeys     = "cortex.v1.key."
	outlineKeysKind = ".outline.*"
)

// The streams that grow with the conversations: the server would read all of them to find what matches a wildcard.
const (
	logStream  = "CORTEX_LOG"
	snapStream = "KV_CORTEX_SNAP"
)

const (
	maxReadMessages = 1024
	maxReadBytes    = 1 << 20 // of an answer of several messages, which ends with the one that goes over it
	maxReadSubjects = 64      // of whose last messages are asked for at once
	maxRequest      = 64 << 10
	readOne         = 4 << 10 // bytes that one message is taken for

	messagesEach = 32 // messages of an answer that cost as much as a request

	countCost = 50 // what it costs to have the subjects of a stream counted, as a multiple of a request
	openCost  = 50 // the same, to have an inbox made ready
	infoCost  = 10 // the same, for what the server has to lock a stream or a consumer
	pullCost  = 4  // the same, to ask for events
)

// msgGet is what is asked of a stream's messages: some of what JetStream's get and direct get understand.
type msgGet struct {
	Seq      uint64   `json:"seq,omitempty"`
	Last     string   `json:"last_by_subj,omitempty"`
	Next     string   `json:"next_by_subj,omitempty"`
	Lasts    []string `json:"multi_last,omitempty"`
	Batch    int      `json:"batch,omitempty"`
	MaxBytes int      `json:"max_bytes,omitempty"`
}

// infoGet is what is asked of a stream, or the same of an inbox: how many messages there are of each subject.
type infoGet struct {
	Subjects string `json:"subjects_filter,omitempty"`
	Offset   int    `json:"offset,omitempty"`
}

// apiRequest splits a request's subject into its method, the stream, and what follows.
func apiRequest(request string) (method, stream, rest string) {
	for _, method := range []string{
		"STREAM.INFO.", "STREAM.MSG.GET.", "DIRECT.GET.", "CONSUMER.DURABLE.CREATE.", "CONSUMER.CREATE.", "CONSUMER.INFO.", "CONSUMER.MSG.NEXT.",
	} {
		if after, ok := strings.CutPrefix(request, method); ok {
			stream, rest, _ = strings.Cut(after, ".")
			return method, stream, rest
		}
	}
	return request, "", ""
}

// apiMessage is a request of the gateway's.
func apiMessage(request string, body any) (*natsgo.Msg, error) {
	data, err := json.Marshal(body)
	return &natsgo.Msg{Subject: jsAPI + request, Data: data}, err
}

// work forwards what an agent asks of its own inbox. The consumer is made as the orchestrator would make it, whatever is asked for:
// it could have the server publish anything anywhere. It has one name, so that an agent has one.
func (g *gateway) work(c *caller, request string, m *natsgo.Msg) (*natsgo.Msg, error) {
	inbox := transport.Inbox(g.tenant, c.who.ID)
	name := consumerName(inbox)
	method, stream, rest := apiRequest(request)
	consumer, _, _ := strings.Cut(rest, ".")
	switch {
	case stream != inboxStream:
	case rest == name && method == "CONSUMER.INFO.":
		return nil, g.pass(c, request, nil, m.Reply)
	case rest == name && method == "CONSUMER.MSG.NEXT.":
		if err := g.charge(c, pullCost, 0); err != nil {
			return nil, err
		}
		return boundedPull(request, m.Data)
	case consumer == name && (method == "CONSUMER.CREATE." || method == "CONSUMER.DURABLE.CREATE."):
		if err := g.charge(c, openCost, 0); err != nil {
			return nil, err
		}
		return g.open(inbox)
	case method == "STREAM.INFO." && rest == "":
		var asked infoGet
		if len(m.Data) > 0 && json.Unmarshal(m.Data, &asked) != nil || asked.Subjects != "" && asked.Subjects != inboxFilter(inbox) {
			return nil, forbidden(c.who, "look into other inboxes")
		}
		return g.info(c, request, asked, m.Reply)
	}
	return nil, forbidden(c.who, "ask for "+request)
}

// open makes an agent's inbox ready, and has the server say what it is.
func (g *gateway) open(inbox transport.Topic) (*natsgo.Msg, error) {
	ctx, cancel := context.WithTimeout(g.ctx, apiTimeout)
	defer cancel()
	if err := g.bus.ensureConsumer(ctx, inbox); err != nil {
		return nil, fmt.Errorf("inbox of %s: %w", inbox.ID, translate(err))
	}
	return &natsgo.Msg{Subject: jsAPI + "CONSUMER.INFO." + inboxStream + "." + consumerName(inbox)}, nil
}

// What an agent may ask for at once.
const (
	maxPull      = maxAckPending
	maxPullBytes = leastPending - 512<<10 // above what an event has: a connection keeps no more than leastPending for a slow reader
	minHeartbeat = 500 * time.Millisecond
)

// boundedPull has an agent ask for events for a while. The server would send heartbeats as often as it is asked to.
func boundedPull(request string, body []byte) (*natsgo.Msg, error) {
	var asked struct {
		Batch     int           `json:"batch"`
		MaxBytes  int           `json:"max_bytes,omitempty"`
		Expires   time.Duration `json:"expires,omitempty"`
		NoWait    bool          `json:"no_wait,omitempty"`
		Heartbeat time.Duration `json:"idle_heartbeat,omitempty"`
	}
	if len(body) > 0 && json.Unmarshal(body, &asked) != nil {
		return nil, fmt.Errorf("%w: the request is no JSON object", transport.ErrInvalid)
	}
	asked.Batch, asked.MaxBytes = min(max(asked.Batch, 1), maxPull), min(cmp.Or(max(asked.MaxBytes, 0), maxPullBytes), maxPullBytes)
	if !asked.NoWait || asked.Expires > 0 {
		asked.Expires = min(cmp.Or(max(asked.Expires, 0), pullExpires), 2*pullExpires)
	}
	if asked.Heartbeat = max(asked.Heartbeat, 0); asked.Heartbeat > 0 {
		asked.Heartbeat = max(asked.Heartbeat, minHeartbeat)
	}
	if 2*asked.Heartbeat > asked.Expires {
		asked.Heartbeat = 0
	}
	return apiMessage(request, asked)
}

// read forwards what a person asks of the streams, no more than that, and so much at once.
func (g *gateway) read(c *caller, request string, m *natsgo.Msg) (*natsgo.Msg, error) {
	method, stream, rest := apiRequest(request)
	refused := forbidden(c.who, "ask for "+request)
	if m.Reply == "" {
		return nil, refused
	}
	prefix, ok := readStreams[stream]
	switch {
	case request == "INFO", method == "CONSUMER.INFO." && stream == inboxStream:
		return nil, g.pass(c, request, nil, m.Reply)
	case method == "CONSUMER.CREATE." || method == "CONSUMER.DURABLE.CREATE.":
		return nil, fmt.Errorf("%w: Cortex reads without consumers, and older builds of it do not: use the one that runs", refused)
	case method == "STREAM.INFO." && rest == "" && (ok || stream == inboxStream):
		var asked infoGet
		if len(m.Data) > 0 && json.Unmarshal(m.Data, &asked) != nil {
			return nil, refused
		}
		if stream == inboxStream {
			prefix = inboxPrefix
		}
		if asked.Subjects != "" && !g.within(prefix, asked.Subjects, true) {
			return nil, fmt.Errorf("%w: subjects_filter %.200q", refused, asked.Subjects)
		}
		return g.info(c, request, asked, m.Reply)
	case method == "DIRECT.GET." && ok && rest != "":
		if !g.within(prefix, rest, false) {
			return nil, refused
		}
		return nil, g.passOne(c, request, nil, m.Reply)
	case (method == "STREAM.MSG.GET." || method == "DIRECT.GET.") && ok && rest == "":
		var asked msgGet
		if json.Unmarshal(m.Data, &asked) != nil {
			return nil, refused
		}
		wild := stream != logStream && stream != snapStream
		for _, subject := range append([]string{asked.Last, asked.Next}, asked.Lasts...) {
			if subject != "" && !g.within(prefix, subject, wild) {
				return nil, fmt.Errorf("%w: subject %.200q", refused, subject)
			}
		}
		if len(asked.Lasts) > maxReadSubjects {
			return nil, fmt.Errorf("%w: the last messages of %d subjects at once, at most %d", refused, len(asked.Lasts), maxReadSubjects)
		}
		return g.messages(c, request, asked, m.Reply)
	case method == "DIRECT.GET." && stream == keyStream && rest == "":
		var asked msgGet
		if json.Unmarshal(m.Data, &asked) != nil || asked.Next != outlineKeys+transport.Escape(g.tenant)+outlineKeysKind || asked.Last != "" || len(asked.Lasts) > 0 {
			return nil, refused
		}
		return g.messages(c, request, asked, m.Reply)
	}
	return nil, refused
}

// within reports whether a subject of the tenant's is below prefix. Its last token may be a wildcard when wild says so; one in the middle
// has the server look at much for little.
func (g *gateway) within(prefix, subject string, wild bool) bool {
	rest, ok := strings.CutPrefix(subject, prefix+transport.Escape(g.tenant)+".")
	if !ok {
		return false
	}
	tokens := strings.Split(rest, ".")
	if last := len(tokens) - 1; wild && (tokens[last] == "*" || tokens[last] == ">") {
		tokens = tokens[:last]
	}
	return !slices.ContainsFunc(tokens, func(t string) bool { return t == "" || strings.ContainsAny(t, "*> \t\r\n") })
}

// info asks about a stream.
func (g *gateway) info(c *caller, request string, asked infoGet, reply string) (*natsgo.Msg, error) {
	if asked.Subjects != "" {
		return nil, g.count(c, request, asked, reply)
	}
	body, err := json.Marshal(asked)
	if err != nil {
		return nil, err
	}
	return nil, g.pass(c, request, body, reply)
}

// pass asks the server, and passes its answer on before anything else is done for the caller: one of its questions is outstanding at a time.
func (g *gateway) pass(c *caller, request string, body []byte, reply string) error {
	if reply == "" {
		return nil // nobody hears it
	}
	if err := g.charge(c, infoCost, 0); err != nil {
		return err
	}
	ctx, cancel := context.WithTimeout(g.ctx, apiTimeout)
	defer cancel()
	m, err := g.counts.RequestWithContext(ctx, jsAPI+request, body)
	if err != nil {
		return translate(err)
	}
	return g.nc.Publish(reply, m.Data)
}

// count has the subjects of a stream counted, for all callers one after the other. It takes the server as long as there are subjects,
// which only the server knows: so it is asked for their number first, and that is what the caller pays before anything else is done
// for it.
func (g *gateway) count(c *caller, request string, asked infoGet, reply string) error {
	if reply == "" {
		return nil // nobody hears it
	}
	if err := g.charge(c, countCost, 0); err != nil {
		return err
	}
	total, err := g.counted(request, asked, reply)
	if err != nil {
		return err
	}
	return g.charge(c, total/messagesEach, 0)
}

// counted has subjects counted, and returns how many there are. When the server does not say, its error is the answer.
func (g *gateway) counted(request string, asked infoGet, reply string) (int, error) {
	number, err := apiMessage(request, infoGet{Subjects: asked.Subjects, Offset: math.MaxInt32}) // and none of them
	if err != nil {
		return 0, err
	}
	out, err := apiMessage(request, asked)
	if err != nil {
		return 0, err
	}
	out.Reply = reply
	g.counting.Lock()
	defer g.counting.Unlock()
	ctx, cancel := context.WithTimeout(g.ctx, apiTimeout)
	defer cancel()
	m, err := g.counts.RequestWithContext(ctx, number.Subject, number.Data)
	if err != nil {
		return 0, translate(err)
	}
	var is struct {
		Error *jetstream.APIError `json:"error"`
		Total int                 `json:"total"`
	}
	if err := json.Unmarshal(m.Data, &is); err != nil {
		return 0, err
	}
	if is.Error != nil {
		return 0, g.counts.Publish(reply, m.Data)
	}
	return is.Total, g.counts.PublishMsg(out)
}

// messages asks for messages of a stream.
func (g *gateway) messages(c *caller, request string, asked msgGet, reply string) (*natsgo.Msg, error) {
	out, err := apiMessage(request, asked)
	if err != nil {
		return nil, err
	}
	if asked.Batch == 0 && len(asked.Lasts) == 0 {
		return nil, g.passOne(c, request, out.Data, reply)
	}
	asked.Batch = min(max(asked.Batch, 0), maxReadMessages)
	if asked.MaxBytes <= 0 || asked.MaxBytes > maxReadBytes {
		asked.MaxBytes = maxReadBytes
	}
	if err := g.charge(c, (asked.Batch+len(asked.Lasts))/messagesEach, g.copied(reply, asked.MaxBytes)); err != nil {
		return nil, err
	}
	return apiMessage(request, asked)
}

// passOne asks the server for one message, and passes it on when it is paid for: nobody knows before how large it is.
func (g *gateway) passOne(c *caller, request string, body []byte, reply string) error {
	if err := g.charge(c, 0, readOne); err != nil {
		return err
	}
	ctx, cancel := context.WithTimeout(g.ctx, apiTimeout)
	defer cancel()
	m, err := g.counts.RequestWithContext(ctx, jsAPI+request, body)
	if err != nil {
		return translate(err)
	}
	if err := g.charge(c, 0, g.copied(reply, m.Size())); err != nil {
		return err
	}
	if err := g.once(c, reply); err != nil { // others may listen by now
		return err
	}
	return g.nc.PublishMsg(&natsgo.Msg{Subject: reply, Header: m.Header, Data: m.Data})
}
