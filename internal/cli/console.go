package cli

import (
	"cmp"
	"context"
	"crypto/rand"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net"
	"net/http"
	"net/url"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"syscall"
	"time"

	"github.com/spf13/cobra"

	"github.com/cortex-orchestrator/cortex/console"
	"github.com/cortex-orchestrator/cortex/internal/cli/typed"
	"github.com/cortex-orchestrator/cortex/internal/datadir"
	"github.com/cortex-orchestrator/cortex/internal/httpserver"
	"github.com/cortex-orchestrator/cortex/internal/openfiles"
	"github.com/cortex-orchestrator/cortex/prompt"
	"github.com/cortex-orchestrator/cortex/transport/nats/auth"
)

// consoleDoor is where the console of a process is, and what makes links to it. It lies in the data folder, whose owner may make links.
type consoleDoor struct {
	URL string `json:"url"`
	Key []byte `json:"key"` // of the tokens of links
	PID int    `json:"pid"`

	unsaved bool // the file could not be written
}

// consoleFile is the path of the door of the console that opened last.
func consoleFile(data string) string { return filepath.Join(data, "console.json") }

// openDoor makes the door of the console at a listener, and leaves it in the data folder. On a full disk it is left unsaved: only [consoleDoor.leave] after
// the start of the server, which gives up its reserve, finds room, and without a service no conversation can be deleted.
func openDoor(data string, l net.Listener, scheme string) (*consoleDoor, error) {
	d := &consoleDoor{URL: scheme + l.Addr().String() + "/", Key: make([]byte, 32), PID: os.Getpid()}
	if host, port, err := net.SplitHostPort(l.Addr().String()); err == nil {
		if ip := net.ParseIP(host); ip != nil && ip.IsUnspecified() {
			d.URL = scheme + net.JoinHostPort("127.0.0.1", port) + "/"
		}
	}
	rand.Read(d.Key) //nolint:errcheck // it never fails
	if err := datadir.Make(data); err != nil {
		return nil, err
	}
	d.unsaved = d.save(data) != nil // nothing ends for want of a link; a folder that may not be written is told by who claims it
	return d, nil
}

// save writes the door into the data folder.
func (d *consoleDoor) save(data string) error {
	b, err := json.Marshal(d)
	if err != nil {
		return err
	}
	return datadir.Leave(consoleFile(data), b)
}

// leave writes a door that is unsaved.
func (d *consoleDoor) leave(data string, log *slog.Logger) {
	if d == nil || !d.unsaved {
		return
	}
	err := d.save(data)
	if d.unsaved = err != nil; err != nil {
		log.Warn("`cortex console` cannot make links to the console, since the data folder cannot be written", "err", err)
	}
}

// close removes the door, unless another process has opened one since.
func (d *consoleDoor) close(data string) {
	if now, err := lastDoor(data); err == nil && string(now.Key) == string(d.Key) {
		os.Remove(consoleFile(data))
	}
}

// consoleAt reports whether the process with this PID has its console at an address, by the door in the data folder.
func consoleAt(data string, pid int, addr string) bool {
	d, err := lastDoor(data)
	if err != nil || d.PID != pid {
		return false
	}
	u, err := url.Parse(d.URL)
	return err == nil && u.Host == addr
}

// lastDoor reads the door in the data folder.
func lastDoor(data string) (*consoleDoor, error) {
	b, err := datadir.Read(consoleFile(data))
	if err != nil {
		return nil, err
	}
	d := &consoleDoor{}
	return d, json.Unmarshal(b, d)
}

// link returns a URL that lets its user in, once, for some time. Where there are keys it lets nobody in: they log in.
func (d *consoleDoor) link(life time.Duration, keys bool) string {
	if keys {
		return d.URL
	}
	return d.URL + "?token=" + console.Token(d.Key, time.Now().Add(life))
}

