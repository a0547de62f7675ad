// Package jetstore stores conversations in NATS JetStream: one stream, [Stream], with one subject per conversation. An append is a publish that the
// server refuses unless the conversation's last message is the expected one, so processes need no locks or other coordination; a version is a
// sequence of the stream. Snapshots, notes and the spend log are KV buckets.
package jetstore

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"github.com/cortex-orchestrator/cortex/cortex/storage"
	"github.com/cortex-orchestrator/cortex/internal/puback"
	"github.com/cortex-orchestrator/cortex/internal/rest"
	"github.com/cortex-orchestrator/cortex/transport"
)

// Names on the server.
const (
	Stream   = "CORTEX_LOG"     // the stream of all conversations
	Bucket   = "CORTEX_SNAP"    // KV bucket of snapshots
	SpendLog = "CORTEX_SPENT"   // KV bucket of the spend log
	Notes    = "CORTEX_NOTES"   // KV bucket of notes
	subject  = "cortex.v1.log." // followed by <tenant>.<contextID>, one token each
)

// minLevel is the JetStream API level (of server 2.14) that Cortex needs. Older servers silently drop unknown fields of a stream's configuration.
const minLevel = 4

// maxAppends is how many appends may wait for the server at a time.
const maxAppends = 256

// directAPI is the API prefix of connections without a gateway.
const directAPI = "$JS.API."

var (
	_ storage.Store     = (*Store)(nil)
	_ storage.Snapshots = (*Store)(nil)
	_ storage.SpendLog  = (*Store)(nil)
	_ storage.Notes     = (*Store)(nil)
)

// Options configures Open. The zero value is right for a single server.
type Options struct {
	// Replicas is the number of servers that store each conversation; 0 is 1 for a new stream and keeps an existing one's number.
	Replicas int
	// API is the prefix of JetStream's API, with its final dot; "" is $JS.API. Behind another prefix, a gateway's, Open makes nothing, and
	// conversations can only be read.
	API string
	// Reads is a second connection to the same server for reads of conversations; nil is the connection of Open. A server finishes such a read before
	// it handles anything else on its connection, which takes long in a large log: with a connection of their own, reads delay neither appends nor
	// other uses of the first connection.
	Reads  *nats.Conn
	Logger *slog.Logger // nil discards
}

// Store is a [storage.Store], a [storage.Snapshots], a [storage.SpendLog] and a [storage.Notes] on JetStream. Make one with [Open]. The caller owns
// the connections and closes them after its last use of the Store; there is nothing else to close.
type Store struct {
	nc       *nats.Conn
	reads    *nats.Conn // for direct gets
	reading  gate       // bounds the requests on reads
	js       jetstream.JetStream
	stream   jetstream.Stream
	snaps    jetstream.KeyValue
	spent    jetstream.KeyValue
	written  writtenSum // in spent
	grown    grownSum   // likewise
	notes    jetstream.KeyValue
	seals    bool    // this Store has access to the keys of notes
	ring     keyring // known keys of notes
	log      *slog.Logger
	broken   broken // the known damaged conversations
	begun    begun  // where the log ended
	listings *listings

	// Tests replace these, to answer in place of the server and without waiting.
	api     string // prefix of the server's API
	timeout time.Duration
	publish func(context.Context, *nats.Msg, time.Duration) (seq uint64, err error) // that of a puback.Publisher, for entries
	// replicated says that another server than the stream's leader may answer a direct get, perhaps with an older state.
	replicated bool
}

