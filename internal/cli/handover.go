package cli

import (
	"context"
	"fmt"
	"maps"
	"path/filepath"
	"slices"
	"strings"

	"github.com/spf13/pflag"

	"github.com/cortex-orchestrator/cortex/cortex"
)

// handover is how a node is set, as it leaves it in the data folder: for those who join, who want to know, and for the chat that takes
// over, which goes on as it was. It is everything but keys and passwords, of which each process has its own.
type handover struct {
	Flags  map[string]string    `json:"flags,omitempty"` // by name; those that are as they are by default are left out
	LLMs   map[string]*endpoint `json:"llms,omitempty"`
	Budget cortex.Budget        `json:"budget"`
	// Templates is the sum of those of --prompts as the node has read them, once, when it started.
	Templates string `json:"templates,omitempty"`
}

// serverFlags are those of the flags of every command that say how the server of a node is. The others are about the process alone, or are
// the same for all who use the data folder.
var serverFlags = []string{"creds", "tls-ca", "tls-cert", "tls-key", "tenant"}

// pathFlags name files and folders, which others may read from elsewhere.
var pathFlags = []string{"creds", "tls-ca", "tls-cert", "tls-key", "prompts", "well-known", "policy", "auth"}

// handover returns how s is set.
func (s *settings) handover() (*handover, error) {
	h := &handover{Flags: map[string]string{}, LLMs: s.llms, Budget: s.budget}
	var bad error
	s.nodeFlags(func(f *pflag.Flag) {
		v := f.Value.String()
		if v == f.DefValue {
			return
		}
		if list, ok := f.Value.(pflag.SliceValue); ok {
			v = strings.Join(list.GetSlice(), ",")
		}
		if slices.Contains(pathFlags, f.Name) && v != "" {
			path, err := filepath.Abs(v)
			if err != nil {
				bad = fmt.Errorf("--%s: %w", f.Name, err)
			}
			v = path
		}
		h.Flags[f.Name] = v
	})
	return h, bad
}

// unused says which settings that this command was given are not those of the Cortex that was joined, or "". It refuses keys where that one
// has none: who gives them counts on them. own is how this command was set before it joined. Of a server elsewhere nothing is known, and what is set for all commands may be meant for others.
func (s *settings) unused(ctx context.Context, own *handover) (string, error) {
	var theirs *handover
	if s.nats == "" {
		a, ok, err := findAddress(ctx, s.data)
		if err != nil || !ok || a.Node == nil { // it has just ended, or does not say
			return "", nil
		}
		theirs = a.Node
		if s.node.auth != "" && theirs.of("auth") == "" {
			return "", fmt.Errorf("the cortex (process %d) that runs on %s has no keys: stop it, or leave --auth out", a.PID, s.data)
		}
	}
	var names []string
	s.node.flags.VisitAll(func(f *pflag.Flag) {
		given := s.given[f.Name] != 0 && own.of(f.Name) != theirs.of(f.Name)
		if s.nats != "" {
			given = s.given[f.Name] == fromFlag || f.Name == "policy" && s.node.policy != ""
		}
		if given && !slices.Contains(joinFlags, f.Name) {
			names = append(names, "--"+f.Name)
		}
	})
	switch len(names) {
	case 0:
		return "", nil
	case 1:
		return ", which is set otherwise: " + names[0] + " is not used", nil
	}
	last := len(names) - 1
	return ", which is set otherwise: " + strings.Join(names[:last], ", ") + " and " + names[last] + " are not used", nil
}

// joinFlags are about a model, see whoDecides, or also about what this process lists.
var joinFlags = []string{"llm", "model", "well-known"}

// nodeFlags calls f with each flag that says how a node is.
func (s *settings) nodeFlags(f func(*pflag.Flag)) {
	s.flags.VisitAll(func(flag *pflag.Flag) {
		if slices.Contains(serverFlags, flag.Name) {
			f(flag)
		}
	})
	s.node.flags.VisitAll(f)
}

// successor returns the settings of a node that takes over from the one that left h on the data folder of s. None of them are s's own.
func (s *settings) successor(h *handover) (*settings, error) {
	next := &settings{llms: maps.Clone(h.LLMs), budget: h.Budget, node: newNodeSettings(ownAgents...)}
	next.common(pflag.NewFlagSet("common", pflag.ContinueOnError))
	flags := map[string]*pflag.Flag{}
	next.nodeFlags(func(f *pflag.Flag) { flags[f.Name] = f })
	for name, v := range h.Flags {
		f, ok := flags[name]
		if !ok {
			return nil, fmt.Errorf("it was set by --%s, which this version of cortex does not know", name)
		}
		if err := f.Value.Set(v); err != nil {
			return nil, fmt.Errorf("it was set by --%s: %w", name, err)
		}
	}
	for name, ep := range next.llms {
		ep.Name, ep.local = name, providers()[ep.Provider].preset.local
	}
	next.data, next.logFormat, next.logLevel = s.data, s.logFormat, s.logLevel
	next.node.passing, next.node.tell, next.node.fail = true, s.node.tell, s.node.fail
	return next, nil
}

// of returns how a flag of the node is set; "" is as by default.
func (h *handover) of(flag string) string {
	if h == nil {
		return ""
	}
	return h.Flags[flag]
}
