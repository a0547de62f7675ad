package auth_test

import (
	"bytes"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/cortex-orchestrator/cortex/transport/nats/auth"
)

// TestCheck damages each file of a folder of keys: it is named, also when a server does not read it.
func TestCheck(t *testing.T) {
	dir := t.TempDir()
	if err := auth.Init(dir, "", "acme"); err != nil {
		t.Fatal(err)
	}
	if _, err := auth.AddUser(dir, "acme", "ada"); err != nil {
		t.Fatal(err)
	}
	if err := auth.Check(dir); err != nil {
		t.Fatal(err)
	}
	var secrets []string
	err := filepath.WalkDir(dir, func(path string, d fs.DirEntry, err error) error {
		if err == nil && !d.IsDir() && filepath.Ext(path) != ".conf" && d.Name() != ".lock" {
			secrets = append(secrets, path)
		}
		return err
	})
	if err != nil || len(secrets) != 14 {
		t.Fatalf("files are %v, %v", secrets, err)
	}
	for _, path := range secrets {
		b, err := os.ReadFile(path)
		if err != nil {
			t.Fatal(err)
		}
		flipped := bytes.Clone(b)
		flipped[len(b)/2] ^= 1
		for _, damaged := range [][]byte{nil, b[:len(b)/2], flipped} {
			if err := os.WriteFile(path, damaged, 0o600); err != nil {
				t.Fatal(err)
			}
			if err := auth.Check(dir); err == nil || !strings.Contains(err.Error(), path) {
				t.Errorf("with %d bytes of %d in %s: %v", len(damaged), len(b), path, err)
			}
		}
		if err := os.WriteFile(path, b, 0o600); err != nil {
			t.Fatal(err)
		}
	}
	if err := os.Remove(filepath.Join(dir, "operator.nk")); err != nil {
		t.Fatal(err)
	}
	if err := auth.Check(dir); err != nil {
		t.Errorf("with a key that is kept elsewhere: %v", err)
	}
	other := filepath.Join(dir, "tenants", "_", "account.nk")
	b, err := os.ReadFile(filepath.Join(dir, "tenants", "acme", "account.nk"))
	if err == nil {
		err = os.WriteFile(other, b, 0o600)
	}
	if err != nil {
		t.Fatal(err)
	}
	if err := auth.Check(dir); err == nil || !strings.Contains(err.Error(), other) {
		t.Errorf("with the key of another account: %v", err)
	}
}
