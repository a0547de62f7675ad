package cli

import (
	"cmp"
	"fmt"
	"io"
	"regexp"
	"strings"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/cortex-orchestrator/cortex/internal/cli/typed"
	"github.com/cortex-orchestrator/cortex/internal/screen"
	"github.com/cortex-orchestrator/cortex/internal/table"
	"github.com/cortex-orchestrator/cortex/internal/usage"
	"github.com/cortex-orchestrator/cortex/repl"
)

// flagGroup is the annotation that names the group under which the help lists a flag. Flags without it come first, under "Flags".
const flagGroup = "cortex_group"

// flagGroups are the titles of the groups of flags, in the order of the help.
var flagGroups = []string{groupDecide, groupAgents, groupKeep}

const (
	groupDecide = "What decides"
	groupAgents = "Agents and rules"
	groupKeep   = "Server and what is kept"
)

// group puts flags under a title of the help.
func group(f *pflag.FlagSet, title string, names ...string) {
	for _, name := range names {
		if err := f.SetAnnotation(name, flagGroup, []string{title}); err != nil {
			panic(err) // there is no such flag
		}
	}
}

// groupOf returns the title of a flag's group, or "".
func groupOf(f *pflag.Flag) string {
	if title := f.Annotations[flagGroup]; len(title) > 0 {
		return title[0]
	}
	return ""
}

// usage writes how a command is used. Unlike cobra's, it groups the flags, and describes the flags of every command only at the root.
func (e *env) usage(c *cobra.Command) error {
	var out strings.Builder
	out.WriteString("Usage:")
	if c.Runnable() {
		fmt.Fprintf(&out, "\n%s", hanging(c.UseLine(), screen.Width(e.stdout)))
	}
	if c.HasAvailableSubCommands() {
		fmt.Fprintf(&out, "\n  %s [command]", c.CommandPath())
	}
	out.WriteString("\n")
	if c.HasExample() {
		out.WriteString("\nExamples:\n")
		for line := range strings.SplitSeq(c.Example, "\n") {
			out.WriteString(commandLines(strings.TrimPrefix(line, "  "), "  ", screen.Width(e.stdout)) + "\n")
		}
	}
	for _, g := range c.Groups() {
		e.listCommands(&out, g.Title, c, func(sub *cobra.Command) bool { return sub.GroupID == g.ID })
	}
	title := "Commands:"
	if len(c.Groups()) > 0 {
		title = "More:"
	}
	e.listCommands(&out, title, c, func(sub *cobra.Command) bool { return sub.GroupID == "" })
	e.listFlags(&out, c)
	if c.HasHelpSubCommands() {
		out.WriteString("\nTopics:\n")
		for _, sub := range c.Commands() {
			if sub.IsAdditionalHelpTopicCommand() {
				e.writeText(&out, fmt.Sprintf("  %-11s %s", sub.Name(), sub.Short))
			}
		}
	}
	if c.HasAvailableSubCommands() {
		out.WriteString("\n")
		e.writeText(&out, fmt.Sprintf("`%s COMMAND --help` tells more of a command.", c.CommandPath()))
	}
	_, err := io.WriteString(c.OutOrStderr(), out.String())
	return err
}

// hanging wraps the line that says how a command is used, on a terminal, and indents what follows the first line more.
func hanging(use string, width int) string {
	const indent = "  "
	if width <= 0 {
		return indent + use
	}
	return indent + strings.Join(table.Wrap(use, max(width-2*len(indent), minText)), "\n"+indent+indent)
}

// writeText writes a line of a help, wrapped between words on a terminal.
func (e *env) writeText(out *strings.Builder, text string) {
	if width := screen.Width(e.stdout); width > 0 {
		text = strings.TrimRight(repl.WrapText(text, width), "\n")
	}
	out.WriteString(text + "\n")
}

