package nats

import (
	"context"
	"path/filepath"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/cortex-orchestrator/cortex/cortex/jetstore"
	"github.com/cortex-orchestrator/cortex/internal/home"
	"github.com/cortex-orchestrator/cortex/transport/nats/auth"
)

// TestDamagedOfBefore has damaged conversations of the time before a server had keys: they are told, and none of the same name is taken for damaged.
func TestDamagedOfBefore(t *testing.T) {
	before, since := jetstore.Damaged{Account: "$G", ContextID: "c1", Why: "a gap"}, jetstore.Damaged{Account: "AB", ContextID: "c2", Why: "a gap"}
	for _, keyed := range []bool{true, false} {
		dir := t.TempDir()
		o := &home.ServerOptions{Dir: filepath.Join(dir, "nats")}
		serves, others := before, since
		if keyed {
			o.Auth, serves, others = filepath.Join(dir, "auth"), since, before
			if err := auth.Init(o.Auth); err != nil {
				t.Fatal(err)
			}
		}
		s, err := Home{}.Start(t.Context(), o)
		if err != nil {
			t.Fatal(err)
		}
		defer s.Shutdown()
		s.(*server).audit = audit{"$G": {Damaged: []jetstore.Damaged{before}}, "AB": {Damaged: []jetstore.Damaged{since}}}
		conn, err := s.Dial(t.Context(), &home.Options{Runs: true})
		if err != nil {
			t.Fatal(err)
		}
		defer conn.Bus.Close()
		store, err := conn.Store(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		if d := cmp.Diff([]jetstore.Damaged{serves}, store.(*jetstore.Store).Damaged()); d != "" {
			t.Errorf("keys %v: what the store takes for damaged differs (-want +got):\n%s", keyed, d)
		}
		ctx, cancel := context.WithTimeout(t.Context(), time.Second/2)
		s.Watch(ctx, store)
		cancel()
		known, err := folder(o.Dir).Known()
		if err != nil {
			t.Fatal(err)
		}
		if d := cmp.Diff([]jetstore.Damaged{others, serves}, known.Conversations.Damaged); d != "" {
			t.Errorf("keys %v: what is told as damaged differs (-want +got):\n%s", keyed, d)
		}
	}
}
