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

	// minLevel is the API level of server 2.14: consumer reset, and schedules that are what they are today. Older servers
	// drop what they do not know from a config without an error.
	minLevel = 4

	maxConsumers = 50_000  // a server refuses the 1,001st consumer of a stream that does not say so
	maxCards     = 200_000 // instances of agents
	maxDead      = 100_000
	maxDeadBytes = 256 << 20

	// markerTTL is how long the server remembers that a card has expired or left. A subscriber that was away for longer
	// finds out by comparing.
	markerTTL = time.Minute
)

// streams returns the configuration of every stream, in the order in which they are made.
func streams(replicas int) []jetstream.StreamConfig {
	configs := []jetstream.StreamConfig{
		{
			Name:              inboxStream,
			Description:       "Cortex: events until they are acknowledged, and timers",
			Subjects:          []string{inboxPrefix + ">", timerPrefix + ">"},
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
	}
	for i := range configs {
		c := &configs[i]
		c.Storage = jetstream.FileStorage
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

// ensureStreams makes the streams that are not there and checks those that are. Several processes may do so at once.
func ensureStreams(ctx context.Context, js jetstream.JetStream, replicas int) error {
	account, err := js.AccountInfo(ctx)
	switch {
	case errors.Is(err, jetstream.ErrJetStreamNotEnabled), errors.Is(err, jetstream.ErrJetStreamNotEnabledForAccount):
		return fmt.Errorf("%w: JetStream is not enabled; start the server with -js: %w", transport.ErrIncompatible, err)
	case err != nil:
		return translate(err)
	case account.API.Level < minLevel:
		return fmt.Errorf("%w: API level %d, at least %d is needed: use nats-server 2.14 or later", transport.ErrIncompatible, account.API.Level, minLevel)
	}
	for _, want := range streams(replicas) {
		if err := ensureStream(ctx, js, want, replicas == 0); err != nil {
			return err
		}
	}
	return nil
}

// ensureStream makes or checks one stream. With anyReplicas, one that is there keeps its number of replicas.
func ensureStream(ctx context.Context, js jetstream.JetStream, want jetstream.StreamConfig, anyReplicas bool) error {
	s, err := js.Stream(ctx, want.Name)
	if errors.Is(err, jetstream.ErrStreamNotFound) {
		// Another process may be faster, with the same config: then this is a no-op, or, with other replicas, refused.
		s, err = js.CreateStream(ctx, want)
		if errors.Is(err, jetstream.ErrStreamNameAlreadyInUse) {
			s, err = js.Stream(ctx, want.Name)
		}
	}
	if err != nil {
		return streamError(want.Name, err)
	}
	if anyReplicas {
		want.Replicas = s.CachedInfo().Config.Replicas
	}
	if difference(want, s.CachedInfo().Config) == "" {
		return nil
	}
	if s, err = js.UpdateStream(ctx, want); err != nil {
		return streamError(want.Name, err)
	}
	if d := difference(want, s.CachedInfo().Config); d != "" {
		return fmt.Errorf("%w: stream %s: %s", transport.ErrIncompatible, want.Name, d)
	}
	return nil
}

// streamError says which stream it was. A refusal of its config, rather than of everything for now, means that the server,
// or what somebody else made of the stream, does not fit.
func streamError(name string, err error) error {
	var api *jetstream.APIError
	if errors.As(err, &api) && api.Code != 503 {
		return fmt.Errorf("%w: stream %s: %w", transport.ErrIncompatible, name, err)
	}
	return fmt.Errorf("stream %s: %w", name, translate(err))
}

// difference names the first field in which the config that a server keeps is not the one that was asked for.
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