// openConsole returns the console of a node. Its streams end when done is closed. p is nil for a chat's.
func (s *settings) openConsole(n *node, d *consoleDoor, p *ports, done <-chan struct{}) http.Handler {
	cfg := console.Config{
		Client: n.forMany(), Store: n.store, Agents: n.Registry.Snapshot, Identify: s.persons(n), Gate: console.NewGate(d.Key, nil),
		Version: buildVersion(), MaxFile: int64(s.node.maxFile), Checks: func(ctx context.Context) []console.Check { return n.checks(ctx, p) }, Done: done, Logger: n.log, Prompt: s.render(n.templates),
		Budget: s.budget.Day,
	}
	if p != nil {
		cfg.URL = p.consoleURL
		if cfg.Identify != nil {
			cfg.Login = p.login
		}
	}
	return console.New(cfg).Handler()
}

// render returns what renders prompts as the decider of --llm does.
func (s *settings) render(t *prompt.Templates) func(*prompt.Input) (*prompt.Prompt, error) {
	chain, err := s.chain()
	reasonFirst := err == nil && len(chain) > 0 && chain[0].ReasonFirst
	return func(in *prompt.Input) (*prompt.Prompt, error) {
		in.ReasonFirst = reasonFirst
		return t.Render(in)
	}
}

// persons returns how people show who they are to the console; nil where nobody has to.
func (s *settings) persons(n *node) func(token string) (console.Person, error) {
	identify := s.identify(n, auth.Person)
	if identify == nil {
		return nil
	}
	return func(token string) (console.Person, error) {
		id, err := identify(token)
		return console.Person{User: id}, err
	}
}

// checks describes the state of a node. open is nil for a chat's.
func (n *node) checks(ctx context.Context, open *ports) []console.Check {
	all := []console.Check{{Name: "takes and keeps work", OK: true, Text: "yes"}}
	if err := n.readiness.ask(ctx); err != nil {
		all[0] = console.Check{Name: all[0].Name, Text: oneLine(err)}
	}
	var beside []string
	if n.roles != nil {
		beside, _ = n.roles.Trouble()
	}
	for _, line := range n.troubles(cmp.Or(open, &ports{}), beside) {
		all = append(all, console.Check{Name: "trouble", Text: line})
	}
	return all
}

// chatConsole serves the console of the node of a chat, and returns a link to it, "" where there is none. close ends it. Where a chat has joined
// another process, the link is to that one's console.
func (e *env) chatConsole(ctx context.Context, b *backend, at string) (link string, closeAll func(), err error) {
	s, nothing := &e.settings, func() {}
	if b.node == nil {
		if d, err := lastDoor(s.data); err == nil && s.inFolder() {
			return d.link(console.BannerLife, b.sender != ""), nothing, nil
		}
		return "", nothing, nil
	}
	if at == none {
		return "", nothing, nil
	}
	l, err := new(net.ListenConfig).Listen(ctx, "tcp", at)
	if host, _, _ := net.SplitHostPort(at); errors.Is(err, syscall.EADDRINUSE) && s.given["console"] == 0 { // another data folder's, perhaps
		l, err = new(net.ListenConfig).Listen(ctx, "tcp", net.JoinHostPort(host, "0"))
	}
	if err != nil {
		return "", nothing, fmt.Errorf("--console: %w", err)
	}
	d, err := openDoor(s.data, l, "http://")
	if err != nil {
		l.Close()
		return "", nothing, err
	}
	ctx, stop := context.WithCancel(context.WithoutCancel(ctx))
	d.leave(s.data, b.node.log)
	h := s.openConsole(b.node, d, nil, ctx.Done())
	var served sync.WaitGroup
	served.Go(func() {
		_ = httpserver.Serve(ctx, l, h, &httpserver.Options{Connections: openfiles.HTTP(1), Body: console.MaxBody, Logger: b.node.log})
	})
	return d.link(console.BannerLife, b.sender != ""), func() {
		stop()
		served.Wait()
		d.close(s.data)
	}, nil
}

