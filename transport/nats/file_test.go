package nats

import (
	"bytes"
	"errors"
	"fmt"
	"math/rand/v2"
	"testing"

	"github.com/cortex-orchestrator/cortex/transport"
	"github.com/cortex-orchestrator/cortex/transport/nats/storecheck"
	"github.com/cortex-orchestrator/cortex/transport/nats/storecheck/storechecktest"
)

// TestDamagedFiles damages a stored file in many ways. A reader gets the whole file, or at once an error that it is gone or damaged; in that case
// the server has reported a loss.
func TestDamagedFiles(t *testing.T) {
	want := bytes.Repeat([]byte("0123456789"), 150_000)
	n := &node{opts: ServerOptions{Dir: t.TempDir()}}
	n.start(t)
	ref, err := transport.PutFile(t.Context(), n.dial(t, nil), "", "c", "user", bytes.NewReader(want), 1<<30)
	if err != nil {
		t.Fatal(err)
	}
	n.stop()
	for seed := range uint64(24) {
		t.Run(fmt.Sprint(seed), func(t *testing.T) {
			t.Parallel()
			is := &node{opts: ServerOptions{Dir: storechecktest.Copy(t, n.opts.Dir)}}
			t.Log(storechecktest.Damage(t, rand.New(rand.NewPCG(seed, 7)), is.opts.Dir, fileStream))
			is.start(t)
			defer is.stop()
			got, err := transport.ReadPart(t.Context(), is.dial(t, nil), "", ref.Part("", ""), 1<<30)
			if err == nil {
				if !bytes.Equal(got, want) {
					t.Error("the file is another one, and nothing is said")
				}
				return
			}
			if !errors.Is(err, transport.ErrFileGone) && !errors.Is(err, transport.ErrFileDamaged) {
				t.Errorf("the file cannot be read: %v, want ErrFileGone or ErrFileDamaged", err)
			}
			for _, f := range is.srv.Found() {
				if f.Stream == fileStream && f.Level == storecheck.Lost {
					return
				}
			}
			t.Errorf("%v, and nothing was found: %+v", err, is.srv.Found())
		})
	}
}
