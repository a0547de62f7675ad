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

// maxAlike bounds how many ids are named that begin alike.
const maxAlike = 8

// whole returns the one of ids that given is, else the only one that begins with it. It returns given as it is when there is none, for whoever
// looks it up to say so, and an error that lists them when there are several. what they are is one word.
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

// conversation returns the id of the conversation that given is, or is the beginning of; see [whole].
func (l *link) conversation(ctx context.Context, given string) (string, error) {
	if transport.CheckID(given) != nil {
		return given, nil // whoever looks it up says so
	}
	for _, err := range l.store.Load(ctx, l.tenant, given, 0) {
		if err == nil {
			return given, nil // without a look at all others
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

// agent returns the id of the agent that given is, or is the beginning of; see [whole].
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
