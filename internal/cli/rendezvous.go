package cli

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net"
	"os"
	"path/filepath"
	"strings"
	"time"

	"github.com/cortex-orchestrator/cortex/internal/document"
	"github.com/cortex-orchestrator/cortex/internal/openfiles"
)

// A running chat or serve holds the lock of its data folder and leaves its address there, so that other commands find it.

// address is what a running node leaves in its data folder.
type address struct {
	URL string `json:"url"`
	PID int    `json:"pid"`
	// Passing says that the process is a chat or a question, which ends with its user.
	Passing bool `json:"passing,omitempty"`
	// WellKnown is the file of --well-known, for those who join.
	WellKnown string `json:"wellKnown,omitempty"`
	// Strict is --strict-abilities, for them too.
	Strict bool `json:"strict,omitempty"`
	// Auth is --auth, where those who join on the same machine find their credentials.
	Auth string `json:"auth,omitempty"`
	// LLM is what decides, for people; Deciding is how, for who takes over.
	LLM      string    `json:"llm,omitempty"`
	Deciding *deciding `json:"deciding,omitempty"`
}

// sameListen returns listen with the port of the last time, where the port is left open and that one is free: agents that
// were connected then find the server again.
func sameListen(ctx context.Context, data, listen string) string {
	host, port, err := net.SplitHostPort(listen)
	if err != nil || port != "0" {
		return listen
	}
	last, _, err := document.ReadRegular(portFile(data), maxAddress)
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

// keepPort remembers the port of url for sameListen.
func keepPort(data, url string) {
	if _, port, err := net.SplitHostPort(strings.TrimPrefix(url, "nats://")); err == nil {
		os.WriteFile(portFile(data), []byte(port+"\n"), 0o600) //nolint:errcheck // costs only the convenience
	}
}

// maxAddress bounds what a process leaves for others, in bytes.
const maxAddress = 64 << 10

func portFile(data string) string { return filepath.Join(data, "port") }

var errLocked = errors.New("locked by another process")

func addressFile(data string) string { return filepath.Join(data, "server.json") }

// claim locks the data folder for this process. It returns errLocked while another one runs on it.
func claim(data string) (release func(), err error) {
	if err := makeDir(data); err != nil {
		return nil, err
	}
	path := filepath.Join(data, "lock")
	f, err := os.OpenFile(path, os.O_RDWR|os.O_CREATE, 0o600)
	if openfiles.None(err) {
		return nil, fmt.Errorf("the data folder %s: %w: %s", data, err, openfiles.Advice())
	}
	if err != nil {
		return nil, fmt.Errorf("the data folder %s cannot be written: %w: choose another with --data", data, err)
	}
	err = tryLock(f)
	for try := 0; errors.Is(err, errLocked) && try < 10; try++ { // it may only be somebody who looks, see held
		time.Sleep(20 * time.Millisecond)
		err = tryLock(f)
	}
	if err != nil {
		f.Close()
		return nil, err
	}
	os.Remove(addressFile(data)) // of a process that was killed
	return func() {
		os.Remove(addressFile(data))
		f.Close()
	}, nil
}

// leaveAddress tells other processes where this one can be reached.
func leaveAddress(data string, a address) error {
	b, err := json.Marshal(a)
	if err != nil {
		return err
	}
	tmp := addressFile(data) + ".new"
	if err := os.WriteFile(tmp, b, 0o600); err != nil {
		return err
	}
	return os.Rename(tmp, addressFile(data))
}

// findAddress returns where the process that holds the data folder can be reached, or false when none runs. It waits
// for one that is just starting.
func findAddress(ctx context.Context, data string) (address, bool, error) {
	ctx, cancel := context.WithTimeout(ctx, 10*time.Second)
	defer cancel()
	poll := time.NewTicker(50 * time.Millisecond)
	defer poll.Stop()
	for {
		if !held(data) {
			return address{}, false, nil
		}
		var a address
		b, _, err := document.ReadRegular(addressFile(data), maxAddress)
		if err == nil && json.Unmarshal(b, &a) == nil && a.URL != "" {
			return a, true, nil
		}
		select {
		case <-ctx.Done():
			return address{}, false, fmt.Errorf("another cortex holds %s but does not say where it listens: stop it, or choose another folder with --data", data)
		case <-poll.C:
		}
	}
}

// held reports whether a running process holds the data folder.
func held(data string) bool {
	f, err := os.OpenFile(filepath.Join(data, "lock"), os.O_RDWR, 0)
	if err != nil {
		return false
	}
	defer f.Close() // lets go of the lock, if this took it
	return errors.Is(tryLock(f), errLocked)
}
