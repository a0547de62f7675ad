package nats

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"math"
	"net"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"time"

	"github.com/nats-io/nats-server/v2/server"

	"github.com/cortex-orchestrator/cortex/internal/disk"
	"github.com/cortex-orchestrator/cortex/internal/openfiles"
	"github.com/cortex-orchestrator/cortex/transport/nats/auth"
	"github.com/cortex-orchestrator/cortex/transport/nats/storecheck"
)

const (
	maxServerPayload = 8 << 20         // above transport.MaxPayload with its headers, within the server's recommended maximum
	unlimited        = math.MaxInt64   // bytes; the disk is the limit, and no stream for which as much as possible is promised keeps accounts from being bounded
	tlsTimeout       = 5 * time.Second // for a client's handshake
	serverStart      = 5 * time.Minute // how long StartServer waits when ctx has no deadline: reading a large store takes long
)

// ServerOptions configures StartServer.
type ServerOptions struct {
	// Dir is the folder of the store; StartServer makes it if it is missing. Required. Only one process at a time may use it: the server itself does
	// not check.
	Dir string
	// Listen is the address for other processes, host:port; port 0 takes a free one. Empty: connections are in process only. The limit of open files
	// of this process bounds the number of connections.
	Listen string
	// Sync is how often written data is flushed to the disk: a duration ("500ms"), or "always" for a flush before every acknowledgement. Data that is
	// not flushed survives the end of the process but not of the machine. Empty is one second.
	Sync string
	// Auth is a folder made by package auth: only its users may connect, each with their permissions. Empty: everybody may.
	Auth string
	// TLS makes the server use TLS; it needs a certificate and its key. With a CA, clients must present a certificate too.
	TLS TLS
	// Inspect, unless nil, reads the stored messages before the server opens the store.
	Inspect Inspector
	// Logger gets the server's own log: warnings and errors as warnings, the rest at debug level. nil discards it.
	Logger *slog.Logger

	disk   func(dir string) (free, size uint64, err error)        // nil: disk.Room
	inodes func(dir string, least uint64) (free uint64, few bool) // nil: disk.FewInodes
}

// Inspector returns a function that gets the intact messages of a stream, or nil to skip the stream; see [storecheck.Options].
type Inspector = func(account, stream string, since uint64) func(*storecheck.Record)

// Server is a NATS server inside this process. Its methods are safe for concurrent use.
type Server struct {
	url  string
	auth string // the folder of its keys; empty: none
	log  *serverLog

	visits *pacedConns   // nil when it does not listen or has no keys
	memory *memory       // nil when the server was started from a configuration file
	files  *fileWatch    // likewise
	room   *diskRoom     // likewise
	trust  *trustWatch   // nil without keys
	done   chan struct{} // closed by Shutdown
	end    sync.Once
	work   sync.WaitGroup

	mu sync.Mutex
	ns *server.Server
}

