package cli

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"log/slog"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"runtime"
	"runtime/debug"
	"slices"
	"strings"
	"syscall"
	"time"

	"github.com/cortex-orchestrator/cortex/internal/datadir"
	"github.com/cortex-orchestrator/cortex/internal/disk"
	"github.com/cortex-orchestrator/cortex/internal/httpclient"
	"github.com/cortex-orchestrator/cortex/internal/openfiles"
	"github.com/cortex-orchestrator/cortex/internal/table"
	"github.com/cortex-orchestrator/cortex/transport"
	"github.com/cortex-orchestrator/cortex/transport/nats/auth"
)

// check is the result of one of the doctor's checks.
type check struct {
	Name  string `json:"check"`
	State state  `json:"state"`
	What  string `json:"what"`
	Do    string `json:"do,omitempty"` // what to do about it
}

type state string

const (
	isGood  state = "ok"
	isNoted state = "note" // works, with something worth mentioning
	isWrong state = "wrong"
)

func good(name, format string, args ...any) check {
	return check{Name: name, State: isGood, What: fmt.Sprintf(format, args...)}
}

// checkup checks everything around a Cortex with the settings s, except its store.
type checkup struct {
	s      *settings
	auth   string // the folder of keys of the Cortex that runs; "": none, or not known
	online bool
	all    []check
}

// checkUp runs all checks. Only with online does it contact servers outside this machine, and it sends them no keys.
func (s *settings) checkUp(ctx context.Context, http string, online bool) []check {
	own, node := *s, *s.node
	own.node = &node // a copy: joining changes it
	c := &checkup{s: &own, online: online}
	c.program()
	c.config()
	c.folder()
	runs := c.server(ctx)
	c.port(ctx, "health", http, runs && http == defaultHTTP)
	if !runs && s.inFolder() {
		c.port(ctx, "listen", s.node.listen, false)
	}
	c.clock()
	c.model(ctx)
	c.keys(runs)
	return c.all
}

func (c *checkup) add(ch check) { c.all = append(c.all, ch) }

func (c *checkup) good(name, format string, args ...any) { c.add(good(name, format, args...)) }

func (c *checkup) note(name, do, format string, args ...any) {
	c.add(check{name, isNoted, fmt.Sprintf(format, args...), do})
}

func (c *checkup) wrong(name, do, format string, args ...any) {
	c.add(check{name, isWrong, fmt.Sprintf(format, args...), do})
}

func (c *checkup) program() {
	c.good("program", "cortex %s, %s, %s/%s", buildVersion(), runtime.Version(), runtime.GOOS, runtime.GOARCH)
	if few := openfiles.Few(); few != "" {
		c.note("files", "", "%s", few)
	}
}

func (c *checkup) config() {
	if c.s.config == "" {
		c.good("config", "no file is read")
		return
	}
	c.good("config", "%s", c.s.config)
}

// Bounds of the free space of a disk, in bytes: below tooFull nothing works for long; below the second, which depends on the disk and is at most
// maxSpare, files are refused.
const (
	tooFull  = 32 << 20
	maxSpare = 1 << 30
)

