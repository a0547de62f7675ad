package nats

import (
	"bytes"
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
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

// TestDamagedSubject flips each bit of the length of a chunk's subject, which no checksum of the server covers: the chunk would be one of another file,
// or none. The check finds it.
func TestDamagedSubject(t *testing.T) {
	n := &node{opts: ServerOptions{Dir: t.TempDir()}}
	n.start(t)
	if _, err := transport.PutFile(t.Context(), n.dial(t, nil), "", "c", "user", bytes.NewReader(make([]byte, 1000)), 1<<30); err != nil {
		t.Fatal(err)
	}
	n.stop()
	for bit := range 16 {
		is := &node{opts: ServerOptions{Dir: storechecktest.Copy(t, n.opts.Dir)}}
		block := filepath.Join(is.opts.Dir, "jetstream", "$G", "streams", fileStream, "msgs", "1.blk")
		b, err := os.ReadFile(block)
		if err != nil {
			t.Fatal(err)
		}
		b[20+bit/8] ^= 1 << (bit % 8)
		if err := os.WriteFile(block, b, 0o600); err != nil {
			t.Fatal(err)
		}
		found, err := CheckStore(t.Context(), is.opts.Dir, "", nil)
		if err != nil || len(found.Findings) == 0 || found.Findings[0].Level != storecheck.Lost {
			t.Errorf("with bit %d flipped, the check finds %+v, %v, want a loss", bit, found, err)
		}
	}
}
