package cli

import (
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"os"
	"slices"
	"strings"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/cortex-orchestrator/cortex/internal/cli/typed"
	"github.com/cortex-orchestrator/cortex/internal/usage"
	"github.com/cortex-orchestrator/cortex/prompt"
)

// A flag is either a setting of the node, which many commands share and which can come from the environment or the config file, or it belongs to one
// call of a command, such as --all. The latter can only be given as a flag: otherwise the user who typed the command would not see it.

// settingMark is the annotation of a flag that is a setting.
const settingMark = "cortex_setting"

// setting marks flags as settings.
func setting(f *pflag.FlagSet, names ...string) {
	for _, name := range names {
		if err := f.SetAnnotation(name, settingMark, nil); err != nil {
			panic(err) // there is no such flag
		}
	}
}

func hasSettingMark(f *pflag.Flag) bool {
	_, ok := f.Annotations[settingMark]
	return ok
}

// source is the origin of a setting's value. Higher sources take precedence.
type source int

const (
	fromFile source = iota + 1
	fromEnv
	fromFlag
)

// take fills in the settings among the flags that were not given, from the environment and from file, whose keys are those of the config file.
func (s *settings) take(flags *pflag.FlagSet, file map[string]string) error {
	if s.given == nil {
		s.given = map[string]source{}
	}
	var bad error
	flags.VisitAll(func(f *pflag.Flag) {
		if f.Changed {
			s.given[f.Name] = fromFlag
		}
		if f.Changed || bad != nil || !hasSettingMark(f) {
			return
		}
		name, v := lookupEnv(f.Name)
		if _, set := os.LookupEnv(name); set {
			s.given[f.Name] = fromEnv
			if v == "" { // such as `CORTEX_AUTH=$KEYS` when KEYS is not set
				bad = s.wrong(f.Name, ": %w", usage.ErrEmpty)
				return
			}
		} else if value, ok := file[key(f.Name)]; ok {
			s.given[f.Name], v = fromFile, value
		} else {
			return
		}
		if err := f.Value.Set(v); err != nil {
			bad = s.wrong(f.Name, "%w", valueError(f, v, err))
		}
	})
	if bad != nil {
		return bad
	}
	for _, p := range [][2]string{
		{"model", "llm"}, // a model belongs to the llm of the same source
		{"card", "spec"}, // each replaces the other
		{"spec", "card"},
	} {
		if f := flags.Lookup(p[0]); f != nil && s.given[p[0]] < s.given[p[1]] {
			if p[0] == "model" && f.Value.String() != "" {
				s.setAside()
			}
			if err := f.Value.Set(""); err != nil {
				return err
			}
		}
	}
	return nil
}

// setAside records that the given model is ignored, since it belongs to another llm.
func (s *settings) setAside() {
	s.aside = "--model"
	switch s.given["model"] {
	case fromEnv:
		s.aside, _ = lookupEnv("model")
	case fromFile:
		s.aside = "model in " + s.config
	}
}

// checkFiles checks that the given files of credentials and certificates exist.
func (s *settings) checkFiles() error {
	for flag, path := range map[string]string{"creds": s.creds, "tls-ca": s.tls.CA, "tls-cert": s.tls.Cert, "tls-key": s.tls.Key} {
		if s.given[flag] == 0 {
			continue // none, or Cortex's own choice
		}
		var failed *fs.PathError
		if _, err := os.Stat(path); errors.As(err, &failed) {
			return s.wrong(flag, ": %s: %w", path, failed.Err)
		}
	}
	return nil
}

// wrong returns the error for a setting with a wrong value, naming its source. format continues the sentence after the setting's name.
func (s *settings) wrong(flag, format string, args ...any) error {
	err := fmt.Errorf(format, args...)
	err = fmt.Errorf("%s%w", s.called(flag), err)
	if s.given[flag] == fromFile {
		err = fmt.Errorf("%s: %w", s.config, s.doc.Explain(err))
	}
	return usage.New(err)
}

// called returns the name of a setting in the source where it was given.
func (s *settings) called(flag string) string {
	switch s.given[flag] {
	case fromEnv:
		name, _ := lookupEnv(flag)
		return name
	case fromFile:
		return key(flag)
	}
	return "--" + flag
}

func key(flag string) string { return strings.ReplaceAll(flag, "-", "_") }

// envName returns the name of a setting's variable: CORTEX_ and the flag's name, except that --nats has CORTEX_NATS_URL, as in other tools for NATS.
func envName(flag string) string {
	if flag == "nats" {
		return "CORTEX_NATS_URL"
	}
	return "CORTEX_" + strings.ToUpper(key(flag))
}