// StartServer checks the store, starts a server and returns when it accepts connections, which takes as long as reading the store. It moves damaged
// parts of the store into the store's folder "damaged" and logs them. The caller ends the server with Shutdown.
func StartServer(ctx context.Context, o *ServerOptions) (*Server, error) {
	o = cmp.Or(o, &ServerOptions{})
	log := newServerLog(o.Logger)
	kept := newReserve(o, log.logger)
	kept.giveUp()
	opts, err := serverOptions(ctx, o)
	if err != nil {
		return nil, err
	}
	ns, err := server.NewServer(opts)
	if err != nil {
		return nil, fmt.Errorf("start NATS server: %w", err)
	}
	report, err := checkStore(ctx, o)
	if err != nil {
		return nil, fmt.Errorf("start NATS server: %w", err)
	}
	ns.SetLoggerV2(log, false, false, false)
	storecheck.Hold(o.Dir, report.Open)

	ctx, cancel := context.WithTimeout(ctx, serverStart)
	defer cancel()
	started := make(chan struct{})
	go func() {
		defer close(started)
		ns.Start()
	}()
	select {
	case <-started:
	case <-ctx.Done():
		ns.Shutdown()
		<-started
		return nil, errors.Join(fmt.Errorf("start NATS server: reading the store in %s: %w", o.Dir, ctx.Err()), putBack(o.Dir, log.logger))
	}
	// Start reports fatal errors only in its log.
	err = log.fatal()
	if err == nil && !ns.ReadyForConnections(5*time.Second) {
		err = errors.New("it does not accept connections")
	}
	if err == nil {
		err = opened(ns, report.Open)
	}
	if err != nil {
		ns.Shutdown()
		ns.WaitForShutdown()
		return nil, errors.Join(fmt.Errorf("start NATS server: %w", err), putBack(o.Dir, log.logger))
	}
	if err := storecheck.Release(o.Dir); err != nil {
		log.logger.Warn("names of files that were only for the start cannot be removed", "err", err)
	}
	s := &Server{ns: ns, auth: o.Auth, log: log, done: make(chan struct{})}
	if o.Listen != "" {
		came := make(chan struct{}, 1)
		if o.Auth != "" {
			s.visits = &pacedConns{}
		}
		if err := listenBounded(ctx, ns, net.JoinHostPort(opts.Host, strconv.Itoa(max(opts.Port, 0))), opts.MaxConn+turnedAway, came, s.visits); err != nil {
			ns.Shutdown()
			ns.WaitForShutdown()
			return nil, fmt.Errorf("start NATS server: listen on %s: %w; choose another with --listen", o.Listen, err)
		}
		s.url = ns.ClientURL()
		s.work.Go(func() { keepRoom(s.done, came, ns, opts.MaxConn, s.visits, log.logger) })
	}
	asked := &inspected{Server: ns}
	s.memory = &memory{
		ns: asked, path: memoryFile(o.Dir), log: log.logger, sync: opts.SyncInterval, keeps: report.Memory, before: map[string]place{},
		wrong: map[string]bool{}, gaveUp: log.gaveUp.Load, cut: log.takeCut,
	}
	s.memory.find(report.Memory.Found)
	s.memory.look(time.Now()) // the process may be killed soon
	s.every(rememberEvery, s.memory.look)
	s.files = &fileWatch{ns: asked, dir: o.Dir, log: log.logger, note: s.memory.noteFiles, broken: log.giveUpFor}
	s.files.look() // files that are replaced from now on are noticed
	s.every(filesEvery, func(time.Time) { s.files.look() })
	s.every(filesEvery, s.files.listen)
	s.room = &diskRoom{ns: asked, conns: s, auth: o.Auth, dir: o.Dir, disk: kept.disk, inodes: o.inodes, log: log.logger, reserve: kept, given: kept.given()}
	if s.room.inodes == nil {
		s.room.inodes = disk.FewInodes
	}
	if o.Auth != "" {
		s.trust = newTrustWatch(asked, o, s.memory, report.Forgotten && len(report.Memory.Streams) > 0, log.logger)
		s.trust.look() // what is changed from now on is noticed
		s.every(trustEvery, func(time.Time) { s.trust.look() })
	}
	s.room.look() // before anybody works
	s.work.Go(func() { s.room.serve(s.done) })
	return s, nil
}

// every calls look once in each period until Shutdown.
func (s *Server) every(period time.Duration, look func(now time.Time)) {
	s.work.Go(func() {
		tick := time.NewTicker(period)
		defer tick.Stop()
		for {
			select {
			case <-s.done:
				return
			case now := <-tick.C:
				look(now)
			}
		}
	})
}

// putBack restores streams that the server has deleted because it could not open them.
func putBack(dir string, log *slog.Logger) error {
	back, err := storecheck.PutBack(dir)
	if len(back) > 0 {
		log.Warn("streams that a server has deleted, since it could not open them, were put back", "streams", back)
	}
	return err
}

// URL returns the address for clients in other processes, or "" when the server does not listen.
func (s *Server) URL() string { return s.url }

// ID identifies this run of the server: another start on the same store has another one; see [Place].
func (s *Server) ID() string { return s.current().ID() }

// Broken receives one error when the server can no longer write to its store, because its disk is full or fails. The server then has to be
// restarted, even when there is room again. Accepted events are kept.
func (s *Server) Broken() <-chan error { return s.log.broken }

// Found returns the findings of the check at the start, and those losses of earlier checks that were not accepted.
func (s *Server) Found() []storecheck.Finding {
	if s.memory == nil { // it is not our store
		return nil
	}
	return s.memory.found()
}