// Open returns the Store on the server of nc. It makes the missing stream and buckets. The error wraps [transport.ErrIncompatible] when the server
// is too old, or the stream has a configuration that could lose entries. nil options are the defaults.
func Open(ctx context.Context, nc *nats.Conn, o *Options) (*Store, error) {
	var opts Options
	if o != nil {
		opts = *o
	}
	opts.Logger = cmp.Or(opts.Logger, slog.New(slog.DiscardHandler))
	opts.API = cmp.Or(opts.API, directAPI)
	js, err := jetstream.NewWithAPIPrefix(nc, opts.API)
	if err != nil {
		return nil, fmt.Errorf("open conversations: %w", err)
	}
	s := &Store{nc: nc, reads: cmp.Or(opts.Reads, nc), reading: gate{free: maxReads}, listings: newListings(), js: js, log: opts.Logger, api: opts.API, timeout: replyTimeout, publish: puback.New(nc, maxAppends).Publish}
	if err := s.ask(ctx, s.checkServer); err != nil {
		return nil, fmt.Errorf("open conversations: %w", err)
	}
	if err := s.ask(ctx, func(ctx context.Context) error { return s.openStream(ctx, opts.Replicas) }); err != nil {
		return nil, fmt.Errorf("open stream %s: %w", Stream, err)
	}
	for _, b := range []struct {
		kv  *jetstream.KeyValue
		cfg jetstream.KeyValueConfig
	}{
		{&s.snaps, jetstream.KeyValueConfig{Bucket: Bucket, Description: "Cortex: folds of long conversations"}},
		{&s.spent, jetstream.KeyValueConfig{Bucket: SpendLog, Description: "Cortex: what each day cost", TTL: spentFor}},
		{&s.notes, jetstream.KeyValueConfig{Bucket: Notes, Description: "Cortex: what is known of agents and learned about them", LimitMarkerTTL: markersFor}},
	} {
		err := s.ask(ctx, func(ctx context.Context) (err error) {
			*b.kv, err = s.openBucket(ctx, b.cfg)
			return err
		})
		if err != nil {
			return nil, fmt.Errorf("open bucket %s: %w", b.cfg.Bucket, err)
		}
	}
	if opts.API != directAPI {
		return s, nil
	}
	if err := s.ask(ctx, s.openKeys); err != nil {
		return nil, fmt.Errorf("open stream %s: %w", Keys, err)
	}
	if err := s.ask(ctx, s.begin); err != nil {
		return nil, fmt.Errorf("open stream %s: %w", Stream, err)
	}
	return s, nil
}

// openTimeout is how long Open retries while a cluster has no leader.
const openTimeout = 10 * time.Second

// ask performs one step of Open, and repeats it while the server does not answer: a cluster that has lost a server answers only after it has
// elected another leader. Behind a gateway, no answer means that no Cortex runs, and ask returns the error at once.
func (s *Store) ask(ctx context.Context, step func(context.Context) error) error {
	for end := time.Now().Add(openTimeout); ; {
		attempt, done := context.WithTimeout(ctx, askAgain)
		err := step(attempt)
		done()
		err = away(ctx, err)
		if s.api != directAPI && errors.Is(err, jetstream.ErrJetStreamNotEnabled) { // no Cortex serves the gateway
			err = fmt.Errorf("%w: %w", transport.ErrUnavailable, err)
		}
		if !errors.Is(err, transport.ErrUnavailable) || s.api != directAPI || s.nc.IsClosed() || time.Now().After(end) {
			return err
		}
		if rest.For(ctx, retryPause) != nil {
			return err
		}
	}
}

// checkServer refuses a server that is too old.
func (s *Store) checkServer(ctx context.Context) error {
	info, err := s.js.AccountInfo(ctx)
	if err != nil {
		return fmt.Errorf("JetStream on %s: %w", s.nc.ConnectedUrlRedacted(), err)
	}
	if info.API.Level < minLevel {
		return fmt.Errorf("%w: nats-server %s has JetStream API level %d, at least %d is needed: upgrade every server to 2.14 or later",
			transport.ErrIncompatible, s.nc.ConnectedServerVersion(), info.API.Level, minLevel)
	}
	return nil
}

// checkLeader refuses a stream whose leader reports a version that is too old. The leader may be neither the connected server nor the leader of the
// cluster.
func checkLeader(c jetstream.StreamConfig) error {
	level, err := strconv.Atoi(c.Metadata["_nats.level"])
	if err != nil || level >= minLevel {
		return nil
	}
	return fmt.Errorf("%w: the server that leads it is nats-server %.20s: upgrade every server to 2.14 or later", transport.ErrIncompatible, c.Metadata["_nats.ver"])
}

// away wraps an error that means that the server did not answer with ErrUnavailable.
func away(ctx context.Context, err error) error {
	if errors.Is(err, nats.ErrReconnectBufExceeded) { // the client's error for a lost connection
		err = fmt.Errorf("the connection to the NATS server is lost: %w", nats.ErrDisconnected)
	}
	if ctx.Err() == nil && (errors.Is(err, context.DeadlineExceeded) || errors.Is(err, nats.ErrTimeout) || errors.Is(err, nats.ErrConnectionClosed) ||
		errors.Is(err, nats.ErrDisconnected) || errors.Is(err, nats.ErrConnectionReconnecting) || errors.Is(err, errSilent) || passes(err)) {
		return fmt.Errorf("%w: %w", transport.ErrUnavailable, err)
	}
	return err
}

