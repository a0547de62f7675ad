package nats

import (
	"errors"
	"fmt"
	"hash/fnv"
	"strconv"
	"strings"

	"github.com/cortex-orchestrator/cortex/transport"
)

const (
	inboxPrefix      = "cortex.v1.inbox."
	timerPrefix      = "cortex.v1.timer."
	deadPrefix       = "cortex.v1.dead."
	livePrefix       = "cortex.v1.live."
	peerPrefix       = "cortex.v1.peer."
	leasePrefix      = "$KV." + leaseBucket + "."
	cardPrefix       = "$KV." + agentsBucket + "."
	agentEventPrefix = "cortex.v1.cards." // core NATS: Cortex's events about agents, not in the bucket

	// sentinelSubject is the subject of the message that keeps the work queue from becoming empty. It has fewer tokens than a timer's subject, and
	// consumers filter on inboxPrefix only.
	sentinelSubject = timerPrefix + "_keep"
)

// inboxAddress is the content of an inbox event's subject.
type inboxAddress struct {
	tenant, to, context, from string
}

func inboxSubject(a inboxAddress) string {
	tenant, context := transport.Escape(a.tenant), transport.Escape(a.context)
	p := strconv.Itoa(transport.Partition(a.tenant, a.context))
	return inboxPrefix + tenant + "." + transport.Escape(a.to) + "." + p + "." + context + "." + transport.Escape(a.from)
}

func parseInboxSubject(subject string) (inboxAddress, error) {
	var token [5]string
	if err := splitSubject(subject, inboxPrefix, token[:]); err != nil {
		return inboxAddress{}, err
	}
	var a inboxAddress
	err := unescapeAll(
		field{&a.tenant, token[0], true}, field{&a.to, token[1], false}, field{&a.context, token[3], false}, field{&a.from, token[4], false},
	)
	return a, err
}

// conversationToken returns the conversation's token of a subject, which is the same for all its events in one inbox; for another subject, the
// subject itself.
func conversationToken(subject string) string {
	var token [5]string
	if splitSubject(subject, inboxPrefix, token[:]) != nil {
		return subject
	}
	return token[3]
}

// senderToken returns the sender's token of a subject, the last one.
func senderToken(subject string) string { return subject[strings.LastIndexByte(subject, '.')+1:] }

// inboxFilter matches all subjects of an inbox.
func inboxFilter(t transport.Topic) string {
	return inboxPrefix + transport.Escape(t.Tenant) + "." + transport.Escape(t.ID) + ".>"
}

// partitionFilters match the subjects of all inboxes in the present partitions. The server refuses other partitions, since nobody would ever read
// them.
func partitionFilters() []string {
	var all []string
	for p := range transport.Partitions {
		all = append(all, inboxPrefix+"*.*."+strconv.Itoa(p)+".>")
	}
	return all
}

func timerSubject(a inboxAddress) string {
	return timerPrefix + transport.Escape(a.tenant) + "." + transport.Escape(a.to) + "." + transport.Escape(a.context)
}

// deadSubject returns the subject of a dead letter of inbox t that was at subject.
func deadSubject(t transport.Topic, subject string) string {
	context := "_" // for a subject that Publish never makes; no conversation has this token
	var token [5]string
	if splitSubject(subject, inboxPrefix, token[:]) == nil && token[3] != "" {
		context = token[3]
	}
	return deadPrefix + transport.Escape(t.Tenant) + "." + transport.Escape(t.ID) + "." + context
}

func deadFilter(tenant string) string { return deadPrefix + transport.Escape(tenant) + ".>" }

func parseDeadSubject(subject string) (transport.Topic, error) {
	var token [3]string
	if err := splitSubject(subject, deadPrefix, token[:]); err != nil {
		return transport.Topic{}, err
	}
	t := transport.Topic{Kind: transport.KindInbox}
	err := unescapeAll(field{&t.Tenant, token[0], true}, field{&t.ID, token[1], false})
	return t, err
}

// peerSubject is where a subscriber of an ordered inbox answers requests while it runs; without id, where all of them are notified of a change in
// the bucket of leases.
func peerSubject(t transport.Topic, id string) string {
	subject := peerPrefix + transport.Escape(t.Tenant) + "." + transport.Escape(t.ID)
	if id != "" {
		subject += "." + id
	}
	return subject
}

// Keys of an ordered inbox in the bucket of leases.
const (
	memberKey    = "member."    // followed by the subscriber's id
	partitionKey = "partition." // followed by the partition's number
)

