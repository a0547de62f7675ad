// Package home is the command line's interface to the server through which a program's processes meet, and to what the server stores.
// Cortex's own is in package home/nats; package app chooses the one of a program.
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

// Home is a kind of server. Its methods are safe for concurrent use.
type Home interface {
	// Dial connects to a running server.
	Dial(ctx context.Context, o *Options) (*Conn, error)
	// Start starts a server in this process, and returns when clients can connect. By then it has checked what is stored.
	Start(ctx context.Context, o *ServerOptions) (Server, error)
	// Folder returns the data folder at dir. It changes nothing, and the folder need not exist.
	Folder(dir string) Folder
}

// Options says what to connect to, and as whom.
type Options struct {
	URL    string                // one address, or several of a cluster, separated by commas; Server.Dial needs none
	Locate func() (Place, error) // returns where the server is now, called before each attempt; nil: at URL. It does not block
	Name   string                // of the connection, displayed by the server
	Creds  string                // credentials file; "" is none, and with Server.Dial those of the orchestrator of Tenant
	Tenant string
	TLS    TLS
	Logger *slog.Logger
	// OnConn, unless nil, is called when the connection is lost, with the reason, and when it is restored. It does not block.
	OnConn func(up bool, err error)

	// For processes that run Cortex.
	Runs     bool  // the connection also reads conversations
	Replicas int   // on how many servers everything is stored; 0 leaves it as it is
	MaxFile  int64 // maximum size of a file, in bytes
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
	// Bus is closed by the caller of Dial. Commands use the optional interfaces of package transport.
	Bus transport.Transport
	// Who is the identity in the credentials; nil when the server requires none.
	Who *auth.Identity
	// Store opens the store at the server.
	Store func(ctx context.Context) (storage.Store, error)
}

// ServerOptions configures a server.
type ServerOptions struct {
	Dir    string // its folder, which one process uses at a time
	Listen string // host:port; port 0 is a free one
	Sync   string // how often writes are flushed to disk, or "always"
	Auth   string // folder with the keys of those who may connect; "" admits everybody
	TLS    TLS
	Logger *slog.Logger
}

// Server is a server that runs in this process. Its methods are safe for concurrent use.
type Server interface {
	// URL is its address, and ID identifies it.
	URL() string
	ID() string
	// Dial connects this process.
	Dial(ctx context.Context, o *Options) (*Conn, error)
	// Watch records damaged conversations and files without a reference where [Folder.Known] finds them, until ctx ends. store holds the
	// conversations.
	Watch(ctx context.Context, store storage.Store)
	// Left records the files without a reference that the last check has left.
	Left(loose []erase.Loose)
	// Broken receives an error when the server has given up its storage.
	Broken() <-chan error
	// Missing returns an error when something that should be stored is missing, and whether that keeps Cortex from working.
	Missing() (serious bool, err error)
	// Damage describes what is damaged in the store, one line for each kind, for people.
	Damage() []string
	// Found returns what was set aside at the start and found since; Accept marks what is missing in these accounts as known.
	Found() []storecheck.Finding
	Accept(accounts ...string)
	// Shutdown ends the server after its connections.
	Shutdown()
}
