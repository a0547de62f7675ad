package cli

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"net/url"
	"os"
	"slices"
	"strings"

	"github.com/spf13/cobra"
	"golang.org/x/sync/errgroup"

	"github.com/cortex-orchestrator/cortex/agents/mcp"
	"github.com/cortex-orchestrator/cortex/internal/table"
	"github.com/cortex-orchestrator/cortex/internal/usage"
	"github.com/cortex-orchestrator/cortex/prompt"
)

// mcpConfig is the file that lists the MCP servers of a project, as other programs name it.
const mcpConfig = ".mcp.json"

// mcpFlags are the flags of `cortex agent mcp`.
type mcpFlags struct {
	agentFlags
	config, name, url string
}

func (e *env) newAgentMCP() *cobra.Command {
	var f mcpFlags
	c := &cobra.Command{
		Use:   "mcp [NAME... | --name NAME -- PROGRAM [ARGS...] | --url URL]",
		Short: "Make agents of MCP servers",
		Long: `Make agents of MCP servers, called mcp_NAME, with a skill for each tool. Without a NAME this lists the servers in a file and starts
nothing. The file is that of another program, such as .mcp.json or .vscode/mcp.json; ${NAME} and ${NAME:-default} in it are replaced
by environment variables.

A server is a program or a URL. The program is restarted when it ends, and ended with the agent. One of several servers that does not start
is tried again until it does, and the others join without it. A program from a file gets only the
environment variables that programs need, and those in the file. For a URL, the bearer token is in the file's headers or, with --url, in
MCP_TOKEN; at a server that wants OAuth, cortex mcp login logs you in, and the tokens are refreshed.

A tool needs your yes unless its server says that it destroys nothing; the rule confirm: false in the policy waives it. A tool whose
description or schema has changed since it was first seen needs it, too. A tool with side effects is called once per task: if the
call is interrupted, the task fails and says that the outcome is unknown. The journal for that is in the folder mcp of --data.`,
		Example: "  cortex agent mcp --config .mcp.json\n  cortex agent mcp fs memory --config .mcp.json\n" +
			"  cortex agent mcp --name fs -- npx -y @modelcontextprotocol/server-filesystem .\n  cortex agent mcp --url https://example.com/mcp",
		Args: func(cmd *cobra.Command, args []string) error { return f.check(cmd, args) },
		RunE: func(cmd *cobra.Command, args []string) error {
			if f.name == "" && f.url == "" && len(args) == 0 {
				return e.listServers(cmd, &f)
			}
			return e.runServers(cmd, args, &f)
		},
	}
	c.Flags().StringVar(&f.config, "config", mcpConfig, "`FILE`: list of the servers; for the settings of Cortex, set CORTEX_CONFIG")
	c.Flags().StringVar(&f.name, "name", "", "`NAME`: name of a server that is not in a file")
	c.Flags().StringVar(&f.url, "url", "", "`URL`: server that is not in a file")
	c.Flags().IntVar(&f.concurrency, "concurrency", 0, "`N`: number of simultaneous calls of a server (default 8)")
	setting(c.Flags(), "concurrency")
	c.ValidArgsFunction = f.complete
	return c
}

// complete completes the names of the servers in the file.
func (f *mcpFlags) complete(_ *cobra.Command, args []string, _ string) ([]cobra.Completion, cobra.ShellCompDirective) {
	if f.name != "" || f.url != "" {
		return nil, cobra.ShellCompDirectiveDefault
	}
	config, err := mcp.ReadConfig(context.Background(), f.config)
	if err != nil {
		return nil, cobra.ShellCompDirectiveNoFileComp
	}
	var names []cobra.Completion
	for _, name := range config.Names() {
		if isPlainWord(name) && !slices.Contains(args, name) {
			names = append(names, cobra.CompletionWithDesc(name, prompt.Clean(config.About(name), 60)))
		}
	}
	return names, cobra.ShellCompDirectiveNoFileComp
}

