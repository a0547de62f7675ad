package cli

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"strings"
	"time"

	"github.com/spf13/cobra"
	"golang.org/x/sync/errgroup"

	peers "github.com/cortex-orchestrator/cortex/agents/a2a"
	"github.com/cortex-orchestrator/cortex/internal/datadir"
	"github.com/cortex-orchestrator/cortex/internal/usage"
	"github.com/cortex-orchestrator/cortex/prompt"
	"github.com/cortex-orchestrator/cortex/transport"
)

// a2aFlags are the flags of `cortex agent a2a`.
type a2aFlags struct {
	agentFlags
	name, prefix, credentials, directory string
	hosts                                []string
	refresh                              time.Duration
}

func (e *env) newAgentA2A() *cobra.Command {
	var f a2aFlags
	c := &cobra.Command{
		Use:   "a2a [URL...] [--a2a-directory FILE|URL]",
		Short: "Make agents of agents that speak A2A",
		Long: `Make agents of agents on the network that speak A2A, version 1.0 or 0.3, over JSON-RPC, HTTP+JSON or gRPC. A URL is that of an
agent, whose card is at /.well-known/agent-card.json below it, or of a card. The agent has the name and the skills that are on its card.

The card is read again every five minutes, or as often as its server says. When the agent could not be reached for ten seconds it is draining; its last
card is kept. A card may name addresses on its own host, and on those of --allow-host.

Credentials are the headers that the file of --credentials has for an origin, or the bearer token in A2A_TOKEN for a single URL:

    https://agents.example.com:
      Authorization: Bearer s3cret

A task is one task of the other agent, once its server has named it, also if Cortex, this command or the server is restarted
meanwhile. The journal for that is in the folder a2a of --data.`,
		Example: "  cortex agent a2a https://agents.example.com/weather\n  cortex agent a2a --name weather --credentials keys.yaml https://agents.example.com/card.json\n" +
			"  cortex agent a2a --prefix acme. --a2a-directory agents.txt",
		Args: func(_ *cobra.Command, args []string) error { return f.check(args) },
		RunE: func(cmd *cobra.Command, args []string) error { return e.runPeers(cmd, args, &f) },
	}
	c.Flags().StringVar(&f.name, "name", "", "`NAME`: name of the agent, instead of that on its card")
	c.Flags().StringVar(&f.prefix, "prefix", "", "`TEXT`: what the names on the cards get in front")
	c.Flags().StringVar(&f.credentials, "credentials", "", "`FILE`: headers of requests, by origin")
	c.Flags().StringVar(&f.directory, "a2a-directory", "", "`FILE|URL`: list of agents, a URL per line")
	c.Flags().StringSliceVar(&f.hosts, "allow-host", nil, "`HOST`: host that cards may name beside their own")
	c.Flags().DurationVar(&f.refresh, "refresh", 0, "`TIME`: how often cards are read (default: as their server says, else 5m)")
	c.Flags().IntVar(&f.concurrency, "concurrency", 0, "`N`: number of simultaneous tasks of an agent (default 8)")
	setting(c.Flags(), "concurrency")
	return c
}

// check returns what is wrong with the command line, or nil.
func (f *a2aFlags) check(args []string) error {
	switch {
	case len(args) == 0 && f.directory == "":
		return usagef("which agent? cortex agent a2a https://example.com, or --a2a-directory FILE with a URL per line")
	case f.name != "" && (len(args) != 1 || f.directory != ""):
		return usagef("--name is the name of one agent: give one URL, or --prefix for several")
	case f.name != "" && f.prefix != "":
		return usagef("--name and --prefix both say the name: give one of them")
	case f.refresh < 0 || f.refresh > 0 && f.refresh < time.Second:
		return usagef("--refresh %v: it must be at least a second", f.refresh)
	}
	return nil
}

// peers returns the peers that the command line names, and those of the list.
func (f *a2aFlags) peers(ctx context.Context, args []string, say func(string, ...any)) (all, listed []*peers.Peer, err error) {
	var keys *peers.Credentials
	token := os.Getenv(peers.TokenVar)
	switch {
	case f.credentials != "":
		if keys, err = peers.ReadCredentials(ctx, f.credentials); err != nil {
			return nil, nil, usagef("--credentials: %w", err)
		}
	case token != "" && len(args) == 1 && f.directory == "":
		if keys, err = peers.BearerToken(args[0], token); err != nil {
			return nil, nil, usagef("%s: %w", peers.TokenVar, err)
		}
	}
	for _, url := range args {
		p := &peers.Peer{URL: url, Name: f.name, Prefix: f.prefix, Hosts: f.hosts, Refresh: f.refresh, Credentials: keys}
		if err := p.Check(); err != nil {
			return nil, nil, usage.New(err)
		}
		all = append(all, p)
	}
	if f.directory == "" {
		return all, nil, nil
	}
	list, err := peers.ReadDirectory(ctx, f.directory)
	if err != nil {
		if strings.Contains(f.directory, "://") { // it may be there later
			return nil, nil, fmt.Errorf("--a2a-directory: %w", err)
		}
		return nil, nil, usagef("--a2a-directory: %w", err)
	}
	for _, entry := range list.Entries {
		if entry.Err != nil {
			say("%s, %s: %s", prompt.Clean(f.directory, 200), entry.At, prompt.Clean(entry.Err.Error(), 300))
			continue
		}
		listed = append(listed, &peers.Peer{URL: entry.URL, Prefix: f.prefix, Hosts: f.hosts, Refresh: f.refresh, Credentials: keys, Public: list.Public})
	}
	return all, listed, nil
}

// runPeers runs peers as agents, each with its own connection, until the command is interrupted.
func (e *env) runPeers(cmd *cobra.Command, args []string, f *a2aFlags) error {
	say := e.speaker()
	all, listed, err := f.peers(cmd.Context(), args, say)
	if err != nil && cmd.Context().Err() != nil {
		return nil // the user interrupted it
	}
	if err != nil {
		return err
	}
	f.waits = true
	run := &peers.Company{
		Options: &peers.Options{Dir: datadir.A2A(e.settings.data), Version: buildVersion(), Logger: e.commandLog(slog.LevelWarn)}, Renamed: "--name or --prefix",
		Tell: func(at string, err error) {
			e.speaker()("%s is tried again and again: %s", peers.BareURL(at), prompt.Clean(err.Error(), 300))
		},
	}
	serve := func(ctx context.Context, a *peers.Agent) error { return e.runPeer(ctx, a, f.agentFlags) }
	running, ctx := errgroup.WithContext(cmd.Context())
	for _, p := range all {
		running.Go(func() error { return run.Run(ctx, p, serve) })
	}
	for _, p := range listed {
		running.Go(func() error {
			run.Keep(ctx, p, serve)
			return nil
		})
	}
	if err := running.Wait(); err != nil || cmd.Context().Err() != nil {
		return err
	}
	return errors.New("no agent is left")
}

// runPeer serves an agent with a connection of its own.
func (e *env) runPeer(ctx context.Context, a *peers.Agent, flags agentFlags) error {
	one := e.forAgent()
	flags.before = func(ctx context.Context, tr transport.Transport) error {
		return peers.Alone(ctx, tr, e.settings.tenant, a.Card(), "--name or --prefix")
	}
	return one.runAgent(ctx, a.Card(), newWorklog(a, prompt.Clean(a.ID(), 64), one.speaker()), &flags)
}
