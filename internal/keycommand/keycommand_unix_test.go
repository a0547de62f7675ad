//go:build unix

package keycommand_test

import (
	"context"
	"encoding/base64"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/cortex-orchestrator/cortex/internal/keycommand"
)

// program is a script that counts its runs.
type program struct {
	t    *testing.T
	dir  string
	argv []string
}

// script returns a program in a new folder: lines of sh.
func script(t *testing.T, lines string) *program {
	t.Helper()
	dir := t.TempDir()
	if err := os.WriteFile(filepath.Join(dir, "token.sh"), []byte("#!/bin/sh\necho run >>runs\n"+lines+"\n"), 0o700); err != nil {
		t.Fatal(err)
	}
	return &program{t, dir, []string{"./token.sh"}}
}

func (p *program) runs() int {
	b, err := os.ReadFile(filepath.Join(p.dir, "runs"))
	if err != nil && !errors.Is(err, os.ErrNotExist) {
		p.t.Fatal(err)
	}
	return strings.Count(string(b), "\n")
}

// print makes a program that prints this.
func printing(t *testing.T, out string) *program {
	t.Helper()
	p := script(t, "cat output")
	p.prints(out)
	return p
}

func (p *program) prints(out string) {
	if err := os.WriteFile(filepath.Join(p.dir, "output"), []byte(out), 0o600); err != nil {
		p.t.Fatal(err)
	}
}

// clock is a time that stands still.
type clock struct {
	mu  sync.Mutex
	now time.Time
}

func (c *clock) read() time.Time {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.now
}

func (c *clock) forward(d time.Duration) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.now = c.now.Add(d)
}

var noon = time.Date(2026, 11, 20, 12, 0, 0, 0, time.UTC)

func jwt(claims string) string {
	return "e30." + base64.RawURLEncoding.EncodeToString([]byte(claims)) + ".c2ln"
}

// TestExpiry checks until when the token of an output is used.
func TestExpiry(t *testing.T) {
	at := noon.Add(time.Hour)
	for name, tt := range map[string]struct {
		out, token string
		lasts      time.Duration
	}{
		"bare":           {"ya29.abc\n", "ya29.abc", 5 * time.Minute},
		"a text of JSON": {"\"abc\"\r\n", "abc", 5 * time.Minute},
		"a JWT":          {jwt(fmt.Sprintf(`{"exp":%d}`, at.Unix())), jwt(fmt.Sprintf(`{"exp":%d}`, at.Unix())), 59 * time.Minute},
		"no JWT":         {"a.b.c", "a.b.c", 5 * time.Minute},
		"a JWT without":  {jwt(`{"exp":"soon"}`), jwt(`{"exp":"soon"}`), 5 * time.Minute},
		"az": {
			fmt.Sprintf(`{"accessToken":"abc","expiresOn":"%s","expires_on":%d,"tenant":"t","tokenType":"Bearer"}`, at.Local().Format("2006-01-02 15:04:05.000000"), at.Unix()),
			"abc", 59 * time.Minute,
		},
		"an older az":      {fmt.Sprintf(`{"accessToken":"abc","expiresOn":"%s"}`, at.Local().Format("2006-01-02 15:04:05.000000")), "abc", 59 * time.Minute},
		"azd":              {`{"token":"abc","expiresOn":"2026-11-20T13:00:00Z"}`, "abc", 59 * time.Minute},
		"gcloud":           {`{"credential":{"access_token":"abc","token_expiry":"2026-11-20T13:00:00Z"},"configuration":{}}`, "abc", 59 * time.Minute},
		"OAuth":            {`{"access_token":"abc","token_type":"Bearer","expires_in":3600}`, "abc", 59 * time.Minute},
		"OAuth, in quotes": {`{"access_token":"abc","expires_in":"3600"}`, "abc", 59 * time.Minute},
		"kubectl":          {`{"kind":"ExecCredential","status":{"token":"abc","expirationTimestamp":"2026-11-20T13:00:00Z"}}`, "abc", 59 * time.Minute},
		"milliseconds":     {fmt.Sprintf(`{"token":"abc","expires_on":"%d"}`, at.UnixMilli()), "abc", 59 * time.Minute},
		"JSON with a JWT":  {`{"token":"` + jwt(fmt.Sprintf(`{"exp":%d}`, at.Unix())) + `"}`, jwt(fmt.Sprintf(`{"exp":%d}`, at.Unix())), 59 * time.Minute},
		"a short life":     {`{"token":"abc","expires_in":60}`, "abc", 45 * time.Second},
		"no time":          {`{"token":"abc","expires_in":-1,"expiration":"soon"}`, "abc", 5 * time.Minute},
		"for ever":         {`{"token":"abc","expires_in":1e300}`, "abc", 10*365*24*time.Hour - time.Minute},
	} {
		t.Run(name, func(t *testing.T) {
			c := &clock{now: noon}
			p := printing(t, tt.out)
			s := keycommand.New(keycommand.Options{Argv: p.argv, Dir: p.dir, Now: c.read})
			for _, step := range []struct {
				after time.Duration
				runs  int
			}{{0, 1}, {tt.lasts - time.Second, 1}, {time.Second, 2}} {
				c.forward(step.after)
				got, err := s.Token(t.Context(), "")
				if err != nil || got != tt.token || p.runs() != step.runs {
					t.Fatalf("after %v more: Token = %q, %v, with %d runs, want %q with %d", step.after, got, err, p.runs(), tt.token, step.runs)
				}
			}
		})
	}
}

