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
	inboxPrefix = "cortex.v1.inbox."
	timerPrefix = "cortex.v1.timer."
	deadPrefix  = "cortex.v1.dead."
	livePrefix  = "cortex.v1.live."
	peerPrefix  = "cortex.v1.peer."
	leasePrefix = "$KV." + leaseBucket + "."
	cardPrefix  = "$KV." + agentsBucket + "."
	toldPrefix  = "cortex.v1.cards." // beside the bucket: what Cortex tells of agents

	// sentinelSubject holds the message that keeps the work queue from becoming empty. It has fewer tokens than a timer has,
	// and consumers filter on inboxPrefix only.
	sentinelSubject = timerPrefix + "_keep"
)

// inboxAddress is what the subject of an inbox event says.
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

// conversationToken returns what is equal for the events of one conversation in one inbox: its token in the subject, or
// the whole subject when it has none.
func conversationToken(subject string) string {
	var token [5]string
	if splitSubject(subject, inboxPrefix, token[:]) != nil {
		return subject
	}
	return token[3]
}

// senderToken returns what is equal for the events of one sender in an inbox: its token in the subject, the last.
func senderToken(subject string) string { return subject[strings.LastIndexByte(subject, '.')+1:] }

// inboxFilter matches all subjects of an inbox.
func inboxFilter(t transport.Topic) string {
	return inboxPrefix + transport.Escape(t.Tenant) + "." + transport.Escape(t.ID) + ".>"
}

// partitionFilters match the subjects of all inboxes. One with another partition is nobody's: it would wait for ever, so that the
// server is not to take it.
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

// deadSubject is where a dead letter of inbox t goes that was at subject.
func deadSubject(t transport.Topic, subject string) string {
	context := "_" // of a subject that no Publish wrote; no conversation has this token
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

// peerSubject is where a subscriber of an ordered inbox answers as long as it lives; without id, where all of them are told that
// there is something new in the bucket of leases.
func peerSubject(t transport.Topic, id string) string {
	subject := peerPrefix + transport.Escape(t.Tenant) + "." + transport.Escape(t.ID)
	if id != "" {
		subject += "." + id
	}
	return subject
}

// The keys of an ordered inbox in the bucket of leases.
const (
	memberKey    = "member."    // and the subscriber's id
	partitionKey = "partition." // and its number
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

func toldSubject(tenant, agent string) string {
	return toldPrefix + transport.Escape(tenant) + "." + transport.Escape(agent)
}

func toldFilter(tenant string) string { return toldPrefix + transport.Escape(tenant) + ".*" }

func parseToldSubject(subject string) (agent string, err error) {
	var token [2]string
	if err := splitSubject(subject, toldPrefix, token[:]); err != nil {
		return "", err
	}
	err = unescapeAll(field{&agent, token[1], false})
	return agent, err
}

// whole, in place of a partition, is all of an inbox.
const whole = -1

// partitionID names what one consumer delivers of an inbox: one of its partitions, or the whole.
type partitionID struct {
	topic     transport.Topic
	partition int
}

// filter returns what matches the subjects of the partition. It is a single one: a server looks for the next message of several
// filters at every subject of a file, once for each message that it delivers.
func (s partitionID) filter() string {
	if s.partition == whole {
		return inboxFilter(s.topic)
	}
	return strings.TrimSuffix(inboxFilter(s.topic), ">") + strconv.Itoa(s.partition) + ".>"
}

// consumer returns the name of the partition's consumer. Tokens have no comma, so names do not collide; one that is too long for a
// file name becomes a hash.
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

// splitSubject fills token with the tokens behind prefix; it fails unless their number is len(token).
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

// field is an id in a subject, and where it goes.
type field struct {
	to    *string
	token string
	empty bool // may be empty
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
