package datadir

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"net"
	"net/url"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"time"

	"github.com/google/uuid"

	"github.com/cortex-orchestrator/cortex/internal/document"
	"github.com/cortex-orchestrator/cortex/internal/home"
	"github.com/cortex-orchestrator/cortex/internal/rest"
)

// Address is the file that a running node leaves in its data folder.
type Address struct {
	URL string `json:"url"`
	PID int    `json:"pid"`
	// Server is the ID of its server. A process that finds another server at the URL is at the wrong place.
	Server string `json:"server,omitempty"`
	// Version is the version of the running program.
	Version string `json:"version,omitempty"`
	// Passing means that the process is a chat or a question, which ends with its user.
	Passing bool `json:"passing,omitempty"`
	// LLM describes the model that decides; Node has the node's settings.
	LLM  string    `json:"llm,omitempty"`
	Node *Handover `json:"node,omitempty"`
}

// SameListen returns listen with the previous port, when listen leaves the port open and that port is free: agents that were connected before then
// find the server again.
func SameListen(ctx context.Context, data, listen string) string {
	host, port, err := net.SplitHostPort(listen)
	if err != nil || port != "0" {
		return listen
	}
	last, err := Read(portFile(data))
	if err != nil {
		return listen
	}
	was, err := strconv.ParseUint(strings.TrimSpace(string(last)), 10, 16)
	if err != nil || was == 0 { // a damaged file costs only the port
		return listen
	}
	again := net.JoinHostPort(host, strconv.FormatUint(was, 10))
	l, err := new(net.ListenConfig).Listen(ctx, "tcp", again)
	if err != nil {
		return listen
	}
	l.Close()
	return again
}

// KeepPort stores the port of a server's address for SameListen.
func KeepPort(data, at string) {
	if u, err := url.Parse(at); err == nil && u.Port() != "" {
		Leave(portFile(data), []byte(u.Port()+"\n")) //nolint:errcheck // costs only the convenience
	}
}

// maxAddress bounds the size of files that processes leave for others, in bytes.
const maxAddress = 64 << 10

func portFile(data string) string { return filepath.Join(data, "port") }

// Errors of this package, which users extend.
var (
	ErrLocked = errors.New("locked by another process")
	ErrSilent = errors.New("another cortex holds") // users append the data folder, and that its holder has left no address

	ErrNoCortex = errors.New("no cortex runs") // users append where
)

// AddressFile is the path of the address of the process that holds the folder.
func AddressFile(data string) string { return filepath.Join(data, "server.json") }

// LastFile is the path of the address of the node that ran last, for a process that takes over.
func LastFile(data string) string { return filepath.Join(data, "last.json") }

// LeaveAddress stores where other processes can reach this one.
func LeaveAddress(data string, a Address) error {
	b, err := json.Marshal(a)
	if err != nil {
		return err
	}
	return Leave(AddressFile(data), b)
}

// KeepAddress leaves the address of this process again when its file is damaged or gone, until ctx ends: without it, a service runs on and nobody
// finds it. In a folder that is lost it writes nothing.
func (c *Claim) KeepAddress(ctx context.Context, a Address, log *slog.Logger) {
	path := AddressFile(c.data)
	want, err := json.Marshal(a)
	if err != nil {
		return
	}
	for rest.For(ctx, lookEvery) == nil {
		if b, err := Read(path); err == nil && bytes.Equal(b, want) || c.lost() != nil {
			continue
		}
		err := LeaveAddress(c.data, a)
		log.Warn("the file by which others find this process was damaged or gone: it is written again", "file", path, "err", err)
		if err != nil && rest.For(ctx, time.Minute) != nil {
			return
		}
	}
}

// Leave writes a file for other processes atomically. It replaces what is at the path, such as a pipe, instead of writing to it. A folder there, which
// no process of Cortex makes, is renamed and kept: it must not keep a service from starting.
func Leave(path string, b []byte) error {
	tmp := path + ".new"
	if err := os.Remove(tmp); err != nil && !errors.Is(err, fs.ErrNotExist) { // left by a process that was killed
		if err := moveFolder(tmp); err != nil {
			return err
		}
	}
	f, err := os.OpenFile(tmp, os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o600)
	if err != nil {
		return err
	}
	_, err = f.Write(b)
	if err == nil {
		err = f.Sync() // after a crash of the machine the file must still say, for example, that there are keys
	}
	if err = errors.Join(err, f.Close()); err != nil {
		return err
	}
	if err = moveFolder(path); err != nil {
		return err
	}
	return os.Rename(tmp, path)
}

// moveFolder renames a folder that is where a file belongs.
func moveFolder(path string) error {
	if info, err := os.Lstat(path); err != nil || !info.IsDir() {
		return nil
	}
	return os.Rename(path, path+"."+uuid.NewString())
}

// Read reads a file that another process left in the data folder. It refuses large files, and files that block or never end, such as pipes.
func Read(path string) ([]byte, error) {
	b, _, err := document.ReadRegular(path, maxAddress)
	return b, err
}

// withdrawAddress renames the address, so that only a process that takes over reads it.
func withdrawAddress(data string) {
	if err := os.Rename(AddressFile(data), LastFile(data)); err != nil && !errors.Is(err, fs.ErrNotExist) {
		os.Remove(AddressFile(data))
	}
}

// Last returns the address of the node that ran last on a data folder that no process holds. A node that was killed has not withdrawn it.
func Last(data string) (a Address, ok bool) {
	for _, path := range []string{AddressFile(data), LastFile(data)} {
		if b, err := Read(path); err == nil {
			return a, json.Unmarshal(b, &a) == nil && a.Node != nil
		}
	}
	return a, false
}

// Find returns the address of the process that holds the data folder, or false when none runs. It waits for a process that is just starting.
func Find(caller context.Context, data string) (Address, bool, error) {
	ctx, cancel := context.WithTimeout(caller, 10*time.Second)
	defer cancel()
	for {
		if !Held(data) {
			return Address{}, false, nil
		}
		var a Address
		b, err := Read(AddressFile(data))
		if err == nil && json.Unmarshal(b, &a) == nil && a.URL != "" {
			return a, true, nil
		}
		if rest.For(ctx, 50*time.Millisecond) != nil {
			if caller.Err() != nil {
				return Address{}, false, caller.Err()
			}
			return Address{}, false, fmt.Errorf("%w %s but does not say where it listens: stop it, or choose another folder with --data", ErrSilent, data)
		}
	}
}

// WhereNow returns the address for a process that has lost its connection to the Cortex of the data folder. It does not wait, and does not try the
// lock: many processes doing so at the same time would keep a new node from getting it.
func WhereNow(data string) (home.Place, error) {
	var a Address
	b, err := Read(AddressFile(data))
	if err == nil {
		err = json.Unmarshal(b, &a)
	}
	if err != nil {
		return home.Place{}, fmt.Errorf("%w on %s: %w", ErrNoCortex, data, err)
	}
	return home.Place{URL: a.URL, Server: a.Server}, nil
}

// Held reports whether a running process holds the data folder.
func Held(data string) bool { return Locked(lockFile(data)) }

// Locked reports whether a running process holds the lock of a file.
func Locked(path string) bool {
	f, err := os.OpenFile(path, os.O_RDWR, 0)
	if err != nil {
		return false
	}
	defer f.Close() // releases the lock, if this got it
	return errors.Is(tryLock(f), ErrLocked)
}
