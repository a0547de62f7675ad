// Package app is Cortex as a program that others can build: with language models, agents, a transport, a store and, in the end, a name of
// their own.
//
//	package main
//
//	import "github.com/cortex-orchestrator/cortex/app"
//
//	func main() {
//		app.Main(app.Options{Providers: map[string]app.Provider{"parrot": {Open: openParrot}}})
//	}
//
// That is a whole cortex, in which `--llm parrot` works as the built-in models do. The folder testdata/plugin of the repository
// has a complete module.
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

// Endpoint is what a Provider makes a client of.
type Endpoint = provider.Endpoint

// Agent is an agent that runs in the process: `chat`, `ask` and `serve` start it unless --agents says otherwise, and `agent NAME`
// runs it alone, where NAME is the name on its card without agent_ before it.
type Agent = cli.Agent

// Transport is a transport of the program's own, in place of NATS: what --transport names.
//
//	Open connects this process, once for each command. A server that is away is a transport.ErrUnavailable: who can wait tries again.
//	Private says that it reaches no other process: each chat, question or service runs a Cortex of its own, with built-in agents.
//
// Commands find what it can do beyond a transport.Transport by the optional interfaces of package transport, such as DeadLetters, Eraser,
// Files, Health, InboxDepth, Owners and Sender; one that needs an ability which it does not have says so. It is to pass the suite of
// package transporttest.
type Transport = cli.Transport

// Store is a store of the program's own: what --store names.
//
//	Open opens the store, once for each process that reads or writes conversations: all but agents. An io.Closer is closed in the end.
//
// Like a Transport it may have the optional interfaces of package storage, and is to pass the suite of package storetest.
type Store = cli.Store

// Target is what a Transport or a Store is opened for.
//
//	URL is what --transport or --store names: the name alone, or with what goes on behind it, such as name://host. It is shown, and left
//	in the data folder: what is secret comes from elsewhere, such as the environment.
//	Data is the folder of --data, which is there. Tenant is that of --tenant. Logger is never nil.
//	OnConn is for a transport to call when its connection is lost, with the reason, and when it is back. It is never nil, and does not block.
type Target = cli.Target

// Role is something that runs beside `cortex serve`, see package role.
type Role = role.Role

// Site is what a Role has to work with.
type Site = role.Site

// Options is what a program adds to Cortex. The zero value is Cortex itself.
type Options struct {
	// Providers are those that --llm can name, and `provider` in an entry of `llms` in the config file. One with the name of a built-in one
	// stands in its place. "fake" is no name for one.
	Providers map[string]Provider
	// Agents are built in. One with the name of a built-in one stands in its place.
	Agents []Agent
	// Transports and Stores are those that --transport and --store can name, by the scheme of the URL. A program that has some has these
	// flags. Cortex's own store lies on a NATS server, so another transport needs another store; another store goes with NATS, too.
	Transports map[string]Transport
	Stores     map[string]Store
	// Roles run beside `cortex serve`: what listens for others who ask Cortex, and bridges to agents elsewhere.
	Roles []Role
}

// Main runs the command line of the process, and ends it with the status of the command. It does not return.
func Main(o Options) {
	os.Exit(Run(context.Background(), o, os.Args[1:], os.Stdin, os.Stdout, os.Stderr))
}

// Run runs one command line, without the name of the program, and returns the status that the process is to end with: 0 for success,
// 1 when the command failed, 2 when it was called wrongly, or o is wrong, 130 when it was interrupted. It returns when the command is done or
// ctx ends. It may be called several times, also at once.
func Run(ctx context.Context, o Options, args []string, stdin io.Reader, stdout, stderr io.Writer) int {
	if err := o.check(); err != nil {
		fmt.Fprintf(stderr, "cortex: %v\n", err)
		return 2
	}
	p := &cli.Program{Home: nats.Home{}, Providers: o.Providers, Agents: o.Agents, Transports: o.Transports, Stores: o.Stores, Roles: o.Roles}
	return p.Run(ctx, args, stdin, stdout, stderr)
}

// check says what is wrong with the program.
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

// scheme is what a URL can begin with.
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
