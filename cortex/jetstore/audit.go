package jetstore

import (
	"bytes"
	"errors"
	"slices"
	"strconv"
	"strings"

	"github.com/cortex-orchestrator/cortex/transport"
)

// Audit finds damage in a log, from the messages in the server's files. The caller passes all messages, and the sequences known to be gone, in the
// order of their sequences. An Audit uses some 200 bytes for each conversation.
type Audit struct {
	since   uint64
	last    uint64 // sequence
	convs   map[string]*audited
	missing [][2]uint64 // ranges of sequences, both ends included
	erased  []uint64
}

// audited is the state of one conversation.
type audited struct {
	chain
	good, rest int
	why        string // the damage; "" when there is none
}

// NewAudit returns an Audit of a log in which every missing sequence after since can be accounted for.
func NewAudit(since uint64) *Audit { return &Audit{since: since, convs: map[string]*audited{}} }

// Gone reports that the message of a sequence was removed.
func (a *Audit) Gone(seq uint64) { a.advance(seq) }

// Message adds a message.
func (a *Audit) Message(seq uint64, subj string, header, data []byte) {
	a.advance(seq)
	if subj == erasedSubject {
		if all, err := parseErased(data); err == nil {
			a.erased = append(a.erased, all...)
		}
		return
	}
	c := a.convs[subj]
	if c == nil {
		c = &audited{}
		a.convs[subj] = c
	}
	if c.why != "" {
		c.rest++
		return
	}
	if err := c.entry(seq, subj, header, data); err != nil {
		c.why = err.Error()
		c.rest++
		return
	}
	c.good++
}

// advance records the missing sequences before seq.
func (a *Audit) advance(seq uint64) {
	if from := max(a.last+1, a.since+1); seq > from {
		a.missing = append(a.missing, [2]uint64{from, seq - 1})
	}
	a.last = max(a.last, seq)
}

// entry checks an entry. It decodes the whole entry only if that has no valid checksum.
func (c *audited) entry(seq uint64, subj string, header, data []byte) error {
	m := stored{seq: seq, subject: subj, data: data, sum: headerOf(header, sumHeader)}
	if m.sum == "" || m.sum != sumOf(subj, data) {
		_, err := c.next(&m)
		return err
	}
	place, ok := placeOf(data)
	if !ok {
		_, err := c.next(&m)
		return err
	}
	return c.follow(seq, place)
}

// headerOf returns a value of a header in its stored form.
func headerOf(header []byte, name string) string {
	_, value, ok := bytes.Cut(header, []byte("\r\n"+name+":"))
	if !ok {
		return ""
	}
	value, _, _ = bytes.Cut(value, []byte("\r\n"))
	return string(bytes.TrimSpace(value))
}

// placeOf returns the number at the beginning of an entry's JSON.
func placeOf(data []byte) (uint64, bool) {
	rest, ok := bytes.CutPrefix(data, []byte(`{"seq":`))
	n := bytes.IndexByte(rest, ',')
	if !ok || n < 0 {
		return 0, false
	}
	place, err := strconv.ParseUint(string(rest[:n]), 10, 64)
	return place, err == nil
}

// Audited is the result of an Audit.
type Audited struct {
	Conversations int       `json:"conversations"`
	Entries       int       `json:"entries"` // intact ones
	Damaged       []Damaged `json:"damaged"`
	// Lost is the number of missing messages that were not erased. It includes those of damaged conversations, and those of conversations that are
	// missing entirely or at their end, which cannot be named.
	Lost uint64 `json:"lost"`
}

// End returns the result.
func (a *Audit) End() Audited {
	found := Audited{Damaged: []Damaged{}}
	slices.Sort(a.erased)
	a.erased = slices.Compact(a.erased)
	for _, gap := range a.missing {
		from, _ := slices.BinarySearch(a.erased, gap[0])
		to, _ := slices.BinarySearch(a.erased, gap[1]+1)
		found.Lost += gap[1] - gap[0] + 1 - uint64(to-from)
	}
	for subj, c := range a.convs {
		found.Entries += c.good
		tenant, contextID, err := conversationOf(subj)
		if err != nil {
			continue // not written by Append
		}
		found.Conversations++
		if c.why != "" {
			found.Damaged = append(found.Damaged, Damaged{Tenant: tenant, ContextID: contextID, Why: c.why, Good: c.good, Rest: c.rest})
		}
	}
	slices.SortFunc(found.Damaged, func(a, b Damaged) int {
		return strings.Compare(a.Tenant+"\x00"+a.ContextID, b.Tenant+"\x00"+b.ContextID)
	})
	return found
}

// conversationOf returns the tenant and the conversation of a subject.
func conversationOf(subj string) (tenant, contextID string, err error) {
	rest, ok := strings.CutPrefix(subj, subject)
	first, second, both := strings.Cut(rest, ".")
	if !ok || !both {
		return "", "", errors.New("it is not the subject of a conversation")
	}
	if tenant, err = transport.Unescape(first); err == nil {
		contextID, err = transport.Unescape(second)
	}
	return tenant, contextID, err
}
