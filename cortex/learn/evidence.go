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

// Bounds of what is learned of an agent, besides those of [router.Newest].
const (
	maxEvidenceText = 300                  // bytes
	maxEvidenceAge  = 180 * 24 * time.Hour // by then it has no weight left
)

const (
	learnTries  = 5  // that others may be faster at changing a note
	forgetTries = 20 // the same, where it matters
)

// lesson is what is to be changed in what is known of an agent.
type lesson struct {
	learned []router.Evidence
	wrong   []string // ids of evidence that is none, since the user corrected it
	erased  []string // conversations that are no more, as evidenceOf names them
}

// size is how many things a lesson says.
func (l *lesson) size() int { return len(l.learned) + len(l.wrong) + len(l.erased) }

// add adds what came later. What is wrong stays so, whatever comes first.
func (l *lesson) add(later *lesson) {
	if len(later.wrong)+len(later.erased) > 0 { // most lessons only add
		l.learned = slices.DeleteFunc(l.learned, later.excludes)
		l.wrong = append(l.wrong, later.wrong...)
	}
	for _, e := range later.learned {
		if !l.excludes(e) {
			l.learned = append(l.learned, e)
		}
	}
	l.learned = l.learned[max(0, len(l.learned)-router.MaxEvidence):]
}

// excludes reports whether the lesson says that e is no evidence.
func (l *lesson) excludes(e router.Evidence) bool {
	return slices.Contains(l.wrong, e.ID) || e.Conversation != "" && slices.Contains(l.erased, e.Conversation)
}

// merge returns evidence with what a lesson adds and takes away, the newest last.
func (l *lesson) merge(all []router.Evidence, now time.Time) []router.Evidence {
	oldest := now.Add(-maxEvidenceAge)
	out := slices.DeleteFunc(slices.Clone(all), func(e router.Evidence) bool { return e.Time.Before(oldest) || l.excludes(e) })
	for _, e := range l.learned {
		if !slices.ContainsFunc(out, func(o router.Evidence) bool { return o.ID == e.ID }) { // else it came again
			out = append(out, e)
		}
	}
	return kept(out, router.MaxEvidence)
}

// kept returns what a note has of evidence, at most so many items: those that the router would use, the newest last.
func kept(all []router.Evidence, most int) []router.Evidence {
	all = router.Newest(all, most)
	slices.SortStableFunc(all, func(a, b router.Evidence) int { return cmp.Or(a.Time.Compare(b.Time), cmp.Compare(a.ID, b.ID)) })
	return all
}

// evidenceOf names a conversation in its evidence: a hash, which is short whatever the ids are.
func evidenceOf(tenant, contextID string) string {
	sum := sha256.Sum256([]byte(tenant + "\x00" + contextID)) // no id has a zero
	return base64.RawURLEncoding.EncodeToString(sum[:12])
}

// readEvidence returns what a note holds.
func readEvidence(n *storage.Note) ([]router.Evidence, error) {
	var all []router.Evidence
	if len(n.Value) == 0 {
		return nil, nil
	}
	if err := json.Unmarshal(n.Value, &all); err != nil {
		return nil, err
	}
	for i := range all {
		all[i].Time = all[i].Time.UTC().Round(0) // comparable
	}
	return kept(all, router.MaxEvidence), nil
}

// writeEvidence puts evidence into a note, without the oldest of the skills that have most if it does not fit.
func writeEvidence(n *storage.Note, all []router.Evidence) (_ []router.Evidence, err error) {
	for n.Value, err = json.Marshal(all); err == nil && len(n.Value) > storage.MaxNote; n.Value, err = json.Marshal(all) {
		all = kept(all, len(all)*3/4)
	}
	return all, err
}

// Forget takes what a conversation taught out of the evidence about agents, since that is in the words of whoever spoke
// in it, and returns the agents whose notes it has changed, sorted. An orchestrator that runs reads them again, and drops what it was
// about to write, when it is told by a [transport.Forget] of the conversation. A note that nobody can read is left as it is. After an
// error some notes may be changed; to do it again is harmless.
//
// What evidence is no more, since it was corrected or there is newer, may still be in the files of the store. So the notes of the agents
// that worked for the conversation are erased in any case, with what they hold.
func Forget(ctx context.Context, notes storage.Notes, tenant, contextID string, worked ...string) (changed []string, err error) {
	gone := evidenceOf(tenant, contextID)
	var agents []string
	for n, err := range notes.Notes(ctx, tenant, storage.NoteEvidence) {
		if err != nil {
			return nil, fmt.Errorf("what was learned about agents: %w", err)
		}
		if bytes.Contains(n.Value, []byte(gone)) { // there are many notes, few with it
			agents = append(agents, n.Key)
		}
	}
	slices.Sort(agents)
	for _, agent := range slices.Compact(slices.Sorted(slices.Values(slices.Concat(agents, worked)))) {
		if err := forgetOf(ctx, notes, tenant, agent, gone); err != nil {
			return changed, fmt.Errorf("what was learned of %s: %w", agent, err)
		}
		if slices.Contains(agents, agent) {
			changed = append(changed, agent)
		}
	}
	return changed, nil
}

// forgetOf takes the evidence of a conversation out of an agent's note, and erases what the note was.
func forgetOf(ctx context.Context, notes storage.Notes, tenant, agent, conversation string) error {
	l := &lesson{erased: []string{conversation}}
	for range forgetTries {
		n, err := notes.Note(ctx, tenant, storage.NoteEvidence, agent)
		if err != nil || n.Version == 0 {
			return err
		}
		if all, err := readEvidence(&n); err == nil && slices.ContainsFunc(all, l.excludes) {
			if n.Value, err = json.Marshal(slices.DeleteFunc(all, l.excludes)); err != nil {
				return err
			}
		}
		if _, err = notes.EraseNote(ctx, tenant, storage.NoteEvidence, n); !errors.Is(err, storage.ErrConflict) {
			return err
		}
	}
	return storage.ErrConflict
}
