package console

import (
	"context"
	"crypto/rand"
	"crypto/sha256"
	"crypto/subtle"
	"encoding/base64"
	"encoding/hex"
	"encoding/json"
	"errors"
	"net/http"
	"net/url"
	"slices"
	"strings"
	"time"

	"github.com/cortex-orchestrator/cortex/cortex/storage"
	"github.com/cortex-orchestrator/cortex/prompt"
	"github.com/cortex-orchestrator/cortex/transport"
)

// Login is an identity provider with which people log in. Its methods are safe for concurrent use.
type Login interface {
	// Name is the provider's name for people.
	Name() string
	// Start returns the URL to which a browser is sent to log in, and from which it comes back to callback.
	Start(ctx context.Context, f *Flow, callback string) (to string, err error)
	// Finish returns who has logged in, by the code with which the browser came back. The text of an error is for whoever logs in; it wraps
	// transport.ErrUnavailable while the provider cannot be asked.
	Finish(ctx context.Context, f *Flow, callback, code string) (Person, error)
}

// Flow is what ties the steps of a login together. The browser that began it keeps it, and no other one has it.
type Flow struct {
	State    string    `json:"state"`
	Nonce    string    `json:"nonce"`
	Verifier string    `json:"verifier"` // of PKCE
	To       string    `json:"to"`       // the page to go on with
	Until    time.Time `json:"until"`
}

// Bounds of logins with a provider.
const (
	flowLife      = 10 * time.Minute
	maxLoggedIn   = 10_000 // sessions
	maxOwnLogins  = 20     // of a person; the oldest ones end
	loginPrefix   = "o."   // of the values of cookies
	loginCallback = "/login/callback"
)

// loginSession is a session that began with a login, as it is stored, so that any replica knows it and an operator can end it. Its key is the hash of
// the cookie, since people can read notes.
type loginSession struct {
	User     string    `json:"user"`
	Operator bool      `json:"operator,omitempty"`
	Began    time.Time `json:"began"`
	Until    time.Time `json:"until"`

	Key string `json:"-"`
}

// sessionKey is the key of the note of a session.
func sessionKey(value string) string {
	sum := sha256.Sum256([]byte(value))
	return hex.EncodeToString(sum[:])
}

// notes returns where sessions are stored.
func (c *Console) notes() (storage.Notes, error) {
	notes, ok := c.cfg.Store.(storage.Notes)
	if !ok {
		return nil, errors.New("this store keeps no notes, so nobody can log in with an identity provider")
	}
	return notes, nil
}

// loggedIn returns the session of a cookie, and false if it has ended.
func (c *Console) loggedIn(ctx context.Context, value string) (Person, bool, error) {
	notes, err := c.notes()
	if err != nil {
		return Person{}, false, err
	}
	n, err := notes.Note(ctx, c.cfg.Client.Tenant, storage.NoteLogin, sessionKey(value))
	if err != nil {
		return Person{}, false, err
	}
	var is loginSession
	if len(n.Value) == 0 || json.Unmarshal(n.Value, &is) != nil || is.User == "" || !c.cfg.Now().Before(is.Until) {
		return Person{}, false, nil
	}
	return Person{User: is.User, Operator: is.Operator}, true, nil
}

// loginSessions returns the sessions that have not ended, the latest first, and removes what is left of others.
func (c *Console) loginSessions(ctx context.Context) ([]loginSession, error) {
	notes, err := c.notes()
	if err != nil {
		return nil, err
	}
	var all []loginSession
	now := c.cfg.Now()
	for n, err := range notes.Notes(ctx, c.cfg.Client.Tenant, storage.NoteLogin) {
		if err != nil {
			return nil, err
		}
		is := loginSession{Key: n.Key}
		if len(n.Value) == 0 {
			continue
		}
		if json.Unmarshal(n.Value, &is) != nil || !now.Before(is.Until) {
			if err := notes.DeleteNote(ctx, c.cfg.Client.Tenant, storage.NoteLogin, n.Key, n.Version); err != nil && !errors.Is(err, storage.ErrConflict) {
				return nil, err
			}
			continue
		}
		all = append(all, is)
	}
	slices.SortFunc(all, func(a, b loginSession) int { return b.Began.Compare(a.Began) })
	return all, nil
}

// enter begins the session of somebody who has logged in, and returns the value of its cookie.
func (c *Console) enter(ctx context.Context, who Person) (string, error) {
	notes, err := c.notes()
	if err != nil {
		return "", err
	}
	all, err := c.loginSessions(ctx)
	if err != nil {
		return "", err
	}
	if len(all) >= maxLoggedIn {
		return "", wrong{http.StatusTooManyRequests, "too many people are logged in: an operator can end sessions on the page System"}
	}
	own := 0
	for _, is := range all {
		if is.User != who.User {
			continue
		}
		if own++; own >= maxOwnLogins {
			if err := c.leave(ctx, is.Key); err != nil {
				return "", err
			}
		}
	}
	value := loginPrefix + rand.Text() + rand.Text()
	now := c.cfg.Now()
	b, err := json.Marshal(loginSession{User: who.User, Operator: who.Operator, Began: now, Until: now.Add(sessionLife)})
	if err != nil {
		return "", err
	}
	_, err = notes.PutNote(ctx, c.cfg.Client.Tenant, storage.NoteLogin, storage.Note{Key: sessionKey(value), Value: b})
	return value, err
}

// leave ends the session with a key.
func (c *Console) leave(ctx context.Context, key string) error {
	notes, err := c.notes()
	if err != nil {
		return err
	}
	return notes.DeleteNote(ctx, c.cfg.Client.Tenant, storage.NoteLogin, key, 0)
}

