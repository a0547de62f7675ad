// Package mirrortest starts PostgreSQL for tests.
package mirrortest

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"sync"
	"time"

	"github.com/jackc/pgx/v5"
)

// Server is a server of its own, on a socket in a temporary folder. Only one goroutine uses it at a time.
type Server struct {
	dir, bin string
	fsync    bool
	cmd      *exec.Cmd
	ended    chan struct{} // closed when cmd has ended
	n        int
}

// ErrMissing means that this machine has no PostgreSQL.
var ErrMissing = errors.New("there is no PostgreSQL on this machine")

// find returns the folder of PostgreSQL's programs: Debian's, the newest first, or one in PATH.
func find() (string, error) {
	dirs, _ := filepath.Glob("/usr/lib/postgresql/*/bin")
	slices.Sort(dirs)
	slices.Reverse(dirs)
	if path, err := exec.LookPath("postgres"); err == nil {
		dirs = append(dirs, filepath.Dir(path))
	}
	for _, dir := range dirs {
		if _, err := exec.LookPath(filepath.Join(dir, "initdb")); err == nil {
			return dir, nil
		}
	}
	return "", ErrMissing
}

// Here reports whether tests can start PostgreSQL. What is not run without it is told of in a line, and where the variable CI is set it is an error.
func Here(tell io.Writer, without string) (bool, error) {
	_, err := find()
	if err == nil {
		return true, nil
	}
	fmt.Fprintf(tell, "NOT RUN: %s: %v\n", without, err)
	if os.Getenv("CI") != "" {
		return false, fmt.Errorf("%w: CI has to have it", err)
	}
	return false, nil
}

// New starts a server, with fsync or without. The caller calls Close.
func New(fsync bool) (*Server, error) {
	bin, err := find()
	if err != nil {
		return nil, err
	}
	dir, err := os.MkdirTemp("", "pg")
	if err != nil {
		return nil, err
	}
	s := &Server{dir: dir, bin: bin, fsync: fsync}
	if err := s.init(); err != nil {
		s.Close()
		return nil, err
	}
	return s, nil
}

func (s *Server) init() error {
	if err := own(s.dir); err != nil {
		return err
	}
	cmd := exec.Command(filepath.Join(s.bin, "initdb"), "-D", filepath.Join(s.dir, "data"), "-U", "test", "-A", "trust", "-E", "UTF8", "--locale=C", "--no-sync")
	cmd.Dir = s.dir
	cmd.SysProcAttr = attributes()
	if out, err := cmd.CombinedOutput(); err != nil {
		return fmt.Errorf("initdb: %w: %s", err, out)
	}
	return s.Start()
}

// Start starts a server that was killed, and returns when it answers.
func (s *Server) Start() error {
	for end := time.Now().Add(2 * time.Minute); ; {
		if s.cmd == nil {
			if err := s.run(); err != nil {
				return err
			}
		}
		ctx, cancel := context.WithTimeout(context.Background(), 5*time.Second)
		conn, err := pgx.Connect(ctx, s.URL("postgres"))
		cancel()
		if err == nil {
			return conn.Close(context.Background())
		}
		if time.Now().After(end) {
			text, _ := os.ReadFile(filepath.Join(s.dir, "log"))
			return fmt.Errorf("%w: %s", err, text[max(0, len(text)-2000):])
		}
		select {
		case <-s.ended: // the processes of the one before still have its memory
			s.cmd = nil
		default:
		}
		<-time.After(20 * time.Millisecond)
	}
}

// run starts the process.
func (s *Server) run() error {
	log, err := os.OpenFile(filepath.Join(s.dir, "log"), os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o600)
	if err != nil {
		return err
	}
	defer log.Close()
	fsync := "off"
	if s.fsync {
		fsync = "on"
	}
	cmd := exec.Command(filepath.Join(s.bin, "postgres"), "-D", filepath.Join(s.dir, "data"), "-k", s.dir, "-c", "listen_addresses=", "-c", "dynamic_shared_memory_type=mmap", "-c", "fsync="+fsync,
		"-c", "shared_buffers=32MB", "-c", "max_connections=40")
	cmd.Dir, cmd.Stdout, cmd.Stderr, cmd.SysProcAttr = s.dir, log, log, attributes()
	if err := start(cmd); err != nil {
		return err
	}
	ended := make(chan struct{})
	go func() {
		cmd.Wait() //nolint:errcheck // it is killed
		close(ended)
	}()
	s.cmd, s.ended = cmd, ended
	return nil
}

// Kill ends the server as a crash does.
func (s *Server) Kill() {
	if s.cmd == nil {
		return
	}
	s.cmd.Process.Kill() //nolint:errcheck // it has ended
	<-s.ended
	s.cmd = nil
}

// Host returns the folder of the socket, for PGHOST.
func (s *Server) Host() string { return s.dir }

// URL returns the address of a database.
func (s *Server) URL(database string) string {
	return "postgres:///" + database + "?host=" + s.dir + "&user=test"
}

// Database makes an empty database, and returns its address.
func (s *Server) Database(ctx context.Context) (string, error) {
	conn, err := pgx.Connect(ctx, s.URL("postgres"))
	if err != nil {
		return "", err
	}
	defer conn.Close(ctx) //nolint:errcheck // it has no more use
	s.n++
	name := fmt.Sprintf("test%d", s.n)
	_, err = conn.Exec(ctx, "CREATE DATABASE "+name)
	return s.URL(name), err
}

// Close ends the server and removes its folder.
func (s *Server) Close() {
	s.Kill()
	for range 100 { // its processes may still write
		if os.RemoveAll(s.dir) == nil {
			return
		}
		<-time.After(20 * time.Millisecond)
	}
}

// shared is the server of a package's tests.
var shared struct {
	once sync.Once
	s    *Server
	err  error
}

// Shared returns a server for all tests of a package, without fsync. CloseShared ends it.
func Shared() (*Server, error) {
	shared.once.Do(func() { shared.s, shared.err = New(false) })
	return shared.s, shared.err
}

// CloseShared ends the server of Shared, if there is one.
func CloseShared() {
	if shared.s != nil {
		shared.s.Close()
	}
}
