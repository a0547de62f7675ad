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

// readStreams are the streams that people may read, with the prefix of their subjects; the tenant follows it. Those of conversations belong to
// package jetstore. Consumers of them are refused, since a stream has room for a limited number.
var readStreams = map[string]string{
	logStream:         "cortex.v1.log.",
	snapStream:        "$KV.CORTEX_SNAP.",
	"KV_CORTEX_SPENT": "$KV.CORTEX_SPENT.",
	"KV_CORTEX_NOTES": "$KV.CORTEX_NOTES.",
	leaseStream:       leasePrefix,
	agentsStream:      cardPrefix,
	deadStream:        deadPrefix,
}

// The stream of the keys of notes. People may read those of outlines: the notes cannot be read without their keys.
const (
	keyStream       = "CORTEX_KEYS"
	outlineKeys     = "cortex.v1.key."
	outlineKeysKind = ".outline.*"
)

// The streams that grow with the conversations. Wildcards are refused there: the server would scan the whole stream for matches.
const (
	logStream  = "CORTEX_LOG"
	snapStream = "KV_CORTEX_SNAP"
)

const (
	maxReadMessages = 1024
	maxReadBytes    = 1 << 20 // of an answer of several messages; the message that exceeds it is the last one
	maxReadSubjects = 64      // whose last messages one request may ask for
	maxRequest      = 64 << 10
	readOne         = 4 << 10 // bytes charged before one message is read

	batchPatience = time.Minute // how long a caller waits for the end of an answer of several messages, before the next request

	messagesEach = 32 // messages of an answer that cost as much as one request

	countCost = 50 // cost of counting the subjects of a stream, in requests
	openCost  = 50 // cost of making an inbox ready, in requests
	infoCost  = 10 // cost of a request for which the server locks a stream or a consumer, or reads some of a stream's files, in requests
	pullCost  = 4  // cost of a pull, in requests
)

// msgGet is a request for messages of a stream: a part of JetStream's get and direct get.
type msgGet struct {
	Seq      uint64   `json:"seq,omitempty"`
	Last     string   `json:"last_by_subj,omitempty"`
	Next     string   `json:"next_by_subj,omitempty"`
	Lasts    []string `json:"multi_last,omitempty"`
	Batch    int      `json:"batch,omitempty"`
	MaxBytes int      `json:"max_bytes,omitempty"`
}

// infoGet is a request for a stream's state and, with Subjects, the number of messages of each matching subject.
type infoGet struct {
	Subjects string `json:"subjects_filter,omitempty"`
	Offset   int    `json:"offset,omitempty"`
}

// apiRequest splits a request's subject into its method, the stream, and the rest.
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

// apiMessage returns a message with a request of the gateway itself.
func apiMessage(request string, body any) (*natsgo.Msg, error) {
	data, err := json.Marshal(body)
	return &natsgo.Msg{Subject: jsAPI + request, Data: data}, err
}

// work checks and forwards an agent's requests about its own inbox. A request for a consumer makes the one that the orchestrator would make,
// whatever it asks for: an arbitrary consumer could make the server publish anything anywhere. Its name is fixed, so an agent has only one.
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

// open makes an agent's inbox ready and returns the request for its consumer's state, which the server answers.
func (g *gateway) open(inbox transport.Topic) (*natsgo.Msg, error) {
	ctx, cancel := context.WithTimeout(g.ctx, apiTimeout)
	defer cancel()
	if err := g.bus.ensureConsumer(ctx, inbox); err != nil {
		return nil, fmt.Errorf("inbox of %s: %w", inbox.ID, translate(err))
	}
	return &natsgo.Msg{Subject: jsAPI + "CONSUMER.INFO." + inboxStream + "." + consumerName(inbox)}, nil
}

// Bounds of an agent's pull.
const (
	maxPull      = maxAckPending
	maxPullBytes = leastPending - 512<<10 // above the size of an event; a connection buffers no more than leastPending for a slow reader
	minHeartbeat = 500 * time.Millisecond
)

// boundedPull returns an agent's pull within the bounds. The server would send heartbeats as often as a client asks.
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

// read checks a person's request to read streams, and forwards it within the bounds.
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
		return nil, g.passOne(c, g.counts, request, nil, m.Reply)
	case (method == "STREAM.MSG.GET." || method == "DIRECT.GET.") && ok && rest == "":
		var asked msgGet
		if json.Unmarshal(m.Data, &asked) != nil {
			return nil, refused
		}
		wild := stream != logStream && stream != snapStream
		for _, subject := range []string{asked.Last, asked.Next} {
			if subject != "" && !g.within(prefix, subject, wild) {
				return nil, fmt.Errorf("%w: subject %.200q", refused, subject)
			}
		}
		for _, subject := range asked.Lasts { // for each wildcard the server walks all subjects, before it says that they are too many; leases are few
			if !g.within(prefix, subject, stream == leaseStream) {
				return nil, fmt.Errorf("%w: subject %.200q", refused, subject)
			}
		}
		if len(asked.Lasts) > maxReadSubjects {
			return nil, fmt.Errorf("%w: the last messages of %d subjects at once, at most %d", refused, len(asked.Lasts), maxReadSubjects)
		}
		if asked.Next == prefix+transport.Escape(g.tenant)+".>" { // all that there is: this the server need not search for
			asked.Next = ">"
		}
		return nil, g.messages(c, request, asked, m.Reply)
	case method == "DIRECT.GET." && stream == keyStream && rest == "":
		var asked msgGet
		if json.Unmarshal(m.Data, &asked) != nil || asked.Next != outlineKeys+transport.Escape(g.tenant)+outlineKeysKind || asked.Last != "" || len(asked.Lasts) > 0 {
			return nil, refused
		}
		return nil, g.messages(c, request, asked, m.Reply)
	}
	return nil, refused
}

