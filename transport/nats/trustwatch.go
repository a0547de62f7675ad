package nats

import (
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"sync"
	"time"

	"github.com/cortex-orchestrator/cortex/transport/nats/auth"
)

// trustEvery is how often a server looks whether credentials were revoked.
const trustEvery = time.Second

// trustWatch tells a server of accounts that have changed in the folder of keys: it ends the connections of those whose credentials were revoked. New
// accounts are found by the server itself.
type trustWatch struct {
	ns    *inspected
	dir   string
	log   *slog.Logger
	known map[string]string // JWTs, by account

	memory      *memory          // has revoked as well: a file that was lost while no server ran forgets nothing
	revoked     auth.Revocations // all that this server and those before it have seen
	revokedFile string
	unsaved     bool        // revoked has changed since it was written
	saved       fs.FileInfo // what the file was then; nil: it was not written

	mu   sync.Mutex
	told string // the last error
}

// newTrustWatch returns the watch of a server. What its file lacks, or no longer says since it is damaged, is taken from the memory of the store. If that has
// nothing of a store that was used before, which is forgotten, the folder of keys alone is believed.
func newTrustWatch(ns *inspected, o *ServerOptions, m *memory, forgotten bool, log *slog.Logger) *trustWatch {
	w := &trustWatch{ns: ns, dir: o.Auth, log: log, known: map[string]string{}, memory: m, revokedFile: filepath.Join(o.Dir, "revoked.json")}
	w.saved, _ = os.Stat(w.revokedFile) // nil with an error
	revoked, err := auth.ReadRevocations(w.revokedFile)
	before := m.revoked()
	known, _ := auth.ParseRevocations(before) // it is as it was written, or unknown
	w.unsaved = known.Add(revoked) > 0 || err != nil
	lacked := revoked.Add(known)
	w.revoked = revoked
	attrs := []any{"file", w.revokedFile, "credentials", lacked}
	if err != nil {
		attrs = append(attrs, "err", err)
	}
	switch {
	case err != nil && before == nil || err == nil && w.saved == nil && forgotten:
		log.Warn("what was revoked is known from the folder of keys alone: if that is an older copy, this is not noticed", attrs...)
	case err != nil || lacked > 0:
		w.unsaved = true
		log.Warn("the file of what was revoked is gone, damaged, or older than it was: it is as it was again, by what is remembered beside the store", attrs...)
	}
	return w
}

// Untrusted returns an error while the folder of keys cannot be read, or is an older copy that cannot be mended: credentials that are revoked may then keep
// their connections, or their tokens, until it can be read again or the server is started again.
func (s *Server) Untrusted() error {
	if s.trust == nil {
		return nil
	}
	s.trust.mu.Lock()
	defer s.trust.mu.Unlock()
	if s.trust.told == "" {
		return nil
	}
	return fmt.Errorf("%w: %s", errUntrusted, s.trust.told)
}

var errUntrusted = errors.New("the folder of keys is not in order, and what is revoked may not be noticed")

// look reads the folder once. An account that lacks revocations that were seen before is an older copy, as from a backup: it gets them again, in the server
// and in the folder, or else credentials that somebody has stolen would be good again without a word.
func (w *trustWatch) look() {
	trust, err := auth.Load(w.dir)
	if err == nil {
		for id, token := range trust.Accounts {
			if before, ok := w.known[id]; ok && before == token {
				continue
			} else if err = w.take(id, token, ok); err != nil {
				break
			}
			w.known[id] = token
		}
		err = cmp.Or(err, w.gone(trust))
	}
	err = cmp.Or(err, w.keep())
	text := ""
	if err != nil {
		text = err.Error()
	}
	w.mu.Lock()
	before := w.told
	w.told = text
	w.mu.Unlock()
	if text != "" && text != before {
		w.log.Warn("the folder of keys is not in order: what is revoked may not be noticed", "err", text)
	}
}

// gone returns an error if the folder lacks an account that it had: nobody of that tenant can connect any more, nor be revoked.
func (w *trustWatch) gone(trust *auth.Trust) error {
	for _, id := range slices.Sorted(maps.Keys(w.known)) {
		if _, ok := trust.Accounts[id]; !ok {
			return fmt.Errorf("it has no account %s any more, which it had: put the account.jwt of its tenant back", id)
		}
	}
	return nil
}

// keep writes the file of what was revoked, if that has changed, or the file is not as it was written.
func (w *trustWatch) keep() error {
	if !w.unsaved && w.saved != nil && w.lost() {
		w.unsaved = true
		w.log.Warn("the file of what was revoked is not as it was written, and is written again", "file", w.revokedFile)
	}
	if !w.unsaved {
		return nil
	}
	b, err := json.Marshal(w.revoked)
	var saved fs.FileInfo
	if err == nil {
		saved, err = w.revoked.Write(w.revokedFile)
	}
	if err != nil {
		return fmt.Errorf("what is revoked cannot be kept: %w", err)
	}
	w.memory.noteRevoked(b)
	w.saved, w.unsaved = saved, false
	return nil
}

// lost reports whether the file is gone, or another one than was written.
func (w *trustWatch) lost() bool {
	now, err := os.Stat(w.revokedFile)
	return err != nil || now.Size() != w.saved.Size() || !now.ModTime().Equal(w.saved.ModTime()) || !now.Mode().IsRegular()
}

// take tells the server of an account that is new, or has changed since it was seen.
func (w *trustWatch) take(id, token string, seen bool) error {
	claims, err := auth.Account(token)
	if err != nil {
		return err
	}
	lacked, changed := w.revoked.Meet(claims)
	w.unsaved = w.unsaved || changed
	if !seen && lacked == 0 && !auth.Bound(claims) {
		return nil // the server has read it itself
	}
	if err := w.ns.updateAccount(id, token, w.revoked); err != nil || lacked == 0 {
		return err
	}
	if err := w.revoked.PutBack(w.dir); err != nil {
		return fmt.Errorf("it is older than it was, and lacks %d revocations, which cannot be put back: connections are refused all the same, tokens are not: %w", lacked, err)
	}
	w.log.Warn("the folder of keys is older than it was: credentials that were revoked since stay revoked, and are in it again", "account", id, "credentials", lacked)
	return nil
}
