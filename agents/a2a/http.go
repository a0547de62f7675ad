package a2a

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"maps"
	"mime"
	"net"
	"net/http"
	"net/netip"
	"net/url"
	"runtime"
	"slices"
	"strings"
	"syscall"
	"time"

	"github.com/a2aproject/a2a-go/v2/a2a"

	"github.com/cortex-orchestrator/cortex/internal/httpclient"
	"github.com/cortex-orchestrator/cortex/internal/nesting"
	"github.com/cortex-orchestrator/cortex/internal/pace"
	"github.com/cortex-orchestrator/cortex/internal/publicnet"
	"github.com/cortex-orchestrator/cortex/internal/shorten"
)

// Bounds of what is read of a peer.
const (
	maxBody   = 32 << 20  // bytes of an answer, and of one event of a stream
	maxStream = 256 << 20 // bytes of a stream: a result has a quarter of that, and 200,000 events of words have less
	maxReason = 64 << 10  // bytes of an answer that is an error
	maxHeavy  = 64 << 20  // bytes that an answer, or an event of a stream, takes when it is decoded, as far as that can be estimated
)

const dialTimeout = 10 * time.Second

// awayError says that a peer cannot be reached, or is too busy. If unsent, it did not get the request.
type awayError struct {
	why    string
	unsent bool
}

func (e *awayError) Error() string { return e.why }

// refusedError says that a peer does not let this client in, or that what its card names must not be asked.
type refusedError struct{ why string }

func (e *refusedError) Error() string { return e.why }

// may returns what forbids requests to a URL, or nil: a card may name its own host, and those that are allowed.
func (a *Agent) may(u *url.URL) error {
	host := publicnet.Host(u.Hostname())
	own := host == publicnet.Host(a.home.Hostname())
	if !own && !slices.ContainsFunc(a.peer.Hosts, func(h string) bool { return publicnet.Host(h) == host }) {
		return &refusedError{fmt.Sprintf("the card names the host %.100q, which is not its own: allow it with --allow-host", host)}
	}
	if a.home.Scheme == "https" && u.Scheme != "https" {
		return &refusedError{fmt.Sprintf("the card came over TLS, and names %.100q without TLS", shownURL(u.String()))}
	}
	return nil
}

// answers is the pace at which answers of all peers of this process together are read, in bytes: reading 16 MB of the shortest lines takes a sixth of a second or
// so of a processor. Events are paced one by one as well, but not what is none, such as comments of a stream.
var answers = pace.New(runtime.GOMAXPROCS(0)*16<<20, freeAnswer)

// freeAnswer is how much of each answer is read without a pause, in bytes.
const freeAnswer = 1 << 20

// newHTTP returns the client for all requests to the peer.
func (a *Agent) newHTTP() *http.Client {
	t := httpclient.NewTransport(0)
	if a.peer.Public {
		t.Proxy, t.DialContext = nil, a.dialer().DialContext // behind a proxy, an address could not be checked
	}
	return &http.Client{
		Transport: &exchange{a, t},
		CheckRedirect: func(r *http.Request, via []*http.Request) error {
			if from := via[0]; from.Method != http.MethodGet || publicnet.Origin(r.URL) != publicnet.Origin(from.URL) || len(via) > 3 {
				return &refusedError{fmt.Sprintf("it redirects to %.100q, which is not followed", shownURL(r.URL.String()))}
			}
			return nil
		},
	}
}

// dialer dials, but no private addresses if the peer has to be public.
func (a *Agent) dialer() *net.Dialer {
	d := &net.Dialer{Timeout: dialTimeout, KeepAlive: 30 * time.Second}
	if a.peer.Public {
		d.ControlContext = func(_ context.Context, _, address string, _ syscall.RawConn) error {
			at, err := netip.ParseAddrPort(address)
			if err != nil || !publicnet.Is(at.Addr()) {
				return &refusedError{fmt.Sprintf("%s is an address of this network, and the list of agents is from elsewhere", address)}
			}
			return nil
		}
	}
	return d
}

// exchange sends requests to the peer only, with its credentials, and bounds the answers.
type exchange struct {
	a    *Agent
	next http.RoundTripper
}

