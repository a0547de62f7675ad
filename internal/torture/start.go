package torture

import (
	"context"
	"fmt"
	"net/http"
	"path/filepath"
	"strconv"
	"strings"
	"time"

	"github.com/cortex-orchestrator/cortex/internal/rest"
	"github.com/cortex-orchestrator/cortex/transport"
)

// start starts everything, in an order that keeps waits short.
func (r *run) start(ctx context.Context) error {
	ctx, cancel := context.WithTimeoutCause(ctx, startTime, fmt.Errorf("not everything runs after %v", startTime))
	defer cancel()
	r.cfg.Progress("starting", 0)
	servers, replicas := 0, 1
	switch r.cfg.Topology {
	case Replicas:
		servers, replicas = 1, 3
	case Cluster:
		servers, replicas = 3, 3
	}
	ports, err := freePorts(max(1, servers)*2 + replicas)
	if err != nil {
		return err
	}
	if err := r.startServers(servers, ports); err != nil {
		return err
	}
	for i := range replicas {
		name, health := "replica-"+strconv.Itoa(i), "127.0.0.1:"+strconv.Itoa(ports[len(ports)-1-i])
		args := []string{
			"serve", "--data", filepath.Join(r.cfg.Folder, name), "--http", health, "--agents", "none", "--llm", "fake",
			"--log-format", "json", "--log-level", "info",
		}
		switch r.cfg.Topology {
		case Single:
			args = append(args, "--listen", "127.0.0.1:"+strconv.Itoa(ports[0]))
		case Replicas:
			args = append(args, "--nats", r.plan.URL)
		case Cluster:
			args = append(args, "--nats", r.plan.URL, "--replicas", "3")
		}
		r.ready = append(r.ready, "http://"+health+"/readyz")
		r.troupe.start(kindReplica, name, args...)
	}
	if err := r.plan.write(r.cfg.Folder); err != nil {
		return err
	}
	for _, url := range r.ready {
		for _, ready := health(ctx, url); !ready; _, ready = health(ctx, url) {
			if err := rest.For(ctx, 50*time.Millisecond); err != nil {
				return fmt.Errorf("start: %w; the logs are in %s", context.Cause(ctx), r.cfg.Folder)
			}
		}
	}
	return r.join(ctx)
}

func (r *run) startServers(n int, ports []int) error {
	var routes, clients []int
	for i := range max(1, n) {
		clients = append(clients, ports[2*i])
		if n > 1 {
			routes = append(routes, ports[2*i+1])
		}
	}
	var urls []string
	for _, p := range clients {
		urls = append(urls, "nats://127.0.0.1:"+strconv.Itoa(p))
	}
	r.plan.URL = strings.Join(urls, ",")
	for i := range n {
		c := serverConfig{name: "server-" + strconv.Itoa(i), folder: r.cfg.Folder, port: ports[2*i], route: ports[2*i+1], routes: routes}
		path, err := c.write()
		if err != nil {
			return err
		}
		r.troupe.start(kindServer, c.name, "torture", "server", path, "--log-format", "json")
	}
	return nil
}

// join starts agents and clients, after writing the logs of long conversations.
func (r *run) join(ctx context.Context) error {
	bus, store, err := open(ctx, r.plan.URL, "torture", r.cfg.Logger)
	if err != nil {
		return err
	}
	defer bus.Close()
	r.cfg.Progress("making long conversations", 0)
	for n := range min(r.plan.Long, r.plan.Conversations) {
		if err := lengthen(ctx, store, r.plan.talk(n).id, r.cfg.LongEntries); err != nil {
			return err
		}
	}
	instances := 1
	if r.cfg.Topology != Single {
		instances = 2
	}
	for n := range r.plan.Agents {
		for i := range instances {
			name := fmt.Sprintf("agent-%d-%d", n, i)
			r.troupe.start(kindAgent, name, "torture", "agent", r.cfg.Folder, strconv.Itoa(n), name, "--log-format", "json")
		}
	}
	if err := r.announced(ctx, bus); err != nil {
		return err
	}
	for n := range r.plan.Clients {
		r.troupe.start(kindClient, "client-"+strconv.Itoa(n), "torture", "client", r.cfg.Folder, strconv.Itoa(n), "--log-format", "json")
	}
	r.watcher = newWatcher(r.cfg.Folder, r.plan)
	return nil
}

// announced waits until every agent has announced itself.
func (r *run) announced(ctx context.Context, bus transport.Transport) error {
	sub, err := bus.Subscribe(ctx, transport.Cards(""), nil)
	if err != nil {
		return err
	}
	defer sub.Close()
	watch, stop := context.WithCancel(ctx)
	defer stop()
	missing := map[string]bool{}
	for n := range r.plan.Agents {
		missing[agentName(n)] = true
	}
	seen := make(chan string, 64)
	go sub.Serve(watch, func(ctx context.Context, e *transport.Event) error { //nolint:errcheck // it ends with watch
		if c, ok := e.Payload.(*transport.Card); ok && c.Gone == "" {
			select {
			case seen <- e.From:
			case <-ctx.Done():
			}
		}
		return nil
	})
	for len(missing) > 0 {
		select {
		case id := <-seen:
			delete(missing, id)
		case <-ctx.Done():
			return fmt.Errorf("start: %w; the logs are in %s", context.Cause(ctx), r.cfg.Folder)
		}
	}
	return nil
}

// health returns the answer of a health endpoint, and whether it is good.
func health(ctx context.Context, url string) (body string, ok bool) {
	ctx, cancel := context.WithTimeout(ctx, time.Second)
	defer cancel()
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, url, nil)
	if err != nil {
		return "", false
	}
	res, err := http.DefaultClient.Do(req)
	if err != nil {
		return "", false
	}
	defer res.Body.Close()
	b := make([]byte, 4096)
	n, _ := res.Body.Read(b) // the answer is short
	return string(b[:n]), res.StatusCode == http.StatusOK
}
