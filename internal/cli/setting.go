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
)

// A flag is either a setting of the node, which is the same for many commands and may come from the environment or a file, or says what
// one command is about: which agents, all of them, without asking. The latter is only ever given as a flag, since nobody who typed the
// command would see it elsewhere.

// settingMark is the annotation of a flag that is a setting.
const settingMark = "cortex_setting"

// setting marks flags as settings. Flags are none unless they are marked.
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

// source is where the value of a flag comes from. The higher one wins.
type source int

const (
	fromFile source = iota + 1
	fromEnv
	fromFlag
)

// take fills in the settings among the flags that were not given, from the environment and from file, by keys.
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
			if v == "" { // as `CORTEX_AUTH=$KEYS` is when nobody has set KEYS
				bad = s.wrong(f.Name, ": %w", errEmpty)
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
		{"model", "llm"}, // a model is meant for the llm that is named beside it
		{"card", "spec"}, // each stands for the other
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

// setAside notes that the model that was given is meant for another llm than the one that is asked.
func (s *settings) setAside() {
	s.aside = "--model"
	switch s.given["model"] {
	case fromEnv:
		s.aside, _ = lookupEnv("model")
	case fromFile:
		s.aside = "model in " + s.config
	}
}

// checkFiles checks that the files of credentials and certificates which were given are there.
func (s *settings) checkFiles() error {
	for flag, path := range map[string]string{"creds": s.creds, "tls-ca": s.tls.CA, "tls-cert": s.tls.Cert, "tls-key": s.tls.Key} {
		if s.given[flag] == 0 {
			continue // it is none, or Cortex's own choice
		}
		var failed *fs.PathError
		if _, err := os.Stat(path); errors.As(err, &failed) {
			return s.wrong(flag, ": %s: %w", path, failed.Err)
		}
	}
	return nil
}

// wrong returns the error of a person who gave a setting a wrong value, wherever that was. format goes on after the setting's name.
func (s *settings) wrong(flag, format string, args ...any) error {
	err := fmt.Errorf(format, args...)
	err = fmt.Errorf("%s%w", s.called(flag), err)
	if s.given[flag] == fromFile {
		err = fmt.Errorf("%s: %w", s.config, s.doc.Explain(err))
	}
	return usageError{err}
}

// called returns the name of a setting where it was given.
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

// envName is CORTEX_ and the flag's name; --nats is CORTEX_NATS_URL, as other tools of NATS name it.
func envName(flag string) string {
	if flag == "nats" {
		return "CORTEX_NATS_URL"
	}
	return "CORTEX_" + strings.ToUpper(key(flag))
}

// lookupEnv returns the variable of a setting, which may not be set, and its value.
func lookupEnv(flag string) (name, v string) {
	name = envName(flag)
	if _, set := os.LookupEnv(name); !set && flag == "nats" {
		name = "CORTEX_NATS" // as of the other flags
	}
	return name, os.Getenv(name)
}

// kind says whether a key of the config file stands for a setting.
type kind int

const (
	isSetting kind = iota + 1 // of a command at least
	isList                    // likewise, with several values
	isAction
)

// flagKeys are the keys that stand for flags.
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

// eachFlag calls f with the flags of c and the commands below it.
func eachFlag(c *cobra.Command, f func(*cobra.Command, *pflag.Flag)) {
	c.LocalFlags().VisitAll(func(flag *pflag.Flag) { f(c, flag) })
	for _, sub := range c.Commands() {
		eachFlag(sub, f)
	}
}

// settle makes c and the commands below it take their settings before they look at their arguments: what is missing there may be in them.
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

// newSettingsHelp returns a topic of the help, which lists the settings of root's commands.
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
The file may also have llms and budget: see ` + "`cortex llm --help`" + `.

All other flags say what one command is to do, such as --all, --yes or --text. They are only given to it: a variable of such a name is
left alone, since it may be meant for something else, and such a key in the file is an error.`,
	}
}
