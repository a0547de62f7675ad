package cli

import (
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/cortex-orchestrator/cortex/cortex/budget"
	"github.com/cortex-orchestrator/cortex/internal/cli/typed"
	"github.com/cortex-orchestrator/cortex/internal/screen"
	"github.com/cortex-orchestrator/cortex/internal/table"
	"github.com/cortex-orchestrator/cortex/prompt"
)

// configFile returns the path of the config file that is read when none is named; "" when the home folder is not known.
func configFile() string {
	dir := os.Getenv("XDG_CONFIG_HOME")
	if !filepath.IsAbs(dir) {
		home, err := os.UserHomeDir()
		if err != nil {
			return ""
		}
		dir = filepath.Join(home, ".config")
	}
	return filepath.Join(dir, "cortex", "config.yaml")
}

// foundConfig returns the path of the config file, or "" when there is none. A home folder that cannot be read, such as a service's, has none.
func foundConfig() string {
	path := configFile()
	if path == "" {
		return ""
	}
	if _, err := os.Stat(path); err != nil {
		return ""
	}
	return path
}

// ownMark is the annotation of a setting that the program adds; Cortex does not know whether its value is secret.
const ownMark = "cortex_own"

// borrow adds all settings of root's commands to c, as `cortex serve` has them, and hides all but the named ones in its help.
func (s *settings) borrow(c, root *cobra.Command, named ...string) {
	shown := map[string]bool{}
	for _, name := range named {
		shown[name] = true
	}
	c.Flags().VisitAll(func(f *pflag.Flag) { shown[f.Name] = true })
	s.addNode(c, ownAgents...)
	c.Flags().VisitAll(func(f *pflag.Flag) { f.Hidden = !shown[f.Name] }) // before the flags of every command are added
	eachFlag(root, func(_ *cobra.Command, f *pflag.Flag) {
		if hasSettingMark(f) && c.Flags().Lookup(f.Name) == nil && s.flags.Lookup(f.Name) == nil {
			lent := *f
			lent.Hidden = true
			c.Flags().AddFlag(&lent)
		}
	})
}

func (e *env) newConfig(root *cobra.Command) *cobra.Command {
	c := &cobra.Command{
		Use:   "config",
		Short: "Show and check the settings",
		Long: `Show and check the settings: what each one is, and where that comes from. A flag stands before the environment, that before the file,
and that before the default. The file is the one that --config or CORTEX_CONFIG names, else $XDG_CONFIG_HOME/cortex/config.yaml or
~/.config/cortex/config.yaml, if it is there.`,
		Example: "  cortex config show\n  cortex config check --config cortex.yaml\n  cortex config path",
		Args:    typed.Exact(),
		RunE:    func(cmd *cobra.Command, _ []string) error { return cmd.Help() },
	}
	c.AddCommand(e.newConfigShow(root), e.newConfigPath(), e.newConfigCheck(root))
	return c
}

func (e *env) newConfigPath() *cobra.Command {
	return &cobra.Command{
		Use:     "path",
		Short:   "Print which file the settings are read from",
		Example: "  cortex config path\n  vi \"$(cortex config path)\"",
		Args:    typed.Exact(),
		RunE: func(*cobra.Command, []string) error {
			path := cmp.Or(e.settings.config, configFile())
			if path == "" {
				return errors.New("there is no home to look for a file in: name one with --config, or set XDG_CONFIG_HOME")
			}
			if e.settings.config == "" {
				e.say("there is no such file yet: it is read when there is one")
			}
			_, err := fmt.Fprintln(e.stdout, path)
			return err
		},
	}
}

// settingJSON is the effective value of a setting.
type settingJSON struct {
	Key   string `json:"key"`
	Value string `json:"value"`
	From  string `json:"from"`
}

