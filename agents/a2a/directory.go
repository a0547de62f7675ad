package a2a

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptrace"
	"net/netip"
	"net/url"
	"strings"
	"sync/atomic"

	"github.com/cortex-orchestrator/cortex/internal/document"
	"github.com/cortex-orchestrator/cortex/internal/httpclient"
	"github.com/cortex-orchestrator/cortex/internal/publicnet"
)

// Bounds of a list of agents.
const (
	maxList    = 1 << 20 // bytes
	maxEntries = 1000
)

// Entry is a line of a list of agents.
type Entry struct {
	At  string // where it is, for people
	URL string
	Err error // what is wrong with it, or nil
}

// Directory is a list of agents.
type Directory struct {
	Entries []Entry
	// Public says that the list is from a server on the internet, which has no business with addresses in private networks.
	Public bool
}

// ReadDirectory reads a list of agents from a file or a URL: a URL per line, where # begins a comment, or JSON, a list of URLs or of objects
// with a url. An entry that cannot be used does not stop the others.
func ReadDirectory(ctx context.Context, where string) (*Directory, error) {
	d := &Directory{}
	var b []byte
	var err error
	if u, bad := url.Parse(where); bad == nil && (u.Scheme == "http" || u.Scheme == "https") {
		b, d.Public, err = download(ctx, u)
	} else {
		b, err = document.Read(ctx, where, maxList)
	}
	if err != nil {
		return nil, err
	}
	if d.Entries, err = entries(b); err == nil && len(d.Entries) == 0 {
		err = errors.New("it lists no agent")
	}
	if err != nil {
		return nil, fmt.Errorf("%s: %w", shownURL(where), err)
	}
	return d, nil
}

// download reads a list from its server, and reports whether that is one on the internet: by the address that the list came from, since a name may lead
// elsewhere the next time. A proxy looks up a name by itself, so what comes by it under a name is from the internet.
func download(ctx context.Context, from *url.URL) (list []byte, public bool, err error) {
	ctx, cancel := context.WithTimeout(ctx, cardTimeout)
	defer cancel()
	t := httpclient.NewTransport(1)
	defer t.CloseIdleConnections()
	var outside atomic.Bool
	tracing := httptrace.WithClientTrace(ctx, &httptrace.ClientTrace{GotConn: func(c httptrace.GotConnInfo) {
		if addr, ok := c.Conn.RemoteAddr().(*net.TCPAddr); !ok || publicnet.Is(addr.AddrPort().Addr()) {
			outside.Store(true)
		}
	}})
	r, err := http.NewRequestWithContext(tracing, http.MethodGet, from.String(), nil)
	if err != nil {
		return nil, false, err
	}
	if t.Proxy != nil {
		if by, err := t.Proxy(r); err != nil || by != nil {
			at, err := netip.ParseAddr(from.Hostname())
			outside.Store(err != nil || publicnet.Is(at))
		}
	}
	client := &http.Client{Transport: t, CheckRedirect: func(r *http.Request, via []*http.Request) error {
		if publicnet.Origin(r.URL) != publicnet.Origin(from) || len(via) > 3 {
			return fmt.Errorf("it redirects to %.100q, which is not followed", shownURL(r.URL.String()))
		}
		return nil
	}}
	resp, err := client.Do(r)
	if err != nil {
		return nil, false, plainURL(err)
	}
	defer resp.Body.Close() //nolint:errcheck // it was only read
	if resp.StatusCode != http.StatusOK {
		return nil, false, fmt.Errorf("%s: there is no list of agents: %s", shownURL(from.String()), resp.Status)
	}
	b, err := io.ReadAll(io.LimitReader(resp.Body, maxList+1))
	if err == nil && len(b) > maxList {
		err = fmt.Errorf("%s: a list of agents has at most %d bytes", shownURL(from.String()), maxList)
	}
	return b, outside.Load(), err
}

// entries parses a list.
func entries(b []byte) ([]Entry, error) {
	var all []Entry
	seen := map[string]bool{}
	add := func(at, text string) error {
		if len(all) == maxEntries {
			return fmt.Errorf("a list has at most %d agents", maxEntries)
		}
		e := Entry{At: at, URL: text}
		if e.Err = (&Peer{URL: text}).Check(); e.Err == nil && seen[text] {
			e.Err = errors.New("it is there twice")
		}
		seen[text] = true
		all = append(all, e)
		return nil
	}
	if b = bytes.TrimSpace(bytes.TrimPrefix(b, []byte("\xef\xbb\xbf"))); bytes.HasPrefix(b, []byte("[")) {
		var list []json.RawMessage
		if err := json.Unmarshal(b, &list); err != nil {
			return nil, errors.New("it is no list in JSON")
		}
		for i, raw := range list {
			var text string
			var object struct{ URL string }
			if json.Unmarshal(raw, &text) != nil && json.Unmarshal(raw, &object) == nil {
				text = object.URL
			}
			if err := add(fmt.Sprintf("entry %d", i+1), text); err != nil {
				return nil, err
			}
		}
		return all, nil
	}
	lines := bufio.NewScanner(bytes.NewReader(b))
	lines.Buffer(nil, maxList+1)
	for n := 1; lines.Scan(); n++ {
		text, _, _ := strings.Cut(" "+lines.Text(), " #")
		text = strings.TrimSpace(strings.TrimPrefix(strings.TrimSpace(text), "- "))
		if text == "" {
			continue
		}
		if err := add(fmt.Sprintf("line %d", n), text); err != nil {
			return nil, err
		}
	}
	return all, lines.Err()
}
