// Package home is what the command line asks of the server at which a program's processes meet, and of what that keeps. Cortex's own is in
// package home/nats; which one a program has is for package app to say.
package home

import (
	"context"
	"log/slog"

	"github.com/cortex-orchestrator/cortex/cortex/storage"
	"github.com/cortex-orchestrator/cortex/internal/erase"
	"github.com/cortex-orchestrator/cortex/transport"
	"github.com/cortex-orchestrator/cortex/transport/nats/auth"
	"github.com/cortex-orchestrator/cortex/transport/nats/storecheck"
)

// Home is a kind of server. Its methods may be called from several goroutines.
type Home interface {
	// Dial connects to a server that runs.
	Dial(ctx context.Context, o *Options) (*Conn, error)
	// Start starts a server in this process. It returns when that can be connected to; what it has stored was checked then.
	Start(ctx context.Context, o *ServerOptions) (Server, error)
	// Folder is where a server keeps what it stores. Nothing is done to it, and it need not be there.
	Folder(dir string) Folder
}

// Options says whom to connect as, and to what.
type Options struct {
	URL    string                // one address, or several of one cluster with commas between them; Server.Dial needs none
	Locate func() (Place, error) // where the server is now, asked before each attempt; nil: at URL. It does not block
	Name   string                // of the connection, for who looks at the server
	Creds  string                // file of the credentials to show; "" is none, and at Server.Dial those of the orchestrator of Tenant
	Tenant string
	TLS    TLS
	Logger *slog.Logger
	// OnConn, unless nil, is called when the connection is lost, with the reason, and when it is back. It does not block.
	OnConn func(up bool, err error)

	// For who runs Cortex.
	Runs     bool  // conversations are read beside everything else
	Replicas int   // on how many servers everything is kept; 0 is as it is
	MaxFile  int64 // how large a file may be, in bytes
}

// Place is where a server is.
type Place struct {
	URL    string
	Server string // its ID; "" is any
}

// TLS names the files of certificates and keys; see the flags --tls-ca, --tls-cert and --tls-key.
type TLS struct{ CA, Cert, Key string }

// Conn is a connection.
type Conn struct {
	// Bus is closed by who has connected. Commands find what it can do beyond a transport.Transport by the optional interfaces of package
	// transport.
	Bus transport.Transport
	// Who is whom the credentials are for; nil where nobody has to show any.
	Who *auth.Identity
	// Store opens what is kept at the server.
	Store func(ctx context.Context) (storage.Store, error)
}

// ServerOptions says what a server is to be.
type ServerOptions struct {
	Dir    string // its folder, which one process has at a time
	Listen string // host:port; port 0 is a free one
	Sync   string // how often writes are flushed to disk, or "always"
	Auth   string // folder of the keys of those who are let in; "" lets everybody in
	TLS    TLS
	Logger *slog.Logger
}

// Server is a server that runs in this process. Its methods may be called from several goroutines.
type Server interface {
	// URL is its address, and ID tells it from any other.
	URL() string
	ID() string
	// Dial connects this process.
	Dial(ctx context.Context, o *Options) (*Conn, error)
	// Watch keeps what is known of the damage to conversations, and of files of which nothing speaks, where [Folder.Known] finds it, until
	// ctx ends. store is what the conversations are in.
	Watch(ctx context.Context, store storage.Store)
	// Left takes note of what was left when files were looked at of which nothing speaks.
	Left(loose []erase.Loose)
	// Broken tells when the server has given up what it stores in.
	Broken() <-chan error
	// Missing says what should be stored and is not there, and whether that keeps Cortex from its work.
	Missing() (serious bool, err error)
	// Damage says what of the store is damaged, a line for each kind, for people.
	Damage() []string
	// Found is what was set aside when it started, and what it has met since; Accept says that what is missing of these accounts is known.
	Found() []storecheck.Finding
	Accept(accounts ...string)
	// Shutdown ends it, behind its connections.
	Shutdown()
}