func (c *checkup) folder() {
	dir, made := c.s.data, true
	info, err := os.Stat(dir)
	for at := dir; errors.Is(err, fs.ErrNotExist) && filepath.Dir(at) != at; {
		at = filepath.Dir(at)
		made, dir = false, at
		info, err = os.Stat(at)
	}
	const choose = "choose another folder with --data"
	switch {
	case err != nil:
		c.wrong("folder", choose, "%s cannot be looked at: %s", dir, oneLine(err))
		return
	case !info.IsDir():
		c.wrong("folder", choose, "%s is no folder", dir)
		return
	}
	if err := disk.MayWrite(dir); err != nil {
		c.wrong("folder", "have its owner give it to you, or "+choose, "%s cannot be written to: %s", dir, err)
		return
	}
	what := c.s.data
	if !made {
		what += ", which is made when it is needed"
	}
	if why := datadir.Exposed(dir); made && why != "" {
		c.note("folder", choose+" that only you may change", "others on this machine may replace or read what is in it: %s", why)
	}
	if inodes, few := disk.FewInodes(dir, disk.LeastInodes); few {
		c.wrong("folder", "remove files from its disk, or "+choose, "%s: %s", what, disk.InodesText(inodes))
		return
	}
	free, size, err := disk.Room(dir)
	switch room := transport.SizeText(int64(min(free, 1<<62))) + " free"; {
	case err != nil:
		c.good("folder", "%s", what)
	case free < tooFull:
		c.wrong("folder", "make room on its disk, or "+choose, "%s: only %s", what, room)
	case free < min(max(size/20, tooFull), maxSpare):
		c.note("folder", "make room on its disk: no files are taken", "%s: only %s", what, room)
	default:
		c.good("folder", "%s, %s", what, room)
	}
}

// server checks whether a Cortex runs and answers. It reports whether one runs.
func (c *checkup) server(ctx context.Context) bool {
	ctx, cancel := context.WithTimeout(ctx, syncTimeout)
	defer cancel()
	var at datadir.Address
	if c.s.inFolder() {
		var err error
		var runs bool
		if at, runs, err = datadir.Find(ctx, c.s.data); err != nil {
			c.wrong("server", "", "%s", oneLine(err))
			return true
		} else if !runs {
			c.good("server", "none runs: `cortex chat` or `cortex serve` starts one")
			return false
		}
	}
	c.auth = at.Node.Of("auth")
	l, err := c.s.mustJoin(ctx, "doctor", slog.New(slog.DiscardHandler), nil)
	if err == nil {
		defer l.Close()
		err = l.awaitCortex(ctx)
	}
	if err != nil {
		do := ""
		if c.s.inFolder() {
			do = fmt.Sprintf("look at what process %d says, and start it again", at.PID)
		}
		c.wrong("server", do, "%s", oneLine(err))
		return true
	}
	who := "a cortex"
	if c.s.inFolder() {
		who = "a service"
		if at.Passing {
			who = "a chat or a question"
		}
		who += fmt.Sprintf(" (process %d)", at.PID)
	}
	c.good("server", "%s answers on %s", who, l.url)
	if c.s.inFolder() && at.Version != buildVersion() {
		c.note("version", "start it again with this program, so that both are the same", "what runs is cortex %s, and this is %s", cmp.Or(at.Version, "of another version"), buildVersion())
	}
	return true
}

// portTimeout bounds the wait for an answer at a port.
const portTimeout = 3 * time.Second

