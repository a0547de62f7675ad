package cli

import (
	"bytes"
	"cmp"
	"embed"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"runtime/debug"
	"strings"
	"text/template"

	"github.com/spf13/cobra"

	"github.com/cortex-orchestrator/cortex/internal/cli/typed"
	"github.com/cortex-orchestrator/cortex/internal/screen"
	"github.com/cortex-orchestrator/cortex/internal/usage"
	"github.com/cortex-orchestrator/cortex/sdk"
)

// starters are the templates of files for new agents and programs.
//
//go:embed starter
var starters embed.FS

// starter is a file that is written for users to edit.
type starter struct {
	name, about string // about describes the file; "" when its name says enough
	text        []byte
	program     bool // executable
}

// read renders a template.
func (f *starter) read(from string, words any) error {
	b, err := starters.ReadFile("starter/" + from)
	if err != nil {
		return err
	}
	t, err := template.New(from).Delims("<%", "%>").Parse(string(b))
	if err != nil {
		return err
	}
	var out bytes.Buffer
	err = t.Execute(&out, words)
	f.text = out.Bytes()
	return err
}

// writeStarters writes files into dir, which it creates if necessary. When one of the files exists already, it writes none.
func writeStarters(dir string, files []starter) error {
	for _, f := range files {
		path := filepath.Join(dir, f.name)
		if _, err := os.Lstat(path); err == nil {
			return fmt.Errorf("%s is there already, and nothing is written over it: choose another folder", path)
		} else if !errors.Is(err, fs.ErrNotExist) {
			return err
		}
	}
	if err := os.MkdirAll(dir, 0o755); err != nil {
		return err
	}
	for _, f := range files {
		mode := os.FileMode(0o644)
		if f.program {
			mode = 0o755
		}
		to, err := os.OpenFile(filepath.Join(dir, f.name), os.O_WRONLY|os.O_CREATE|os.O_EXCL, mode)
		if err != nil {
			return err
		}
		_, err = to.Write(f.text)
		if err = errors.Join(err, to.Close()); err != nil {
			return err
		}
	}
	return nil
}

// tellStarters prints the written files, and the next command to type.
func (e *env) tellStarters(dir string, files []starter, next string) error {
	wide := 0
	for _, f := range files {
		wide = max(wide, len(filepath.Join(dir, f.name)))
	}
	var list strings.Builder
	for _, f := range files {
		fmt.Fprintf(&list, "    %-*s  %s\n", wide, filepath.Join(dir, f.name), f.about)
	}
	_, err := fmt.Fprintf(e.stdout, "Written:\n\n%s\n%s", list.String(), next)
	return err
}

func (e *env) newInit() *cobra.Command {
	return &cobra.Command{
		Use:   "init [DIR]",
		Short: "Write a small folder to start from",
		Long: `Write a folder to start from: a config file, a policy, and an agent, which is a card and a program. Without DIR that is the folder
where you are. What is there is never written over.`,
		Example: "  cortex init\n  cortex init first",
		Args: func(cmd *cobra.Command, args []string) error {
			if len(args) > 1 {
				return usagef("unexpected argument %q: cortex %s", args[1], strings.TrimPrefix(cmd.UseLine(), "cortex "))
			}
			if len(args) == 1 && args[0] == "" {
				return usagef("DIR: %w", usage.ErrEmpty)
			}
			return nil
		},
		RunE: func(_ *cobra.Command, args []string) error {
			dir := "."
			if len(args) > 0 {
				dir = filepath.Clean(args[0])
			}
			return e.init(dir)
		},
	}
}

func (e *env) init(dir string) error {
	files := []starter{
		{name: "cortex.yaml", about: "how Cortex runs: which model decides, which rules hold"},
		{name: "policy.yaml", about: "the rules: who may ask whom, what needs your yes"},
		{name: "wordcount.yaml", about: "the card of an agent: what it can do"},
		{name: "wordcount.sh", about: "its program", program: true},
	}
	for i := range files {
		if err := files[i].read("folder/"+files[i].name, nil); err != nil {
			return err
		}
	}
	if err := writeStarters(dir, files); err != nil {
		return err
	}
	cd := ""
	if dir != "." {
		cd = "    cd " + shellWord(dir) + "\n"
	}
	return e.tellStarters(dir, files, `Talk to it:

`+cd+`    cortex chat --config cortex.yaml

Meanwhile, in a second terminal, let the agent join:

`+cd+`    cortex agent exec --card wordcount.yaml -- ./wordcount.sh

Then say in the chat: count the words: to be or not to be
`)
}

