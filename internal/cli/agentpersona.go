package cli

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"io/fs"
	"log/slog"
	"os"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"
	"golang.org/x/sync/errgroup"

	"github.com/cortex-orchestrator/cortex/agents/mcp"
	"github.com/cortex-orchestrator/cortex/agents/persona"
	"github.com/cortex-orchestrator/cortex/internal/datadir"
	"github.com/cortex-orchestrator/cortex/internal/llms"
	"github.com/cortex-orchestrator/cortex/internal/usage"
	"github.com/cortex-orchestrator/cortex/llm"
	"github.com/cortex-orchestrator/cortex/prompt"
	"github.com/cortex-orchestrator/cortex/transport"
)

// personaFlags are the flags of `cortex agent persona`.
type personaFlags struct {
	agentFlags
	config, root string
	skills       []string
	aliases      []string
	allowServers bool
}

func (e *env) newAgentPersona() *cobra.Command {
	var f personaFlags
	c := &cobra.Command{
		Use:   "persona FILE|DIR",
		Short: "Make agents of prompts with tools",
		Long: `Make an agent of a Markdown file whose front matter has a name, a description and a list of tools, such as .claude/agents/reviewer.md of Claude
Code or .github/agents/reviewer.agent.md of VS Code, or an agent of each file in a folder. A language model (--llm) does the tasks, step by step,
with these tools:

    Read, Glob, Grep, Write, Edit   the files in the folder --root; changing them needs your yes
    mcp__SERVER__TOOL               tools of MCP servers, which are in --config or, with --allow-servers, in the files
    delegate                        other agents, through Cortex
    load_skill                      folders with a SKILL.md, in --skills
    ask_user, open_file             questions to you, and text files that come with a task
    remember, recall, ...           a memory in each conversation, with ` + "`cortex: {memory: true}`" + `

Which of them a file allows, and what it says that means nothing here, is printed in a line each. Keys of Cortex are below the key cortex:

    cortex:
      max_steps: 12          # questions to the model; at a limit the agent answers with what it has, and says so
      max_tokens: 60000      # max_cost, timeout: 10m
      memory: true
      confirm: false         # calls that may destroy something need no yes
      reflection: {max_rounds: 2, criteria: [completeness, accuracy]}
      evaluators: {no_pii: {action: redact}, no_prices: {rules: ['\$\d+'], action: fail}, relevance: {threshold: 0.7, action: ask}}
      skills: [{id: review, description: Reviews code, examples: [review main.go], output_schema: {...}}]

A task that is cut off goes on where it was, and calls nothing twice that may have an effect. The journal for that is in the folder
personas of --data.`,
		Example: "  cortex agent persona reviewer.md --llm openai --root .\n  cortex agent persona .claude/agents --config .mcp.json --llm anthropic\n" +
			"  cortex agent persona writer.md --skills ~/skills --llm ollama/qwen3 --model-alias sonnet=qwen3:32b",
		Args: func(_ *cobra.Command, args []string) error {
			if len(args) != 1 {
				return usagef("which persona? cortex agent persona FILE|DIR: a Markdown file with front matter, or a folder of them")
			}
			return nil
		},
		RunE: func(cmd *cobra.Command, args []string) error { return e.runPersonas(cmd, args[0], &f) },
	}
	flags := c.Flags()
	flags.StringVar(&f.config, "config", mcpConfig, "`FILE`: list of MCP servers; for the settings of Cortex, set CORTEX_CONFIG")
	flags.BoolVar(&f.allowServers, "allow-servers", false, "start and reach the MCP servers that the files themselves describe")
	flags.StringVar(&f.root, "root", "", "`DIR`: folder whose files the agents may use")
	flags.StringSliceVar(&f.skills, "skills", nil, "`DIR`: a skill, or a folder of skills")
	flags.StringSliceVar(&f.aliases, "model-alias", nil, "`NAME=MODEL`: the model for a name in the files, such as sonnet")
	flags.IntVar(&f.concurrency, "concurrency", 0, "`N`: number of simultaneous tasks of an agent (default 8)")
	flags.BoolVar(&f.once, "once", false, "do the tasks that wait, then exit")
	n := e.settings.node
	flags.StringVar(&n.llm, "llm", "fake", "`NAME`: the model that does the tasks")
	flags.StringVar(&n.model, "model", "", "`MODEL`: instead of the endpoint's default")
	flags.DurationVar(&n.llmTimeout, "llm-timeout", time.Minute, "`TIME`: the longest an answer of the model may take")
	setting(flags, "concurrency", "llm", "model", "llm-timeout")
	return c
}

