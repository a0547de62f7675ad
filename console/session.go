package console

import (
	"bytes"
	"context"
	"crypto/rand"
	"errors"
	"io"
	"net"
	"net/http"
	"net/url"
	"strings"
	"sync"
	"time"
	"unicode"
	"unicode/utf8"

	"github.com/cortex-orchestrator/cortex/cortex/storage"
	"github.com/cortex-orchestrator/cortex/internal/httpserver"
	"github.com/cortex-orchestrator/cortex/internal/lapse"
)

// sessionLife is how long a session without keys lasts after it was used last. A session with keys ends with its token.
const sessionLife = 12 * time.Hour

// maxToken bounds a bearer token: browsers keep cookies of 4 KiB.
const maxToken = 3800

// maxLogin bounds a form with a token, in bytes.
const maxLogin = 64 << 10

type personKey struct{}

// sessionKeys has the key that signs sessions without keys. All replicas share it by a note of the store, so that a browser can go on with another
// one; with a store without notes, it is that of the process.
type sessionKeys struct {
	store  storage.Store
	tenant string

	mu  sync.Mutex
	key []byte
}

// keySize is the size of the key, in bytes.
const keySize = 32

func (k *sessionKeys) get(ctx context.Context) ([]byte, error) {
	k.mu.Lock()
	defer k.mu.Unlock()
	if k.key != nil {
		return k.key, nil
	}
	fresh := make([]byte, keySize)
	rand.Read(fresh) //nolint:errcheck // it never fails
	notes, ok := k.store.(storage.Notes)
	if !ok {
		k.key = fresh
		return fresh, nil
	}
	const name = "session"
	for range 3 {
		n, err := notes.Note(ctx, k.tenant, storage.NoteConsole, name)
		if err != nil {
			return nil, err
		}
		if len(n.Value) == keySize {
			k.key = n.Value
			return k.key, nil
		}
		_, err = notes.PutNote(ctx, k.tenant, storage.NoteConsole, storage.Note{Key: name, Value: fresh, Version: n.Version})
		if err != nil && !errors.Is(err, storage.ErrConflict) {
			return nil, err
		}
	}
	return nil, errors.New("the key of the console's sessions changes all the time")
}

// cookieName returns the name of the session's cookie. Cookies do not distinguish the ports of a host, so the name does.
func (c *Console) cookieName(r *http.Request) string {
	_, port, err := net.SplitHostPort(r.Host)
	if err != nil {
		port = "web"
	}
	if c.secure(r) {
		return "__Host-cortex_" + port
	}
	return "cortex_" + port
}

// secure reports whether the browser of a request uses TLS, perhaps only to a proxy.
func (c *Console) secure(r *http.Request) bool {
	host, proxied := strings.CutPrefix(strings.TrimSuffix(c.cfg.URL, "/"), "https://")
	return r.TLS != nil || proxied && strings.EqualFold(host, r.Host)
}

func (c *Console) setSession(w http.ResponseWriter, r *http.Request, value string, age int) {
	http.SetCookie(w, &http.Cookie{
		Name: c.cookieName(r), Value: value, Path: "/", MaxAge: age, HttpOnly: true, Secure: c.secure(r), SameSite: http.SameSiteLaxMode,
	})
}

// signing returns the key that signs sessions without a bearer token: of everybody where there are no keys, or else of operators. That of operators
// stays in this process: people can read notes of the store.
func (c *Console) signing(ctx context.Context) ([]byte, error) {
	if c.cfg.Identify == nil {
		return c.keys.get(ctx)
	}
	return c.operators, nil
}

// begin begins a session without a bearer token, or extends it.
func (c *Console) begin(w http.ResponseWriter, r *http.Request) error {
	key, err := c.signing(r.Context())
	if err != nil {
		return err
	}
	c.setSession(w, r, sign(key, c.cfg.Now().Add(sessionLife)), int(sessionLife.Seconds()))
	return nil
}

