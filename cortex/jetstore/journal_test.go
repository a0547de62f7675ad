package jetstore_test

import (
	"context"
	"fmt"
	"slices"
	"testing"

	"github.com/nats-io/nats.go/jetstream"

	"github.com/cortex-orchestrator/cortex/cortex/conversation"
	"github.com/cortex-orchestrator/cortex/cortex/jetstore"
	"github.com/cortex-orchestrator/cortex/cortex/storage"
)

// journalOf reads a journal to its end.
func journalOf(ctx context.Context, t *testing.T, j storage.Journal) (all []storage.Record) {
	t.Helper()
	for after := conversation.Version(0); ; {
		some, err := j.Records(ctx, after)
		if err != nil {
			t.Fatal(err)
		}
		if len(some) == 0 {
			return all
		}
		after = some[len(some)-1].Version
		all = append(all, some...)
	}
}

// TestJournal reads the entries of all conversations and tenants in their order, more than go into one batch, and what is erased.
func TestJournal(t *testing.T) {
	n := open(t, t.TempDir())
	ctx := t.Context()
	info, err := n.Journal(ctx)
	if err != nil || info.Last != 0 || info.Created.IsZero() || info.Name != jetstore.Stream {
		t.Errorf("Journal = %+v, %v", info, err)
	}
	type place struct {
		version           conversation.Version
		tenant, contextID string
		seq               uint64
	}
	var want []place
	last := map[[2]string]conversation.Version{}
	for i := range 200 {
		for _, at := range [][2]string{{"", "a"}, {"acme", "a"}, {"", "with.a dot"}} {
			v, err := n.Append(ctx, at[0], at[1], last[at], entry(uint64(i+1)))
			if err != nil {
				t.Fatal(err)
			}
			last[at] = v
			want = append(want, place{v, at[0], at[1], uint64(i + 1)})
		}
	}
	var got []place
	for _, r := range journalOf(ctx, t, n) {
		if r.Entry == nil || r.Stored.IsZero() || r.Damage != "" {
			t.Fatalf("record %d = %+v", r.Version, r)
		}
		got = append(got, place{r.Version, r.Tenant, r.ContextID, r.Entry.Seq})
		one, ok, err := n.Record(ctx, r.Version)
		if err != nil || !ok || one.Sum != r.Sum || !one.Stored.Equal(r.Stored) || one.ContextID != r.ContextID {
			t.Fatalf("Record(%d) = %+v, %t, %v, want %+v", r.Version, one, ok, err, r)
		}
	}
	if !slices.Equal(got, want) {
		t.Errorf("the journal has %d records, want the %d that were appended", len(got), len(want))
	}
	if err := n.Erase(ctx, "", "a"); err != nil {
		t.Fatal(err)
	}
	all := journalOf(ctx, t, n)
	end := all[len(all)-1]
	if len(all) != 401 || end.Entry != nil || len(end.Erased) != 200 || end.Damage != "" {
		t.Errorf("after an erasure there are %d records, and the last names %d", len(all), len(end.Erased))
	}
	if _, ok, err := n.Record(ctx, end.Erased[7]); ok || err != nil {
		t.Errorf("Record of an erased entry = %t, %v", ok, err)
	}
	if info, err := n.Journal(ctx); err != nil || info.Last != end.Version {
		t.Errorf("Journal = %+v, %v, want the last %d", info, err, end.Version)
	}
	if ephemeral := consumers(t, n); ephemeral != 0 {
		t.Errorf("reading has left %d consumers", ephemeral)
	}
}

func consumers(t *testing.T, n node) int {
	t.Helper()
	js, err := jetstream.New(n.nc)
	if err != nil {
		t.Fatal(err)
	}
	stream, err := js.Stream(t.Context(), jetstore.Stream)
	if err != nil {
		t.Fatal(err)
	}
	return stream.CachedInfo().State.Consumers
}

// TestJournalOfDamage reads what Append did not write.
func TestJournalOfDamage(t *testing.T) {
	n := open(t, t.TempDir())
	for i, subject := range []string{"cortex.v1.log._.c", "cortex.v1.log.erased", "cortex.v1.log.x", "cortex.v1.log.a.b.c"} {
		if err := n.nc.Publish(subject, []byte(fmt.Sprint("{", i))); err != nil {
			t.Fatal(err)
		}
	}
	if err := n.nc.Flush(); err != nil {
		t.Fatal(err)
	}
	for {
		info, err := n.Journal(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		if info.Last == 4 {
			break
		}
	}
	all := journalOf(t.Context(), t, n)
	if len(all) != 4 {
		t.Fatalf("there are %d records, want 4", len(all))
	}
	for _, r := range all {
		if r.Entry != nil || r.Damage == "" || len(r.Data) != 2 {
			t.Errorf("record %d = %+v, want damage", r.Version, r)
		}
	}
}
