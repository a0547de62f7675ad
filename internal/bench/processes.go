package bench

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"

	"github.com/cortex-orchestrator/cortex/client"
	"github.com/cortex-orchestrator/cortex/cortex/jetstore"
	"github.com/cortex-orchestrator/cortex/cortex/registry"
	"github.com/cortex-orchestrator/cortex/internal/directory"
	"github.com/cortex-orchestrator/cortex/transport/nats"
)

// openProcesses starts Cortex, an agent, and with model a Model, as processes of their own, and connects users.
func openProcesses(ctx context.Context, cfg CasesConfig, dir string, model bool) (_ *place, err error) {
	p := &place{}
	var ends []func() error
	p.close = func() (err error) {
		for i := len(ends) - 1; i >= 0; i-- {
			err = errors.Join(err, ends[i]())
		}
		return err
	}
	defer func() {
		if err != nil {
			err = errors.Join(err, p.close())
		}
	}()
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return nil, err
	}
	var flags []string
	if model {
		m, url, err := startModel(ctx, cfg.Binary)
		if err != nil {
			return nil, err
		}
		ends = append(ends, m.stop)
		path := filepath.Join(dir, "cortex.yaml")
		config := fmt.Sprintf("llm: bench\nllms:\n  bench:\n    provider: ollama\n    model: bench\n    base_url: %s/v1\n    structured: json_schema\n    context_window: 200000\n", url)
		if err := os.WriteFile(path, []byte(config), 0o600); err != nil {
			return nil, err
		}
		flags = []string{"--config", path}
	}
	serve, err := startServe(ctx, cfg.Binary, filepath.Join(dir, "data"), append(flags, "--listen", "127.0.0.1:0")...)
	if err != nil {
		return nil, err
	}
	ends = append(ends, serve.stop)
	agent, _, _ := newProcess(ctx, cfg.Binary, "agent", "echo", "--nats", serve.nats, "--log-level", "error")
	if err := agent.cmd.Start(); err != nil {
		return nil, fmt.Errorf("start the agent: %w", err)
	}
	go func() { agent.ended <- agent.cmd.Wait() }()
	ends = append(ends, agent.stop)
	p.pids = []int{serve.cmd.Process.Pid, agent.cmd.Process.Pid}
	if p.node, err = joinNode(ctx, serve.nats); err != nil {
		return nil, err
	}
	ends = append(ends, p.Close)
	return p, nil
}

// startModel starts a Model, and returns where it is.
func startModel(ctx context.Context, binary string) (*process, string, error) {
	p, _, _ := newProcess(ctx, binary, "bench", "model")
	out, err := p.cmd.StdoutPipe()
	if err == nil {
		err = p.cmd.Start()
	}
	if err != nil {
		return nil, "", fmt.Errorf("start the model: %w", err)
	}
	url, rerr := bufio.NewReader(out).ReadString('\n')
	go func() { p.ended <- p.cmd.Wait() }()
	if rerr != nil {
		return nil, "", errors.Join(fmt.Errorf("start the model: %w", rerr), p.stop())
	}
	return p, strings.TrimSpace(url), nil
}

// joinNode connects to a Cortex of another process, and waits until it has an agent.
func joinNode(ctx context.Context, url string) (_ *node, err error) {
	n := newNode(ctx)
	n.agents = []string{"agent_echo"}
	defer func() {
		if err != nil {
			err = errors.Join(err, n.Close())
		}
	}()
	if n.bus, err = nats.Dial(ctx, &nats.Options{URL: url}); err != nil {
		return nil, err
	}
	n.users, n.userBus = n.bus, nil
	if n.store, err = jetstore.Open(ctx, n.bus.Conn(), nil); err != nil {
		return nil, err
	}
	n.log = client.ReadLog(n.store, "")
	n.Directory = directory.New(registry.Config{})
	n.run(watching, func(ctx context.Context) error { return n.Registry.Run(ctx, n.bus) })
	up := func(context.Context) (bool, error) { return len(n.Routable("")) > 0, nil } // and so it is known to Cortex, within a moment
	if err := n.await(startTimeout, "the agent did not come up", up); err != nil {
		return nil, err
	}
	return n, nil
}