// session returns who has sent a request; false if nobody is logged in.
func (c *Console) session(w http.ResponseWriter, r *http.Request) (Person, bool, error) {
	cookie, err := r.Cookie(c.cookieName(r))
	if err != nil || cookie.Value == "" {
		return Person{}, false, nil
	}
	key, err := c.signing(r.Context())
	if err != nil {
		return Person{}, false, err
	}
	until, ok := verify(key, cookie.Value)
	now := c.cfg.Now()
	switch {
	case !ok && c.cfg.Login != nil && strings.HasPrefix(cookie.Value, loginPrefix):
		return c.loggedIn(r.Context(), cookie.Value)
	case !ok && c.cfg.Identify != nil:
		who, err := c.cfg.Identify(cookie.Value)
		return who, err == nil && who.User != "", nil
	case !ok || !now.Before(until):
		return Person{}, false, nil
	}
	if until.Sub(now) < sessionLife/2 && r.Method == http.MethodGet {
		if err := c.begin(w, r); err != nil {
			return Person{}, false, err
		}
	}
	return operator, true, nil
}

// personName returns a person's name in the third person; "" for nobody.
func personName(p Person) string {
	if p == operator {
		return "an operator"
	}
	return who(p.User)
}

// operator is whoever has a session without a bearer token.
var operator = Person{User: "user", Operator: true}

// admit lets in who is logged in, or has a link.
func (c *Console) admit(h http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if token := r.URL.Query().Get("token"); token != "" && r.Method == http.MethodGet {
			c.redeem(w, r, token)
			return
		}
		who, ok, err := c.session(w, r)
		switch {
		case err != nil:
			c.cfg.Logger.Warn("the console cannot tell who asks", "err", err)
			http.Error(w, "Cortex cannot read its store now: try again", http.StatusServiceUnavailable)
			return
		case !ok && wantsJSON(r):
			http.Error(w, "log in first: `cortex console` gives a link", http.StatusUnauthorized)
			return
		case !ok && r.Method == http.MethodGet && r.Header.Get("Accept") != eventStream:
			to := "/login"
			if r.URL.Path != "/" {
				to += "?to=" + url.QueryEscape(r.URL.RequestURI())
			}
			http.Redirect(w, r, to, http.StatusSeeOther)
			return
		case !ok:
			http.Error(w, "log in first: `cortex console` gives a link", http.StatusUnauthorized)
			return
		}
		ctx := context.WithValue(r.Context(), personKey{}, who)
		if c.cfg.Identify != nil { // a stream ends when its token does
			httpserver.By(ctx, who.User)
			var end func()
			ctx, end = lapse.While(ctx, func() error {
				_, ok, err := c.session(discard{}, r)
				if err == nil && !ok {
					err = errLapsed
				}
				return err
			})
			defer end()
		}
		h.ServeHTTP(w, r.WithContext(ctx))
	})
}

var errLapsed = errors.New("the token is not valid any more")

// discard is a ResponseWriter for nobody.
type discard struct{}

func (discard) Header() http.Header         { return http.Header{} }
func (discard) Write(b []byte) (int, error) { return len(b), nil }
func (discard) WriteHeader(int)             {}

// redeem exchanges the token of a link for a session, perhaps after it has asked.
func (c *Console) redeem(w http.ResponseWriter, r *http.Request, token string) {
	now, _, err := c.session(w, r)
	if err != nil {
		c.cannotBegin(w, err)
		return
	}
	if link := c.linked(token); link.User != "" && c.surprises(r, now, link) {
		c.show(w, r, http.StatusOK, &page{Name: "switch", Title: "Log in", Bare: true, Data: struct{ Now, Other, Link, To string }{personName(now), personName(link), token, bareURL(r)}})
		return
	}
	switch ok, err := c.follow(w, r, token); {
	case err != nil:
		c.cannotBegin(w, err)
	case ok, now.User != "": // if not ok, a reload of the first page, such as from the browser's history
		http.Redirect(w, r, bareURL(r), http.StatusSeeOther)
	default:
		c.loginWith(w, r, http.StatusForbidden, usedLink)
	}
}

const usedLink = "This link was used already, or is too old. Make a new one:"

// linked returns whom a link lets in, with nobody's name if it is not good.
func (c *Console) linked(token string) Person {
	if user := c.links.user(token, c.cfg.Now()); user != "" {
		return Person{User: user}
	}
	if c.cfg.Gate != nil && c.cfg.Gate.opens(token) {
		return operator
	}
	return Person{}
}

