package nats

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/nats-io/nats.go/jetstream"

	"github.com/cortex-orchestrator/cortex/transport"
)

const (
	inboxStream  = "CORTEX_INBOX"
	deadStream   = "CORTEX_DEAD"
	agentsBucket = "CORTEX_AGENTS"
	agentsStream = "KV_" + agentsBucket

	maxConsumers = 50_000  // a server's default is 1,000
	maxCards     = 200_000 // instances of agents
	maxDead      = 100_000
	maxDeadBytes = 256 << 20

	// markerTTL is how long the server keeps the marker of a card that has expired or left. A subscriber that was disconnected for longer finds out by
	// comparing all cards.
	markerTTL = time.Minute
)

// streams returns the configuration of every stream, in the order of their creation.
func streams(replicas int) []jetstream.StreamConfig {
	configs := []jetstream.StreamConfig{
		{
			Name:              inboxStream,
			Description:       "Cortex: events until they are acknowledged, and timers",
			Subjects:          append(partitionFilters(), timerPrefix+">"),
			Metadata:          partitioned,
			Retention:         jetstream.WorkQueuePolicy,
			MaxConsumers:      maxConsumers,
			Discard:           jetstream.DiscardOld, // without limits nothing is discarded; schedules exclude DiscardNew
			Duplicates:        transport.DuplicateWindow,
			AllowDirect:       true,
			AllowRollup:       true,
			AllowMsgTTL:       true,
			AllowMsgSchedules: true,
		},
		{
			Name:                   agentsStream,
			Description:            "Cortex: cards of agents",
			Subjects:               []string{cardPrefix + ">"},
			MaxConsumers:           maxConsumers,
			MaxMsgs:                maxCards,
			MaxMsgsPerSubject:      1,
			Discard:                jetstream.DiscardNew,
			Duplicates:             transport.DuplicateWindow,
			DenyDelete:             true,
			AllowDirect:            true,
			AllowRollup:            true,
			AllowMsgTTL:            true,
			SubjectDeleteMarkerTTL: markerTTL,
		},
		{
			Name:        deadStream,
			Description: "Cortex: events that were given up",
			Subjects:    []string{deadPrefix + ">"},
			MaxMsgs:     maxDead,
			MaxBytes:    maxDeadBytes,
			Discard:     jetstream.DiscardOld,
			Duplicates:  transport.DuplicateWindow,
			AllowDirect: true,
		},
		{
			Name:              leaseStream,
			Description:       "Cortex: who handles which part of an inbox",
			Subjects:          []string{leasePrefix + ">"},
			Storage:           leaseStorage(replicas),
			FirstSeq:          uint64(time.Now().UnixMilli()), // revisions of two buckets must differ: otherwise a lease of the new one could be overwritten
			MaxMsgsPerSubject: 1,
			Discard:           jetstream.DiscardOld,
			Duplicates:        transport.DuplicateWindow,
			AllowDirect:       true,
			AllowRollup:       true,
			AllowMsgTTL:       true,
		},
		fileConfig(),
	}
	for i := range configs {
		c := &configs[i]
		c.Replicas = max(replicas, 1)
		c.MaxAge = 0
		for _, limit := range []*int64{&c.MaxMsgs, &c.MaxBytes, &c.MaxMsgsPerSubject} {
			if *limit == 0 {
				*limit = -1
			}
		}
		if c.MaxConsumers == 0 {
			c.MaxConsumers = -1
		}
	}
	return configs
}

// leaseStorage returns the storage of the leases. They are stale after seconds: they must not keep the disk of a single server busy, and it does
// not need them after a restart. A cluster needs files: a member that forgets its votes may not vote until all others are present, so with two of
// three servers back no partition would have an owner.
func leaseStorage(replicas int) jetstream.StorageType {
	if replicas > 1 {
		return jetstream.FileStorage
	}
	return jetstream.MemoryStorage
}

const (
	// electionTimeout is how long ensureStreams waits for a cluster that has no leader.
	electionTimeout = 20 * time.Second
	// lookTimeout bounds a request that nobody answers while there is no leader. Callers repeat it.
	lookTimeout = time.Second
)

// ensureStreams makes the missing streams and checks the others. Several processes may do so at once. It waits until a cluster that has just
// started, or has lost a server, has elected its leaders.
func ensureStreams(ctx context.Context, js jetstream.JetStream, replicas int) error {
	end := time.Now().Add(electionTimeout)
	for {
		err := ensureStreamsOnce(ctx, js, replicas)
		if err == nil || !errors.Is(err, transport.ErrUnavailable) || time.Now().After(end) {
			return err
		}
		select {
		case <-time.After(retryPause):
		case <-ctx.Done():
			return err
		}
	}
}

func ensureStreamsOnce(ctx context.Context, js jetstream.JetStream, replicas int) error {
	if err := checkServers(ctx, js); err != nil {
		return err
	}
	for _, want := range streams(replicas) {
		if err := ensureStream(ctx, js, want, replicas == 0); err != nil {
			return err
		}
	}
	return nil
}