// Missing returns an error when files of streams were removed or replaced while the server runs, which it notices within seconds, or damaged, which takes
// minutes, or when it does not answer since it waits for one. serious is true when what is stored from now on may be lost: files are gone of a stream that
// matters for more than convenience.
func (s *Server) Missing() (serious bool, err error) {
	if s.files == nil {
		return false, nil
	}
	if err := s.files.quiet.err(); err != nil {
		return true, err
	}
	gone, serious, damaged := s.files.missing()
	if len(gone) > 0 {
		err = fmt.Errorf("the files of %s were removed, emptied, damaged or replaced while cortex runs, and what is in there ends with this process: %s",
			strings.Join(gone, ", "), missingAdvice)
	}
	if len(damaged) > 0 {
		is := fmt.Errorf("messages of %s were damaged in the files while cortex runs, and are lost: %s", strings.Join(damaged, ", "), damagedAdvice)
		if err != nil {
			is = fmt.Errorf("%w; %w", err, is)
		}
		err = is
	}
	return serious, err
}

// Note stores the caller's notes about the store, as JSON, beside it; see [storecheck.Memory].
func (s *Server) Note(notes json.RawMessage) { s.memory.note(notes) }

// Remember records where the streams end, as the server does every few seconds. What ended there long before now is on the disk.
func (s *Server) Remember(now time.Time) { s.memory.look(now) }

// Accept marks everything that is missing from the store of these accounts as known, so that it is not reported again. "$G" is the account of a
// server without keys.
func (s *Server) Accept(accounts ...string) { s.memory.accept(accounts) }

// Shutdown ends the server and waits until it has ended. Stored events are kept.
func (s *Server) Shutdown() {
	s.end.Do(func() {
		end := func() {
			ns := s.current()
			ns.Shutdown()
			ns.WaitForShutdown()
		}
		if s.memory == nil { // it is not our store
			end()
			return
		}
		close(s.done)
		s.work.Wait()
		s.files.end()
		s.memory.close(s.log.fatal, end)
	})
}

// InProcessConn returns a connection to the server without a network, which Dial uses.
func (s *Server) InProcessConn() (net.Conn, error) {
	ns := s.current()
	if !ns.Running() {
		return nil, server.ErrServerNotRunning
	}
	here, there := pipe()
	go createClientInProcess(ns, there)
	return here, nil
}

func (s *Server) current() *server.Server {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.ns
}

// serverOptions checks what can be checked before the start, where errors are clearer than in the server's log.
func serverOptions(ctx context.Context, o *ServerOptions) (*server.Options, error) {
	if o.Dir == "" {
		return nil, errors.New("start NATS server: no folder for its store")
	}
	if err := checkFolder(o.Dir); err != nil {
		return nil, fmt.Errorf("start NATS server: %w", err)
	}
	opts := &server.Options{
		ServerName:         "cortex",
		DontListen:         true, // see listenBounded
		NoSigs:             true,
		NoLog:              true,
		JetStream:          true,
		StoreDir:           o.Dir,
		JetStreamMaxMemory: unlimited,
		JetStreamMaxStore:  unlimited,
		MaxPayload:         maxServerPayload,
		MaxPending:         maxPending,
		MaxConn:            openfiles.Bus() - turnedAway,
		SyncInterval:       time.Second,
	}
	switch o.Sync {
	case "":
	case "always":
		opts.SyncAlways = true
	default:
		d, err := time.ParseDuration(o.Sync)
		if err != nil || d <= 0 {
			return nil, fmt.Errorf("start NATS server: sync %q: want a duration such as 1s, or always", o.Sync)
		}
		opts.SyncInterval = d
	}
	var err error
	if o.Listen != "" {
		if opts.Host, opts.Port, err = checkListen(ctx, o.Listen); err != nil {
			return nil, fmt.Errorf("start NATS server: %w", err)
		}
	}
	if opts.TLSConfig, err = o.TLS.server(ctx); err != nil {
		return nil, fmt.Errorf("start NATS server: %w", err)
	}
	if opts.TLSConfig != nil {
		opts.TLS, opts.TLSTimeout, opts.TLSVerify = true, tlsTimeout.Seconds(), opts.TLSConfig.ClientCAs != nil
	}
	if o.Auth != "" {
		if err := admitOnly(opts, o); err != nil {
			return nil, fmt.Errorf("start NATS server: %w", err)
		}
	}
	return opts, nil
}