// keeps are the flags for a program that speaks jsonl and stays.
const keeps = " --protocol jsonl --keep"

// goodNewName matches names that can be a folder, a file, a module and an agent.
var goodNewName = regexp.MustCompile(`^[a-z][a-z0-9_-]{0,63}$`)

func (e *env) newAgentNew() *cobra.Command {
	var dir string
	lang := oneOf("bash", "python", "typescript", "go")
	c := &cobra.Command{
		Use:   "new NAME",
		Short: "Write an agent to start from",
		Long: `Write an agent that runs: a card, and a program in bash, python, typescript or go. They go into a new folder of its name. What is there is never
written over. Say what it does in the card: by that Cortex finds it.`,
		Example: "  cortex agent new weather\n  cortex agent new weather --lang python\n  cortex agent new weather --lang go --dir agents/weather",
		Args:    typed.Exact("NAME"),
		RunE: func(cmd *cobra.Command, args []string) error {
			name := args[0]
			for _, c := range cmd.Parent().Commands() {
				if c.Name() == name {
					return usagef("there is a command `cortex agent %s` already: choose another name", name)
				}
			}
			if !goodNewName.MatchString(name) {
				return usagef("%q is no good name for an agent to write: use small letters, digits, - and _, with a letter first", name)
			}
			dir = cmp.Or(dir, name)
			return e.beginAgent(name, lang.value, filepath.Clean(dir))
		},
	}
	c.Flags().Var(&lang, "lang", "`LANGUAGE`: language of the program: "+lang.wanted())
	c.Flags().StringVar(&dir, "dir", "", "`DIR`: folder to write it to (default: its name)")
	return c
}

// moduleVersion returns the version of Cortex that a program can require; "" when this build is of no published version.
func moduleVersion() string {
	info, ok := debug.ReadBuildInfo()
	if !ok || info.Main.Path != modulePath || !strings.HasPrefix(info.Main.Version, "v") || strings.Contains(info.Main.Version, "+") {
		return ""
	}
	return info.Main.Version
}

func (e *env) beginAgent(name, lang, dir string) error {
	words := struct{ Name, Version string }{name, moduleVersion()}
	files := []starter{{name: "card.yaml", about: "what it can do"}}
	from := []string{"card.yaml"}
	card := shellWord(filepath.Join(dir, "card.yaml"))
	var program starter
	speaks := ""
	switch lang {
	case "bash":
		program.name = name + ".sh"
	case "python":
		program.name, speaks = name+".py", keeps
	case "typescript":
		program.name, speaks = name+".mjs", keeps
	case "go":
		program.name = "main.go"
	}
	program.about, program.program = "its program", lang != "go"
	files, from = append(files, program), append(from, lang)
	run := "cortex agent exec --card " + card + speaks + " -- ./" + shellWord(filepath.ToSlash(filepath.Join(dir, program.name)))
	if filepath.IsAbs(dir) {
		run = strings.Replace(run, "-- ./", "-- ", 1)
	}
	run = commandLines(run, "    ", screen.Width(e.stdout)) + "\n"
	if lang == "go" {
		files, from = append(files, starter{name: "go.mod", about: "its module"}), append(from, "go.mod.txt")
		clone := ""
		if !isPublished() { // go mod tidy finds published versions only
			clone = "    # CLONE is the folder that this cortex was built in\n    go mod edit -replace " + modulePath + "=CLONE\n"
		}
		run = "    cd " + shellWord(dir) + "\n" + clone + "    go mod tidy\n    go run . agent " + name + "\n"
	}
	for i := range files {
		if err := files[i].read("agent/"+from[i], words); err != nil {
			return err
		}
	}
	for _, f := range sdk.Files(lang) {
		if f.Name == program.name {
			return usagef("%s is the name of a file that an agent in %s needs: choose another name", f.Name, lang)
		}
		files = append(files, starter{name: f.Name, about: f.About, text: f.Text})
	}
	if err := writeStarters(dir, files); err != nil {
		return err
	}
	return e.tellStarters(dir, files, "Let it join the Cortex that runs, such as an open `cortex chat`:\n\n"+run+
		"\nThen say in the chat: @"+name+" hello\n")
}