// listCommands lists commands below c; all lists share their column widths.
func (e *env) listCommands(out *strings.Builder, title string, c *cobra.Command, of func(*cobra.Command) bool) {
	t := &table.Table{Columns: make([]table.Column, 2), Wrap: true}
	for _, sub := range c.Commands() {
		if sub.IsAvailableCommand() || sub.Name() == "help" {
			t.Columns[0].Wide = max(t.Columns[0].Wide, len("  "+sub.Name()))
			if of(sub) {
				t.Row("  "+sub.Name(), sub.Short)
			}
		}
	}
	if t.Len() > 0 {
		fmt.Fprintf(out, "\n%s\n%s", title, t.Render(screen.Width(e.stdout), nil))
	}
}

// maxLine bounds the width of help texts, in columns: longer lines are hard to read.
const maxLine = 100

// help writes the description and the usage of c. On a terminal it wraps paragraphs to the width; lines that are indented
// stay lines of their own.
func (e *env) help(c *cobra.Command, _ []string) {
	text := strings.ReplaceAll(strings.TrimSpace(cmp.Or(c.Long, c.Short)), "#### ", "") // cobra's own, of completions
	if width := min(screen.Width(e.stdout), maxLine); width > 0 {
		paragraphs := strings.Split(text, "\n\n")
		for i, p := range paragraphs {
			if !strings.HasPrefix(p, " ") {
				p = strings.ReplaceAll(p, "\n", " ")
			}
			paragraphs[i] = wrapHelp(p, width)
		}
		text = strings.Join(paragraphs, "\n\n")
	}
	if c.Runnable() || c.HasSubCommands() {
		text += "\n\n" + c.UsageString()
	}
	fmt.Fprintln(c.OutOrStdout(), strings.TrimRight(text, "\n"))
}

// namedLine matches what stands before the text of a line in a list: "    rtfs         Agents of RTFS register".
var namedLine = regexp.MustCompile(`^ +\S+ {2,}`)

// wrapHelp wraps a paragraph of a help between words. In a list, whose lines are a name and a text, the text stays beside the name.
func wrapHelp(p string, width int) string {
	var out []string
	for line := range strings.SplitSeq(p, "\n") {
		name := namedLine.FindString(line)
		room := max(width-len(name), minText)
		for i, row := range strings.Split(strings.TrimRight(repl.WrapText(line[len(name):], room), "\n"), "\n") {
			if i > 0 {
				row = strings.Repeat(" ", len(name)) + row
			} else {
				row = name + row
			}
			out = append(out, row)
		}
	}
	return strings.Join(out, "\n")
}

// flagLine matches the first line of a flag in pflag's list.
var flagLine = regexp.MustCompile(`^(?:  -\w, |      )--([\w-]+)`)

// listFlags writes the flags of c in common columns.
func (e *env) listFlags(out *strings.Builder, c *cobra.Command) {
	flags, common := c.LocalFlags(), c.InheritedFlags()
	lines := map[string]string{}
	at := ""
	for line := range strings.Lines(e.flagLines(flags)) {
		if name := flagLine.FindStringSubmatch(line); name != nil {
			at = groupOf(flags.Lookup(name[1]))
		}
		lines[at] += line
	}
	for _, title := range append([]string{""}, flagGroups...) {
		if lines[title] == "" {
			continue
		}
		if title == "" {
			fmt.Fprintf(out, "\nFlags:\n%s", lines[title])
			continue
		}
		fmt.Fprintf(out, "\n%s:\n%s", title, lines[title])
	}
	var names []string
	common.VisitAll(func(f *pflag.Flag) {
		if c.Root().PersistentFlags().Lookup(f.Name) != nil {
			names = append(names, "--"+f.Name)
		}
	})
	var parents pflag.FlagSet // flags of parent commands, such as --json of a command with subcommands
	common.VisitAll(func(f *pflag.Flag) {
		if c.Root().PersistentFlags().Lookup(f.Name) == nil {
			parents.AddFlag(f)
		}
	})
	if parents.HasAvailableFlags() {
		fmt.Fprintf(out, "\nFlags of %s:\n%s", c.Parent().CommandPath(), e.flagLines(&parents))
	}
	if len(names) > 0 {
		width := cmp.Or(screen.Width(e.stdout), maxLine) - 2
		out.WriteString("\n")
		e.writeText(out, "Flags of every command, see `cortex --help`:")
		fmt.Fprintf(out, "  %s\n", strings.Join(table.Wrap(strings.Join(names, " "), width), "\n  "))
	}
}

