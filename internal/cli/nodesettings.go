package cli

import (
	"fmt"
	"net"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/cortex-orchestrator/cortex/agents"
	"github.com/cortex-orchestrator/cortex/cortex"
	"github.com/cortex-orchestrator/cortex/cortex/decide/catalog"
	"github.com/cortex-orchestrator/cortex/internal/retain"
	"github.com/cortex-orchestrator/cortex/llm/middleware"
	"github.com/cortex-orchestrator/cortex/transport"
	"github.com/cortex-orchestrator/cortex/transport/nats/auth"
)

// nodeSettings are the settings of commands that run the orchestrator.
type nodeSettings struct {
	llm         string
	model       string
	prompts     string
	wellKnown   string
	policy      string
	agents      []string
	strict      bool // abilities
	listen      string
	sync        string
	replicas    copies // servers of a cluster that store everything; 0 leaves it as it is
	auth        string // folder of `cortex auth init`: the embedded server admits its identities
	retain      retain.Period
	shortlist   int
	learning    bool
	taskTimeout time.Duration
	maxFile     fileSize
	llmTimeout  time.Duration

	// Not settings.
	observers []cortex.Observer // of each entry
	meter     middleware.Meter  // of the calls of models; nil: none
	tracer    agents.Tracer     // of agents in this process; nil: none

	joined  string // the list of well-known agents of the Cortex that this process has joined; "": none
	flags   *pflag.FlagSet
	keyless bool              // --auth none: nobody needs keys, even where there were keys before; see keepKeys
	passing bool              // the node ends with its user
	tell    func(line string) // shows a line to the user of a chat; nil without one
	fail    func(error)       // called when a node that a chat runs has failed; nil without a chat
}

// copies is the number of servers that store something. Zero leaves it as it is, and cannot be given.
type copies int

// Set implements pflag.Value.
func (c *copies) Set(s string) error {
	n, err := strconv.Atoi(s)
	if err != nil || n < 1 || n > 5 {
		return fmt.Errorf("%q: it is from 1 to 5", s)
	}
	*c = copies(n)
	return nil
}

// String implements pflag.Value.
func (c *copies) String() string { return strconv.Itoa(int(*c)) }

// Type implements pflag.Value.
func (c *copies) Type() string { return "copies" }

// addNode adds the flags of commands that run the orchestrator; agents are the default of --agents. Each command has its own values, since the
// defaults differ.
func (s *settings) addNode(c *cobra.Command, agents ...string) {
	n := newNodeSettings(s.program, agents...)
	c.Flags().AddFlagSet(n.flags)
	c.PreRunE = func(*cobra.Command, []string) error {
		s.node = n
		if n.auth != "" && n.auth != none && s.transport != "" {
			return s.wrong("auth", " is for the NATS server that cortex starts, and %s names another transport: give one of them", s.called("transport"))
		}
		if err := s.checkNode(); err != nil {
			return err
		}
		if n.auth != "" && s.nats != "" {
			return s.wrong("auth", " is for the server that cortex starts: the one that --nats names has keys of its own, and lets in who shows --creds")
		}
		return nil
	}
}

// addOwn adds the settings of a Cortex that a command runs only while it lasts and no other runs. Those named in shown become flags; the others apply
// to a machine rather than a call, and come from the environment and the config file, where the next call finds them, too.
func (s *settings) addOwn(c *cobra.Command, shown []string, agents ...string) {
	s.addNode(c, agents...)
	c.Flags().VisitAll(func(f *pflag.Flag) {
		switch {
		case !hasSettingMark(f):
		case slices.Contains(shown, f.Name):
			delete(f.Annotations, flagGroup)
		default:
			f.Hidden = true
			f.Annotations[elsewhere] = nil
		}
	})
}

// elsewhere is the annotation of a setting that a command reads only from the environment and the config file.
const elsewhere = "cortex_elsewhere"

// checkElsewhere refuses such a setting as a flag. The flag is defined all the same, so that the error can say where it belongs.
func checkElsewhere(cmd *cobra.Command) (bad error) {
	cmd.Flags().Visit(func(f *pflag.Flag) {
		if _, ok := f.Annotations[elsewhere]; ok {
			bad = usagef("--%s is no flag of `%s`: it says how a Cortex runs; give it to `cortex serve` or `cortex chat`, or set %s, or %s in the file of --config",
				f.Name, cmd.CommandPath(), envName(f.Name), key(f.Name))
		}
	})
	return bad
}