func leaseSubject(t transport.Topic, key string) string {
	return leasePrefix + transport.Escape(t.Tenant) + "." + transport.Escape(t.ID) + "." + key
}

func liveSubject(t transport.Topic, from string) string {
	return livePrefix + transport.Escape(t.Tenant) + "." + transport.Escape(t.ID) + "." + transport.Escape(from)
}

func liveFilter(t transport.Topic) string {
	return livePrefix + transport.Escape(t.Tenant) + "." + transport.Escape(t.ID) + ".*"
}

func parseLiveSubject(subject string) (from string, err error) {
	var token [3]string
	if err := splitSubject(subject, livePrefix, token[:]); err != nil {
		return "", err
	}
	err = unescapeAll(field{&from, token[2], false})
	return from, err
}

func cardSubject(tenant, agent, instance string) string {
	return cardPrefix + transport.Escape(tenant) + "." + transport.Escape(agent) + "." + transport.Escape(instance)
}

func cardFilter(tenant string) string { return cardPrefix + transport.Escape(tenant) + ".>" }

func parseCardSubject(subject string) (agent, instance string, err error) {
	var token [3]string
	if err := splitSubject(subject, cardPrefix, token[:]); err != nil {
		return "", "", err
	}
	err = unescapeAll(field{&agent, token[1], false}, field{&instance, token[2], false})
	return agent, instance, err
}

func agentEventSubject(tenant, agent string) string {
	return agentEventPrefix + transport.Escape(tenant) + "." + transport.Escape(agent)
}

func agentEventFilter(tenant string) string {
	return agentEventPrefix + transport.Escape(tenant) + ".*"
}

func parseAgentEventSubject(subject string) (agent string, err error) {
	var token [2]string
	if err := splitSubject(subject, agentEventPrefix, token[:]); err != nil {
		return "", err
	}
	err = unescapeAll(field{&agent, token[1], false})
	return agent, err
}

// whole, in place of a partition, stands for an entire inbox.
const whole = -1

// partitionID identifies what one consumer of an inbox delivers: one of its partitions, or the whole.
type partitionID struct {
	topic     transport.Topic
	partition int
}

// filter returns the subject filter of the partition. It is a single one: with several filters, a server scans every subject of a file for each
// message that it delivers.
func (s partitionID) filter() string {
	if s.partition == whole {
		return inboxFilter(s.topic)
	}
	return strings.TrimSuffix(inboxFilter(s.topic), ">") + strconv.Itoa(s.partition) + ".>"
}

// consumer returns the name of the partition's consumer. Tokens contain no comma, so names do not collide; a name that is too long for a file name
// becomes a hash.
func (s partitionID) consumer() string {
	t := s.topic
	name := "agent-" + transport.Escape(t.ID)
	switch {
	case t.ID == transport.Cortex && s.partition != whole:
		name = "cortex-" + strconv.Itoa(s.partition)
		if t.Tenant != "" {
			name += "," + transport.Escape(t.Tenant)
		}
	case s.partition != whole:
		name += "," + transport.Escape(t.Tenant) + "," + strconv.Itoa(s.partition)
	case t.Tenant != "":
		name += "," + transport.Escape(t.Tenant)
	}
	if len(name) > 128 {
		h := fnv.New128a()
		_, _ = h.Write([]byte(name)) // never fails
		name = fmt.Sprintf("long-%x", h.Sum(nil))
	}
	return name
}

// consumerName returns the name of the consumer of a whole inbox.
func consumerName(t transport.Topic) string { return partitionID{t, whole}.consumer() }

// splitSubject fills token with the tokens after prefix. It returns an error unless their number is len(token).
func splitSubject(subject, prefix string, token []string) error {
	rest, ok := strings.CutPrefix(subject, prefix)
	if !ok || strings.Count(rest, ".") != len(token)-1 {
		return fmt.Errorf("subject %.200q is not of the form %s…", subject, prefix)
	}
	for i := range token {
		token[i], rest, _ = strings.Cut(rest, ".")
	}
	return nil
}

// field is an id in a subject with its destination.
type field struct {
	to    *string
	token string
	empty bool // the id may be empty
}

func unescapeAll(fields ...field) error {
	for _, f := range fields {
		id, err := transport.Unescape(f.token)
		if err != nil {
			return err
		}
		if id == "" && !f.empty {
			return errors.New("subject has an empty id")
		}
		if id != "" {
			if err := transport.CheckID(id); err != nil {
				return fmt.Errorf("id in subject %w", err)
			}
		}
		*f.to = id
	}
	return nil
}