// flagValue is the beginning of a flag's line whose text, as in "`FILE`: card of the agent", begins with the name of what the flag takes.
var flagValue = regexp.MustCompile(`(?m)^( *(?:-\w, )?--[\w-]+ [A-Z|=]+ +)[A-Z|=]+: `)

var (
	// flagNames is what stands before a flag's text.
	flagNames = regexp.MustCompile(`^(?:  -\w, |      )--[\w-]+(?: \S+)? {2,}`)
	// listDefault is the default of a flag that takes a list. On the command line it has no brackets.
	listDefault = regexp.MustCompile(`\(default \[([^\]\n]*)\]\)`)
)

// flagLines returns the lines of flags, each with its name, what it takes, and its text, which is wrapped between words on a terminal.
func (e *env) flagLines(flags *pflag.FlagSet) string {
	text := listDefault.ReplaceAllString(flagValue.ReplaceAllString(flags.FlagUsages(), "$1"), "(default $1)")
	width := screen.Width(e.stdout)
	if width == 0 {
		return text
	}
	var out strings.Builder
	for line := range strings.Lines(text) {
		line = strings.TrimRight(line, "\n")
		n := len(flagNames.FindString(line))
		name, indent := line[:n], strings.Repeat(" ", n)
		if n > 0 && width-n < minText { // the text is below the name
			indent = strings.Repeat(" ", belowName)
			name = strings.TrimRight(name, " ") + "\n" + indent
		}
		rows := strings.Join(table.Wrap(strings.ReplaceAll(line[n:], "(default ", together), max(width-len(indent), minText)), "\n"+indent)
		out.WriteString(name + strings.ReplaceAll(rows, together, "(default ") + "\n")
	}
	return out.String()
}

// together stands for the beginning of a default while a text is wrapped, so that its value is on the same line.
const together = "(default\ufffc"

const (
	minText   = 16 // the smallest width of a flag's text, in columns, however narrow the terminal is
	belowName = 10 // columns before a text that has no room beside the flag's name
)

// newHelp returns the command help, which fails for an unknown topic.
func newHelp(root *cobra.Command) *cobra.Command {
	return &cobra.Command{
		Use: "help [COMMAND]", Short: "Help about any command or topic", Example: "  cortex help ask\n  cortex help settings",
		ValidArgsFunction: func(_ *cobra.Command, args []string, _ string) ([]cobra.Completion, cobra.ShellCompDirective) {
			var names []cobra.Completion
			if c, rest, err := root.Find(args); err == nil && len(rest) == 0 {
				for _, sub := range c.Commands() {
					if sub.IsAvailableCommand() || sub.IsAdditionalHelpTopicCommand() {
						names = append(names, cobra.CompletionWithDesc(sub.Name(), sub.Short))
					}
				}
			}
			return names, cobra.ShellCompDirectiveNoFileComp
		},
		RunE: func(_ *cobra.Command, args []string) error {
			c, rest, err := root.Find(args)
			if err != nil {
				return usage.New(err)
			}
			if len(rest) > 0 {
				return usagef("there is no help on %q: %s", strings.Join(args, " "), cmp.Or(typed.Meant(c, rest[0]), "`cortex help` lists the commands and topics"))
			}
			c.InitDefaultHelpFlag()
			c.InitDefaultVersionFlag()
			return c.Help()
		},
	}
}
