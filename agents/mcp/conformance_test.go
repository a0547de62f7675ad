package mcp_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"os"
	"strings"
	"sync"
	"time"

	"github.com/a2aproject/a2a-go/v2/a2a"

	"github.com/cortex-orchestrator/cortex/agentcard"
	"github.com/cortex-orchestrator/cortex/agents"
	"github.com/cortex-orchestrator/cortex/agents/mcp"
	"github.com/cortex-orchestrator/cortex/transport"
)

// The test binary is the client of the public conformance suite when these are set: tests/testdata/foreign/mcpconformance.sh has the suite start it, with the
// address of a server as its last argument.
const (
	asProbe      = "MCP_CONFORMANCE_SCENARIO"
	probeContext = "MCP_CONFORMANCE_CONTEXT"
)

// probeTime bounds a scenario.
const probeTime = 25 * time.Second

// probe does with a server what a scenario wants to see, by the agent that `cortex agent mcp` runs, and by the login of `cortex mcp login`.
func probe(scenario, address string) error {
	ctx, cancel := context.WithTimeout(context.Background(), probeTime)
	defer cancel()
	dir, err := os.MkdirTemp("", "probe")
	if err != nil {
		return err
	}
	defer os.RemoveAll(dir)
	var with struct {
		ID     string `json:"client_id"`
		Secret string `json:"client_secret"`
		Calls  []struct {
			Name      string         `json:"name"`
			Arguments map[string]any `json:"arguments"`
		} `json:"toolCalls"`
	}
	_ = json.Unmarshal([]byte(os.Getenv(probeContext)), &with) // most scenarios have none
	p := &prober{ctx: ctx, s: &mcp.Server{Name: "probe", URL: address}, dir: dir}
	p.login = &mcp.LoginOptions{Dir: dir, Version: "1", ClientID: with.ID, ClientSecret: with.Secret, Show: func(address string) { go browse(address) }}
	if scenario == "auth/basic-cimd" {
		p.login.ClientID = "https://conformance-test.local/client-metadata.json" // which the suite's server knows
	}
	oauth := strings.HasPrefix(scenario, "auth/")
	if oauth {
		err := mcp.Login(ctx, p.s, p.login)
		if err != nil && strings.Contains(err.Error(), "it does not accept the token") { // its authorization server has just changed: the user tries again
			err = mcp.Login(ctx, p.s, p.login)
		}
		if err != nil && !errors.Is(err, mcp.ErrNoLogin) {
			return err
		}
	}
	if p.agent, err = mcp.Open(ctx, p.s, &mcp.Options{Dir: dir, Version: "1"}); err != nil {
		return err
	}
	running, stop := context.WithCancel(ctx)
	var done sync.WaitGroup
	done.Go(func() { _ = p.agent.Run(running) })
	defer func() {
		stop()
		done.Wait()
		_ = p.agent.Close()
	}()
	for _, c := range with.Calls {
		maps.DeleteFunc(c.Arguments, func(_ string, v any) bool { return v == nil }) // which its schema does not allow, and so the agent neither
		_ = p.call(c.Name, c.Arguments, nil)                                         // the server looks at the headers
	}
	switch {
	case oauth:
		return p.authorized()
	case scenario == "tools_call":
		return p.call("add_numbers", map[string]any{"a": 5, "b": 3}, nil)
	case scenario == "elicitation-sep1034-client-defaults":
		return p.call("test_client_elicitation_defaults", nil, map[string]any{})
	case scenario == "sse-retry":
		return p.call("test_reconnection", nil, nil)
	case scenario == "json-schema-2020-12-preservation":
		return p.schema()
	case scenario == "sep-2322-client-request-state", scenario == "http-standard-headers", scenario == "http-invalid-tool-headers":
		for _, k := range p.agent.Card().Skills {
			if err := p.call(k.ID, map[string]any{"region": "us-west1"}, map[string]any{"confirmed": true}); err != nil {
				fmt.Fprintln(os.Stderr, k.ID, err)
			}
		}
	}
	return nil
}

type prober struct {
	ctx   context.Context
	s     *mcp.Server
	dir   string
	login *mcp.LoginOptions
	agent *mcp.Agent
	tasks int
}

// call has the agent do a task, and answers what the server asks with the given values.
func (p *prober) call(tool string, arguments, answer map[string]any) error {
	p.tasks++
	if arguments == nil {
		arguments = map[string]any{}
	}
	task := &agents.Task{ID: a2a.TaskID(fmt.Sprint(p.tasks)), Skill: tool, Delivery: 1, Message: &a2a.Message{ID: "m", Parts: a2a.ContentParts{a2a.NewDataPart(arguments)}}}
	for range 5 { // rounds
		asks := false
		for e, err := range p.agent.Execute(p.ctx, task) {
			if err != nil {
				return fmt.Errorf("%s: %w", tool, err)
			}
			u, ok := e.(*a2a.TaskStatusUpdateEvent)
			asks = ok && u.Status.State == a2a.TaskStateInputRequired
		}
		if !asks {
			return nil
		}
		reply := a2a.ContentParts{a2a.NewTextPart("accept")}
		if answer != nil { // an empty one takes what the server suggests
			reply = a2a.ContentParts{a2a.NewDataPart(answer)}
		}
		task.Message = &a2a.Message{ID: task.Message.ID + "+", Parts: reply, Metadata: map[string]any{transport.MetaContinued: true}}
	}
	return fmt.Errorf("%s asks again and again", tool)
}

// authorized calls the tool of the scenarios for OAuth. When the server wants another login, the user does what the error says.
func (p *prober) authorized() error {
	var err error
	for range 2 {
		if err = p.call("test-tool", nil, nil); err == nil || !strings.Contains(err.Error(), "cortex mcp login") {
			return err
		}
		if err := mcp.Login(p.ctx, p.s, p.login); err != nil {
			return err
		}
	}
	return err
}

// schema gives the schema of a tool back to the server, as it is on the agent's card.
func (p *prober) schema() error {
	var schema map[string]any
	if err := json.Unmarshal(agentcard.SpecOf(p.agent.Card()).Abilities["json_schema_2020_12_tool"].InputSchema, &schema); err != nil {
		return err
	}
	return p.call("json_schema_echo", map[string]any{"schema": schema}, nil)
}