// RoundTrip implements [http.RoundTripper].
func (x *exchange) RoundTrip(r *http.Request) (*http.Response, error) {
	if err := x.a.may(r.URL); err != nil {
		return nil, err
	}
	r = r.Clone(r.Context())
	maps.Copy(r.Header, x.a.credentials().of(publicnet.Origin(r.URL)))
	r.Header.Set("User-Agent", "cortex/"+x.a.o.Version)
	// By this header, spelled as usual, net/http takes a request for one that it may repeat by itself. Not all peers know it, so who sends decides that.
	if key := r.Header.Values(idempotencyKey); len(key) > 0 {
		r.Header.Del(idempotencyKey)
		r.Header[idempotencyKey] = key
	}
	resp, err := x.next.RoundTrip(r)
	if err != nil {
		var dial *net.OpError
		if refused, ok := errors.AsType[*refusedError](err); ok {
			return nil, refused
		}
		if r.Context().Err() != nil {
			return nil, err
		}
		return nil, &awayError{x.a.credentials().hide(err.Error()), errors.As(err, &dial) && dial.Op == "dial"}
	}
	resp.Body = answers.Body(r.Context(), resp.Body)
	kind, _, _ := mime.ParseMediaType(resp.Header.Get("Content-Type"))
	isJSON := kind == "application/json" || kind == "application/a2a+json"
	if isJSON {
		resp.Header.Set("Content-Type", "application/json") // the SDK does not know the other name
	}
	switch status := resp.StatusCode; {
	case status == http.StatusUnauthorized || status == http.StatusForbidden:
		_ = resp.Body.Close()
		return nil, &refusedError{"the agent does not let Cortex in (" + resp.Status + "): give the credentials that it wants"}
	case status == http.StatusTooManyRequests || status == http.StatusServiceUnavailable:
		_ = resp.Body.Close()
		return nil, &awayError{resp.Status, true}
	case (status == http.StatusBadGateway || status == http.StatusGatewayTimeout) && !isJSON:
		_ = resp.Body.Close()
		return nil, &awayError{resp.Status, false}
	case status >= http.StatusBadRequest && !isJSON:
		defer resp.Body.Close() //nolint:errcheck // it was only read
		b, _ := io.ReadAll(io.LimitReader(resp.Body, 512))
		why := strings.TrimSpace("the agent answers " + resp.Status + ": " + shorten.To(strings.ToValidUTF8(string(b), ""), 300))
		if status >= http.StatusInternalServerError {
			return nil, a2a.NewError(a2a.ErrServerError, why)
		}
		return nil, &refusedError{why}
	case status >= http.StatusBadRequest:
		b, err := io.ReadAll(&bounded{ReadCloser: resp.Body, most: maxReason})
		_ = resp.Body.Close()
		if err != nil {
			return nil, err
		}
		resp.Body = io.NopCloser(bytes.NewReader(b))
		if bytes.Contains(b, []byte(`"jsonrpc"`)) { // an error of the protocol, with a status as if it were one of HTTP
			resp.StatusCode, resp.Status = http.StatusOK, "200 OK"
			if r.Header.Get("Accept") == "text/event-stream" {
				resp.Body = asEvent(resp.Body)
			}
		}
	case kind == "text/event-stream":
		resp.Body = &events{bounded: bounded{ReadCloser: resp.Body, most: maxStream, pieces: true, large: x.large(r)}, host: x.a.host(), heard: heardOf(r.Context())}
	case r.Header.Get("Accept") == "text/event-stream":
		resp.Body = asEvent(&bounded{ReadCloser: resp.Body, most: maxBody, large: x.large(r)}) // an answer before the stream began, mostly an error
	default:
		resp.Body = &bounded{ReadCloser: resp.Body, most: maxBody, large: x.large(r)}
	}
	return resp, nil
}

// asEvent returns a body of JSON as a stream of one event.
func asEvent(body io.ReadCloser) io.ReadCloser {
	defer body.Close() //nolint:errcheck // it was only read
	b, err := io.ReadAll(body)
	b = slices.Concat([]byte("data: "), bytes.ReplaceAll(b, []byte("\n"), []byte(" ")), []byte("\n\n"))
	return io.NopCloser(io.MultiReader(bytes.NewReader(b), failing{err}))
}