// port checks who listens at the address of a setting, without taking it. With unused, the running Cortex may well use another address.
func (c *checkup) port(ctx context.Context, name, addr string, unused bool) {
	bad := c.wrong
	if unused {
		bad = c.note
	}
	host, port, err := net.SplitHostPort(addr)
	if err != nil || port == "0" {
		return // no address, or any free port
	}
	if ip := net.ParseIP(host); host == "" || ip != nil && ip.IsUnspecified() {
		host = "localhost"
	}
	ctx, cancel := context.WithTimeout(ctx, portTimeout)
	defer cancel()
	conn, err := new(net.Dialer).DialContext(ctx, "tcp", net.JoinHostPort(host, port))
	switch {
	case errors.Is(err, syscall.ECONNREFUSED):
		c.good("port", "%s (--%s) is free", addr, flagOf[name])
		return
	case err != nil:
		c.note("port", "", "%s (--%s): %s", addr, flagOf[name], oneLine(err))
		return
	}
	conn.Close()
	if at, ok, err := datadir.Find(ctx, c.s.data); err == nil && ok && at.Passing && consoleAt(c.s.data, at.PID, addr) {
		c.good("port", "%s has the console of the chat (process %d); `cortex serve` waits until that ends", addr, at.PID)
		return
	}
	taken := func() {
		bad("port", fmt.Sprintf("end that, or give `cortex serve` another one with --%s", flagOf[name]), "another program has %s (--%s)", addr, flagOf[name])
	}
	if name != "health" {
		taken()
		return
	}
	status, body, err := get(ctx, "http://"+net.JoinHostPort(host, port)+"/readyz")
	first, more, _ := strings.Cut(strings.TrimSpace(body), "\n")
	_, more, _ = strings.Cut(more, "\n") // after the line about owners
	switch {
	case err == nil && status == http.StatusOK && first == "ok" && more != "":
		c.note("port", "", "a cortex answers on %s: it is ready, and says: %s", addr, more)
	case err == nil && status == http.StatusOK && first == "ok":
		c.good("port", "a cortex answers on %s: it is ready", addr)
	case err == nil && status == http.StatusServiceUnavailable && addr == defaultHTTP:
		c.note("port", "", "a cortex on %s, perhaps of another folder, is not ready: %s", addr, oneLine(errors.New(body)))
	case err == nil && status == http.StatusServiceUnavailable:
		bad("port", "", "what answers on %s is not ready: %s", addr, oneLine(errors.New(body)))
	case err == nil && status == http.StatusBadRequest && strings.Contains(body, "HTTPS server"):
		c.note("port", "", "what answers on %s speaks TLS, and is not asked: see https://%s/readyz", addr, addr)
	default:
		taken()
	}
}

// flagOf maps the checks of ports to their flags.
var flagOf = map[string]string{"health": "http", "listen": "listen"}

// get fetches a URL, and returns the status and the beginning of the body.
func get(ctx context.Context, url string) (status int, body string, err error) {
	r, err := http.NewRequestWithContext(ctx, http.MethodGet, url, nil)
	if err != nil {
		return 0, "", err
	}
	answer, err := (&http.Client{Transport: httpclient.NewTransport(1)}).Do(r)
	if err != nil {
		return 0, "", err
	}
	defer answer.Body.Close()
	b, err := io.ReadAll(io.LimitReader(answer.Body, 4096))
	return answer.StatusCode, string(b), err
}

// clock compares the clock with the times of files written earlier: leases, deadlines and keys depend on it.
func (c *checkup) clock() {
	now := time.Now()
	var latest time.Time
	for _, path := range []string{datadir.AddressFile(c.s.data), datadir.LastFile(c.s.data), datadir.Store(c.s.data)} {
		if info, err := os.Stat(path); err == nil && info.ModTime().After(latest) {
			latest = info.ModTime()
		}
	}
	if info, ok := debug.ReadBuildInfo(); ok {
		for _, s := range info.Settings {
			if built, err := time.Parse(time.RFC3339, s.Value); s.Key == "vcs.time" && err == nil && built.After(latest) {
				latest = built
			}
		}
	}
	if behind := latest.Sub(now); behind > time.Minute {
		c.wrong("clock", "set the clock, best by NTP", "it says %s, and something was made at %s", now.UTC().Format(time.DateTime), latest.UTC().Format(time.DateTime))
		return
	}
	c.good("clock", "%s UTC", now.UTC().Format(time.DateTime))
}

func (c *checkup) model(ctx context.Context) {
	c.s.takeOnlyModel(ctx)
	if err := c.s.checkLLM(); err != nil {
		c.wrong("model", "", "%s", oneLine(err))
		return
	}
	chain, err := c.s.chain()
	if err != nil || len(chain) == 0 {
		has := ""
		for _, l := range c.s.listLLMs() {
			if ep := c.s.endpoints()[l.Name]; l.Ready && ep.KeyEnv != "" && !ep.Local {
				has = ", such as " + l.Name + ", whose key is there"
				break
			}
		}
		c.good("model", "%s decides by words; for a language model: --llm NAME%s", c.s.node.llm, has)
		return
	}
	for _, ep := range chain {
		name := strings.TrimSpace(ep.Name + " " + ep.Model)
		r, _, err := ep.Resolved()
		switch {
		case err != nil:
			c.wrong("model", "", "%s", oneLine(err))
		case !c.online:
			c.good("model", "%s has what it needs; --online looks whether it can be reached", name)
		case r.BaseURL == "":
			c.note("model", "`cortex llm check "+ep.Name+"` asks it something", "%s: its SDK knows where it is", name)
		default:
			c.reach(ctx, name, ep.Name, r.BaseURL)
		}
	}
}