// check returns what is wrong with the command line, or nil.
func (f *mcpFlags) check(cmd *cobra.Command, args []string) error {
	dash := cmd.ArgsLenAtDash()
	own := cmd.Flags().Changed("config")
	switch {
	case f.url != "" && len(args) > 0:
		return usagef("a server is at --url, or is a program: give one of them")
	case (f.url != "" || f.name != "") && own:
		return usagef("--config lists servers by their names: give it without --name and --url")
	case f.url != "":
		return nil
	case f.name != "" && len(args) == 0:
		return usagef("which program? cortex agent mcp --name %s -- PROGRAM [ARGS...]", shellWord(f.name))
	case f.name != "" && dash != 0:
		return usagef("put the program behind `--`: cortex agent mcp --name %s -- %s", shellWord(f.name), shellWord(args[0]))
	case f.name == "" && dash >= 0 && len(args) > dash:
		return usagef("--name is missing: cortex agent mcp --name NAME -- %s", shellWord(args[dash]))
	}
	return nil
}

// readServers reads the file that lists MCP servers.
func (f *mcpFlags) readServers(cmd *cobra.Command) (*mcp.Config, error) {
	config, err := mcp.ReadConfig(cmd.Context(), f.config)
	switch {
	case err != nil && cmd.Context().Err() != nil:
		return nil, cmd.Context().Err()
	case errors.Is(err, fs.ErrNotExist) && !cmd.Flags().Changed("config"):
		return nil, usagef("there is no %s here: name a file with --config, or a server with --name NAME -- PROGRAM, or --url URL", mcpConfig)
	case err != nil:
		return nil, usagef("--config: %w", err)
	}
	return config, nil
}

// listServers prints the servers of a file without starting them.
func (e *env) listServers(cmd *cobra.Command, f *mcpFlags) error {
	config, err := f.readServers(cmd)
	if err != nil {
		return err
	}
	names := config.Names()
	if len(names) == 0 {
		return fmt.Errorf("%s lists no server", f.config)
	}
	t := table.New("SERVER", "RUNS")
	for _, name := range names {
		t.Row(name, config.About(name))
	}
	if err := e.show(t); err != nil {
		return err
	}
	own := ""
	if cmd.Flags().Changed("config") {
		own = " --config " + shellWord(f.config)
	}
	fmt.Fprintf(e.stderr, "nothing was started; to start one: cortex agent mcp %s%s\n", shellWord(names[0]), own)
	return nil
}

// servers returns the servers that the command line names.
func (f *mcpFlags) servers(cmd *cobra.Command, args []string) ([]*mcp.Server, error) {
	if f.url != "" || f.name != "" {
		if f.name == "" {
			u, err := url.Parse(f.url)
			if err != nil || u.Hostname() == "" {
				return nil, usagef("--url %s: want a URL such as https://example.com/mcp", prompt.Clean(f.url, 100))
			}
			f.name = u.Hostname()
		}
		s, err := mcp.FromCommand(f.name, args, f.url, os.LookupEnv)
		if err != nil {
			return nil, usage.New(err)
		}
		return []*mcp.Server{s}, nil
	}
	config, err := f.readServers(cmd)
	if err != nil {
		return nil, err
	}
	var all []*mcp.Server
	for i, name := range args {
		if slices.Contains(args[:i], name) {
			continue
		}
		if !slices.Contains(config.Names(), name) {
			return nil, usagef("%s: there is no server %q: it lists %s", f.config, name, prompt.Clean(strings.Join(config.Names(), ", "), 300))
		}
		s, err := config.Server(name, os.LookupEnv)
		if err != nil {
			return nil, usagef("%s: %w", f.config, err)
		}
		all = append(all, s)
	}
	return all, nil
}

// runServers runs servers as agents until the command is interrupted.
func (e *env) runServers(cmd *cobra.Command, args []string, f *mcpFlags) error {
	servers, err := f.servers(cmd, args)
	if err != nil {
		return err
	}
	log, starts := e.commandLog(slog.LevelWarn), newMCPStarts(len(servers))
	running, ctx := errgroup.WithContext(cmd.Context())
	for _, s := range servers {
		one := &mcpServer{s, e.forAgent(), log, starts, f.agentFlags}
		running.Go(func() error { return one.run(ctx) })
	}
	return running.Wait()
}