// surprises reports whether a link might make whoever opens it somebody else without their knowledge: they are logged in, or it is a page elsewhere that
// has their browser open it. They would speak in the name of the link's maker then, who reads it. Without keys everybody is the same.
func (c *Console) surprises(r *http.Request, now, link Person) bool {
	site := r.Header.Get("Sec-Fetch-Site")
	elsewhere := site != "" && site != "none" && site != "same-origin"
	return c.cfg.Identify != nil && now.User != link.User && (now.User != "" || elsewhere)
}

// follow begins the session of a link, and reports false if it is not good.
func (c *Console) follow(w http.ResponseWriter, r *http.Request, token string) (ok bool, err error) {
	if bearer, ok := c.links.take(token, c.cfg.Now()); ok {
		c.setSession(w, r, bearer, 0)
		return true, nil
	}
	if c.cfg.Gate == nil || !c.cfg.Gate.Redeem(token) {
		return false, nil
	}
	return true, c.begin(w, r)
}

func (c *Console) cannotBegin(w http.ResponseWriter, err error) {
	c.cfg.Logger.Warn("a session cannot begin", "err", err)
	http.Error(w, "Cortex cannot read its store now: try again", http.StatusServiceUnavailable)
}

// bareURL returns the URL of a request without its token, which so stays in no history.
func bareURL(r *http.Request) string {
	q := r.URL.Query()
	q.Del("token")
	to := url.URL{Path: r.URL.Path, RawQuery: q.Encode()}
	return inside(to.String())
}

// inside returns a path of this console: to, if it is one.
func inside(to string) string {
	if !strings.HasPrefix(to, "/") || strings.HasPrefix(to, "//") || strings.ContainsAny(to, "\\\r\n\t") {
		return "/"
	}
	return to
}

func (c *Console) loginPage(w http.ResponseWriter, r *http.Request) {
	if _, ok, err := c.session(w, r); err == nil && ok {
		http.Redirect(w, r, inside(r.URL.Query().Get("to")), http.StatusSeeOther)
		return
	}
	c.loginWith(w, r, http.StatusOK, "")
}

// loginWith shows the page that says how to log in.
func (c *Console) loginWith(w http.ResponseWriter, r *http.Request, code int, why string) {
	to, provider := inside(r.URL.Query().Get("to")), ""
	if c.cfg.Login != nil {
		provider = c.cfg.Login.Name()
	}
	c.show(w, r, code, &page{Name: "login", Title: "Log in", Bare: true, Data: struct {
		Why, To         string
		Keys            bool
		Provider, Login string
	}{why, to, c.cfg.Identify != nil, provider, c.loginLink(to)}})
}

// login begins a session with a bearer token, or with a link that was asked about.
func (c *Console) login(w http.ResponseWriter, r *http.Request) {
	if c.cfg.Identify == nil {
		c.loginWith(w, r, http.StatusForbidden, "")
		return
	}
	form, err := httpserver.ReadBody(w, r, maxLogin)
	if err != nil {
		c.loginWith(w, r, http.StatusRequestEntityTooLarge, "What was sent is too long, or did not arrive.")
		return
	}
	r.Body = io.NopCloser(bytes.NewReader(form))
	if link := r.PostFormValue("link"); link != "" {
		switch ok, err := c.follow(w, r, link); {
		case err != nil:
			c.cannotBegin(w, err)
		case ok:
			http.Redirect(w, r, inside(r.PostFormValue("to")), http.StatusSeeOther)
		default:
			c.loginWith(w, r, http.StatusForbidden, usedLink)
		}
		return
	}
	token := strings.TrimSpace(r.PostFormValue("token"))
	who, err := c.cfg.Identify(token)
	switch {
	case token == "":
		c.loginWith(w, r, http.StatusBadRequest, "Paste the token first.")
	case (err != nil || who.User == "") && !c.logins.allow(r):
		tooOften(w)
	case err != nil || who.User == "":
		why := refused(err)
		first, n := utf8.DecodeRuneInString(why)
		c.loginWith(w, r, http.StatusForbidden, string(unicode.ToUpper(first))+why[n:]+".")
	case len(token) > maxToken:
		c.loginWith(w, r, http.StatusBadRequest, "This token is too long for a browser.")
	default:
		c.setSession(w, r, token, 0)
		http.Redirect(w, r, inside(r.PostFormValue("to")), http.StatusSeeOther)
	}
}

