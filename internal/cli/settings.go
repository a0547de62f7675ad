package cli

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"os/user"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"
	"sigs.k8s.io/yaml"

	"github.com/cortex-orchestrator/cortex/transport"
)

// settings are the values of the flags. A flag that is not given is taken from the environment (CORTEX_ and its name),
// else from the file that --config names, where its key is its name with underscores.
type settings struct {
	config    string
	data      string
	nats      string
	tenant    string
	logFormat string
	logLevel  string

	node *nodeSettings
}

// nodeSettings are for the commands that run the orchestrator.
type nodeSettings struct {
	llm         string
	prompts     string
	wellKnown   string
	agents      []string
	listen      string
	sync        string
	taskTimeout time.Duration
	passing     bool // not a setting: the node ends with its user
}

// common adds the flags of every command.
func (s *settings) common(f *pflag.FlagSet) {
	f.StringVar(&s.config, "config", "", "settings in a YAML `FILE`: a key is a flag's name, with _ for -")
	f.StringVar(&s.data, "data", "", "`DIR` for everything that is kept (default $XDG_STATE_HOME/cortex)")
	f.StringVar(&s.nats, "nats", "", "`URL` of the NATS server to join, rather than the one in the data folder")
	f.StringVar(&s.tenant, "tenant", "", "`NAME` of the tenant")
	f.StringVar(&s.logFormat, "log-format", "text", "log as text or json")
	f.StringVar(&s.logLevel, "log-level", "", "log from debug, info, warn or error on")
}

// addNode adds the flags of the commands that run the orchestrator; agents are those that run in the same process by
// default. Each command has its own values, since the defaults differ.
func (s *settings) addNode(c *cobra.Command, agents ...string) {
	n, f := new(nodeSettings), c.Flags()
	c.PreRunE = func(*cobra.Command, []string) error {
		s.node = n
		return n.check()
	}
	f.StringVar(&n.llm, "llm", "fake", "what decides: fake needs no network and no key")
	f.StringVar(&n.prompts, "prompts", "", "`DIR` with templates that replace the built-in ones")
	f.StringVar(&n.wellKnown, "well-known", "", "JSON `FILE` of agents that are listed also while they do not run")
	f.StringSliceVar(&n.agents, "agents", agents, "built-in agents to run in this process: echo, clock, calc; none for none")
	f.StringVar(&n.listen, "listen", "127.0.0.1:0", "`ADDRESS` on which agents join; port 0 takes a free one")
	f.StringVar(&n.sync, "sync", "1s", "how often writes are flushed to disk; always for each one")
	f.DurationVar(&n.taskTimeout, "task-timeout", 5*time.Minute, "how long an agent may take for a task")
}

// check checks what can be checked before anything is started or joined.
func (n *nodeSettings) check() error {
	if n.taskTimeout <= 0 {
		return usagef("--task-timeout %v: it must be more than nothing, such as 5m", n.taskTimeout)
	}
	if n.wellKnown != "" {
		path, err := filepath.Abs(n.wellKnown) // others read it too, from where they are
		if err != nil {
			return usagef("--well-known: %w", err)
		}
		n.wellKnown = path
	}
	return nil
}

// complete fills in what was not given as a flag, and checks what can be checked.
func (s *settings) complete(cmd *cobra.Command) error {
	file, err := readConfig(s.config, cmd)
	if err != nil {
		return err
	}
	var bad error
	cmd.Flags().VisitAll(func(f *pflag.Flag) {
		if f.Changed || bad != nil || f.Name == "help" || f.Name == "config" {
			return
		}
		name := envName(f.Name)
		if v, ok := os.LookupEnv(name); ok && v != "" {
			if err := f.Value.Set(v); err != nil {
				bad = usagef("%s: %w", name, err)
			}
		} else if v, ok := file[key(f.Name)]; ok {
			if err := f.Value.Set(v); err != nil {
				bad = usagef("%s: %s: %w", s.config, key(f.Name), err)
			}
		}
	})
	if bad != nil {
		return bad
	}
	if !slices.Contains([]string{"text", "json"}, s.logFormat) {
		return usagef("--log-format %q: it is text or json", s.logFormat)
	}
	if _, err := parseLevel(s.logLevel, 0); err != nil {
		return err
	}
	if s.data == "" {
		s.data = defaultData()
	}
	if s.data, err = filepath.Abs(s.data); err != nil {
		return fmt.Errorf("data folder: %w", err)
	}
	if err := transport.CheckID(s.tenant); s.tenant != "" && err != nil {
		return usagef("--tenant: %w", err)
	}
	return nil
}

func key(flag string) string { return strings.ReplaceAll(flag, "-", "_") }

// envName is CORTEX_ and the flag's name; --nats is CORTEX_NATS_URL, as other tools of NATS name it.
func envName(flag string) string {
	if flag == "nats" {
		return "CORTEX_NATS_URL"
	}
	return "CORTEX_" + strings.ToUpper(key(flag))
}

// readConfig reads the settings of a file as text. Keys that no command knows are errors.
func readConfig(path string, cmd *cobra.Command) (map[string]string, error) {
	if path == "" {
		if path = os.Getenv("CORTEX_CONFIG"); path == "" {
			return nil, nil
		}
	}
	b, err := os.ReadFile(path)
	if err != nil {
		return nil, usagef("--config: %w", err)
	}
	raw := map[string]any{}
	if err := yaml.Unmarshal(b, &raw); err != nil {
		return nil, usagef("%s: %w", path, err)
	}
	known := map[string]bool{}
	var collect func(c *cobra.Command)
	collect = func(c *cobra.Command) {
		c.Flags().VisitAll(func(f *pflag.Flag) { known[key(f.Name)] = true })
		c.PersistentFlags().VisitAll(func(f *pflag.Flag) { known[key(f.Name)] = true })
		for _, sub := range c.Commands() {
			collect(sub)
		}
	}
	collect(cmd.Root())
	delete(known, "config")
	delete(known, "help")
	values := map[string]string{}
	for k, v := range raw {
		if !known[k] {
			return nil, usagef("%s: unknown key %q: a key is a flag's name with _ for -", path, k)
		}
		switch v := v.(type) {
		case []any:
			parts := make([]string, len(v))
			for i := range v {
				parts[i] = fmt.Sprint(v[i])
			}
			values[k] = strings.Join(parts, ",")
		case map[string]any, nil:
			return nil, usagef("%s: %s: want a plain value", path, k)
		default:
			values[k] = fmt.Sprint(v)
		}
	}
	return values, nil
}

// defaultData is where state is kept on this machine, also without any environment variable.
func defaultData() string {
	if dir := os.Getenv("XDG_STATE_HOME"); filepath.IsAbs(dir) {
		return filepath.Join(dir, "cortex")
	}
	home, err := os.UserHomeDir()
	if err != nil {
		if u, uerr := user.Current(); uerr == nil && u.HomeDir != "" {
			home = u.HomeDir
		} else {
			return filepath.Join(os.TempDir(), "cortex-state")
		}
	}
	return filepath.Join(home, ".local", "state", "cortex")
}

// makeDir makes a folder that only its owner can read.
func makeDir(dir string) error {
	err := os.MkdirAll(dir, 0o700)
	if errors.Is(err, fs.ErrPermission) {
		return fmt.Errorf("the data folder %s cannot be written: choose another with --data", dir)
	}
	if err != nil {
		return fmt.Errorf("data folder: %w: choose another with --data", err)
	}
	return nil
}