// reach checks that the server of a model is reachable, with a request that has no key.
func (c *checkup) reach(ctx context.Context, name, endpoint, base string) {
	ctx, cancel := context.WithTimeout(ctx, 2*portTimeout)
	defer cancel()
	if _, _, err := get(ctx, base); err != nil {
		c.wrong("model", "look at base_url, the network and HTTPS_PROXY", "%s cannot be reached: %s", name, oneLine(err))
		return
	}
	c.good("model", "%s can be reached; `cortex llm check %s` asks it something", name, endpoint)
}

// unusedKeys returns the folder of the keys that `cortex auth init` has made here when the settings neither use them nor say that there are none.
func (s *settings) unusedKeys() string {
	own := filepath.Join(s.data, "auth")
	if _, err := os.Stat(own); err != nil || s.node.auth != "" || s.given["auth"] != 0 || !s.inFolder() {
		return ""
	}
	return own
}

// keys checks the credentials and certificates that were given, the folder of keys, and whether a Cortex can be started on the data folder without keys.
func (c *checkup) keys(runs bool) {
	if err := c.s.checkFiles(); err != nil {
		c.wrong("keys", "", "%s", oneLine(err))
		return
	}
	for _, line := range outdated(c.s.certificates(nil, "")) {
		c.note("tls", "", "%s", line)
	}
	dir, unused := cmp.Or(c.s.node.auth, c.auth), c.s.unusedKeys()
	if c.auth != "" {
		unused = ""
	}
	var needed error // that there are keys
	if !runs && c.s.inFolder() && unused == "" {
		needed = c.s.keepKeys()
	}
	host, _, _ := net.SplitHostPort(c.s.node.listen)
	ip := net.ParseIP(host)
	switch {
	case c.s.creds != "":
		c.good("keys", "credentials are in %s", c.s.creds)
	case dir != "":
		if err := auth.Check(dir); err != nil {
			c.wrong("keys", "", "%s", oneLine(err))
		} else if info, err := os.Stat(dir); err == nil && runtime.GOOS != "windows" && info.Mode().Perm()&0o077 != 0 {
			c.wrong("keys", "chmod 700 "+shellWord(dir), "others on this machine can look into %s", dir)
		} else {
			c.good("keys", "in %s", dir)
		}
	case needed != nil:
		c.wrong("keys", "", "%s", oneLine(needed))
	case unused != "":
		c.note("keys", "`cortex serve --auth "+shellWord(unused)+"` lets in only whom they know", "those in %s are not used: without --auth whoever reaches the server may do everything", unused)
	case host != "localhost" && (ip == nil || !ip.IsLoopback()):
		c.note("keys", "`cortex auth init` makes keys", "none: whoever reaches %s may do everything", c.s.node.listen)
	default:
		c.good("keys", "none: whoever is on this machine may do everything")
	}
}

// anyWrong reports whether something is wrong.
func anyWrong(all []check) bool {
	return slices.ContainsFunc(all, func(c check) bool { return c.State == isWrong })
}

// showChecks prints each check, followed by what to do about it.
func (e *env) showChecks(all []check) error {
	t := &table.Table{Columns: []table.Column{{Wide: len("program")}, {Wide: len(isWrong)}, {}}, Wrap: true}
	for _, c := range all {
		t.Row(c.Name, string(c.State), c.What)
		if c.Do != "" {
			t.Row("", "", "→ "+c.Do)
		}
	}
	return e.show(t)
}