// refused returns why a token is not taken: what [Config.Identify] says of it.
func refused(err error) string {
	if err == nil || err.Error() == "" {
		return "this token is not valid here, or not any more"
	}
	return err.Error()
}

// prove shows to who makes a link that this is the console of their data folder.
func (c *Console) prove(w http.ResponseWriter, r *http.Request) {
	if c.cfg.Gate == nil {
		http.NotFound(w, r)
		return
	}
	_, _ = w.Write([]byte(Prove(c.cfg.Gate.key, r.URL.Query().Get("word"))))
}

// makeLink answers a program that shows a bearer token with the token of a link, which begins a session for it.
func (c *Console) makeLink(w http.ResponseWriter, r *http.Request) {
	kind, token, _ := strings.Cut(r.Header.Get("Authorization"), " ")
	if c.cfg.Identify == nil || !strings.EqualFold(kind, "Bearer") || len(token) > maxToken {
		http.Error(w, "there are no such links here", http.StatusNotFound)
		return
	}
	who, err := c.cfg.Identify(token)
	if err != nil || who.User == "" {
		if !c.logins.allow(r) {
			tooOften(w)
			return
		}
		http.Error(w, refused(err), http.StatusForbidden)
		return
	}
	link := c.links.put(who.User, token, c.cfg.Now().Add(LinkLife), c.cfg.Now())
	if link == "" {
		http.Error(w, "too many links have been made that nobody has opened: try again in a minute", http.StatusTooManyRequests)
		return
	}
	_, _ = w.Write([]byte(link))
}

func (c *Console) logout(w http.ResponseWriter, r *http.Request) {
	if cookie, err := r.Cookie(c.cookieName(r)); err == nil && c.cfg.Login != nil && strings.HasPrefix(cookie.Value, loginPrefix) {
		if err := c.leave(r.Context(), sessionKey(cookie.Value)); err != nil {
			c.cfg.Logger.Warn("a session cannot end", "err", err)
			http.Error(w, "Cortex cannot write to its store now, so you are still logged in: try again", http.StatusServiceUnavailable)
			return
		}
	}
	c.setSession(w, r, "", -1)
	http.Redirect(w, r, "/login", http.StatusSeeOther)
}

// links has the bearer tokens for which there are links. It is safe for concurrent use.
type links struct {
	mu sync.Mutex
	of map[string]link
}

type link struct {
	user, bearer string
	until        time.Time
}

// Bounds of the links at a time: of all, and of one person, whose oldest ends. A person can sign any number of bearer tokens.
const (
	maxLinks    = 1000
	maxOwnLinks = 10
)

// put returns the token of a new link; "" when there are too many.
func (l *links) put(user, bearer string, until, now time.Time) string {
	l.mu.Lock()
	defer l.mu.Unlock()
	own, oldest := 0, ""
	for t, is := range l.of {
		switch {
		case !now.Before(is.until):
			delete(l.of, t)
		case is.user == user:
			if own++; oldest == "" || is.until.Before(l.of[oldest].until) {
				oldest = t
			}
		}
	}
	if own >= maxOwnLinks {
		delete(l.of, oldest)
	}
	if len(l.of) >= maxLinks {
		return ""
	}
	if l.of == nil {
		l.of = make(map[string]link)
	}
	token := rand.Text() + rand.Text()
	l.of[token] = link{user, bearer, until}
	return token
}

// user returns whom a link is for; "" if it is not good.
func (l *links) user(token string, now time.Time) string {
	l.mu.Lock()
	defer l.mu.Unlock()
	if is := l.of[token]; now.Before(is.until) {
		return is.user
	}
	return ""
}

// take returns the bearer token of a link, which then is no longer good.
func (l *links) take(token string, now time.Time) (bearer string, ok bool) {
	l.mu.Lock()
	defer l.mu.Unlock()
	is, ok := l.of[token]
	delete(l.of, token)
	return is.bearer, ok && now.Before(is.until)
}