// openStream opens the stream of conversations.
func (s *Store) openStream(ctx context.Context, replicas int) (err error) {
	if s.stream, err = s.ensure(ctx, Stream, "Cortex: the log of every conversation", subject, replicas); err != nil {
		return err
	}
	s.replicated = s.stream.CachedInfo().Config.Replicas > 1
	return nil
}

// ensure makes a missing stream of all below subject, sets its number of replicas, and refuses one whose configuration could lose messages. With 0 replicas
// an existing stream keeps its number. The stream has no limits, since a limit would discard the oldest messages; with a limit that an operator sets, the
// server refuses new ones instead. Erase needs deletion; a stream of conversations of an older version, which denies it, is accepted as well.
func (s *Store) ensure(ctx context.Context, name, description, subject string, replicas int) (jetstream.Stream, error) {
	want := jetstream.StreamConfig{
		Name: name, Description: description, Subjects: []string{subject + ">"},
		Retention: jetstream.LimitsPolicy, Storage: jetstream.FileStorage, Replicas: max(1, replicas), Discard: jetstream.DiscardNew,
		AllowDirect: true,
	}
	stream, err := s.js.Stream(ctx, name)
	if errors.Is(err, jetstream.ErrStreamNotFound) {
		stream, err = s.js.CreateStream(ctx, want)
		err = replicasError(replicas, err)
	}
	if err != nil {
		return nil, err
	}
	got := stream.CachedInfo().Config
	if err := checkLeader(got); err != nil {
		return nil, err
	}
	if replicas > 0 && got.Replicas != replicas {
		got.Replicas = replicas
		if stream, err = s.js.UpdateStream(ctx, got); err != nil {
			return nil, replicasError(replicas, err)
		}
		got = stream.CachedInfo().Config
	}
	want.Replicas = got.Replicas
	if wrong := differences(want, got); len(wrong) > 0 {
		return nil, fmt.Errorf("%w: its configuration would not keep what is in it: %s; change it with `nats stream edit %s`, or let Cortex use another server",
			transport.ErrIncompatible, strings.Join(wrong, ", "), name)
	}
	return stream, nil
}

// replicasError explains an error that is about the number of replicas.
func replicasError(replicas int, err error) error {
	if api, ok := errors.AsType[*jetstream.APIError](err); ok {
		switch api.ErrorCode {
		case 10074:
			return fmt.Errorf("%w: --replicas %d: the server is in no cluster, where only 1 is possible: %w", transport.ErrIncompatible, replicas, err)
		case 10005:
			return fmt.Errorf("%w: --replicas %d: as many servers with JetStream are needed, and they are not there now: %w", transport.ErrUnavailable, replicas, err)
		}
	}
	return err
}

// differences lists the fields that the guarantees need and that differ; the rest of a stream's configuration is the operator's.
func differences(want, got jetstream.StreamConfig) []string {
	var wrong []string
	check := func(field string, ok bool, got, want any) {
		if !ok {
			wrong = append(wrong, fmt.Sprintf("%s is %v, want %v", field, got, want))
		}
	}
	check("subjects", slices.Equal(got.Subjects, want.Subjects), got.Subjects, want.Subjects)
	check("retention", got.Retention == want.Retention, got.Retention, want.Retention)
	check("storage", got.Storage == want.Storage, got.Storage, want.Storage)
	check("replicas", got.Replicas == want.Replicas, got.Replicas, want.Replicas)
	check("discard", got.Discard == want.Discard, got.Discard, want.Discard)
	check("allow_direct", got.AllowDirect == want.AllowDirect, got.AllowDirect, want.AllowDirect)
	check("max_age", got.MaxAge == 0, got.MaxAge, 0)
	check("max_msgs_per_subject", got.MaxMsgsPerSubject <= 0, got.MaxMsgsPerSubject, "unlimited")
	check("no_ack", !got.NoAck, got.NoAck, false)
	check("sealed", !got.Sealed, got.Sealed, false)
	check("allow_msg_ttl", !got.AllowMsgTTL, got.AllowMsgTTL, false)
	check("subject_transform", got.SubjectTransform == nil, "set", "none")
	return wrong
}

// subjectOf returns the subject of a conversation.
func subjectOf(tenant, contextID string) string {
	return subject + transport.Escape(tenant) + "." + transport.Escape(contextID)
}