// newNodeSettings returns the defaults of a program's flags; see addNode. The program's own agents run, too.
func newNodeSettings(p *Program, agents ...string) *nodeSettings {
	n := &nodeSettings{flags: pflag.NewFlagSet("node", pflag.ContinueOnError)}
	f := n.flags
	f.StringVar(&n.llm, "llm", "fake", "`NAME`: model that decides, one of `cortex llm list`; fake needs no network and no key")
	f.StringVar(&n.model, "model", "", "`MODEL`: model to ask there instead of the default")
	f.StringVar(&n.prompts, "prompts", "", "`DIR`: templates that replace the built-in ones")
	f.StringVar(&n.wellKnown, "well-known", "", "`FILE`: JSON list of agents that are shown even while they do not run")
	f.StringVar(&n.policy, "policy", "", "`FILE`: YAML rules: who may ask which agents, what needs a yes, how much at once; a changed file is read again")
	f.StringSliceVar(&n.agents, "agents", append(agents, p.agentNames()...), "`NAMES`: built-in agents to run in this process: "+strings.Join(p.builtin(), ", ")+"; or none")
	f.BoolVar(&n.strict, "strict-abilities", false, "let only one agent have an ability: another that offers it is refused")
	f.StringVar(&n.listen, "listen", "127.0.0.1:0", "`ADDRESS`: where agents connect; port 0 takes a free port")
	f.StringVar(&n.sync, "sync", "1s", "`TIME`: interval of flushing writes to disk; always flushes each write")
	f.Var(&n.replicas, "replicas", "`SERVERS`: number of servers of a cluster that keep each record, such as 3 (default: unchanged, 1 at first)")
	f.StringVar(&n.auth, "auth", "", "`DIR`: keys made by `cortex auth init`: only their owners may connect to the embedded server; none lets everybody in")
	f.Var(&n.retain, "retain", "`TIME`: delete a conversation this long after its last message, such as 30d (default: never)")
	f.IntVar(&n.shortlist, "shortlist", 20, "`N`: number of agents in a prompt when more than 40 are online")
	f.BoolVar(&n.learning, "learning", true, "learn from what is done which agents fit which requests")
	n.maxFile = transport.DefaultMaxFile
	f.Var(&n.maxFile, "max-file", "`SIZE`: largest file that may be attached or returned")
	f.DurationVar(&n.taskTimeout, "task-timeout", 5*time.Minute, "`TIME`: time limit of a task")
	f.DurationVar(&n.llmTimeout, "llm-timeout", 2*time.Minute, "`TIME`: time limit of a decision, with all retries")
	f.VisitAll(func(flag *pflag.Flag) { setting(f, flag.Name) })
	group(f, groupDecide, "llm", "model", "prompts", "llm-timeout", "shortlist", "learning")
	group(f, groupAgents, "agents", "well-known", "policy", "strict-abilities", "task-timeout")
	group(f, groupKeep, "listen", "auth", "sync", "replicas", "retain", "max-file")
	return n
}

// none is the value of a setting that is deliberately empty.
const none = "none"

// checkNode checks the settings of a node before anything is started, joined or waited for.
func (s *settings) checkNode() error {
	n := s.node
	if n.auth == none {
		n.auth, n.keyless = "", true
	}
	if n.shortlist < 1 || n.shortlist > catalog.MaxAgents {
		return s.wrong("shortlist", " %d: it is from 1 to %d", n.shortlist, catalog.MaxAgents)
	}
	if n.taskTimeout <= 0 {
		return s.wrong("task-timeout", " %v: it must be more than nothing, such as 5m", n.taskTimeout)
	}
	if n.llmTimeout <= 0 {
		return s.wrong("llm-timeout", " %v: it must be more than nothing, such as 2m", n.llmTimeout)
	}
	for flag, path := range map[string]*string{"prompts": &n.prompts, "well-known": &n.wellKnown, "auth": &n.auth, "policy": &n.policy} {
		if err := absolute(path); err != nil {
			return s.wrong(flag, ": %w", err)
		}
	}
	if !isAddress(n.listen) {
		return s.wrong("listen", " %q: want host:port, such as 127.0.0.1:4222", n.listen)
	}
	if d, err := time.ParseDuration(n.sync); n.sync != "always" && (err != nil || d <= 0) {
		return s.wrong("sync", " %q: it is %s, or always", n.sync, wanted["duration"])
	}
	if n.auth != "" {
		if _, err := auth.Load(n.auth); err != nil {
			return s.wrong("auth", ": %w", err)
		}
	}
	return nil
}

// isAddress reports whether addr has the form of a listen address.
func isAddress(addr string) bool {
	_, port, err := net.SplitHostPort(addr)
	if err == nil {
		_, err = strconv.ParseUint(port, 10, 16)
	}
	return err == nil
}