// runPersonas runs personas as agents until the command is interrupted.
func (e *env) runPersonas(cmd *cobra.Command, path string, f *personaFlags) error {
	ctx := cmd.Context()
	if _, err := os.Stat(path); errors.Is(err, fs.ErrNotExist) {
		return usagef("%s: there is no such file or folder", prompt.Clean(path, 200))
	}
	all, err := persona.ReadAll(ctx, path)
	switch {
	case ctx.Err() != nil:
		return nil
	case err != nil:
		return usage.New(err)
	}
	var root *os.Root
	if f.root != "" {
		if root, err = os.OpenRoot(f.root); err != nil {
			return usagef("--root %s: %w", prompt.Clean(f.root, 200), errors.Unwrap(err))
		}
		defer root.Close() //nolint:errcheck // nothing is written through it any more
	}
	var skills []*persona.Skill
	defer func() {
		for _, s := range skills {
			_ = s.Close()
		}
	}()
	for _, dir := range f.skills {
		some, err := persona.ReadSkills(ctx, dir)
		if err != nil {
			return usagef("--skills: %w", err)
		}
		skills = append(skills, some...)
	}
	log := e.commandLog(slog.LevelWarn)
	models := &models{env: e, aliases: map[string]string{}, log: log, byName: map[string]*llm.Asker{}}
	for _, alias := range f.aliases {
		name, model, ok := strings.Cut(alias, "=")
		if !ok || name == "" || model == "" {
			return usagef("--model-alias %s: want NAME=MODEL, such as sonnet=gpt-5.4-mini", prompt.Clean(alias, 100))
		}
		models.aliases[name] = model
	}
	defer models.close()
	running, ctx := errgroup.WithContext(ctx)
	pool := &serverPool{env: e, flags: f, log: log}
	defer pool.close()
	for _, p := range all {
		a, end, err := e.openPersona(cmd, p, &persona.Options{Dir: datadir.Personas(e.settings.data), Root: root, Skills: skills, Logger: log}, models, pool)
		if err != nil && cmd.Context().Err() != nil {
			return nil // the user interrupted it
		}
		if err != nil {
			return err
		}
		defer end()
		one := e.forAgent()
		running.Go(func() error {
			err := one.runAgent(ctx, p.Card, newWorklog(a, prompt.Clean(p.Card.Name, 64), one.speaker()), &f.agentFlags)
			if err == nil && cmd.Context().Err() == nil && ctx.Err() == nil && !f.once {
				err = errors.New("the agent has ended")
			}
			return err
		})
	}
	serving, stop := context.WithCancel(cmd.Context())
	var servers errgroup.Group
	for _, s := range pool.all {
		servers.Go(func() error { return s.Run(serving) })
	}
	err = running.Wait()
	stop()
	return errors.Join(err, servers.Wait())
}

// openPersona opens the agent of a persona, and says what of its file means nothing here.
func (e *env) openPersona(cmd *cobra.Command, p *persona.Persona, o *persona.Options, models *models, pool *serverPool) (*persona.Agent, func(), error) {
	id, err := transport.AgentID(p.Card.Name)
	if err != nil {
		return nil, nil, usagef("%s: %w", p.File, err)
	}
	if o.Model, err = models.of(cmd.Context(), p); err != nil {
		return nil, nil, err
	}
	if o.Servers, err = pool.of(cmd, p, id); err != nil {
		return nil, nil, err
	}
	a, err := persona.Open(p, o)
	if err != nil {
		return nil, nil, err
	}
	name, say := prompt.Clean(p.Name, 64), e.speaker()
	for _, line := range p.Ignored {
		say("%s: ignored: %s", name, prompt.Clean(line, 200))
	}
	has, foreign := a.Tools()
	say("%s: tools: %s", name, prompt.Clean(strings.Join(has, ", "), 600))
	if len(foreign) > 0 {
		why := ""
		if o.Root == nil && slices.ContainsFunc(foreign, isFileTool) {
			why = " (for files, name a folder with --root)"
		}
		say("%s: not here: %s%s", name, prompt.Clean(strings.Join(foreign, ", "), 300), why)
	}
	lost := slices.DeleteFunc(slices.Clone(p.Skills), func(skill string) bool {
		return slices.ContainsFunc(o.Skills, func(s *persona.Skill) bool { return s.Name == skill })
	})
	if len(lost) > 0 {
		say("%s: skills that are not here: %s (name their folder with --skills)", name, prompt.Clean(strings.Join(lost, ", "), 300))
	}
	return a, func() { _ = a.Close() }, nil
}

func isFileTool(name string) bool {
	return slices.Contains([]string{"read", "write", "edit", "grep", "glob", "search", "multiedit", "editfiles", "codebase"}, strings.ToLower(name))
}

// models are the models of personas, by the names in their files.
type models struct {
	env     *env
	aliases map[string]string
	log     *slog.Logger
	byName  map[string]*llm.Asker
	closers []func() error
}

