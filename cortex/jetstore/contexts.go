package jetstore

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"iter"
	"maps"
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
	// listTimeout is how long one question about all conversations may take: the server may have to read much to answer it.
	listTimeout = 30 * time.Second
	listAhead   = 64 // conversations whose last entries the server looks up at once; a gateway lets no more through
	titlesAhead = 16 // titles read at once; each is a whole entry
	titleDepth  = 16 // entries of a conversation that are searched for a title
)

// listed is a conversation of a list before its title is known.
type listed struct {
	subject string
	last    uint64
	info    storage.ContextInfo
}

// Contexts implements [storage.Store]. The order and the dates of all conversations come first, from their last entries; titles are read a few at a time as the caller goes on, so the top of a long list is cheap.
func (s *Store) Contexts(ctx context.Context, tenant string) iter.Seq2[storage.ContextInfo, error] {
	return func(yield func(storage.ContextInfo, error) bool) {
		all, err := s.list(ctx, tenant)
		for err == nil && len(all) > 0 {
			some := all[:min(titlesAhead, len(all))]
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
	if err != nil || len(counts) == 0 {
		return nil, err
	}
	last, err := s.lasts(ctx, slices.Collect(maps.Keys(counts)))
	if err != nil {
		return nil, err
	}
	all := make([]listed, 0, len(last))
	for subj, l := range last {
		id, err := transport.Unescape(strings.TrimPrefix(subj, prefix))
		if err != nil {
			s.log.Warn("a subject of the conversations' stream is not Cortex's", "subject", subj)
			continue
		}
		l.info.ContextID, l.info.Entries = id, int(counts[subj])
		all = append(all, l)
	}
	// By sequence rather than time: it does not depend on anybody's clock.
	slices.SortFunc(all, func(a, b listed) int { return cmp.Compare(b.last, a.last) })
	return all, nil
}

// counts returns how many entries each conversation has. The server knows by heart.
func (s *Store) counts(ctx context.Context, filter string) (map[string]uint64, error) {
	ctx, cancel := context.WithTimeout(ctx, listTimeout)
	defer cancel()
	info, err := s.stream.Info(ctx, jetstream.WithSubjectFilter(filter))
	if err != nil {
		return nil, err
	}
	return info.State.Subjects, nil
}

// lasts reads the last message of each subject, a few at a time: the server finds what it does not remember in its files, and nobody can
// append meanwhile; for all conversations of a large log at once, that is many seconds. It keeps what a list needs. No consumer is
// made: a stream has room for so many, and whoever reads would take the place of others.
func (s *Store) lasts(ctx context.Context, subjects []string) (map[string]listed, error) {
	ctx, cancel := context.WithTimeoutCause(ctx, listTimeout, errSilent)
	defer cancel()
	all := make(map[string]listed, len(subjects))
	for some := range slices.Chunk(subjects, listAhead) {
		err := s.readWith(ctx, &reader{s: s, stream: Stream, last: some, next: 1}, func(m *stored) {
			updated := m.when(timeHeader)
			all[m.subject] = listed{subject: m.subject, last: m.seq, info: storage.ContextInfo{Updated: updated}}
		})
		if err != nil {
			return nil, err
		}
	}
	return all, nil
}

func (s *Store) readTitles(ctx context.Context, some []listed) error {
	g, ctx := errgroup.WithContext(ctx)
	for i := range some {
		g.Go(func() (err error) {
			some[i].info.Title, err = s.title(ctx, some[i].subject)
			return err
		})
	}
	return g.Wait()
}

// title returns the title that the first user's message gives, or "" if none comes early.
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
			return "", nil // the list shows the conversation; loading it tells what is wrong
		}
		if title, ok := e.Title(); ok {
			return title, nil
		}
		from = m.seq + 1
	}
	return "", nil
}
