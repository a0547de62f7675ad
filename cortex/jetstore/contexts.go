package jetstore

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"iter"
	"slices"
	"strings"
	"time"

	"github.com/nats-io/nats.go/jetstream"
	"golang.org/x/sync/errgroup"

	"github.com/cortex-orchestrator/cortex/cortex/conversation"
	"github.com/cortex-orchestrator/cortex/cortex/storage"
	"github.com/cortex-orchestrator/cortex/transport"
)

const (
	// listTimeout bounds one request about many conversations, for which the server may have to read much.
	listTimeout = 30 * time.Second
	listAhead   = 64 // conversations whose last entries one request asks for; a gateway allows no more
	titlesAhead = 16 // titles read at once; each is in a whole entry
	titleDepth  = 16 // entries of a conversation that are searched for a title
)

// listed is a conversation of a list before its title is known.
type listed struct {
	subject string
	info    storage.ContextInfo
}

// Contexts implements [storage.Store]. It first reads the order and dates of all conversations: from their outlines or, where an outline does not
// cover the whole log, from the last entry. It reads titles that no outline has a few at a time as the caller iterates, so that the top of a long
// list is cheap. Those who list at the same time share the order and the dates.
func (s *Store) Contexts(ctx context.Context, tenant string) iter.Seq2[storage.ContextInfo, error] {
	return func(yield func(storage.ContextInfo, error) bool) {
		all, err := s.listings.get(ctx, tenant, s.list)
		for err == nil && len(all) > 0 {
			some := slices.Clone(all[:min(titlesAhead, len(all))]) // others read the list
			all = all[len(some):]
			if err = s.readTitles(ctx, some); err != nil {
				break
			}
			for _, c := range some {
				if !yield(c.info, nil) {
					return
				}
			}
		}
		if err != nil {
			yield(storage.ContextInfo{}, fmt.Errorf("list conversations: %w", away(ctx, err)))
		}
	}
}

// list returns the tenant's conversations, most recent first, without titles.
func (s *Store) list(ctx context.Context, tenant string) ([]listed, error) {
	prefix := subject + transport.Escape(tenant) + "."
	counts, err := s.counts(ctx, prefix+"*")
	if err != nil {
		return nil, err
	}
	kept := s.outlines(ctx, tenant)
	if len(counts) == 0 {
		return nil, nil
	}
	ids := make(map[string]string, len(counts))
	all := make([]listed, 0, len(counts))
	var changed []string // subjects whose logs have grown since their outlines were made
	for subj, entries := range counts {
		id, err := transport.Unescape(strings.TrimPrefix(subj, prefix))
		if err != nil {
			s.log.Warn("a subject of the conversations' stream is not Cortex's", "subject", subj)
			continue
		}
		o, ok := kept[id]
		delete(kept, id)
		if !ok || uint64(o.Entries) != entries { //nolint:gosec // none is negative
			ids[subj] = id
			changed = append(changed, subj)
			continue
		}
		all = append(all, listed{subj, storage.ContextInfo{ContextID: id, Title: o.Title, Entries: o.Entries, Updated: o.Updated, Version: o.Version, Outline: o}})
	}
	last, err := s.lasts(ctx, changed)
	if err != nil {
		return nil, err
	}
	for _, subj := range changed {
		l, ok := last[subj]
		if !ok {
			n, err := s.unread(ctx, subj)
			if err != nil {
				return nil, err
			}
			if n == 0 {
				continue // it was erased
			}
			s.NoteDamaged(ctx, Damaged{Tenant: tenant, ContextID: ids[subj], Why: "its last entry cannot be read"})
			l.subject = subj
		}
		l.info.ContextID, l.info.Entries = ids[subj], int(counts[subj])
		all = append(all, l)
	}
	s.dropOutlines(ctx, tenant, kept)
	// Sort by sequence, which depends on nobody's clock, unlike the time.
	slices.SortFunc(all, func(a, b listed) int { return cmp.Compare(b.info.Version, a.info.Version) })
	return all, nil
}

