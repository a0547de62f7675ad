package jetstore

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"iter"
	"maps"
	"math"
	"slices"
	"strings"
	"time"

	"github.com/nats-io/nats.go/jetstream"
	"golang.org/x/sync/errgroup"

	"github.com/cortex-orchestrator/cortex/cortex"
	"github.com/cortex-orchestrator/cortex/transport"
)

const (
	// listTimeout is how long one question about all conversations may take: the server may have to read much to answer it.
	listTimeout = 30 * time.Second
	listAhead   = 16   // conversations whose last entries the server looks up at once
	listFetch   = 4096 // headers asked for at once
	titlesAhead = 16   // titles read at once; each is a whole entry
	titleDepth  = 16   // entries of a conversation that are searched for a title
)

// listed is a conversation of a list before its title is known.
type listed struct {
	subject string
	last    uint64
	info    cortex.ContextInfo
}

// Contexts implements [cortex.Store]. The order and the dates of all conversations come first, from the headers of their
// last entries; titles are read a few at a time as the caller goes on, so the top of a long list is cheap.
func (s *Store) Contexts(ctx context.Context, tenant string) iter.Seq2[cortex.ContextInfo, error] {
	return func(yield func(cortex.ContextInfo, error) bool) {
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
			yield(cortex.ContextInfo{}, fmt.Errorf("list conversations: %w", away(ctx, err)))
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
	if err := s.lookUp(ctx, slices.Collect(maps.Keys(counts))); err != nil {
		return nil, err
	}
	last, err := s.lastHeaders(ctx, prefix+"*")
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
		l.subject, l.info.ContextID, l.info.Entries = subj, id, int(counts[subj])
		if l.info.Entries > 0 { // else it has begun since
			all = append(all, l)
		}
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

// lookUp has the server find the last entry of each conversation, and send none, a few at a time. What it does not remember it reads
// from its files, and nobody can append meanwhile: for all conversations of a large log at once, that is many seconds.
func (s *Store) lookUp(ctx context.Context, subjects []string) error {
	for some := range slices.Chunk(subjects, listAhead) {
		req, err := json.Marshal(directGet{Seq: math.MaxUint64, Last: some})
		if err != nil {
			return err
		}
		if _, err := s.request(ctx, "DIRECT.GET.", Stream, req); err != nil {
			return err
		}
	}
	return nil
}

// lastHeaders reads sequence and time of the last message of each subject, by a consumer that gets headers only: a
// hundred bytes a conversation, however long its entries are.
func (s *Store) lastHeaders(ctx context.Context, filter string) (map[string]listed, error) {
	asking, done := context.WithTimeout(ctx, listTimeout)
	defer done()
	consumer, err := s.stream.CreateConsumer(asking, jetstream.ConsumerConfig{
		Description: "Cortex: a list of conversations", FilterSubject: filter, DeliverPolicy: jetstream.DeliverLastPerSubjectPolicy, HeadersOnly: true,
		AckPolicy: jetstream.AckNonePolicy, MemoryStorage: true, Replicas: 1, InactiveThreshold: time.Minute,
	})
	if err != nil {
		return nil, err
	}
	defer func() {
		ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), s.timeout)
		defer cancel()
		_ = s.stream.DeleteConsumer(ctx, consumer.CachedInfo().Name) // else the server does, after the threshold
	}()
	left := consumer.CachedInfo().NumPending
	all := make(map[string]listed, left)
	for left > 0 {
		if err := ctx.Err(); err != nil {
			return nil, err
		}
		got, err := s.fetchHeaders(ctx, consumer, int(min(left, listFetch)), all)
		if err != nil {
			return nil, err
		}
		if got == 0 {
			return nil, fmt.Errorf("%w: %d conversations are not listed", errSilent, left)
		}
		left -= min(got, left)
	}
	return all, nil
}

// fetchHeaders reads up to n messages into all, and returns how many there were. It ends with ctx.
func (s *Store) fetchHeaders(ctx context.Context, consumer jetstream.Consumer, n int, all map[string]listed) (got uint64, err error) {
	ctx, cancel := context.WithTimeoutCause(ctx, s.timeout, errSilent)
	defer cancel()
	batch, err := consumer.Fetch(n, jetstream.FetchContext(ctx))
	if err != nil {
		return 0, err
	}
	for m := range batch.Messages() {
		meta, err := m.Metadata()
		if err != nil {
			return 0, err
		}
		updated, err := time.Parse(time.RFC3339Nano, m.Headers().Get(timeHeader))
		if err != nil {
			updated = meta.Timestamp
		}
		all[m.Subject()] = listed{last: meta.Sequence.Stream, info: cortex.ContextInfo{Updated: updated}}
		got++
	}
	if err := batch.Error(); err != nil && ctx.Err() != nil {
		return 0, context.Cause(ctx)
	} else if err != nil {
		return 0, err
	}
	return got, nil
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
		e := &cortex.Entry{}
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
