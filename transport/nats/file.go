package nats

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"iter"
	"maps"
	"slices"
	"strconv"
	"time"

	natsgo "github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"github.com/cortex-orchestrator/cortex/transport"
)

const (
	fileStream = "CORTEX_FILES"
	filePrefix = "cortex.v1.file."
)

var (
	_ transport.Files      = (*Bus)(nil)
	_ transport.FileKeeper = (*Bus)(nil)
)

// fileConfig returns the configuration of the stream of files. Each chunk of an object has its own subject, so that storing it again changes
// nothing.
func fileConfig() jetstream.StreamConfig {
	return jetstream.StreamConfig{
		Name:              fileStream,
		Description:       "Cortex: files, each sealed with a key that goes with its reference",
		Subjects:          []string{filePrefix + "*.*.*.*.*"},
		MaxMsgsPerSubject: 1,
		Discard:           jetstream.DiscardOld,
		Duplicates:        transport.DuplicateWindow,
		AllowDirect:       true,
	}
}

func objectSubject(o transport.Object) string {
	return filePrefix + transport.Escape(o.Tenant) + "." + transport.Escape(o.ContextID) + "." + transport.Escape(o.From) + "." + transport.Escape(o.ID)
}

func chunkSubject(o transport.Object, n int) string { return objectSubject(o) + "." + strconv.Itoa(n) }

func parseChunkSubject(subject string) (o transport.Object, n int, err error) {
	var token [5]string
	if err := splitSubject(subject, filePrefix, token[:]); err != nil {
		return o, 0, err
	}
	if err := unescapeAll(field{&o.Tenant, token[0], true}, field{&o.ContextID, token[1], false}, field{&o.From, token[2], false},
		field{&o.ID, token[3], false}); err != nil {
		return o, 0, err
	}
	n, err = strconv.Atoi(token[4])
	return o, n, err
}

// PutChunk implements [transport.Files]. While the server is unavailable, or has no room, it retries like Publish.
func (b *Bus) PutChunk(ctx context.Context, o transport.Object, n int, sealed []byte) error {
	if err := ctx.Err(); err != nil {
		return err
	}
	if b.isClosed() {
		return transport.ErrClosed
	}
	if err := transport.ValidateChunk(o, n, sealed); err != nil {
		return err
	}
	if err := b.checkSender(o.From, o.Tenant); err != nil {
		return err
	}
	g, own := b.shelfOf(o.Tenant, o.From)
	if g != nil {
		if err := g.fileRoom(own, func() error { return own.counts.Wait(ctx) }); err != nil {
			return err
		}
	}
	err := b.store(ctx, chunkMessage(o, n, sealed))
	if hasNoRoom(err) {
		return fmt.Errorf("%w: the NATS server stores no more: %s: %w", transport.ErrFilesFull, roomAdvice, err)
	}
	if err == nil && g != nil {
		g.add(own, len(sealed))
	}
	return err
}

// chunkMessage returns the message of a chunk. Its header says where its subject ends, of which the server's checksum knows nothing.
func chunkMessage(o transport.Object, n int, sealed []byte) *natsgo.Msg {
	return &natsgo.Msg{Subject: chunkSubject(o, n), Header: natsgo.Header{jetstream.ExpectedStreamHeader: {fileStream}}, Data: sealed}
}

// Chunk implements [transport.Files].
func (b *Bus) Chunk(ctx context.Context, o transport.Object, n int) ([]byte, error) {
	m, err := b.last(ctx, chunkSubject(o, n))
	if err != nil {
		return nil, err
	}
	return m.Data, nil
}

// last returns the only message on a subject of the stream of files.
func (b *Bus) last(ctx context.Context, subject string) (m *jetstream.RawStreamMsg, err error) {
	err = b.insist(ctx, func() (err error) {
		m, err = b.get(ctx, fileStream, map[string]any{"last_by_subj": subject})
		return err
	})
	return m, err
}

// Objects implements [transport.FileKeeper].
func (b *Bus) Objects(ctx context.Context, tenant string) iter.Seq2[transport.Object, error] {
	return func(yield func(transport.Object, error) bool) {
		seen := map[transport.Object]bool{}
		for subject, err := range b.chunkSubjects(ctx, filePrefix+transport.Escape(tenant)+".>") {
			if err != nil {
				yield(transport.Object{}, fmt.Errorf("list files: %w", err))
				return
			}
			o, _, err := parseChunkSubject(subject)
			if err != nil || seen[o] {
				continue
			}
			seen[o] = true
			if !yield(o, nil) {
				return
			}
		}
	}
}