// lookupEnv returns the name of a setting's variable, which may be unset, and its value.
func lookupEnv(flag string) (name, v string) {
	name = envName(flag)
	if _, set := os.LookupEnv(name); !set && flag == "nats" {
		name = "CORTEX_NATS" // named like those of the other flags
	}
	return name, os.Getenv(name)
}

// strangeVariables returns a sentence for each variable of the environment that is named like a setting, and is none.
func strangeVariables(root *cobra.Command) []string {
	if os.Getenv("CORTEX_TASK_ID") != "" {
		return nil // the program of an agent has variables of its own
	}
	names := []string{envName("config"), envName("nats"), "CORTEX_NATS", "CORTEX_RUN"} // the last is for programs that Cortex starts
	for k, is := range flagKeys(root) {
		if is == isSetting || is == isList {
			names = append(names, envName(k))
		}
	}
	slices.Sort(names)
	var all []string
	for _, v := range os.Environ() {
		name, _, _ := strings.Cut(v, "=")
		if !strings.HasPrefix(name, "CORTEX_") || slices.Contains(names, name) {
			continue
		}
		hint := "`cortex help settings` lists them"
		if near := typed.Nearest(name, names); near != "" {
			hint = fmt.Sprintf("did you mean %s?", near)
		}
		all = append(all, fmt.Sprintf("the variable %s is no setting: %s", prompt.Clean(name, 100), hint))
	}
	slices.Sort(all)
	return all
}

// kind says what a key of the config file is.
type kind int

const (
	isSetting kind = iota + 1 // of at least one command
	isList                    // a setting with several values
	isAction
)

// flagKeys returns the keys that are flags.
func flagKeys(root *cobra.Command) map[string]kind {
	known := map[string]kind{}
	eachFlag(root, func(_ *cobra.Command, f *pflag.Flag) {
		if k := key(f.Name); hasSettingMark(f) {
			known[k] = isSetting
			if _, list := f.Value.(pflag.SliceValue); list {
				known[k] = isList
			}
		} else if known[k] == 0 {
			known[k] = isAction
		}
	})
	delete(known, "config")
	delete(known, "help")
	return known
}

// eachFlag calls f with each flag of c and of the commands below it.
func eachFlag(c *cobra.Command, f func(*cobra.Command, *pflag.Flag)) {
	c.LocalFlags().VisitAll(func(flag *pflag.Flag) { f(c, flag) })
	for _, sub := range c.Commands() {
		eachFlag(sub, f)
	}
}

// settle makes c and the commands below it read their settings before they check their arguments, which settings may supply.
func (e *env) settle(c *cobra.Command) {
	args := c.Args
	if args == nil {
		args = cobra.ArbitraryArgs
	}
	c.Args = func(cmd *cobra.Command, given []string) error {
		e.handleSignals(cmd)
		if err := e.settings.complete(cmd); err != nil {
			return err
		}
		return args(cmd, given)
	}
	for _, sub := range c.Commands() {
		e.settle(sub)
	}
}

// newSettingsHelp returns a help topic that lists the settings of root's commands.
func newSettingsHelp(root *cobra.Command) *cobra.Command {
	names := map[string]bool{}
	eachFlag(root, func(_ *cobra.Command, f *pflag.Flag) {
		if hasSettingMark(f) {
			names[f.Name] = true
		}
	})
	var list strings.Builder
	for _, name := range slices.Sorted(maps.Keys(names)) {
		fmt.Fprintf(&list, "    %-22s%-30s%s\n", "--"+name, envName(name), key(name))
	}
	return &cobra.Command{
		Use:   "settings",
		Short: "Flags that can be set in the environment or in a file",
		Long: `A flag that says how Cortex runs is a setting: it can be given to a command, else in the environment, else in the YAML file that
--config (CORTEX_CONFIG) names. Without --config that is $XDG_CONFIG_HOME/cortex/config.yaml, else ~/.config/cortex/config.yaml, if it
is there. ` + "`cortex config show`" + ` lists what each setting is now, and where that comes from.

` + list.String() + `
The file may also have llms and budget: see ` + "`cortex llm --help`" + `; and a2a_agents: see ` + "`cortex serve --help`" + `.

All other flags say what one command is to do, such as --all, --yes or --text. They are only given to it: a variable of such a name is
left alone, since it may be meant for something else, and such a key in the file is an error.`,
	}
}