// counts returns the number of entries of each conversation, which the server has in memory.
func (s *Store) counts(ctx context.Context, filter string) (map[string]uint64, error) {
	ctx, cancel := context.WithTimeout(ctx, listTimeout)
	defer cancel()
	info, err := s.stream.Info(ctx, jetstream.WithSubjectFilter(filter))
	if err != nil {
		return nil, err
	}
	return info.State.Subjects, nil
}

// unread returns how many messages of a conversation the server has when it cannot read the last one; otherwise 0.
func (s *Store) unread(ctx context.Context, subject string) (uint64, error) {
	return s.unreadIn(ctx, s.stream, subject)
}

// unreadIn is unread for a subject of any stream.
func (s *Store) unreadIn(ctx context.Context, in jetstream.Stream, subject string) (uint64, error) {
	ctx, cancel := context.WithTimeout(ctx, listTimeout)
	defer cancel()
	info, err := in.Info(ctx, jetstream.WithSubjectFilter(subject))
	if err != nil || info.State.Subjects[subject] == 0 {
		return 0, err
	}
	last, err := s.getFromLeader(ctx, info.Config.Name, msgGet{Last: subject})
	if err != nil || last.seq > 0 { // it was begun after somebody found none
		return 0, err
	}
	return info.State.Subjects[subject], nil
}

// lasts reads the last message of each subject, a few at a time: the server searches its files for what it has not cached, and no append is
// possible meanwhile; for all conversations of a large log that would take many seconds. It keeps what a list needs. It makes no consumer: a stream
// has a limited number, and readers would take the place of others. What is missing in an answer it reads one by one: a message that the server cannot
// read ends the answer, or is not in it.
func (s *Store) lasts(ctx context.Context, subjects []string) (map[string]listed, error) {
	all := make(map[string]listed, len(subjects))
	for some := range slices.Chunk(subjects, listAhead) {
		note := func(m *stored) {
			updated := m.when(timeHeader)
			all[m.subject] = listed{m.subject, storage.ContextInfo{Updated: updated, Version: conversation.Version(m.seq)}}
		}
		if err := s.lastsOf(ctx, some, note); err != nil && !errors.Is(err, errUnread) {
			return nil, err
		}
		for _, subj := range some {
			if _, ok := all[subj]; ok {
				continue
			}
			m, err := s.lastHere(ctx, subj)
			if err == nil {
				note(&m)
			} else if !errors.Is(err, errNotFound) {
				return nil, err
			}
		}
	}
	return all, nil
}

// lastsOf calls each for the last messages of some subjects.
func (s *Store) lastsOf(ctx context.Context, subjects []string, each func(*stored)) error {
	ctx, cancel := context.WithTimeoutCause(ctx, listTimeout, errSilent)
	defer cancel()
	return s.readWith(ctx, &reader{s: s, stream: Stream, last: subjects, next: 1}, each)
}

func (s *Store) readTitles(ctx context.Context, some []listed) error {
	g, ctx := errgroup.WithContext(ctx)
	for i := range some {
		if some[i].info.Outline != nil {
			continue
		}
		g.Go(func() (err error) {
			some[i].info.Title, err = s.title(ctx, some[i].subject)
			return err
		})
	}
	return g.Wait()
}

// title returns the title from the first user's message, or "" if the first titleDepth entries have none.
func (s *Store) title(ctx context.Context, subject string) (string, error) {
	from := uint64(1)
	for range titleDepth {
		m, err := s.get(ctx, subject, from)
		if errors.Is(err, errNotFound) {
			return "", nil
		}
		if err != nil {
			return "", err
		}
		e := &conversation.Entry{}
		if err := e.UnmarshalJSON(m.data); err != nil {
			return "", nil // the list shows the conversation; loading it reports the damage
		}
		if title, ok := e.Title(); ok {
			return title, nil
		}
		from = m.seq + 1
	}
	return "", nil
}