// chunkSubjects lists the subjects of chunks that match filter. It reads the whole list before it yields the first, since the caller may remove
// chunks.
func (b *Bus) chunkSubjects(ctx context.Context, filter string) iter.Seq2[string, error] {
	return func(yield func(string, error) bool) {
		var all []string
		for {
			var info struct {
				Error *jetstream.APIError   `json:"error"`
				Total int                   `json:"total"`
				State jetstream.StreamState `json:"state"`
			}
			err := b.insist(ctx, func() error {
				return b.ask(ctx, "STREAM.INFO."+fileStream, infoGet{Subjects: filter, Offset: len(all)}, &info)
			})
			if err == nil && info.Error != nil {
				err = translate(info.Error)
			}
			if err != nil {
				yield("", err)
				return
			}
			all = slices.AppendSeq(all, maps.Keys(info.State.Subjects))
			if len(all) >= info.Total || len(info.State.Subjects) == 0 {
				break
			}
		}
		for _, subject := range all {
			if !yield(subject, nil) {
				return
			}
		}
	}
}

// Stored implements [transport.FileKeeper].
func (b *Bus) Stored(ctx context.Context, o transport.Object) (time.Time, int64, error) {
	m, err := b.get(ctx, fileStream, map[string]any{"last_by_subj": objectSubject(o) + ".*"})
	if err != nil {
		return time.Time{}, 0, err
	}
	_, n, err := parseChunkSubject(m.Subject)
	return m.Time, int64(n)*transport.FileChunk + int64(len(m.Data)), err
}

// maxAwaited bounds the files that are noted of one conversation: whoever writes its messages can refer to any number that nobody has stored.
const maxAwaited = 100_000

// Awaited implements [transport.FileKeeper]. It fails with an error that wraps ErrTooLarge if there are more than 100,000 objects. It reads the dead letters before and after the inboxes, since events move between the two in both
// directions.
func (b *Bus) Awaited(ctx context.Context, tenant, contextID string) (map[transport.Object]bool, error) {
	return b.awaited(ctx, tenant, contextID, func(*jetstream.RawStreamMsg) error { return nil })
}

// awaited is Awaited, which calls read with each message that it has read, and returns its error.
func (b *Bus) awaited(ctx context.Context, tenant, contextID string, read func(*jetstream.RawStreamMsg) error) (map[transport.Object]bool, error) {
	if b.isClosed() {
		return nil, transport.ErrClosed
	}
	t, c := transport.Escape(tenant), transport.Escape(contextID)
	named := map[transport.Object]bool{}
	for _, where := range []struct{ stream, filter string }{
		{deadStream, deadPrefix + t + ".*." + c},
		{inboxStream, timerPrefix + t + ".*." + c},
		{inboxStream, inboxPrefix + t + ".*." + strconv.Itoa(transport.Partition(tenant, contextID)) + "." + c + ".*"},
		{deadStream, deadPrefix + t + ".*." + c},
	} {
		for seq := uint64(1); ; {
			m, err := b.find(ctx, where.stream, where.filter, seq)
			if errors.Is(err, transport.ErrNotFound) {
				break
			}
			if err != nil {
				return nil, fmt.Errorf("read what waits in %s: %w", contextID, err)
			}
			if err := read(m); err != nil {
				return nil, err
			}
			for _, o := range transport.NamedFiles(tenant, m.Data) {
				named[o] = true
			}
			if len(named) > maxAwaited {
				return nil, fmt.Errorf("%w: what waits in %s refers to more than %d files", transport.ErrTooLarge, contextID, maxAwaited)
			}
			seq = m.Sequence + 1
		}
	}
	return named, nil
}

// RemoveObject implements [transport.FileKeeper]. Behind a gateway, a caller may remove only an object that it stored itself and that no event and no
// entry of the log names.
func (b *Bus) RemoveObject(ctx context.Context, o transport.Object) error {
	if !b.who.Limited() {
		return b.removeFiles(ctx, objectSubject(o)+".*")
	}
	if b.isClosed() {
		return transport.ErrClosed
	}
	var answer struct {
		Error *jetstream.APIError `json:"error"`
	}
	asking, cancel := b.asking(ctx)
	defer cancel()
	m, err := b.nc.RequestWithContext(asking, objectSubject(o)+takeBack, nil)
	if err == nil {
		err = json.Unmarshal(m.Data, &answer)
	}
	if err == nil && answer.Error != nil {
		err = answer.Error
	}
	if err != nil {
		return fmt.Errorf("remove a file: %w", translate(err))
	}
	return nil
}

// removeFiles removes the chunks on subjects that match filter. It does not overwrite them: the remains in the server's files cannot be read
// without the key, which was in the conversation. It purges one subject after the other: in a single purge the server would remove whole blocks
// without recording their messages, and a check of its store after a kill could not tell that from a loss.
func (b *Bus) removeFiles(ctx context.Context, filter string) error {
	if b.isClosed() {
		return transport.ErrClosed
	}
	for subject, err := range b.chunkSubjects(ctx, filter) {
		var answer struct {
			Error *jetstream.APIError `json:"error"`
		}
		if err == nil {
			err = b.insist(ctx, func() error {
				return b.ask(ctx, "STREAM.PURGE."+fileStream, map[string]string{"filter": subject}, &answer)
			})
		}
		if err == nil && answer.Error != nil {
			err = translate(answer.Error)
		}
		if err != nil {
			return fmt.Errorf("remove files: %w", err)
		}
	}
	return nil
}
