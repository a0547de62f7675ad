package kit_test

import (
	"flag"
	"io"
	"testing"

	"github.com/cortex-orchestrator/cortex/bridge/kit"
)

// An address names its host, so that nobody listens to a network by chance.
func TestAddressFlag(t *testing.T) {
	for text, want := range map[string]string{"127.0.0.1:50051": "127.0.0.1:50051", "[::1]:0": "[::1]:0", "none": "", "": "", ":50051": "refused", "50051": "refused", "host": "refused"} {
		f := flag.NewFlagSet("serve", flag.ContinueOnError)
		f.SetOutput(io.Discard)
		got := "before"
		kit.AddressFlag(f, "hub", &got, "127.0.0.1:50051", "where")
		if err := f.Parse([]string{"--hub=" + text}); err != nil {
			got = "refused"
		}
		if got != want {
			t.Errorf("--hub=%s gives %q, want %q", text, got, want)
		}
	}
}

func TestIsLoopback(t *testing.T) {
	for address, want := range map[string]bool{"127.0.0.1:1": true, "localhost:1": true, "[::1]:1": true, "0.0.0.0:1": false, ":1": false, "127.0.0.1": false} {
		if got := kit.IsLoopback(address); got != want {
			t.Errorf("IsLoopback(%s) = %t, want %t", address, got, want)
		}
	}
}

// Ids stay what they are, and other words give others.
func TestSpace(t *testing.T) {
	s := kit.NewSpace("8f0b4c0e-5a0d-5f39-9b7c-2f6a1c7d3e15")
	if got, want := s.ID("lease", "weather"), "b5f16f3f-48cd-5d59-97c8-6b0cd3aa5707"; got != want {
		t.Errorf("ID = %s, want %s: what bridges keep by such ids would be lost", got, want)
	}
	if got, want := s.Hex("lease", "weather"), "b5f16f3f48cd5d5997c86b0cd3aa5707"; got != want {
		t.Errorf("Hex = %s, want %s", got, want)
	}
	if s.ID("ab", "c") == s.ID("a", "bc") || s.ID("a") == s.ID("a", "") {
		t.Error("two lists of words have one id")
	}
}
