package main

import (
	"log/slog"
	"testing"

	"github.com/cortex-orchestrator/cortex/app"
	"github.com/cortex-orchestrator/cortex/cortex/storage"
	"github.com/cortex-orchestrator/cortex/cortex/storetest"
	"github.com/cortex-orchestrator/cortex/transport"
	"github.com/cortex-orchestrator/cortex/transport/memory"
	"github.com/cortex-orchestrator/cortex/transport/transporttest"
)

// TestDiary holds that the store keeps what Cortex relies on.
func TestDiary(t *testing.T) {
	folders := map[storage.Store]string{}
	open := func(t *testing.T, folder string) storage.Store {
		s, err := openDiary(t.Context(), &app.Target{URL: "diary", Data: folder, Logger: slog.New(slog.DiscardHandler)})
		if err != nil {
			t.Fatal(err)
		}
		folders[s] = folder
		t.Cleanup(func() { s.(*diary).Close() })
		return s
	}
	storetest.Run(t, storetest.Harness{
		Open: func(t *testing.T) storage.Store { return open(t, t.TempDir()) },
		Reopen: func(t *testing.T, s storage.Store) storage.Store {
			if err := s.(*diary).Close(); err != nil {
				t.Fatal(err)
			}
			return open(t, folders[s])
		},
	})
}

// TestLoft holds the same of the transport.
func TestLoft(t *testing.T) {
	transporttest.Run(t, transporttest.Harness{New: func(t *testing.T) transporttest.Node {
		tr, err := openLoft(t.Context(), &app.Target{URL: "loft", Logger: slog.New(slog.DiscardHandler)})
		if err != nil {
			t.Fatal(err)
		}
		n := &loft{first: tr.(*memory.Bus)}
		t.Cleanup(func() { n.first.Close() })
		return n
	}})
}

// loft is what several clients share.
type loft struct{ first *memory.Bus }

func (l *loft) Dial(t *testing.T) transport.Transport {
	b := l.first.Dial()
	t.Cleanup(func() { b.Close() })
	return b
}