func (e *env) newConfigShow(root *cobra.Command) *cobra.Command {
	var asJSON bool
	c := &cobra.Command{
		Use:   "show",
		Short: "List what each setting is, and where that comes from",
		Long: `List what each setting is, and where that comes from: a flag, a variable of the environment, the file, or the default. It takes the flags
of ` + "`cortex serve`" + `, and shows what they would change. What is or may be secret is not shown.`,
		Example: "  cortex config show\n  CORTEX_LLM=openai cortex config show --json",
		Args:    typed.Exact(),
		RunE: func(cmd *cobra.Command, _ []string) error {
			list := e.settings.list(cmd.Flags())
			if asJSON {
				return writeJSON(e, list)
			}
			return e.write(settingsText(list, screen.Width(e.stdout)))
		},
	}
	c.Flags().BoolVar(&asJSON, "json", false, "as JSON")
	e.settings.borrow(c, root)
	c.PreRunE = nil // wrong settings are shown, too
	return c
}

// settingsText formats a list of settings, one per line. What a line of this width has no room for goes below it, whole: paths are to be copied.
func settingsText(list []settingJSON, width int) string {
	rows := append([]settingJSON{{"SETTING", "VALUE", "FROM"}}, list...)
	key, from := 0, 0
	for _, s := range rows {
		key, from = max(key, len(s.Key)), max(from, len(s.From))
	}
	var out strings.Builder
	for _, s := range rows {
		value := cmp.Or(prompt.Clean(s.Value, 4096), "-")
		switch whole := fmt.Sprintf("%-*s  %-*s  %s", key, s.Key, from, s.From, value); {
		case width == 0 || table.Width(whole) <= width:
			out.WriteString(whole + "\n")
		case table.Width(s.From)+key+2 <= width:
			fmt.Fprintf(&out, "%-*s  %s\n    %s\n", key, s.Key, s.From, value)
		default:
			fmt.Fprintf(&out, "%s\n    %s\n    %s\n", s.Key, s.From, value)
		}
	}
	return out.String()
}

// notShown replaces values that are or may be secret.
const notShown = "(not shown)"

// list returns the effective values of all settings, those that were given first.
func (s *settings) list(flags *pflag.FlagSet) []settingJSON {
	var all []settingJSON
	flags.VisitAll(func(f *pflag.Flag) {
		if !hasSettingMark(f) {
			return
		}
		l := settingJSON{key(f.Name), f.Value.String(), "default"}
		_, own := f.Annotations[ownMark]
		switch given := s.given[f.Name]; {
		case given == fromFile:
			l.From = s.config
		case given != 0:
			l.From = s.called(f.Name)
		}
		if list, ok := f.Value.(pflag.SliceValue); ok {
			l.Value = strings.Join(list.GetSlice(), ",")
		}
		switch {
		case f.Name == "data":
			l.Value = s.data
		case f.Name == "model" && s.aside != "":
			l.From += ", for another llm"
		case f.Name == "replicas" && l.Value == "0", f.Name == "concurrency" && l.Value == "0", f.Name == "timeout" && l.Value == "0s", f.Name == "retain" && s.given["retain"] == 0:
			l.Value = ""
		case own && s.given[f.Name] != 0:
			l.Value = notShown
		default:
			l.Value = shownURL(l.Value)
		}
		all = append(all, l)
	})
	all = append(all, s.listDocument()...)
	slices.SortStableFunc(all, func(a, b settingJSON) int {
		byDefault := func(l settingJSON) int {
			if l.From == "default" {
				return 1
			}
			return 0
		}
		return cmp.Or(cmp.Compare(byDefault(a), byDefault(b)), strings.Compare(a.Key, b.Key))
	})
	if s.config != "" {
		from := "default"
		if s.given["config"] != 0 {
			from = s.called("config")
		}
		all = slices.Insert(all, 0, settingJSON{"config", s.config, from})
	}
	return all
}

// listDocument returns the models, budgets and A2A agents of the config file, for which there are no flags.
func (s *settings) listDocument() []settingJSON {
	if s.doc == nil {
		return nil
	}
	var file struct {
		LLMs   map[string]map[string]json.RawMessage `json:"llms"`
		Budget map[string]map[string]json.RawMessage `json:"budget"`
	}
	if err := json.Unmarshal(s.doc.JSON, &file); err != nil {
		return nil // readConfig has read it already, so it cannot fail
	}
	var all []settingJSON
	for name, keys := range file.LLMs {
		for k, raw := range keys {
			all = append(all, settingJSON{"llms." + name + "." + k, shownKey(k, raw), s.config})
		}
	}
	for name, keys := range file.Budget {
		for k, raw := range keys {
			all = append(all, settingJSON{"budget." + name + "." + k, string(raw), s.config})
		}
	}
	for i, p := range s.peers {
		all = append(all, p.list(fmt.Sprintf("%s[%d]", peerKey, i), s.config)...)
	}
	return all
}

