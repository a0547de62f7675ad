package cli

import (
	"bytes"
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"net"
	"net/url"
	"os"
	"os/user"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/cortex-orchestrator/cortex/agents"
	"github.com/cortex-orchestrator/cortex/cortex"
	"github.com/cortex-orchestrator/cortex/cortex/budget"
	"github.com/cortex-orchestrator/cortex/cortex/decide/catalog"
	"github.com/cortex-orchestrator/cortex/internal/cli/typed"
	"github.com/cortex-orchestrator/cortex/internal/document"
	"github.com/cortex-orchestrator/cortex/internal/home"
	"github.com/cortex-orchestrator/cortex/internal/llms"
	"github.com/cortex-orchestrator/cortex/internal/retain"
	"github.com/cortex-orchestrator/cortex/internal/usage"
	"github.com/cortex-orchestrator/cortex/llm"
	"github.com/cortex-orchestrator/cortex/llm/middleware"
	"github.com/cortex-orchestrator/cortex/repl"
	"github.com/cortex-orchestrator/cortex/transport"
	"github.com/cortex-orchestrator/cortex/transport/nats/auth"
)

// settings holds the values of the flags. A setting that is not given as a flag is taken from the environment (CORTEX_ and its name), or else from
// the config file, where its key is its name with underscores; see setting.
type settings struct {
	program *Program           // which runs the commands
	flags   *pflag.FlagSet     // the flags of every command
	given   map[string]source  // by the flag's name
	aside   string             // the setting whose model is ignored, since it belongs to another llm; "" for none
	doc     *document.Document // the config file, if any

	config    string
	data      string
	nats      string
	transport string // URL of the program's own transport, in place of NATS
	store     string // URL of the program's own store
	tenant    string
	logFormat string
	logLevel  string
	color     word
	theme     word   // of colours
	keys      word   // of the line editor
	agent     string // not a setting: the id of the agent that this process runs
	admin     bool   // joins as the orchestrator, where there are keys
	creds     string // file of credentials for the server
	tls       home.TLS

	// Only in the config file, since flags cannot express them.
	llms   map[string]*llms.Endpoint
	budget budget.Limits
	peers  []*peerEntry // A2A agents of others, which a service runs

	node *nodeSettings
}

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

// common adds the flags of every command.
func (s *settings) common(f *pflag.FlagSet) {
	f.StringVar(&s.config, "config", "", "`FILE`: settings as YAML: keys are the names of flags, with _ for -; llms, budget and a2a_agents have keys of their own (default $XDG_CONFIG_HOME/cortex/config.yaml)")
	f.StringVar(&s.data, "data", "", "`DIR`: data folder (default $XDG_STATE_HOME/cortex)")
	f.StringVar(&s.nats, "nats", "", "`URL`: NATS server to join, instead of the Cortex of the data folder; also $CORTEX_NATS_URL")
	f.StringVar(&s.creds, "creds", "", "`FILE`: credentials for the server, made by `cortex auth`")
	f.StringVar(&s.tls.CA, "tls-ca", "", "`FILE`: certificate authorities to verify the other side's certificate with (PEM)")
	f.StringVar(&s.tls.Cert, "tls-cert", "", "`FILE`: own certificate (PEM)")
	f.StringVar(&s.tls.Key, "tls-key", "", "`FILE`: private key of the own certificate (PEM)")
	f.StringVar(&s.tenant, "tenant", "", "`NAME`: tenant")
	f.StringVar(&s.logFormat, "log-format", "text", "`FORM`: format of the log: text or json")
	f.StringVar(&s.logLevel, "log-level", "", "`LEVEL`: lowest level that is logged: debug, info, warn or error")
	s.color, s.theme = oneOf(repl.ColorAuto, repl.ColorAlways, repl.ColorNever), oneOf(repl.Themes...)
	f.Var(&s.color, "color", "`WHEN`: use colours: auto, always or never; auto uses them on a terminal without $NO_COLOR")
	f.Var(&s.theme, "theme", "`NAME`: colours: auto, dark, light (for a light background) or plain (bold and dim only)")
	s.plugs(f)
	s.flags = f
	setting(f, "data", "nats", "creds", "tls-ca", "tls-cert", "tls-key", "tenant", "log-format", "log-level", "color", "theme")
}

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

// absolute makes a path absolute, since processes that join or take over read it from other folders.
func absolute(path *string) (err error) {
	if *path != "" {
		*path, err = filepath.Abs(*path)
	}
	return err
}

