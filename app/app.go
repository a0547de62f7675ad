// Package app is Cortex as a library for programs that add their own language models, agents, transport, store or roles:
//
//	package main
//
//	import "github.com/cortex-orchestrator/cortex/app"
//
//	func main() {
//		app.Main(app.Options{Providers: map[string]app.Provider{"parrot": {Open: openParrot}}})
//	}
//
// This is a complete cortex, in which `--llm parrot` works like the built-in models. The folder tests/testdata/plugin of the repository
// is a complete module.
package app

import (
	"context"
	"errors"
	"fmt"
	"io"
	"maps"
	"os"
	"regexp"
	"slices"
	"strings"

	"github.com/cortex-orchestrator/cortex/app/role"
	"github.com/cortex-orchestrator/cortex/internal/cli"
	"github.com/cortex-orchestrator/cortex/internal/home/nats"
	"github.com/cortex-orchestrator/cortex/llm/provider"
	"github.com/cortex-orchestrator/cortex/transport"
)

// Provider makes clients of a language model, see package llm/provider.
type Provider = provider.Provider

// Endpoint describes the model for which a Provider makes a client.
type Endpoint = provider.Endpoint

// Agent is an agent that runs in the process: `chat`, `ask` and `serve` start it unless --agents says otherwise, and `agent NAME`
// runs it alone, where NAME is the name on its card without agent_ before it.
type Agent = cli.Agent

// Transport is a transport of the program that replaces NATS: --transport names it.
//
//	Open connects this process, once for each command. It returns transport.ErrUnavailable when the server is away: callers that can wait retry.
//	Private means that it reaches no other process: each chat, question or service runs a Cortex of its own, with built-in agents.
//
// Commands use the optional interfaces of package transport, such as DeadLetters, Eraser, Files, Health, InboxDepth, Owners and Sender; a
// command that needs a missing one says so. A Transport must pass the suite of package transporttest.
type Transport = cli.Transport

// Store is a store of the program: --store names it.
//
//	Open opens the store, once for each process that reads or writes conversations: all but agents. An io.Closer is closed at the end.
//
// Like a Transport, it may have optional interfaces, those of package storage. It must pass the suite of package storetest.
type Store = cli.Store

// Target is what a Transport or a Store is opened for.
//
//	URL is the value of --transport or --store: the name alone, or with more after it, such as name://host. It is displayed, and written
//	to the data folder, so secrets must come from elsewhere, such as the environment.
//	Data is the folder of --data, which exists. Tenant is that of --tenant. Logger is never nil.
//	OnConn is called by a transport when it loses its connection, with the reason, and when it has reconnected. It is never nil, and does not block.
type Target = cli.Target

// Role is something that runs beside `cortex serve`, see package role.
type Role = role.Role

// Site is what a Role works with.
type Site = role.Site

// Options is what a program adds to Cortex. The zero value is Cortex itself.
type Options struct {
	// Providers are named by --llm, and by `provider` in an entry of `llms` in the config file. They replace built-in ones of the same
	// name. The name "fake" is an error.
	Providers map[string]Provider
	// Agents are built in. They replace built-in ones of the same name.
	Agents []Agent
	// Transports and Stores are named by --transport and --store, by the scheme of the URL; only a program that adds some has these flags.
	// Cortex's own store needs NATS, so another transport needs another store; another store also works with NATS.
	Transports map[string]Transport
	Stores     map[string]Store
	// Roles run beside `cortex serve`: listeners through which others ask Cortex, and agents that are elsewhere.
	Roles []Role
}

// Main runs the command line of the process, and exits with the status of the command. It does not return.
func Main(o Options) {
	os.Exit(Run(context.Background(), o, os.Args[1:], os.Stdin, os.Stdout, os.Stderr))
}

// Run runs one command line, given without the program's name, and returns the exit status for the process: 0 for success,
// 1 when the command failed, 2 when the command line or o is invalid, 130 when it was interrupted. It returns when the command is done or
// ctx ends. It is safe for concurrent use.
func Run(ctx context.Context, o Options, args []string, stdin io.Reader, stdout, stderr io.Writer) int {
	if err := o.check(); err != nil {
		fmt.Fprintf(stderr, "cortex: %v\n", err)
		return 2
	}
	p := &cli.Program{Home: nats.Home{}, Providers: o.Providers, Agents: o.Agents, Transports: o.Transports, Stores: o.Stores, Roles: o.Roles}
	return p.Run(ctx, args, stdin, stdout, stderr)
}

// check returns an error when o is invalid.
func (o *Options) check() error {
	for _, name := range slices.Sorted(maps.Keys(o.Providers)) {
		switch {
		case name == "fake":
			return errors.New(`a provider cannot be called "fake": that is the decider without a model`)
		case transport.CheckID(name) != nil || strings.ContainsAny(name, ",*"):
			return fmt.Errorf("the provider's name %q cannot be given to --llm: use letters, digits and -", name)
		case o.Providers[name].Open == nil:
			return fmt.Errorf("the provider %q has no Open", name)
		}
	}
	for _, name := range slices.Sorted(maps.Keys(o.Transports)) {
		if err := checkScheme("transport", name, o.Transports[name].Open != nil); err != nil {
			return err
		}
	}
	for _, name := range slices.Sorted(maps.Keys(o.Stores)) {
		if err := checkScheme("store", name, o.Stores[name].Open != nil); err != nil {
			return err
		}
	}
	for i, r := range o.Roles {
		if transport.CheckID(r.Name) != nil || r.Open == nil {
			return fmt.Errorf("role %d of the program, %q, has no good name, or no Open", i+1, r.Name)
		}
	}
	for i, a := range o.Agents {
		if a.Card == nil || a.Executor == nil {
			return fmt.Errorf("agent %d of the program has no card, or does nothing", i+1)
		}
	}
	return nil
}

// scheme matches the scheme of a URL.
var scheme = regexp.MustCompile(`^[a-z][a-z0-9+.-]*$`)

func checkScheme(flag, name string, opens bool) error {
	if !scheme.MatchString(name) {
		return fmt.Errorf("the name %q cannot be given to --%s: use lower-case letters, digits and -", name, flag)
	}
	if !opens {
		return fmt.Errorf("the %s %q has no Open", flag, name)
	}
	return nil
}