// within reports whether a subject belongs to the tenant and begins with prefix. With wild, its last token may be a wildcard; one in the middle
// would make the server scan much for a cheap request.
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

// info forwards a request for a stream's state.
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

// pass forwards a request to the server and its answer to the caller, before the caller's next message is handled: a caller has one such request
// outstanding.
func (g *gateway) pass(c *caller, request string, body []byte, reply string) error {
	if reply == "" {
		return nil // no one would receive the answer
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

// count forwards a request to count the subjects of a stream, one request of all callers at a time. Its duration grows with the number of subjects,
// which only the server knows: count first asks for the number, and charges the caller for it before the caller's next message is handled.
func (g *gateway) count(c *caller, request string, asked infoGet, reply string) error {
	if reply == "" {
		return nil // no one would receive the answer
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

// counted forwards a request to count subjects, and returns their number. An error of the server becomes the answer.
func (g *gateway) counted(request string, asked infoGet, reply string) (int, error) {
	number, err := apiMessage(request, infoGet{Subjects: asked.Subjects, Offset: math.MaxInt32}) // an offset behind the last: the answer has the number only
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

// messages forwards a request for messages of a stream, within the bounds. A caller has one of them outstanding: how long the server takes is known when it is
// done only, since it may have to read files.
func (g *gateway) messages(c *caller, request string, asked msgGet, reply string) error {
	out, err := apiMessage(request, asked)
	if err != nil {
		return err
	}
	if asked.Batch == 0 && len(asked.Lasts) == 0 {
		if !strings.ContainsAny(asked.Last+asked.Next, "*>") || asked.Next == ">" {
			return g.passOne(c, g.counts, request, out.Data, reply)
		}
		if err := g.charge(c, countCost, 0); err != nil { // the server may walk all subjects
			return err
		}
		return g.passOne(c, g.batches, request, out.Data, reply)
	}
	asked.Batch = min(max(asked.Batch, 0), maxReadMessages)
	if asked.MaxBytes <= 0 || asked.MaxBytes > maxReadBytes {
		asked.MaxBytes = maxReadBytes
	}
	if err := g.charge(c, batchCost(request, asked), g.copied(reply, asked.MaxBytes)); err != nil {
		return err
	}
	if out, err = apiMessage(request, asked); err != nil {
		return err
	}
	out.Reply = reply
	if err := g.batches.PublishMsg(out); err != nil {
		return err
	}
	ctx, cancel := context.WithTimeout(g.ctx, batchPatience)
	defer cancel()
	_ = g.batches.FlushWithContext(ctx) // the server answers this when it has done what came before; who misses something asks again, and a refusal would end the answer
	return nil
}

// batchCost returns the cost of a request for several messages, in requests: for the messages, and for what the server does before the first of them,
// since it also tells how many there are. For that it walks all subjects, unless the request names one. In the log, which has many messages of a
// subject, it may read the files that have them.
func batchCost(request string, asked msgGet) int {
	cost := (asked.Batch + len(asked.Lasts)) / messagesEach
	_, stream, _ := apiRequest(request)
	switch {
	case stream == agentsStream: // it has a bound, and all who have a program open follow it
		cost += infoCost
	case len(asked.Lasts) == 0 && (asked.Next == "" || strings.ContainsAny(asked.Next, "*>")):
		cost += countCost
	case stream == logStream && (len(asked.Lasts) > 0 || asked.Seq > 1):
		cost += infoCost
	}
	return cost
}

// passOne asks the server for one message, by a connection, and passes it on after charging its bytes: its size is unknown before.
func (g *gateway) passOne(c *caller, nc *conn, request string, body []byte, reply string) error {
	if err := g.charge(c, 0, readOne); err != nil {
		return err
	}
	ctx, cancel := context.WithTimeout(g.ctx, apiTimeout)
	defer cancel()
	m, err := nc.RequestWithContext(ctx, jsAPI+request, body)
	if err != nil {
		return translate(err)
	}
	if err := g.charge(c, 0, g.copied(reply, m.Size())); err != nil {
		return err
	}
	if err := g.limitCopies(c, reply); err != nil { // subscriptions may have been added meanwhile
		return err
	}
	return g.nc.PublishMsg(&natsgo.Msg{Subject: reply, Header: m.Header, Data: m.Data})
}
