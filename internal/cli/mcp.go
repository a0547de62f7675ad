package cli

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net/http"
	"slices"
	"sync"
	"time"

	"github.com/a2aproject/a2a-go/v2/a2a"
	"github.com/spf13/cobra"

	"github.com/cortex-orchestrator/cortex/bridge/mcp"
	"github.com/cortex-orchestrator/cortex/internal/cli/typed"
	"github.com/cortex-orchestrator/cortex/repl"
	"github.com/cortex-orchestrator/cortex/transport/nats/auth"
)

// newMCP returns the command by which other programs have Cortex as a tool.
func (e *env) newMCP() *cobra.Command {
	var wait time.Duration
	c := &cobra.Command{
		Use:   "mcp",
		Short: "Make Cortex a tool of Claude Code, VS Code and other MCP hosts",
		Long: `Run an MCP server on standard input and output. MCP hosts such as Claude Code start this command themselves. It joins the Cortex
that runs, or starts one if none runs on the data folder; with --nats it joins the one on that server.

When a host ends a call because of its own time limit, the work goes on: the tool get_turn, or the same call again, returns the
answer. What needs your yes and what agents want to know is put to you by the host, if it can do that.

` + "`cortex serve`" + ` serves the same tools over HTTP, at the path /mcp of --http. Without keys, only programs on its machine may use them; with
--auth, a bearer token is needed: see cortex auth token.`,
		Example: "  claude mcp add cortex -- cortex mcp\n  codex mcp add cortex -- cortex mcp\n" +
			"  code --add-mcp '{\"name\":\"cortex\",\"command\":\"cortex\",\"args\":[\"mcp\"]}'\n" +
			"  claude mcp add --transport http cortex http://127.0.0.1:8420/mcp",
		Args: func(cmd *cobra.Command, args []string) error {
			if err := typed.Exact()(cmd, args); err != nil {
				return err
			}
			if wait < time.Second || wait > maxMCPWait {
				return usagef("--wait %v: it is from 1s to %v", wait, maxMCPWait)
			}
			return nil
		},
		RunE: func(cmd *cobra.Command, _ []string) error {
			err := e.converse(cmd.Context(), func(ctx context.Context, b *backend, cfg repl.Config) error {
				defer e.sayNotices(cfg.Notices)()
				known := func(ctx context.Context) ([]*a2a.AgentCard, error) {
					all, err := b.known(ctx)
					if err != nil {
						return nil, err
					}
					var cards []*a2a.AgentCard
					for _, r := range all.Routable() {
						cards = append(cards, r.Card)
					}
					return cards, nil
				}
				log := e.settings.logger(e.logTo(), slog.LevelError)
				return mcp.New(mcp.Config{Client: cfg.Client, Store: b.store, Agents: known, Version: buildVersion(), Wait: wait, Logger: log}).Serve(ctx, e.stdin, e.stdout)
			}, new(where))
			if errors.Is(err, context.Canceled) && cmd.Context().Err() != nil {
				return nil // the host ends its servers so
			}
			return err
		},
	}
	e.settings.addOwn(c, []string{"llm", "model", "max-file"}, ownAgents...)
	c.Flags().DurationVar(&wait, "wait", mcp.DefaultWait, "`TIME`: how long a call waits for its answer; below the time limit of the program")
	c.AddCommand(e.newMCPLogin(), e.newMCPLogout())
	return c
}

// maxMCPWait bounds --wait.
const maxMCPWait = time.Hour

// mcpHandler returns what answers at /mcp for the node that running returns.
func (e *env) mcpHandler(running func() *node, waits error) http.Handler {
	return whenReady(running, waits, func(n *node) http.Handler { return n.mcp(e.settings.identify(n, auth.Person)) })
}

// whenReady returns what open returns for the node that running returns; while there is none, it says what is waited for.
func whenReady(running func() *node, waits error, open func(*node) http.Handler) http.Handler {
	var mu sync.Mutex
	var of *node
	var handler http.Handler
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		n := running()
		if n == nil {
			w.Header().Set("Retry-After", "1")
			http.Error(w, oneLine(waits), http.StatusServiceUnavailable)
			return
		}
		mu.Lock()
		if of != n {
			of, handler = n, open(n)
		}
		h := handler
		mu.Unlock()
		h.ServeHTTP(w, r)
	})
}

// mcp returns the node as an MCP server over HTTP.
func (n *node) mcp(identify mcp.Identify) http.Handler {
	online := func(context.Context) ([]*a2a.AgentCard, error) { return n.online(), nil }
	return mcp.New(mcp.Config{Client: n.forMany(), Store: n.store, Agents: online, Version: buildVersion(), Logger: n.log}).Handler(identify)
}

// bearer returns what knows the bearer tokens of a tenant. A node has one for all that it serves, made at its start: when the folder of keys is damaged
// later, what was revoked is known as it was before.
func (s *settings) bearer() (*auth.Bearer, error) {
	file := s.creds
	if s.node.auth != "" && s.node.auth != none {
		file = auth.Admin(s.node.auth, s.tenant)
	}
	return auth.NewBearer(file)
}

// warnBlind warns if bearer tokens are good for ever, since nobody says here which credentials were revoked.
func (n *node) warnBlind() {
	if n.sender == "" {
		return
	}
	by, err := n.tokens()
	if err != nil {
		return // nobody can ask, which is told to whoever tries
	}
	if err := by.Blind(); err != nil {
		n.log.Warn("over HTTP it is not noticed whose credentials were revoked: put account.jwt from the folder of keys beside the file of --creds, anew after each cortex auth revoke", "err", oneLine(err))
	}
}

// identify returns how those with one of the roles show who they are over HTTP; nil where nobody has to.
func (s *settings) identify(n *node, roles ...auth.Role) func(token string) (id string, err error) {
	if n.sender == "" {
		return nil
	}
	by, err := n.tokens()
	if err != nil {
		err = errors.New("this Cortex cannot tell who you are over HTTP: " + oneLine(err))
		n.log.Warn("nobody can ask over HTTP", "err", oneLine(err))
	}
	return func(token string) (string, error) {
		if err != nil {
			return "", err
		}
		who, err := by.Identify(token)
		if errors.Is(err, auth.ErrEarlier) {
			n.earlier.Do(func() {
				n.log.Warn("somebody is not let in over HTTP whose bearer token is of an earlier Cortex; said once", "do", "have whoever has one make it again: cortex auth token NAME")
			})
		}
		if err != nil {
			return "", err
		}
		if !slices.Contains(roles, who.Role) {
			return "", fmt.Errorf("%w: it is that of %s", auth.ErrBearer, who)
		}
		return who.ID, nil
	}
}
