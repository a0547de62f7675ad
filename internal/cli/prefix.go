package cli

import (
	"context"
	"fmt"
	"iter"
	"slices"
	"strings"

	"github.com/cortex-orchestrator/cortex/prompt"
	"github.com/cortex-orchestrator/cortex/transport"
)

// maxAlike bounds how many ids with the same beginning are named.
const maxAlike = 8

// whole resolves given to the id that it is, or else to the only id that begins with it. It returns given unchanged when no id matches, so that the
// lookup reports the error, and an error that lists the ids when several match. what is a noun for the ids.
func whole(what, given string, ids iter.Seq2[string, error]) (string, error) {
	var alike []string
	for id, err := range ids {
		switch {
		case err != nil:
			return "", err
		case id == given:
			return given, nil
		case given != "" && strings.HasPrefix(id, given) && !slices.Contains(alike, id):
			alike = append(alike, id)
		}
	}
	switch len(alike) {
	case 0:
		return given, nil
	case 1:
		return alike[0], nil
	}
	shown := make([]string, 0, maxAlike+1)
	for _, id := range alike[:min(len(alike), maxAlike)] {
		shown = append(shown, prompt.Clean(id, transport.MaxID))
	}
	if more := len(alike) - len(shown); more > 0 {
		shown = append(shown, fmt.Sprintf("and %d more", more))
	}
	return "", usagef("%s is the beginning of %d %ss, write more of it: %s", prompt.Clean(given, 64), len(alike), what, strings.Join(shown, ", "))
}

// conversation returns the id of the conversation whose id is or begins with given; see [whole].
func (l *link) conversation(ctx context.Context, given string) (string, error) {
	if transport.CheckID(given) != nil {
		return given, nil // the lookup reports it
	}
	for _, err := range l.store.Load(ctx, l.tenant, given, 0) {
		if err == nil {
			return given, nil // it exists: no need to look at all others
		}
		break
	}
	return whole("conversation", given, func(yield func(string, error) bool) {
		for info, err := range l.store.Contexts(ctx, l.tenant) {
			if !yield(info.ContextID, err) {
				return
			}
		}
	})
}

// agent returns the id of the agent whose id is or begins with given; see [whole].
func (b *backend) agent(ctx context.Context, given string) (string, error) {
	known, err := b.known(ctx)
	if err != nil {
		return "", err
	}
	return whole("agent", given, func(yield func(string, error) bool) {
		for _, r := range known.Agents() {
			if !yield(r.ID, nil) {
				return
			}
		}
	})
}