// newConsole returns the command that opens the console in a browser.
func (e *env) newConsole() *cobra.Command {
	var operator bool
	c := &cobra.Command{
		Use:   "console",
		Short: "Open the console in your browser",
		Long: `Open the console of the Cortex that runs on the data folder in your browser, and print its link, which lets its user in, once,
within a minute. A chat and a service have a console: a service at --http, a chat at --console.

Where there are keys, the link is for the person whose credentials this command has, see --creds. With --operator it is for an operator,
who may also replay and remove dead letters, and make Cortex forget what it has learned; whoever owns the data folder may be one. On
another machine, paste what cortex auth token prints into the page.`,
		Example: "  cortex console\n  cortex console --creds ada.creds\n  cortex console --operator",
		Args:    typed.Exact(),
		RunE: func(cmd *cobra.Command, _ []string) error {
			link, err := e.consoleLink(cmd.Context(), operator)
			if err != nil {
				return err
			}
			fmt.Fprintln(e.stdout, link)
			if e.onTerminal() {
				openBrowser(link)
			}
			return nil
		},
	}
	c.Flags().BoolVar(&operator, "operator", false, "where there are keys: for an operator, not for a person")
	return c
}

var errNoConsole = errors.New("no console is open on this data folder: start `cortex chat` or `cortex serve`")

// consoleLink makes a link to the console that is open on the data folder.
func (e *env) consoleLink(ctx context.Context, operator bool) (string, error) {
	s := &e.settings
	d, err := lastDoor(s.data)
	if err != nil {
		return "", errNoConsole
	}
	a, runs, err := datadir.Find(ctx, s.data)
	if err != nil {
		return "", err
	}
	if runs && a.Node.Of("auth") != "" && !operator {
		if err := s.findCreds(a.Node.Of("auth")); err != nil {
			return "", err
		}
	}
	link := d.link(console.LinkLife, false)
	if s.creds != "" && !operator {
		token, err := auth.BearerToken(s.creds)
		if err != nil {
			return "", err
		}
		if link, err = d.bearerLink(ctx, token); err != nil {
			return "", err
		}
	}
	return link, nil
}

// bearerLink asks the console for a link for the person of a bearer token. Another program may have the port of a process that was killed.
func (d *consoleDoor) bearerLink(ctx context.Context, token string) (string, error) {
	ctx, cancel := context.WithTimeout(ctx, 10*time.Second)
	defer cancel()
	word := rand.Text()
	proof, err := d.ask(ctx, http.MethodGet, "login/door?word="+word, "")
	if err == nil && proof != console.Prove(d.Key, word) {
		err = fmt.Errorf("%w: another program is at %s", errNoConsole, d.URL)
	}
	if err != nil {
		return "", err
	}
	link, err := d.ask(ctx, http.MethodPost, "login/link", "Bearer "+token)
	return d.URL + "?token=" + url.QueryEscape(link), err
}

// ask returns what the console answers.
func (d *consoleDoor) ask(ctx context.Context, method, path, authorization string) (string, error) {
	r, err := http.NewRequestWithContext(ctx, method, d.URL+path, nil)
	if err != nil {
		return "", err
	}
	if authorization != "" {
		r.Header.Set("Authorization", authorization)
	}
	answer, err := http.DefaultClient.Do(r)
	if err != nil {
		return "", fmt.Errorf("%w: %w", errNoConsole, err)
	}
	defer answer.Body.Close()
	text, err := io.ReadAll(io.LimitReader(answer.Body, 4<<10))
	if err != nil {
		return "", err
	}
	if answer.StatusCode != http.StatusOK {
		return "", fmt.Errorf("the console at %s: %s", d.URL, strings.TrimSpace(string(text)))
	}
	return string(text), nil
}

// maxHTTPBody bounds a request's body at --http: that of the console's messages with files is the largest one.
const maxHTTPBody = console.MaxBody

// consoleHandler returns the console of the node that running returns.
func (e *env) consoleHandler(open *ports, running func() *node, waits error, done <-chan struct{}) http.Handler {
	return whenReady(running, waits, func(n *node) http.Handler { return e.settings.openConsole(n, open.door, open, done) })
}