// of returns the model for a persona: the first of its models that has an alias, else the one that --llm and --model name.
func (m *models) of(ctx context.Context, p *persona.Persona) (*llm.Asker, error) {
	name := ""
	for _, one := range p.Models {
		if name = m.aliases[one]; name != "" {
			break
		}
	}
	if len(p.Models) > 0 && name == "" {
		p.Ignored = append(p.Ignored, "model: "+strings.Join(p.Models, ", ")+" (the model of --llm is used; --model-alias "+shellWord(p.Models[0])+"=MODEL changes that)")
	}
	s := m.env.settings
	node := *s.node
	node.model, s.node = cmp.Or(name, node.model), &node
	if p.Limits.Cost > 0 {
		chain, _ := s.chain() // openClient tells its error
		if i := slices.IndexFunc(chain, (*llms.Endpoint).Unpriced); i >= 0 {
			return nil, usagef("%s: cortex: max_cost: %w", p.File, llms.ErrUnpriced(chain[i].Name))
		}
	}
	if asker := m.byName[name]; asker != nil {
		return asker, nil
	}
	client, options, end, err := s.openClient(ctx, m.log)
	if err != nil {
		return nil, err
	}
	if client == nil {
		return nil, usagef("a persona needs a language model: --llm NAME; `cortex llm list` shows the names")
	}
	m.closers = append(m.closers, end)
	m.byName[name] = llm.NewAsker(client, options)
	return m.byName[name], nil
}

func (m *models) close() {
	for _, end := range m.closers {
		_ = end() // it has been used for the last time
	}
}

// serverPool has the MCP servers of personas. Personas share a server that is configured in the file of all.
type serverPool struct {
	env   *env
	flags *personaFlags
	log   *slog.Logger
	all   []*persona.Server
	of1   map[string]*persona.Server // by name, those of the file of all
	dir   string
}

// of opens the servers that a persona names.
func (s *serverPool) of(cmd *cobra.Command, p *persona.Persona, id string) ([]*persona.Server, error) {
	if s.dir == "" { // only one process works with the folder of its first persona
		s.dir, s.of1 = persona.ServersDir(datadir.Personas(s.env.settings.data), id), map[string]*persona.Server{}
	}
	var mine []*persona.Server
	for name, raw := range p.Inline {
		if !s.flags.allowServers { // it may run any program, and send any variable of the environment anywhere
			return nil, usagef("%s: mcpServers: %s is described in the file itself, which would start a program or reach a URL: read it, and allow it with --allow-servers", p.File, prompt.Clean(name, 64))
		}
		b, err := json.Marshal(map[string]any{"mcpServers": map[string]json.RawMessage{name: raw}})
		if err != nil {
			return nil, usagef("%s: mcpServers: %w", p.File, err)
		}
		config, err := mcp.ParseConfig(b)
		if err != nil {
			return nil, usagef("%s: mcpServers: %w", p.File, err)
		}
		one, err := s.open(cmd.Context(), config, name, persona.ServersDir(datadir.Personas(s.env.settings.data), id))
		if err != nil {
			return nil, usagef("%s: mcpServers: %w", p.File, err)
		}
		mine = append(mine, one)
	}
	given := cmd.Flags().Changed("config")
	config, err := mcp.ReadConfig(cmd.Context(), s.flags.config)
	switch {
	case errors.Is(err, fs.ErrNotExist) && !given && len(p.Servers) == 0:
		return mine, nil
	case errors.Is(err, fs.ErrNotExist) && !given:
		return nil, usagef("%s: mcpServers: there is no %s here that says what %s is: name a file with --config", p.File, mcpConfig, prompt.Clean(p.Servers[0], 64))
	case err != nil:
		return nil, usagef("--config: %w", err)
	}
	for _, name := range p.Servers {
		if !slices.Contains(config.Names(), name) {
			return nil, usagef("%s: mcpServers: %s has no server %q: it lists %s", p.File, s.flags.config, prompt.Clean(name, 64), prompt.Clean(strings.Join(config.Names(), ", "), 300))
		}
	}
	for _, name := range config.Names() {
		if !slices.Contains(p.Servers, name) && !p.Tools.Wants(name) && (p.Tools.Allowed != nil || p.Servers != nil || p.Inline != nil || !given) || p.Inline[name] != nil {
			continue
		}
		if s.of1[name] == nil {
			if s.of1[name], err = s.open(cmd.Context(), config, name, s.dir); err != nil {
				return nil, usagef("%s: %w", s.flags.config, err)
			}
		}
		mine = append(mine, s.of1[name])
	}
	return mine, nil
}

// open opens a server of a configuration.
func (s *serverPool) open(ctx context.Context, config *mcp.Config, name, dir string) (*persona.Server, error) {
	server, err := config.Server(name, os.LookupEnv)
	if err != nil {
		return nil, err
	}
	a, err := mcp.Open(ctx, server, &mcp.Options{Dir: dir, Version: buildVersion(), Logger: s.log})
	if err != nil {
		return nil, err
	}
	one := &persona.Server{Name: name, Agent: a}
	s.all = append(s.all, one)
	return one, nil
}

func (s *serverPool) close() {
	for _, one := range s.all {
		_ = one.Close() // an error loses nothing
	}
}