// complete fills in settings that were not given as flags, and checks them.
func (s *settings) complete(cmd *cobra.Command) error {
	if err := checkElsewhere(cmd); err != nil {
		return err
	}
	s.given = map[string]source{}
	file, doc, err := s.readConfig(cmd)
	if err != nil {
		return err
	}
	s.doc = doc
	if err := s.take(cmd.Flags(), file); err != nil {
		return err
	}
	if err := checkGiven(cmd); err != nil {
		return err
	}
	if !slices.Contains([]string{"text", "json"}, s.logFormat) {
		return s.wrong("log-format", " %q: it is text or json", s.logFormat)
	}
	if _, err := parseLevel(s.logLevel, 0); err != nil {
		return s.wrong("log-level", " %w", err)
	}
	if s.nats, err = addresses(s.nats); err != nil {
		return s.wrong("nats", ": %w", err)
	}
	if err := s.checkPlugs(); err != nil {
		return err
	}
	if s.data == "" {
		s.data = defaultData()
	}
	if err := absolute(&s.data); err != nil {
		return fmt.Errorf("data folder: %w", err)
	}
	if err := transport.CheckID(s.tenant); s.tenant != "" && err != nil {
		return s.wrong("tenant", ": %w", err)
	}
	return nil
}

// checkGiven refuses an empty setting, file, folder, id or input, such as `--auth "$KEYS"` when KEYS is not set. Users leave a flag out instead, or
// give a word such as none.
func checkGiven(cmd *cobra.Command) (bad error) {
	cmd.Flags().Visit(func(f *pflag.Flag) {
		what, _ := pflag.UnquoteUsage(f)
		if (hasSettingMark(f) || slices.Contains([]string{"FILE", "DIR", "ID", "JSON"}, what)) && isEmpty(f.Value) {
			bad = usagef("--%s: %w", f.Name, usage.ErrEmpty)
		}
	})
	return bad
}

// isEmpty reports whether a text or a list is empty. Other types reject an empty text themselves.
func isEmpty(v pflag.Value) bool {
	if list, ok := v.(pflag.SliceValue); ok {
		return len(list.GetSlice()) == 0
	}
	return v.Type() == "string" && v.String() == ""
}

// addresses returns the URLs of --nats. A host and port without a scheme gets the scheme nats.
func addresses(list string) (string, error) {
	if list == "" {
		return "", nil
	}
	all := strings.Split(list, ",")
	for i, a := range all {
		a = strings.TrimSpace(a)
		if !strings.Contains(a, "://") {
			a = "nats://" + a
		}
		u, err := url.Parse(a)
		if err != nil || u.Hostname() == "" || !slices.Contains([]string{"nats", "tls", "ws", "wss"}, u.Scheme) {
			return "", errors.New("want the URL of a server such as nats://host:4222, or several with commas between them") // not shown: it may contain a password
		}
		all[i] = a
	}
	return strings.Join(all, ","), nil
}

// readConfig reads the config file. It returns the values of settings as texts of flags. Unknown keys are errors.
func (s *settings) readConfig(cmd *cobra.Command) (map[string]string, *document.Document, error) {
	if !s.flags.Lookup("config").Changed { // a command may have a flag of its own with this name
		var set bool
		if s.config, set = os.LookupEnv("CORTEX_CONFIG"); set {
			s.given["config"] = fromEnv
		} else if s.config = foundConfig(); s.config == "" {
			return nil, nil, nil
		}
	}
	if s.config == "" {
		return nil, nil, s.wrong("config", ": %w", usage.ErrEmpty)
	}
	b, err := document.Read(cmd.Context(), s.config, maxConfig)
	if cmd.Context().Err() != nil {
		return nil, nil, cmd.Context().Err()
	}
	if err != nil {
		return nil, nil, s.wrong("config", ": %w", err)
	}
	d, err := document.Parse(b)
	if err != nil {
		return nil, nil, usagef("%s: %w", s.config, err)
	}
	values, err := s.readKeys(d.JSON, flagKeys(cmd.Root()))
	if err != nil {
		return nil, nil, usagef("%s: %w", s.config, d.Explain(err))
	}
	return values, d, nil
}

// readKeys reads the keys of a config file. Its errors begin with the key.
func (s *settings) readKeys(plain []byte, known map[string]kind) (map[string]string, error) {
	raw := map[string]json.RawMessage{}
	if err := json.Unmarshal(plain, &raw); err != nil {
		return nil, errNoKeys
	}
	if len(raw) == 0 {
		return nil, errSaysNothing
	}
	values := map[string]string{}
	for _, k := range slices.Sorted(maps.Keys(raw)) {
		var err error
		switch {
		case k == "llms":
			err = s.readEndpoints(raw[k])
		case k == "budget":
			if err = readBudget(raw[k], &s.budget); err != nil {
				err = fmt.Errorf("budget%w", err)
			}
		case k == peerKey:
			err = s.readPeers(raw[k])
		case known[k] == isSetting || known[k] == isList:
			if values[k], err = plainValue(raw[k], known[k] == isList); err != nil {
				err = fmt.Errorf("%s: %w", k, err)
			} else if flag := strings.ReplaceAll(k, "_", "-"); flag == "data" || slices.Contains(pathFlags, flag) || slices.Contains(portPaths, flag) {
				values[k] = s.beside(values[k])
			}
		case known[k] == isAction:
			err = fmt.Errorf("%s: this is no setting: it says what one command is to do, and is only given to that one as a flag", k)
		default:
			near := typed.Nearest(k, slices.Sorted(maps.Keys(known)))
			if near != "" {
				near = fmt.Sprintf("did you mean %s? ", near)
			}
			err = fmt.Errorf("unknown key %q: %sa key is a flag's name with _ for -, or llms, budget or a2a_agents", k, near)
		}
		if err != nil {
			return nil, err
		}
	}
	return values, nil
}