// ensureStream makes or checks one stream. With anyReplicas, an existing stream keeps its number of replicas.
func ensureStream(ctx context.Context, js jetstream.JetStream, want jetstream.StreamConfig, anyReplicas bool) error {
	s, err := lookUp(ctx, js, want.Name)
	if errors.Is(err, jetstream.ErrStreamNotFound) {
		// Another process may be faster: with the same configuration the creation is a no-op, with other replicas the server refuses it.
		s, err = js.CreateStream(ctx, want)
		if errors.Is(err, jetstream.ErrStreamNameAlreadyInUse) {
			s, err = lookUp(ctx, js, want.Name)
		}
	}
	if err != nil {
		return placementError(want, err)
	}
	if err := checkLeader(s.CachedInfo().Config); err != nil {
		return err
	}
	got := s.CachedInfo().Config
	if anyReplicas {
		want.Replicas = got.Replicas
	}
	if want.Name == leaseStream {
		if want.Storage = leaseStorage(want.Replicas); want.Storage != got.Storage {
			return remake(ctx, js, want) // a server cannot change the storage; owners acquire their leases again
		}
	}
	want.FirstSeq, want.Metadata = got.FirstSeq, got.Metadata
	if difference(want, got) == "" {
		return nil
	}
	if s, err = js.UpdateStream(ctx, want); err != nil {
		return placementError(want, err)
	}
	if d := difference(want, s.CachedInfo().Config); d != "" {
		return fmt.Errorf("%w: stream %s: %s", transport.ErrIncompatible, want.Name, d)
	}
	return nil
}

// remake deletes a stream with its messages and makes it again.
func remake(ctx context.Context, js jetstream.JetStream, want jetstream.StreamConfig) error {
	ctx, cancel := context.WithTimeout(ctx, lookTimeout)
	defer cancel()
	if err := js.DeleteStream(ctx, want.Name); err != nil && !errors.Is(err, jetstream.ErrStreamNotFound) {
		return placementError(want, err)
	}
	_, err := js.CreateStream(ctx, want)
	if errors.Is(err, jetstream.ErrStreamNameAlreadyInUse) { // another process was faster
		err = nil
	}
	if err != nil {
		return placementError(want, err)
	}
	return nil
}

func lookUp(ctx context.Context, js jetstream.JetStream, name string) (jetstream.Stream, error) {
	ctx, cancel := context.WithTimeout(ctx, lookTimeout)
	defer cancel()
	return js.Stream(ctx, name)
}

// Errors of the server's API that have no name in the client.
const (
	errNotClustered jetstream.ErrorCode = 10074 // replicas asked of a server outside a cluster
	errNoPeers      jetstream.ErrorCode = 10005 // too few servers, perhaps only now
	errNoBytes      jetstream.ErrorCode = 10047 // the server or the account may store no more
)

// placementError is streamError for a request that sets the number of replicas.
func placementError(want jetstream.StreamConfig, err error) error {
	if api, ok := errors.AsType[*jetstream.APIError](err); ok {
		switch api.ErrorCode {
		case errNotClustered:
			return fmt.Errorf("%w: --replicas %d: the server is in no cluster, where only 1 is possible: %w", transport.ErrIncompatible, want.Replicas, err)
		case errNoPeers:
			return fmt.Errorf("%w: --replicas %d: stream %s needs as many servers with JetStream, and they are not there now: %w",
				transport.ErrUnavailable, want.Replicas, want.Name, err)
		}
	}
	return streamError(want.Name, err)
}

// streamError adds the name of the stream to err. A refused configuration wraps ErrIncompatible: the server or an existing stream does not fit. An
// error that may pass wraps ErrUnavailable.
func streamError(name string, err error) error {
	var api *jetstream.APIError
	if errors.As(err, &api) && api.ErrorCode == errNoStore {
		return fmt.Errorf("%w: stream %s: %s (%w)", transport.ErrUnavailable, name, takesNoWrite("the NATS server"), err)
	}
	if errors.As(err, &api) && api.ErrorCode == errNoBytes {
		return fmt.Errorf("%w: stream %s: the server or the account may store no more (%w)", transport.ErrUnavailable, name, err)
	}
	if errors.Is(err, jetstream.ErrStreamNotFound) { // the stream was there, or was just made: a cluster elects its leaders
		return fmt.Errorf("%w: stream %s: %w", transport.ErrUnavailable, name, err)
	}
	if errors.As(err, &api) && api.Code != 503 {
		return fmt.Errorf("%w: stream %s: %w", transport.ErrIncompatible, name, err)
	}
	return fmt.Errorf("stream %s: %w", name, translate(err))
}

// difference describes the first field in which the server's configuration differs from want; "" when none does.
func difference(want, got jetstream.StreamConfig) string {
	for _, f := range []struct {
		name      string
		want, got any
	}{
		{"retention", want.Retention, got.Retention},
		{"max_consumers", want.MaxConsumers, got.MaxConsumers},
		{"max_msgs", want.MaxMsgs, got.MaxMsgs},
		{"max_bytes", want.MaxBytes, got.MaxBytes},
		{"max_age", want.MaxAge, got.MaxAge},
		{"max_msgs_per_subject", want.MaxMsgsPerSubject, got.MaxMsgsPerSubject},
		{"discard", want.Discard, got.Discard},
		{"storage", want.Storage, got.Storage},
		{"num_replicas", want.Replicas, got.Replicas},
		{"duplicate_window", want.Duplicates, got.Duplicates},
		{"deny_delete", want.DenyDelete, got.DenyDelete},
		{"allow_rollup_hdrs", want.AllowRollup, got.AllowRollup},
		{"allow_direct", want.AllowDirect, got.AllowDirect},
		{"allow_msg_ttl", want.AllowMsgTTL, got.AllowMsgTTL},
		{"subject_delete_marker_ttl", want.SubjectDeleteMarkerTTL, got.SubjectDeleteMarkerTTL},
		{"allow_msg_schedules", want.AllowMsgSchedules, got.AllowMsgSchedules},
	} {
		if f.want != f.got {
			return fmt.Sprintf("%s is %v, want %v", f.name, f.got, f.want)
		}
	}
	if !slices.Equal(slices.Sorted(slices.Values(want.Subjects)), slices.Sorted(slices.Values(got.Subjects))) {
		return fmt.Sprintf("subjects are %v, want %v", got.Subjects, want.Subjects)
	}
	return ""
}