// TestNoToken checks the errors, which show nothing of the output.
func TestNoToken(t *testing.T) {
	const secret = "sk-not-a-real-key"
	for name, tt := range map[string]struct{ lines, want string }{
		"fails":          {"echo " + secret + "; echo 'Please log in.' >&2; echo \"Run 'az login'.\" >&2; exit 3", "token.sh: exit status 3: Run 'az login'."},
		"fails silently": {"echo " + secret + "; exit 1", "token.sh: exit status 1"},
		"nothing":        {"echo Done. >&2", "token.sh: it wrote nothing to its standard output"},
		"two lines":      {"echo " + secret + "; echo " + secret, "token.sh: its standard output is neither one token alone nor JSON with one"},
		"a sentence":     {"echo Your token is " + secret, "token.sh: its standard output is neither one token alone nor JSON with one"},
		"broken JSON":    {"echo '{\"token\":\"" + secret + "\"'", "token.sh: its standard output begins like JSON, but cannot be read"},
		"another object": {"echo '{\"key\":\"" + secret + "\"}'", "token.sh: its JSON has no accessToken, access_token or token"},
		"no text":        {"echo '{\"token\":7}'", "token.sh: its JSON has no accessToken, access_token or token"},
		"a flood":        {"while :; do echo " + secret + "; done", "token.sh: it wrote more than 65536 bytes"},
	} {
		t.Run(name, func(t *testing.T) {
			p := script(t, tt.lines)
			s := keycommand.New(keycommand.Options{Argv: p.argv, Dir: p.dir})
			if got, err := s.Token(t.Context(), ""); err == nil || err.Error() != tt.want {
				t.Errorf("Token = %q, %v, want %q", got, err, tt.want)
			}
		})
	}
	s := keycommand.New(keycommand.Options{Argv: []string{"./nowhere", secret}, Dir: t.TempDir()})
	for _, err := range []error{s.Check(), func() error { _, err := s.Token(t.Context(), ""); return err }()} {
		if err == nil || !strings.Contains(err.Error(), "no such file") || strings.Contains(err.Error(), secret) {
			t.Errorf("a missing program: %v", err)
		}
	}
}

// TestArguments checks that no shell reads the arguments, and that the program gets no input.
func TestArguments(t *testing.T) {
	p := script(t, `cat; echo "$#-$1"`)
	s := keycommand.New(keycommand.Options{Argv: append(p.argv, "$HOME;true", "b"), Dir: p.dir})
	if got, err := s.Token(t.Context(), ""); err != nil || got != "2-$HOME;true" {
		t.Errorf("Token = %q, %v", got, err)
	}
}

// pipe makes a named pipe in p's folder, which the script waits to read from.
func (p *program) pipe() string {
	path := filepath.Join(p.dir, "pipe")
	if err := syscall.Mkfifo(path, 0o600); err != nil {
		p.t.Fatal(err)
	}
	return path
}

// TestOneRun checks that one run serves all callers, and that the end of one caller's context ends nothing for the others.
func TestOneRun(t *testing.T) {
	p := script(t, "read token <pipe; echo $token")
	pipe := p.pipe()
	s := keycommand.New(keycommand.Options{Argv: p.argv, Dir: p.dir})
	left, leave := context.WithCancel(t.Context())
	gone := make(chan error)
	go func() { _, err := s.Token(left, ""); gone <- err }()
	write, err := os.OpenFile(pipe, os.O_WRONLY, 0) // returns when the script reads
	if err != nil {
		t.Fatal(err)
	}
	leave()
	if err := <-gone; !errors.Is(err, context.Canceled) {
		t.Errorf("Token = %v, want the end of the context", err)
	}
	got := make(chan string, 10)
	for range cap(got) {
		go func() {
			token, err := s.Token(t.Context(), "")
			got <- fmt.Sprint(token, err)
		}()
	}
	if _, err := write.WriteString("abc\n"); err != nil {
		t.Fatal(err)
	}
	for range cap(got) {
		if said := <-got; said != "abc<nil>" {
			t.Errorf("Token = %s", said)
		}
	}
	if err := write.Close(); err != nil || p.runs() != 1 {
		t.Errorf("%d runs, want 1: %v", p.runs(), err)
	}
}

// TestTooSlow checks that a run is bounded in time, with all that it starts.
func TestTooSlow(t *testing.T) {
	p := script(t, "echo Waiting for a browser. >&2; (read token <pipe) & read token <pipe")
	pipe := p.pipe()
	s := keycommand.New(keycommand.Options{Argv: p.argv, Dir: p.dir, Limit: 300 * time.Millisecond})
	_, err := s.Token(t.Context(), "")
	if !errors.Is(err, context.DeadlineExceeded) || !strings.HasSuffix(err.Error(), "Waiting for a browser.") {
		t.Errorf("Token = %v", err)
	}
	if f, err := os.OpenFile(pipe, os.O_WRONLY|syscall.O_NONBLOCK, 0); !errors.Is(err, syscall.ENXIO) {
		t.Errorf("somebody still reads the pipe: %v, %v", f, err)
	}
}

// TestRefused checks that a refused token is replaced, once for all who had it.
func TestRefused(t *testing.T) {
	p := printing(t, "one")
	s := keycommand.New(keycommand.Options{Argv: p.argv, Dir: p.dir})
	ask := func(refused, want string, runs int) {
		t.Helper()
		if got, err := s.Token(t.Context(), refused); err != nil || got != want || p.runs() != runs {
			t.Errorf("Token(%q) = %q, %v, with %d runs, want %q with %d", refused, got, err, p.runs(), want, runs)
		}
	}
	ask("", "one", 1)
	ask("one", "one", 2) // the program has no other
	p.prints("two")
	ask("one", "two", 3)
	ask("one", "two", 3)
	ask("", "two", 3)
}
