package cli

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

// A running chat or service holds the lock of its data folder and leaves its address there, so that other commands find it.

// address is the file that a running node leaves in its data folder.
type address struct {
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
	Node *handover `json:"node,omitempty"`
}

// sameListen returns listen with the previous port, when listen leaves the port open and that port is free: agents that were connected before then
// find the server again.
func sameListen(ctx context.Context, data, listen string) string {
	host, port, err := net.SplitHostPort(listen)
	if err != nil || port != "0" {
		return listen
	}
	last, err := readLeft(portFile(data))
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

// keepPort stores the port of a server's address for sameListen.
func keepPort(data, at string) {
	if u, err := url.Parse(at); err == nil && u.Port() != "" {
		leave(portFile(data), []byte(u.Port()+"\n")) //nolint:errcheck // costs only the convenience
	}
}

// maxAddress bounds the size of files that processes leave for others, in bytes.
const maxAddress = 64 << 10

func portFile(data string) string { return filepath.Join(data, "port") }

var (
	errLocked = errors.New("locked by another process")
	errSilent = errors.New("another cortex holds") // users append the data folder, and that its holder has left no address
)

func addressFile(data string) string { return filepath.Join(data, "server.json") }

// lastFile is the path of the address of the node that ran last, for a process that takes over.
func lastFile(data string) string { return filepath.Join(data, "last.json") }

// leaveAddress stores where other processes can reach this one.
func leaveAddress(data string, a address) error {
	b, err := json.Marshal(a)
	if err != nil {
		return err
	}
	return leave(addressFile(data), b)
}

// keepAddress leaves the address of this process again when its file is damaged or gone, until ctx ends: without it, a service runs on and nobody
// finds it. In a folder that is lost it writes nothing.
func (c *claim) keepAddress(ctx context.Context, a address, log *slog.Logger) {
	path := addressFile(c.data)
	want, err := json.Marshal(a)
	if err != nil {
		return
	}
	for rest.For(ctx, lookEvery) == nil {
		if b, err := readLeft(path); err == nil && bytes.Equal(b, want) || c.lost() != nil {
			continue
		}
		err := leaveAddress(c.data, a)
		log.Warn("the file by which others find this process was damaged or gone: it is written again", "file", path, "err", err)
		if err != nil && rest.For(ctx, time.Minute) != nil {
			return
		}
	}
}

// leave writes a file for other processes atomically. It replaces what is at the path, such as a pipe, instead of writing to it. A folder there, which
// no process of Cortex makes, is renamed and kept: it must not keep a service from starting.
func leave(path string, b []byte) error {
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

// readLeft reads a file that another process left in the data folder. It refuses large files, and files that block or never end, such as pipes.
func readLeft(path string) ([]byte, error) {
	b, _, err := document.ReadRegular(path, maxAddress)
	return b, err
}

// withdrawAddress renames the address, so that only a process that takes over reads it.
func withdrawAddress(data string) {
	if err := os.Rename(addressFile(data), lastFile(data)); err != nil && !errors.Is(err, fs.ErrNotExist) {
		os.Remove(addressFile(data))
	}
}

// lastAddress returns the address of the node that ran last on a data folder that no process holds. A node that was killed has not withdrawn it.
func lastAddress(data string) (a address, ok bool) {
	for _, path := range []string{addressFile(data), lastFile(data)} {
		if b, err := readLeft(path); err == nil {
			return a, json.Unmarshal(b, &a) == nil && a.Node != nil
		}
	}
	return a, false
}

// errKeyed is the error for a Cortex without keys where the previous one had keys.
var errKeyed = errors.New("had keys")

// keepKeys refuses to run a Cortex without keys on a data folder where one with keys has run: its users rely on the keys, and what was stored must
// not become readable without credentials. Even --auth none has an effect only after the folder of keys was removed. The caller holds the folder.
func (s *settings) keepKeys() error {
	if s.node.auth != "" {
		return nil
	}
	keys := filepath.Join(s.data, "auth") // where `cortex auth init` puts them
	elsewhere := "for one without keys, choose another folder with --data"
	b, err := readLeft(lastFile(s.data))
	var last address
	if err == nil {
		err = json.Unmarshal(b, &last)
	}
	if dir := last.Node.of("auth"); dir != "" {
		keys = dir
	}
	stored := s.folder().Keyed()
	_, gone := os.Lstat(keys)
	switch {
	case s.node.keyless && errors.Is(gone, fs.ErrNotExist): // the keys are gone, or are for another folder
		return nil
	case last.Node.of("auth") != "", stored && !errors.Is(gone, fs.ErrNotExist):
		return fmt.Errorf("the cortex on %s %w, and lets in only whom they know: start it with --auth %s; %s; to give up the keys for good, with all that was stored with them, remove %s and then start with --auth none",
			s.data, errKeyed, shellWord(keys), elsewhere, shellWord(keys))
	case stored:
		return fmt.Errorf("the store in %s is one that %w, which are not in %s: give --auth DIR; %s; if the keys are gone for good, and with them all that was stored with them, start with --auth none",
			s.data, errKeyed, keys, elsewhere)
	case err != nil && !errors.Is(err, fs.ErrNotExist):
		return fmt.Errorf("whether the cortex that ran last on %s %w cannot be read in %s (%w): give --auth DIR, or, if it had none, remove that file", s.data, errKeyed, lastFile(s.data), err)
	}
	return nil
}

// findAddress returns the address of the process that holds the data folder, or false when none runs. It waits for a process that is just starting.
func findAddress(caller context.Context, data string) (address, bool, error) {
	ctx, cancel := context.WithTimeout(caller, 10*time.Second)
	defer cancel()
	poll := time.NewTicker(50 * time.Millisecond)
	defer poll.Stop()
	for {
		if !held(data) {
			return address{}, false, nil
		}
		var a address
		b, err := readLeft(addressFile(data))
		if err == nil && json.Unmarshal(b, &a) == nil && a.URL != "" {
			return a, true, nil
		}
		select {
		case <-ctx.Done():
			if caller.Err() != nil {
				return address{}, false, caller.Err()
			}
			return address{}, false, fmt.Errorf("%w %s but does not say where it listens: stop it, or choose another folder with --data", errSilent, data)
		case <-poll.C:
		}
	}
}

// whereNow returns the address for a process that has lost its connection to the Cortex of the data folder. It does not wait, and does not try the
// lock: many processes doing so at the same time would keep a new node from getting it.
func whereNow(data string) (home.Place, error) {
	var a address
	b, err := readLeft(addressFile(data))
	if err == nil {
		err = json.Unmarshal(b, &a)
	}
	if err != nil {
		return home.Place{}, fmt.Errorf("%w on %s: %w", errNoCortex, data, err)
	}
	return home.Place{URL: a.URL, Server: a.Server}, nil
}

// held reports whether a running process holds the data folder.
func held(data string) bool { return locked(lockFile(data)) }

// locked reports whether a running process holds the lock of a file.
func locked(path string) bool {
	f, err := os.OpenFile(path, os.O_RDWR, 0)
	if err != nil {
		return false
	}
	defer f.Close() // releases the lock, if this got it
	return errors.Is(tryLock(f), errLocked)
}