// failing is a reader that fails; without an error it is empty.
type failing struct{ err error }

func (f failing) Read([]byte) (int, error) {
	if f.err != nil {
		return 0, f.err
	}
	return 0, io.EOF
}

// errTooMuch is wrapped by the errors for answers above a bound.
var errTooMuch = errors.New("it says too much")

// errHeavy is for answers of few bytes that take much memory.
var errHeavy = fmt.Errorf("%w: the answer has too many values", errTooMuch)

// bounded fails after most bytes, and for a text of JSON that takes too much memory.
type bounded struct {
	io.ReadCloser
	most, n int64
	scale   nesting.Scale
	pieces  bool   // who reads them weighs them
	large   *large // nil: most is little
}

// Close implements [io.Closer]. What was read keeps its room until the context of the request ends: the SDK closes an answer before it decodes it.
func (b *bounded) Close() error {
	context.AfterFunc(b.large.ctx, b.large.over)
	return b.ReadCloser.Close()
}

// Read implements [io.Reader].
func (b *bounded) Read(p []byte) (int, error) {
	if b.n > b.most {
		return 0, fmt.Errorf("%w: the answer has more than %d MiB", errTooMuch, b.most>>20)
	}
	n, err := b.ReadCloser.Read(p[:min(int64(len(p)), b.most-b.n+1)])
	b.n += int64(n)
	if b.large.isLate() {
		return 0, errLate
	}
	if b.pieces {
		return n, err
	}
	if b.scale.Write(p[:n]); b.scale.Weight > maxHeavy {
		return 0, errHeavy
	}
	if err := b.large.grow(int64(b.scale.Weight), b.ReadCloser); err != nil {
		return 0, err
	}
	return n, err
}

// events bounds a stream and each of its events: the SDK bounds lines only, and an event may have many. The buffers of the SDK stay as large as the longest
// event until the stream ends, so that counts as held; what an event takes decoded has its room until the next one is asked for.
type events struct {
	bounded
	host  string
	heard func()
	event int64 // bytes since the last empty line
	line  bool  // the present line has something
	ended bool  // an event has, since the last Read began
	kept  int   // counted in [held]
}

// Close implements [io.Closer].
func (e *events) Close() error {
	held.give(e.host, e.kept)
	e.kept = 0
	return e.bounded.Close()
}

// Read implements [io.Reader].
func (e *events) Read(p []byte) (int, error) {
	if e.ended {
		e.ended = false
		e.large.over()
	}
	n, err := e.bounded.Read(p)
	if n > 0 {
		e.heard()
	}
	for rest := p[:n]; len(rest) > 0; {
		line, after, ended := bytes.Cut(rest, []byte("\n"))
		e.line = e.line || len(bytes.TrimRight(line, "\r")) > 0
		e.event += int64(len(rest) - len(after))
		if e.scale.Write(rest[:len(rest)-len(after)]); e.scale.Weight > maxHeavy {
			return 0, errHeavy
		}
		if err := e.large.grow(int64(e.scale.Weight), e.ReadCloser); err != nil {
			return 0, err
		}
		if n := int(e.event); n > freeEvent && n > e.kept {
			if err := held.take(e.host, n-e.kept); err != nil {
				return 0, err
			}
			e.kept = n
		}
		if ended && !e.line {
			e.event, e.scale, e.ended = 0, nesting.Scale{}, true
		}
		e.line = e.line && !ended
		rest = after
	}
	if e.event > maxBody {
		return 0, fmt.Errorf("%w: an event has more than %d MiB", errTooMuch, maxBody>>20)
	}
	return n, err
}

// heardKey is the key of a function in the context of a stream, which is called when something of the stream arrives.
type heardKey struct{}

func heardOf(ctx context.Context) func() {
	if f, ok := ctx.Value(heardKey{}).(func()); ok {
		return f
	}
	return func() {}
}

// plainURL removes the query of the URL in an error, and its method.
func plainURL(err error) error {
	if of, ok := errors.AsType[*url.Error](err); ok {
		return fmt.Errorf("%s: %w", shownURL(of.URL), of.Err)
	}
	return err
}
