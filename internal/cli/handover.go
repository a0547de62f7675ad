package cli

import (
	"context"
	"fmt"
	"maps"
	"path/filepath"
	"slices"
	"strings"

	"github.com/spf13/pflag"

	"github.com/cortex-orchestrator/cortex/cortex/budget"
	"github.com/cortex-orchestrator/cortex/internal/datadir"
	"github.com/cortex-orchestrator/cortex/internal/llms"
)

// serverFlags are the flags of every command that describe a node's server and store. The other such flags are about the process alone, or are the
// same for all processes on the data folder.
var serverFlags = []string{"creds", "tls-ca", "tls-cert", "tls-key", "tenant", "store"}

// pathFlags name files and folders, which other processes may read from other folders.
var pathFlags = []string{"creds", "tls-ca", "tls-cert", "tls-key", "prompts", "well-known", "policy", "auth"}

// portPaths are those of the ports of a service, which are no settings of its node.
var portPaths = []string{"http-cert", "http-key"}

// handover returns the settings s as a handover.
func (s *settings) handover() (*datadir.Handover, error) {
	h := &datadir.Handover{Flags: map[string]string{}, LLMs: s.llms, Budget: s.budget}
	var bad error
	s.nodeFlags(func(f *pflag.Flag) {
		v := f.Value.String()
		if v == f.DefValue {
			return
		}
		v = written(f)
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

// written formats the value of a flag as on a command line.
func written(f *pflag.Flag) string {
	if list, ok := f.Value.(pflag.SliceValue); ok {
		return strings.Join(list.GetSlice(), ",")
	}
	return f.Value.String()
}

// unused names the settings of this command that have no effect because it joined a running Cortex with other settings; "" when there are none. It
// returns an error for --auth when that Cortex runs without keys, since the user relies on them. own has the settings of this command from before it
// joined. The settings of a Cortex on an external NATS server are unknown, so only flags of this command are named, and the policy: the environment
// and the config file are for all commands.
func (s *settings) unused(ctx context.Context, own *datadir.Handover) (string, error) {
	var theirs *datadir.Handover
	until := ""
	if s.inFolder() {
		a, ok, err := datadir.Find(ctx, s.data)
		if err != nil || !ok || a.Node == nil { // it has just ended, or is an older version that does not say
			return "", nil
		}
		theirs = a.Node
		if s.node.auth != "" && theirs.Of("auth") == "" {
			return "", s.errNoKeys(a)
		}
		if a.Passing {
			until = untilTakeover
		}
	}
	var names, said []string
	s.node.flags.VisitAll(func(f *pflag.Flag) {
		given := s.given[f.Name] != 0 && own.Of(f.Name) != theirs.Of(f.Name)
		if !s.inFolder() {
			given = s.given[f.Name] == fromFlag || f.Name == "policy" && s.node.policy != ""
		}
		switch {
		case given && f.Name == "auth": // it does not take effect later either
			said = append(said, "--auth is not used: the cortex that runs has other keys")
		case given && !slices.Contains(joinFlags, f.Name):
			names = append(names, "--"+f.Name)
		}
	})
	if theirs != nil && s.budget != (budget.Limits{}) && s.budget != theirs.Budget {
		names = append(names, "budget")
	}
	if len(names) > 0 {
		are := map[bool]string{true: " is", false: " are"}[len(names) == 1]
		said = append(said, listed(names)+are+" not used"+until+": the cortex that runs is set otherwise")
	}
	return strings.Join(said, "; "), nil
}

// errNoKeys is the error for --auth when the Cortex at a runs without keys.
func (s *settings) errNoKeys(a datadir.Address) error {
	return fmt.Errorf("the cortex (process %d) that runs on %s has no keys: stop it, or leave --auth out", a.PID, s.data)
}

// listed joins names as in a sentence.
func listed(names []string) string {
	if len(names) < 2 {
		return strings.Join(names, "")
	}
	last := len(names) - 1
	return strings.Join(names[:last], ", ") + " and " + names[last]
}

// joinFlags are left out of the warning: whoDecides handles the model, and well-known also affects this process.
var joinFlags = []string{"llm", "model", "well-known"}

// nodeFlags calls f with each flag that describes a node.
func (s *settings) nodeFlags(f func(*pflag.Flag)) {
	s.flags.VisitAll(func(flag *pflag.Flag) {
		if slices.Contains(serverFlags, flag.Name) {
			f(flag)
		}
	})
	s.node.flags.VisitAll(f)
}

// successor returns the settings of a node that takes over from the one that left h on the data folder of s, and the names of the settings that it
// takes from s: those given to s override those of h. Keys cannot be overridden: those who know the old node by its keys could not go on.
func (s *settings) successor(h *datadir.Handover) (_ *settings, own []string, _ error) {
	next := &settings{program: s.program, llms: maps.Clone(h.LLMs), budget: h.Budget, node: newNodeSettings(s.program, ownAgents...)}
	values, own, err := s.override(h)
	if err != nil {
		return nil, nil, err
	}
	if s.given["llm"] != 0 && s.llms != nil { // the endpoints that it may name go with it
		if next.llms == nil {
			next.llms = map[string]*llms.Endpoint{}
		}
		maps.Copy(next.llms, s.llms)
	}
	if s.budget != (budget.Limits{}) && s.budget != h.Budget {
		next.budget, own = s.budget, append(own, "budget")
	}
	next.common(pflag.NewFlagSet("common", pflag.ContinueOnError))
	flags := map[string]*pflag.Flag{}
	next.nodeFlags(func(f *pflag.Flag) { flags[f.Name] = f })
	for name, v := range values {
		f, ok := flags[name]
		if !ok {
			return nil, nil, fmt.Errorf("it was set by --%s, which this version of cortex does not know", name)
		}
		if err := f.Value.Set(v); err != nil {
			return nil, nil, fmt.Errorf("it was set by --%s: %w", name, err)
		}
	}
	all := llms.Providers(s.program.Providers)
	for name, ep := range next.llms {
		by := all[ep.Provider]
		if by == nil {
			return nil, nil, fmt.Errorf("it asks %q, a provider that this program does not have", ep.Provider)
		}
		ep.Bind(name, by)
	}
	next.data, next.logFormat, next.logLevel = s.data, s.logFormat, s.logLevel
	next.node.keyless = h.Of("auth") == "" // without keys only if the previous node ran without
	next.node.passing, next.node.tell, next.node.fail = true, s.node.tell, s.node.fail
	return next, own, nil
}

// override returns the flags of h, replaced by those given to s, and the names of the replaced ones.
func (s *settings) override(h *datadir.Handover) (values map[string]string, names []string, _ error) {
	values = map[string]string{} // h has none where all is as by default
	maps.Copy(values, h.Flags)
	if len(s.given) == 0 {
		return values, nil, nil
	}
	own, err := s.handover()
	if err != nil {
		return nil, nil, err
	}
	put := func(name string) bool {
		v, ok := own.Flags[name]
		if values[name] == v {
			return false
		}
		delete(values, name) // the default is not listed
		if ok {
			values[name] = v
		}
		return true
	}
	for _, name := range slices.Sorted(maps.Keys(s.given)) {
		if s.node.flags.Lookup(name) != nil && name != "auth" && put(name) {
			names = append(names, "--"+name)
		}
	}
	if s.given["llm"] != 0 {
		put("model") // the previous model belongs to the other llm
	}
	return values, names, nil
}
