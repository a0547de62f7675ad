package console

import (
	"cmp"
	"context"
	"crypto/rand"
	"embed"
	"log/slog"
	"net/http"
	"sync"
	"sync/atomic"
	"time"

	"github.com/cortex-orchestrator/cortex/client"
	"github.com/cortex-orchestrator/cortex/cortex/registry"
	"github.com/cortex-orchestrator/cortex/cortex/storage"
	"github.com/cortex-orchestrator/cortex/internal/httpserver"
	"github.com/cortex-orchestrator/cortex/internal/view"
	"github.com/cortex-orchestrator/cortex/llm"
	"github.com/cortex-orchestrator/cortex/prompt"
)

// MaxBody bounds the body of a request, in bytes: a message with its files.
const MaxBody = 64 << 20

// Config is what a Console needs. Client, Store and Agents are required.
type Config struct {
	Client *client.Client // asks in the name of the person who uses the console
	Store  storage.Store
	Agents func() *registry.Snapshot
	// Identify returns who a bearer token is for, or one line for whoever shows it. With nil nobody has one, and only programs on this machine are let in.
	Identify func(token string) (Person, error)
	// Login is the identity provider with which people log in, too; nil: there is none. It needs Identify.
	Login Login
	// URL is the address of the console for browsers, where it is not the one that their requests name, such as behind a proxy that ends TLS.
	URL string
	// Gate redeems links, which let operators in; nil: there are none.
	Gate    *Gate
	Version string
	// Prompt renders a prompt as the model gets it, for those of earlier decisions; nil: they cannot be shown.
	Prompt func(*prompt.Input) (*prompt.Prompt, error)
	// MaxFile bounds a file of a message, in bytes; 0: only MaxBody does.
	MaxFile int64
	// Budget bounds what may be spent in a day, for the page of costs; zero: nothing does.
	Budget llm.Budget
	// Checks describes the state of the process for the page about the system; nil: there is nothing to say.
	Checks func(context.Context) []Check
	// Done ends all streams when it is closed; nil: it never is.
	Done   <-chan struct{}
	Logger *slog.Logger     // nil discards
	Now    func() time.Time // nil: time.Now
}

// Person is who uses the console.
type Person struct {
	User     string // the sender of what they say
	Operator bool   // may see and do what only operators may
}

// Check is one thing that was looked at, for the page about the system.
type Check struct {
	Name string
	Text string
	OK   bool
}

// Console serves the pages. It is safe for concurrent use.
type Console struct {
	cfg     Config
	keys    sessionKeys
	streams counter
	pending pending
	said    sayings
	known   atomic.Pointer[names]
	links   links
	logins  pacer
	// operators signs the sessions of operators where there are keys.
	operators []byte
	works     works
	feed      *feed // nil: the store has no journal
	room      *httpserver.Room
	pages     *httpserver.Room // for conversations that are being read
	kept      *httpserver.Room // for what live pages keep of them
	readings  readings
}

//go:embed static
var static embed.FS

// New returns a Console.
func New(cfg Config) *Console {
	cfg.Logger = cmp.Or(cfg.Logger, slog.New(slog.DiscardHandler))
	if cfg.Now == nil {
		cfg.Now = time.Now
	}
	c := &Console{cfg: cfg, logins: pacer{proxied: cfg.URL != ""}, keys: sessionKeys{store: cfg.Store, tenant: cfg.Client.Tenant}, streams: counter{most: maxStreams}, operators: make([]byte, keySize), room: httpserver.NewRoom(mostRoom, ownRoom), pages: httpserver.NewRoom(mostPages, ownPages), kept: httpserver.NewRoom(mostKept, ownKept)}
	rand.Read(c.operators) //nolint:errcheck // it never fails
	if journal, ok := cfg.Store.(storage.Journal); ok {
		c.feed = &feed{journal: journal, tenant: cfg.Client.Tenant}
	}
	return c
}

// Handler serves the console at /.
func (c *Console) Handler() http.Handler {
	open := http.NewServeMux() // for everybody
	open.Handle("GET /static/", c.assets())
	open.HandleFunc("GET /login", c.loginPage)
	open.HandleFunc("POST /login", c.login)
	open.HandleFunc("GET /login/door", c.prove)
	open.HandleFunc("POST /login/link", c.makeLink)
	open.HandleFunc("GET /login/provider", c.startLogin)
	open.HandleFunc("GET "+loginCallback, c.finishLogin)
	open.HandleFunc("POST /logout", c.logout)
	inside := http.NewServeMux() // for those who are logged in
	pages := map[string]func(http.ResponseWriter, *http.Request, Person) error{
		"GET /{$}":                    c.newChat,
		"GET /c/{context}":            c.chat,
		"GET /c/{context}/events":     c.events,
		"POST /c/{context}/say":       c.say,
		"POST /c/{context}/stop":      c.stop,
		"GET /c/{context}/f/{key}":    c.file,
		"GET /c/{context}/t/{turn}":   c.turnPage,
		"GET /c/{context}/p/{entry}":  c.promptPage,
		"GET /agents":                 c.agents,
		"GET /agents/{agent}":         c.agent,
		"POST /agents/{agent}/try":    c.try,
		"POST /agents/{agent}/forget": c.forget,
		"GET /activity":               c.activity,
		"GET /activity/events":        c.activityEvents,
		"GET /tasks":                  c.tasks,
		"GET /dead":                   c.dead,
		"POST /dead":                  c.settleDead,
		"GET /cost":                   c.cost,
		"GET /system":                 c.system,
		"POST /system/end":            c.endSessions,
		"GET /conversations":          c.conversations,
	}
	for pattern, page := range pages {
		inside.HandleFunc(pattern, func(w http.ResponseWriter, r *http.Request) {
			who, _ := r.Context().Value(personKey{}).(Person)
			r = r.WithContext(storage.WithRequester(r.Context(), who.User))
			give, err := c.receive(w, r, who)
			defer give()
			if err == nil {
				err = page(w, r, who)
			}
			if err != nil {
				c.fail(w, r, who, err)
			}
		})
	}
	inside.HandleFunc("/", func(w http.ResponseWriter, r *http.Request) {
		who, _ := r.Context().Value(personKey{}).(Person)
		c.fail(w, r, who, errNoPage)
	})
	open.Handle("/", c.admit(inside))
	return c.guard(http.NewCrossOriginProtection().Handler(open))
}

// reader returns what package view reads from.
func (c *Console) reader() *view.Reader {
	return &view.Reader{Store: c.cfg.Store, Transport: c.cfg.Client.Transport, Tenant: c.cfg.Client.Tenant}
}

// as returns a client that acts in somebody's name.
func (c *Console) as(who Person) *client.Client {
	own := *c.cfg.Client
	own.User = who.User
	return &own
}

// counter bounds how many of something each person has at a time.
type counter struct {
	most int

	mu sync.Mutex
	of map[string]int
}

// enter counts one more, and reports whether that is allowed; leave takes it back.
func (c *counter) enter(who string) (leave func(), ok bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.of == nil {
		c.of = make(map[string]int)
	}
	if c.of[who] >= c.most {
		return nil, false
	}
	c.of[who]++
	return func() {
		c.mu.Lock()
		defer c.mu.Unlock()
		if c.of[who]--; c.of[who] == 0 {
			delete(c.of, who)
		}
	}, true
}
