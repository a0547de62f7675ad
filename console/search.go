package console

import (
	"context"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/a2aproject/a2a-go/v2/a2a"

	"github.com/cortex-orchestrator/cortex/cortex/conversation"
	"github.com/cortex-orchestrator/cortex/cortex/storage"
	"github.com/cortex-orchestrator/cortex/prompt"
	"github.com/cortex-orchestrator/cortex/transport"
)

// Bounds of a search in conversations.
const (
	searchTime = time.Second // for reading conversations that are not known yet
	maxSaid    = 16 << 10    // of what people said in a conversation, in bytes
	maxKnown   = 32 << 20    // of what is known of all conversations, in bytes
	maxExcerpt = 60          // of the words around a match, in characters
)

// sayings knows what people said in conversations, as far as they were searched. What it knows of one that has changed, also by erasure, it reads anew. It
// is safe for concurrent use.
type sayings struct {
	mu   sync.Mutex
	of   map[string]*saying
	size int
}

// saying is what people said in a conversation.
type saying struct {
	version conversation.Version
	updated time.Time
	lines   []string
	low     string // in lower case
}

// in returns what people said in a conversation. ok is false when that is not known, and until has passed, so that it was not read.
func (s *sayings) in(ctx context.Context, store storage.Store, tenant string, info *storage.ContextInfo, until time.Time) (is *saying, ok bool, err error) {
	s.mu.Lock()
	is = s.of[info.ContextID]
	s.mu.Unlock()
	if is != nil && is.version == info.Version && is.updated.Equal(info.Updated) {
		return is, true, nil
	}
	if time.Now().After(until) {
		return nil, false, nil
	}
	is = &saying{version: info.Version, updated: info.Updated}
	var low strings.Builder
	for e, err := range store.Load(ctx, tenant, info.ContextID, 0) {
		if err != nil {
			return nil, false, err
		}
		m, isMessage := e.Cause.Payload.(*a2a.Message)
		if !isMessage || m.Role != a2a.MessageRoleUser {
			continue
		}
		text := prompt.CleanText(transport.Text(m.Parts), maxSaid-low.Len())
		is.lines = append(is.lines, strings.Split(text, "\n")...)
		low.WriteString(strings.ToLower(text))
		low.WriteByte('\n')
		if low.Len() >= maxSaid {
			break
		}
	}
	is.low = low.String()
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.of == nil || s.size > maxKnown {
		s.of, s.size = make(map[string]*saying), 0
	}
	if old := s.of[info.ContextID]; old != nil {
		s.size -= 2 * len(old.low)
	}
	s.of[info.ContextID] = is
	s.size += 2 * len(is.low)
	return is, true, nil
}

// forget drops what is known of conversations that are not there any more.
func (s *sayings) forget(there map[string]bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for id, is := range s.of {
		if !there[id] {
			delete(s.of, id)
			s.size -= 2 * len(is.low)
		}
	}
}

// listRow is a conversation in the list.
type listRow struct {
	storage.ContextInfo
	Excerpt string // what was said with the words of the query, where the title does not have them
}

// list returns the latest conversations; with a query, those whose title, id or messages of people have all its words.
func (c *Console) list(ctx context.Context, query, at string) (*listData, error) {
	l := &listData{Query: prompt.Clean(query, maxWord), At: at, Now: c.cfg.Now()}
	words := strings.Fields(strings.ToLower(l.Query))
	until := time.Now().Add(searchTime)
	there := make(map[string]bool)
	for info, err := range c.cfg.Store.Contexts(ctx, c.cfg.Client.Tenant) {
		if err != nil {
			return nil, err
		}
		if len(there) == maxScanned || len(l.Rows) == maxListed {
			l.More = true
			break
		}
		there[info.ContextID] = true
		row := listRow{ContextInfo: info}
		title := strings.ToLower(info.Title + " " + info.ContextID)
		rest := slices.DeleteFunc(slices.Clone(words), func(word string) bool { return strings.Contains(title, word) })
		if len(rest) > 0 {
			is, ok, err := c.said.in(ctx, c.cfg.Store, c.cfg.Client.Tenant, &info, until)
			if err != nil && ctx.Err() != nil {
				return nil, err
			}
			if err != nil || !ok { // a damaged one is no reason to find none
				l.Unread++
				continue
			}
			if slices.ContainsFunc(rest, func(word string) bool { return !strings.Contains(is.low, word) }) {
				continue
			}
			row.Excerpt = is.excerpt(rest[0])
		}
		l.Rows = append(l.Rows, row)
	}
	if !l.More {
		c.said.forget(there)
	}
	return l, nil
}

// excerpt returns the first line with a word, from some words before it.
func (is *saying) excerpt(word string) string {
	for _, line := range is.lines {
		low := strings.ToLower(line)
		at := strings.Index(low, word)
		if at < 0 {
			continue
		}
		if len(low) != len(line) { // its characters are of other lengths in lower case
			return prompt.Clean(low[at:], maxExcerpt)
		}
		from := strings.LastIndexByte(line[:at-min(at, maxExcerpt/3)], ' ') + 1
		text := prompt.Clean(line[from:], maxExcerpt)
		if from > 0 {
			text = "… " + text
		}
		return text
	}
	return ""
}