// openKeys are the keys of an endpoint whose values are not secret. Headers may hold a key, and Cortex does not know the keys of the program's own
// providers.
var openKeys = strings.Fields(`provider model base_url api_key_env api_key_file headers_env structured max_tokens temperature context_window images reason_first timeout
	retries requests_per_minute tokens_per_minute price fallback api api_version max_tokens_field system_role stream_usage parallel_tool_calls
	prompt_cache_key reasoning_effort project location credentials_file transport`)

// shownKey formats the value of an endpoint's key.
func shownKey(key string, raw json.RawMessage) string {
	var text string
	switch {
	case !slices.Contains(openKeys, key):
		return notShown
	case json.Unmarshal(raw, &text) == nil:
		return shownURL(text)
	}
	return string(raw)
}

func (e *env) newConfigCheck(root *cobra.Command) *cobra.Command {
	c := &cobra.Command{
		Use:   "check",
		Short: "Check the settings, and the files that they name",
		Long: `Check the settings as ` + "`cortex serve`" + ` would, whose flags it takes: the file, the model that decides, and the policy, cards, templates and
keys that are named. Nothing is started, and nobody is asked. The exit status is not 0 when something is wrong.`,
		Example: "  cortex config check\n  cortex config check --config cortex.yaml",
		Args: func(cmd *cobra.Command, args []string) error {
			if len(args) == 1 {
				return usagef("name the file by a flag: cortex config check --config %s", shellWord(args[0]))
			}
			return typed.Exact()(cmd, args)
		},
		RunE: func(cmd *cobra.Command, _ []string) error { return e.checkConfig(cmd) },
	}
	e.settings.borrow(c, root)
	return c
}

// checkConfig prints everything that is wrong with the settings.
func (e *env) checkConfig(cmd *cobra.Command) error {
	s := &e.settings
	_, unknown := s.builtin()
	_, rules := s.loadPolicy(slog.New(slog.DiscardHandler))
	_, listed := s.loadWellKnown(cmd.Context())
	wrong := slices.DeleteFunc([]error{s.checkLLM(), unknown, rules, listed, s.checkFiles(), s.checkPeers(cmd.Context())}, func(err error) bool { return err == nil })
	for _, err := range wrong {
		_, _ = screen.Print(e.stderr, "cortex: %s", oneLine(err)) // there is nothing else to tell
	}
	for _, line := range strangeVariables(cmd.Root()) { // which may be another program's
		e.say("%s", line)
	}
	if len(wrong) > 0 {
		return errShown
	}
	if s.config == "" {
		_, err := screen.Print(e.stdout, "no file is read: %s would be, if it were there; the settings are good", cmp.Or(configFile(), "none"))
		return err
	}
	values := 0
	for _, from := range s.given {
		if from == fromFile {
			values++
		}
	}
	has := []string{counted(values, "setting")}
	if len(s.llms) > 0 {
		has = append(has, counted(len(s.llms), "model"))
	}
	if s.budget != (budget.Limits{}) {
		has = append(has, "a budget")
	}
	if len(s.peers) > 0 {
		has = append(has, counted(len(s.peers), "A2A agent"))
	}
	if _, err := screen.Print(e.stdout, "%s is good: %s", s.config, strings.Join(has, ", ")); err != nil {
		return err
	}
	for _, name := range slices.Sorted(maps.Keys(s.llms)) { // not an error: the endpoint may never be used, or only on another machine
		if err := s.llms[name].Ready(); err != nil {
			e.say("%s: %s", name, oneLine(err))
		}
	}
	return nil
}

// counted formats a number of things.
func counted(n int, what string) string {
	if n == 1 {
		return "1 " + what
	}
	return fmt.Sprintf("%d %ss", n, what)
}