// admitOnly restricts the server to the users in the folder of keys.
func admitOnly(opts *server.Options, o *ServerOptions) error {
	trust, err := auth.Load(o.Auth)
	if err != nil {
		return err
	}
	operator, err := server.ReadOperatorJWT(trust.Operator)
	if err != nil {
		return fmt.Errorf("%s: %w", trust.Operator, err)
	}
	opts.TrustedOperators = append(opts.TrustedOperators, operator)
	opts.SystemAccount = trust.System
	opts.AccountResolver = &folder{dir: o.Auth}
	if _, err := os.Stat(filepath.Join(o.Dir, "jetstream", "$G", "streams", inboxStream)); err == nil && o.Logger != nil {
		o.Logger.Warn("what was stored before the server had keys is not seen with them, and comes back without", "store", o.Dir)
	}
	return nil
}

// folder looks accounts up in a folder of package auth, so that tenants can be added while the server runs.
type folder struct {
	server.MemAccResolver
	dir string
}

// Fetch implements [server.AccountResolver].
func (f *folder) Fetch(id string) (string, error) { return auth.Fetch(f.dir, id) }

func checkFolder(dir string) error {
	if err := os.MkdirAll(dir, 0o700); disk.Full(err) {
		return fmt.Errorf("store folder: %w; %s and start again, or choose another with --data", err, disk.FullText(filepath.Dir(dir)))
	} else if err != nil {
		return fmt.Errorf("store folder: %w; choose another with --data", err)
	}
	f, err := os.CreateTemp(dir, ".writable-*")
	if openfiles.None(err) {
		return fmt.Errorf("store folder %s: %w: %s", filepath.Clean(dir), errors.Unwrap(err), openfiles.Advice())
	}
	if disk.Full(err) {
		return fmt.Errorf("no file can be made in the store folder %s: %w; %s and start again, or choose another with --data",
			filepath.Clean(dir), errors.Unwrap(err), disk.FullText(dir))
	}
	if err != nil {
		return fmt.Errorf("store folder %s is not writable: %w; choose another with --data", filepath.Clean(dir), errors.Unwrap(err))
	}
	_, err = f.Write(make([]byte, 4<<10)) // a full disk may still create empty files
	if err == nil {
		err = f.Sync()
	}
	if cerr := errors.Join(f.Close(), os.Remove(f.Name())); err == nil {
		if free, few := disk.FewInodes(dir, disk.LeastInodes); few && cerr == nil { // the server would try again and again to make the files of a new store
			return fmt.Errorf("store folder %s: %w; %s and start again, or choose another with --data", filepath.Clean(dir), syscall.ENOSPC, disk.InodesText(free))
		}
		return cerr
	}
	if cause := errors.Unwrap(err); cause != nil {
		err = cause
	}
	return fmt.Errorf("store folder %s cannot be written to: %w; make room on its disk and start again, or choose another with --data", filepath.Clean(dir), err)
}

func checkListen(ctx context.Context, addr string) (host string, port int, err error) {
	host, p, err := net.SplitHostPort(addr)
	if err == nil {
		port, err = strconv.Atoi(p)
	}
	if err != nil || port < 0 || port > 65535 {
		return "", 0, fmt.Errorf("listen on %q: want host:port, such as 127.0.0.1:4222", addr)
	}
	l, err := new(net.ListenConfig).Listen(ctx, "tcp", addr)
	switch {
	case errors.Is(err, syscall.EADDRINUSE):
		return "", 0, fmt.Errorf("listen on %s: %w; choose another with --listen or stop the other process", addr, syscall.EADDRINUSE)
	case err != nil:
		return "", 0, fmt.Errorf("listen on %s: %w; choose another with --listen", addr, err)
	}
	if err := l.Close(); err != nil {
		return "", 0, err
	}
	port = cmp.Or(port, server.RANDOM_PORT)
	return host, port, nil
}