// publicURL is the address of the console as the browser of a request has it.
func (c *Console) publicURL(r *http.Request) string {
	switch {
	case c.cfg.URL != "":
		return strings.TrimSuffix(c.cfg.URL, "/")
	case r.TLS != nil:
		return "https://" + r.Host
	}
	return "http://" + r.Host
}

func (c *Console) setFlow(w http.ResponseWriter, r *http.Request, value string, age int) {
	http.SetCookie(w, &http.Cookie{
		Name: c.cookieName(r) + "_login", Value: value, Path: "/", MaxAge: age, HttpOnly: true, Secure: c.secure(r), SameSite: http.SameSiteLaxMode,
	})
}

// startLogin sends a browser to the identity provider.
func (c *Console) startLogin(w http.ResponseWriter, r *http.Request) {
	if c.cfg.Login == nil {
		c.loginWith(w, r, http.StatusNotFound, "")
		return
	}
	if !c.logins.allow(r) { // the provider is asked what it is while that is not known
		tooOften(w)
		return
	}
	f := &Flow{State: rand.Text(), Nonce: rand.Text(), Verifier: rand.Text() + rand.Text(), To: inside(r.URL.Query().Get("to")), Until: c.cfg.Now().Add(flowLife)}
	if len(f.To) > maxLine {
		f.To = "/"
	}
	to, err := c.cfg.Login.Start(r.Context(), f, c.publicURL(r)+loginCallback)
	if err != nil {
		c.refuseLogin(w, r, err)
		return
	}
	b, err := json.Marshal(f)
	if err != nil {
		c.refuseLogin(w, r, err)
		return
	}
	c.setFlow(w, r, base64.RawURLEncoding.EncodeToString(b), int(flowLife.Seconds()))
	http.Redirect(w, r, to, http.StatusSeeOther)
}

// flow returns the login that this browser has begun, and with whose state it comes back; nil if there is none.
func (c *Console) flow(r *http.Request) *Flow {
	cookie, err := r.Cookie(c.cookieName(r) + "_login")
	if err != nil {
		return nil
	}
	b, err := base64.RawURLEncoding.DecodeString(cookie.Value)
	f := &Flow{}
	if err != nil || json.Unmarshal(b, f) != nil || f.State == "" || !c.cfg.Now().Before(f.Until) {
		return nil
	}
	if subtle.ConstantTimeCompare([]byte(f.State), []byte(r.URL.Query().Get("state"))) != 1 {
		return nil
	}
	return f
}

// finishLogin begins a session for a browser that comes back from the identity provider.
func (c *Console) finishLogin(w http.ResponseWriter, r *http.Request) {
	if c.cfg.Login == nil {
		c.loginWith(w, r, http.StatusNotFound, "")
		return
	}
	f := c.flow(r)
	if f == nil { // such as a link that somebody else has made, so that their login is used here
		c.loginWith(w, r, http.StatusForbidden, "This login did not begin in this browser, or too long ago. Begin it again.")
		return
	}
	if !c.logins.allow(r) { // the provider is asked each time
		tooOften(w)
		return
	}
	c.setFlow(w, r, "", -1) // it is good once
	if code := r.URL.Query().Get("error"); code != "" {
		c.refuseLogin(w, r, errors.New(c.cfg.Login.Name()+" has refused: "+prompt.Clean(code+" "+r.URL.Query().Get("error_description"), maxLine)))
		return
	}
	who, err := c.cfg.Login.Finish(r.Context(), f, c.publicURL(r)+loginCallback, r.URL.Query().Get("code"))
	if err == nil && who.User == "" {
		err = errors.New("the identity provider does not say who you are")
	}
	var value string
	if err == nil {
		value, err = c.enter(r.Context(), who)
	}
	if err != nil {
		c.refuseLogin(w, r, err)
		return
	}
	c.cfg.Logger.Info("somebody has logged in to the console", "user", who.User, "operator", who.Operator)
	c.setSession(w, r, value, int(sessionLife.Seconds()))
	http.Redirect(w, r, inside(f.To), http.StatusSeeOther)
}

// refuseLogin shows why a login has failed.
func (c *Console) refuseLogin(w http.ResponseWriter, r *http.Request, err error) {
	code, text := http.StatusForbidden, prompt.Clean(err.Error(), maxLine)
	var is wrong
	switch {
	case errors.As(err, &is):
		code = is.code
	case errors.Is(err, transport.ErrUnavailable):
		code = http.StatusBadGateway
		text = strings.TrimPrefix(text, transport.ErrUnavailable.Error()+": ") // it is the provider that cannot be asked
	}
	c.cfg.Logger.Warn("a login to the console has failed", "err", text)
	c.loginWith(w, r, code, text)
}

// endSessions ends sessions of others, for operators.
func (c *Console) endSessions(w http.ResponseWriter, r *http.Request, who Person) error {
	if !who.Operator {
		return errOperator
	}
	all, err := c.loginSessions(r.Context())
	if err != nil {
		return err
	}
	user := r.PostFormValue("user")
	for _, is := range all {
		if is.User == user {
			if err := c.leave(r.Context(), is.Key); err != nil {
				return err
			}
		}
	}
	c.cfg.Logger.Info("an operator has ended sessions of the console", "user", prompt.Clean(user, maxWord), "by", who.User)
	http.Redirect(w, r, "/system#people", http.StatusSeeOther)
	return nil
}

// loginLink is where a browser goes to log in with the provider; "": there is none.
func (c *Console) loginLink(to string) string {
	if c.cfg.Login == nil {
		return ""
	}
	return "/login/provider?" + url.Values{"to": {to}}.Encode()
}
