package learn

import (
	"bytes"
	"cmp"
	"context"
	"crypto/sha256"
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/cortex-orchestrator/cortex/cortex/router"
	"github.com/cortex-orchestrator/cortex/cortex/storage"
)

// Bounds of the evidence about an agent, besides those of [router.Newest].
const (
	maxEvidenceText = 300                  // bytes
	maxEvidenceAge  = 180 * 24 * time.Hour // by then it has no weight
)

const (
	learnTries  = 5  // attempts to change a note that others change, too
	forgetTries = 20 // the same for erasing
)

// lesson is a change to the evidence about an agent.
type lesson struct {
	learned []router.Evidence
	wrong   []string // ids of evidence to remove after a user's correction
	erased  []string // erased conversations, as hashes of evidenceOf

	outcomes []outcome // of tasks, for the agent's records
	since    time.Time // of a pending one
}

// size returns the number of changes in a lesson.
func (l *lesson) size() int { return len(l.learned) + len(l.wrong) + len(l.erased) + len(l.outcomes) }

// waits reports whether what the lesson does to so much evidence is only to add a little.
func (l *lesson) waits(to int) bool {
	return len(l.wrong)+len(l.erased) == 0 && len(l.learned) > 0 && len(l.learned)*learnShare < to
}

// add adds a later lesson. Evidence that is removed stays removed, whatever the order of the lessons.
func (l *lesson) add(later *lesson) {
	if len(later.wrong)+len(later.erased) > 0 { // most lessons only add evidence
		l.learned = slices.DeleteFunc(l.learned, later.excludes)
		l.wrong = append(l.wrong, later.wrong...)
	}
	for _, e := range later.learned {
		if !l.excludes(e) {
			l.learned = append(l.learned, e)
		}
	}
	l.learned = l.learned[max(0, len(l.learned)-router.MaxEvidence):]
	l.outcomes = append(l.outcomes, later.outcomes...)
}

// excludes reports whether the lesson removes e.
func (l *lesson) excludes(e router.Evidence) bool {
	return slices.Contains(l.wrong, e.ID) || e.Conversation != "" && slices.Contains(l.erased, e.Conversation)
}

// merge returns evidence with the changes of a lesson, the newest last.
func (l *lesson) merge(all []router.Evidence, now time.Time) []router.Evidence {
	oldest := now.Add(-maxEvidenceAge)
	out := slices.DeleteFunc(slices.Clone(all), func(e router.Evidence) bool { return e.Time.Before(oldest) || l.excludes(e) })
	for _, e := range l.learned {
		if !slices.ContainsFunc(out, func(o router.Evidence) bool { return o.ID == e.ID }) { // otherwise it was learned before
			out = append(out, e)
		}
	}
	return kept(out, router.MaxEvidence)
}

// kept returns the evidence to keep in a note, at most this many items: those that the router would use, the newest last.
func kept(all []router.Evidence, most int) []router.Evidence {
	all = router.Newest(all, most)
	slices.SortStableFunc(all, func(a, b router.Evidence) int { return cmp.Or(a.Time.Compare(b.Time), cmp.Compare(a.ID, b.ID)) })
	return all
}

// evidenceOf returns the name of a conversation in evidence: a hash, which is short for any id.
func evidenceOf(tenant, contextID string) string {
	sum := sha256.Sum256([]byte(tenant + "\x00" + contextID)) // ids contain no zero bytes
	return base64.RawURLEncoding.EncodeToString(sum[:12])
}

// readEvidence returns the evidence in a note.
func readEvidence(n *storage.Note) ([]router.Evidence, error) {
	var all []router.Evidence
	if len(n.Value) == 0 {
		return nil, nil
	}
	if err := json.Unmarshal(n.Value, &all); err != nil {
		return nil, err
	}
	for i := range all {
		all[i].Time = all[i].Time.UTC().Round(0) // comparable with ==
	}
	return kept(all, router.MaxEvidence), nil
}

// writeEvidence stores evidence in a note. If it does not fit, it drops the oldest of the skills with the most evidence.
func writeEvidence(n *storage.Note, all []router.Evidence) (_ []router.Evidence, err error) {
	for n.Value, err = json.Marshal(all); err == nil && len(n.Value) > storage.MaxNote; n.Value, err = json.Marshal(all) {
		all = kept(all, len(all)*3/4)
	}
	return all, err
}

// Forget removes the evidence of a conversation from the notes about agents, since it contains the words of the conversation. It returns the ids of
// the agents whose notes have changed, sorted. A running orchestrator reads them again, and drops unwritten evidence, when it gets a
// [transport.Forget] of the conversation. Forget leaves unreadable notes as they are. After an error some notes may have changed; Forget may be
// repeated. It reads the notes of all agents, unlike [ForgetOf].
//
// Older versions of notes, with evidence that was removed or superseded, may still be in the store's files. So Forget also erases and rewrites the
// notes of the agents in worked, which had tasks of the conversation.
func Forget(ctx context.Context, notes storage.Notes, tenant, contextID string, worked ...string) (changed []string, err error) {
	gone := evidenceOf(tenant, contextID)
	for n, err := range notes.Notes(ctx, tenant, storage.NoteEvidence) {
		if err != nil {
			return nil, fmt.Errorf("what was learned about agents: %w", err)
		}
		if bytes.Contains(n.Value, []byte(gone)) { // few of many notes contain it
			worked = append(worked, n.Key)
		}
	}
	return ForgetOf(ctx, notes, tenant, contextID, worked...)
}

// ForgetOf is [Forget] for a conversation in which no other agents than those in worked had tasks: nothing was learned from it about others.
func ForgetOf(ctx context.Context, notes storage.Notes, tenant, contextID string, worked ...string) (changed []string, err error) {
	gone := evidenceOf(tenant, contextID)
	for _, agent := range slices.Compact(slices.Sorted(slices.Values(worked))) {
		had, err := forgetOf(ctx, notes, tenant, agent, gone)
		if err != nil {
			return changed, fmt.Errorf("what was learned of %s: %w", agent, err)
		}
		if had {
			changed = append(changed, agent)
		}
	}
	return changed, nil
}

// forgetOf removes the evidence of a conversation from an agent's note, and erases the old version of the note. It reports whether there was some.
func forgetOf(ctx context.Context, notes storage.Notes, tenant, agent, conversation string) (had bool, err error) {
	l := &lesson{erased: []string{conversation}}
	for range forgetTries {
		n, err := notes.Note(ctx, tenant, storage.NoteEvidence, agent)
		if err != nil || n.Version == 0 {
			return had, err
		}
		if all, err := readEvidence(&n); err == nil && slices.ContainsFunc(all, l.excludes) {
			had = true
			if n.Value, err = json.Marshal(slices.DeleteFunc(all, l.excludes)); err != nil {
				return had, err
			}
		}
		if _, err = notes.EraseNote(ctx, tenant, storage.NoteEvidence, n); !errors.Is(err, storage.ErrConflict) {
			return had, err
		}
	}
	return had, storage.ErrConflict
}
