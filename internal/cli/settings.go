package cli

import (
	"errors"
	"fmt"
	"net/url"
	"os"
	"os/user"
	"path/filepath"
	"slices"
	"strings"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/cortex-orchestrator/cortex/cortex/budget"
	"github.com/cortex-orchestrator/cortex/internal/document"
	"github.com/cortex-orchestrator/cortex/internal/home"
	"github.com/cortex-orchestrator/cortex/internal/llms"
	"github.com/cortex-orchestrator/cortex/internal/usage"
	"github.com/cortex-orchestrator/cortex/repl"
	"github.com/cortex-orchestrator/cortex/transport"
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
