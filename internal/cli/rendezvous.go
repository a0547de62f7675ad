package cli

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"net"
	"net/url"
	"os"
	"path/filepath"
	"strings"
	"time"

	"github.com/cortex-orchestrator/cortex/internal/document"
	"github.com/cortex-orchestrator/cortex/internal/home"
)

// A running chat or serve holds the lock of its data folder and leaves its address there, so that other commands find it.

// address is what a running node leaves in its data folder.
type address struct {
	URL string `json:"url"`
	PID int    `json:"pid"`
	// Server is the ID of its server: who finds another one at the URL is not where they wanted to be.
	Server string `json:"server,omitempty"`
	// Version is that of the program that runs.
	Version string `json:"version,omitempty"`
	// Passing says that the process is a chat or a question, which ends with its user.
	Passing bool `json:"passing,omitempty"`
	// LLM is what decides, for people; Node is how the node is set.
	LLM  string    `json:"llm,omitempty"`
	Node *handover `json:"node,omitempty"`
}

// sameListen returns listen with the port of the last time, where the port is left open and that one is free: agents that
// were connected then find the server again.
func sameListen(ctx context.Context, data, listen string) string {
	host, port, err := net.SplitHostPort(listen)
	if err != nil || port != "0" {
		return listen
	}
	last, err := readLeft(portFile(data))
	if err != nil {
		return listen
	}
	again := net.JoinHostPort(host, strings.TrimSpace(string(last)))
	l, err := new(net.ListenConfig).Listen(ctx, "tcp", again)
	if err != nil {
		return listen
	}
	l.Close()
	return again
}

// keepPort remembers the port of a server's address for sameListen.
func keepPort(data, at string) {
	if u, err := url.Parse(at); err == nil && u.Port() != "" {
		leave(portFile(data), []byte(u.Port()+"\n")) //nolint:errcheck // costs only the convenience
	}
}

// maxAddress bounds what a process leaves for others, in bytes.
const maxAddress = 64 << 10

func portFile(data string) string { return filepath.Join(data, "port") }

var (
	errLocked = errors.New("locked by another process")
	errSilent = errors.New("another cortex holds") // and does not say where it is
)

func addressFile(data string) string { return filepath.Join(data, "server.json") }

// lastFile has the address of the node that ran last, for who takes over from it.
func lastFile(data string) string { return filepath.Join(data, "last.json") }

// leaveAddress tells other processes where this one can be reached.
func leaveAddress(data string, a address) error {
	b, err := json.Marshal(a)
	if err != nil {
		return err
	}
	return leave(addressFile(data), b)
}

// leave writes a file for other processes, whole. What has its name, be it a pipe, is replaced and not written to.
func leave(path string, b []byte) error {
	tmp := path + ".new"
	if err := os.Remove(tmp); err != nil && !errors.Is(err, fs.ErrNotExist) { // of a process that was killed
		return err
	}
	f, err := os.OpenFile(tmp, os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o600)
	if err != nil {
		return err
	}
	_, err = f.Write(b)
	if err == nil {
		err = f.Sync() // a machine that fails must not forget, for example, that there are keys
	}
	if err = errors.Join(err, f.Close()); err != nil {
		return err
	}
	return os.Rename(tmp, path)
}

// readLeft reads what another process left in the data folder: a small file, and nothing that one would wait for or that never ends.
func readLeft(path string) ([]byte, error) {
	b, _, err := document.ReadRegular(path, maxAddress)
	return b, err
}

// withdrawAddress leaves the address to those only who take over.
func withdrawAddress(data string) {
	if err := os.Rename(addressFile(data), lastFile(data)); err != nil && !errors.Is(err, fs.ErrNotExist) {
		os.Remove(addressFile(data))
	}
}

// lastAddress returns what the node left that ran last on a data folder that nobody holds. One that was killed has not withdrawn it.
func lastAddress(data string) (a address, ok bool) {
	for _, path := range []string{addressFile(data), lastFile(data)} {
		if b, err := readLeft(path); err == nil {
			return a, json.Unmarshal(b, &a) == nil && a.Node != nil
		}
	}
	return a, false
}

// errKeyed is for a Cortex that would let in everybody, where the one before let in only whom its keys know.
var errKeyed = errors.New("had keys")

// keepKeys refuses to run a Cortex without keys on a data folder where one had some: whoever had to show credentials counts on everybody else
// having to, and nobody without them sees what was stored with them. Not even --auth none makes a folder forget that, while its keys are there:
// it is for who has removed them. The caller holds the folder.
func (s *settings) keepKeys() error {
	if s.node.auth != "" {
		return nil
	}
	keys := filepath.Join(s.data, "auth") // as `cortex auth init` makes them
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
	case s.node.keyless && errors.Is(gone, fs.ErrNotExist): // nobody has credentials any more, or they are for another folder
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

// findAddress returns where the process that holds the data folder can be reached, or false when none runs. It waits
// for one that is just starting.
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

// whereNow returns where a process can be reached that has joined the data folder before, and was lost. It does not wait, nor ask for
// the lock, which many who do so at the same time would keep from whoever wants to run.
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

// locked reports whether a running process has the lock of a file.
func locked(path string) bool {
	f, err := os.OpenFile(path, os.O_RDWR, 0)
	if err != nil {
		return false
	}
	defer f.Close() // lets go of the lock, if this took it
	return errors.Is(tryLock(f), errLocked)
}
