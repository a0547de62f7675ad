package nats

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"syscall"

	"github.com/cortex-orchestrator/cortex/internal/home"
	"github.com/cortex-orchestrator/cortex/transport/nats"
	"github.com/cortex-orchestrator/cortex/transport/nats/storecheck"
)

// folder is the folder of a server's store.
type folder string

// Folder implements [home.Home].
func (Home) Folder(dir string) home.Folder { return folder(dir) }

// Empty implements [home.Folder]: there is no stream.
func (dir folder) Empty() bool {
	if m, err := nats.ReadMemory(string(dir)); m != nil || err != nil && !errors.Is(err, storecheck.ErrForgotten) {
		return false
	}
	root := filepath.Join(string(dir), "jetstream")
	accounts, err := os.ReadDir(root)
	for _, account := range accounts {
		streams, serr := os.ReadDir(filepath.Join(root, account.Name(), "streams"))
		if len(streams) > 0 || serr != nil && !errors.Is(serr, fs.ErrNotExist) {
			return false
		}
	}
	return err == nil || errors.Is(err, fs.ErrNotExist)
}

// Keyed implements [home.Folder]: each account of a server with keys has a folder of its own.
func (dir folder) Keyed() (bool, error) {
	root := filepath.Join(string(dir), "jetstream")
	accounts, err := os.ReadDir(root)
	if errors.Is(err, fs.ErrNotExist) {
		return false, nil
	}
	for _, account := range accounts {
		if account.Name() == "$G" {
			continue
		}
		_, serr := os.Lstat(filepath.Join(root, account.Name(), "streams", "CORTEX_INBOX"))
		if serr == nil {
			return true, nil
		}
		if !errors.Is(serr, fs.ErrNotExist) && !errors.Is(serr, syscall.ENOTDIR) {
			err = errors.Join(err, serr)
		}
	}
	return false, err
}

// Known implements [home.Folder].
func (dir folder) Known() (*home.Report, error) {
	m, err := nats.ReadMemory(string(dir))
	if m == nil || err != nil {
		return nil, err
	}
	r := &home.Report{Streams: m.Names(), Findings: m.Found}
	if len(m.Notes) > 0 {
		var n notes
		if err := json.Unmarshal(m.Notes, &n); err != nil {
			return nil, fmt.Errorf("its notes of conversations: %w", err)
		}
		r.Conversations, r.Loose = n.Audited, n.Loose
	}
	return r, nil
}

// Check implements [home.Folder].
func (dir folder) Check(ctx context.Context) (*home.Report, error) {
	check := newChecks()
	found, err := nats.CheckStore(ctx, string(dir), "", check.inspect)
	if err != nil && !errors.Is(err, storecheck.ErrForgotten) {
		return nil, err
	}
	damaged := map[string]bool{}
	for _, f := range found.Memory.Found {
		if f.Level == storecheck.Lost {
			damaged[f.Account] = true
		}
	}
	audit := check.end()
	for account, a := range audit {
		if a.Lost > 0 || len(a.Damaged) > 0 {
			damaged[account] = true
		}
	}
	return &home.Report{
		Streams: found.Memory.Names(), Findings: found.Memory.Found, Conversations: audit.all(), ByAccount: audit, Accounts: slices.Sorted(maps.Keys(damaged)),
		Loose: check.loose(), Forgotten: found.Forgotten, Outdated: found.Outdated,
	}, nil
}