// beside resolves a path in the config file, which is relative to the folder of that file unless that is no file, but a pipe.
func (s *settings) beside(path string) string {
	if info, err := os.Stat(s.config); path == "" || path == "none" || filepath.IsAbs(path) || err != nil || !info.Mode().IsRegular() {
		return path
	}
	return filepath.Join(filepath.Dir(s.config), path)
}

// maxConfig bounds the config file, in bytes.
const maxConfig = 256 << 10

// errNoKeys and errSaysNothing are the errors for a file without settings: a wrong file, or a template that nobody has filled in.
var (
	errNoKeys      = errors.New("want keys and values, such as `llm: openai`")
	errSaysNothing = errors.New("it says nothing: give keys and values, such as `llm: openai`, or leave the file out")
)

// plainValue returns a value as the text of a flag. list says that it may be a list.
func plainValue(raw json.RawMessage, list bool) (string, error) {
	var v any
	d := json.NewDecoder(bytes.NewReader(raw))
	d.UseNumber()
	if err := d.Decode(&v); err != nil {
		return "", err
	}
	switch v := v.(type) {
	case []any:
		if !list {
			return "", errors.New("want one value, not a list")
		}
		var all []json.RawMessage
		if err := json.Unmarshal(raw, &all); err != nil {
			return "", err
		}
		parts := make([]string, len(all))
		for i := range all {
			var err error
			if parts[i], err = plainValue(all[i], false); err != nil {
				return "", err
			}
		}
		if len(parts) == 0 {
			return "", usage.ErrEmpty
		}
		return strings.Join(parts, ","), nil
	case string:
		if v == "" {
			return "", usage.ErrEmpty
		}
		return v, nil
	case map[string]any, nil:
		return "", errors.New("want a plain value")
	default:
		return fmt.Sprint(v), nil
	}
}

func (s *settings) readEndpoints(raw json.RawMessage) error {
	all := map[string]json.RawMessage{}
	if err := json.Unmarshal(raw, &all); err != nil || len(all) == 0 {
		return errors.New("llms: want names, each with its settings")
	}
	s.llms = make(map[string]*llms.Endpoint, len(all))
	known := llms.Providers(s.program.Providers)
	for _, name := range slices.Sorted(maps.Keys(all)) {
		if err := transport.CheckID(name); err != nil || strings.ContainsAny(name, ",*") {
			return fmt.Errorf("llms: %q is no good name: use letters, digits and -", name)
		}
		ep, err := llms.Read(name, all[name], known)
		if err != nil {
			return err
		}
		ep.KeyFile, ep.CredentialsFile = s.beside(ep.KeyFile), s.beside(ep.CredentialsFile)
		if err := cmp.Or(absolute(&ep.KeyFile), absolute(&ep.CredentialsFile)); err != nil {
			return fmt.Errorf("llms.%s: %w", name, err)
		}
		if ep.KeyCommand != nil {
			dir := s.beside(".")
			if err := absolute(&dir); err != nil {
				return fmt.Errorf("llms.%s: %w", name, err)
			}
			ep.RunIn(dir)
		}
		s.llms[name] = ep
	}
	return nil
}

func readBudget(raw json.RawMessage, to *budget.Limits) error {
	type bound struct {
		Tokens *int     `json:"tokens"`
		Cost   *float64 `json:"cost"`
	}
	d := json.NewDecoder(bytes.NewReader(raw))
	d.DisallowUnknownFields()
	var in struct {
		Turn         *bound `json:"turn"`
		Conversation *bound `json:"conversation"`
		Day          *bound `json:"day"`
	}
	if err := d.Decode(&in); err != nil {
		return errors.New(llms.ExplainJSON(err))
	}
	none := true
	for _, b := range []struct {
		name string
		in   *bound
		to   *llm.Budget
	}{{"turn", in.Turn, &to.Turn}, {"conversation", in.Conversation, &to.Conversation}, {"day", in.Day, &to.Day}} {
		if b.in == nil {
			continue
		}
		none = false
		switch t, c := b.in.Tokens, b.in.Cost; { // a budget without bounds is a mistake
		case t == nil && c == nil:
			return fmt.Errorf(".%s: want tokens, or cost, or both", b.name)
		case t != nil && *t <= 0:
			return fmt.Errorf(".%s.tokens: %d: it must be more than nothing", b.name, *t)
		case c != nil && *c <= 0:
			return fmt.Errorf(".%s.cost: %v: it must be more than nothing", b.name, *c)
		}
		if b.in.Tokens != nil {
			b.to.Tokens = *b.in.Tokens
		}
		if b.in.Cost != nil {
			b.to.Cost = *b.in.Cost
		}
	}
	if none {
		return errors.New(": want turn, conversation or day, each with tokens, or cost, or both")
	}
	return nil
}

// defaultData returns the default folder for state. It works without environment variables, too.
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
