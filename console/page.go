package console

import (
	"bytes"
	"context"
	"embed"
	"errors"
	"fmt"
	"html/template"
	"io"
	"io/fs"
	"iter"
	"net/http"
	"net/url"
	"slices"
	"strings"
	"time"

	"github.com/a2aproject/a2a-go/v2/a2a"

	"github.com/cortex-orchestrator/cortex/client"
	"github.com/cortex-orchestrator/cortex/cortex/conversation"
	"github.com/cortex-orchestrator/cortex/evaluate"
	"github.com/cortex-orchestrator/cortex/internal/size"
	"github.com/cortex-orchestrator/cortex/internal/view"
	"github.com/cortex-orchestrator/cortex/prompt"
	"github.com/cortex-orchestrator/cortex/transport"
)

//go:embed templates
var templateFiles embed.FS

// How much is shown of texts of others: of a word such as a name, of a line, both in characters, and of a text, in bytes.
const (
	maxWord = 80
	maxLine = 400
	maxText = 100 << 10
)

// page is what the layout shows.
type page struct {
	Name    string // of the template
	Title   string
	Section string // of the navigation
	Bare    bool   // without the navigation
	Wide    bool   // the page fills the window, and scrolls by its own parts
	Refresh string // without JavaScript, this is loaded soon: the page as it is then; empty: it stays
	Data    any

	Person  Person
	Keys    bool // there are keys, so that one can log out
	Version string
	Now     time.Time
}

// templates has the pages, each with the layout, and the fragments.
var templates = parse()

func parse() map[string]*template.Template {
	common := template.Must(template.New("").Funcs(template.FuncMap{
		"word":     func(s string) string { return prompt.Clean(s, maxWord) },
		"line":     func(s string) string { return prompt.Clean(s, maxLine) },
		"text":     func(s string) string { return prompt.CleanText(s, maxText) },
		"markdown": markdown, "path": url.PathEscape, "state": stateName, "stateClass": stateClass, "usage": view.UsageLine, "cost": view.CostText,
		"ago": ago, "iso": func(t time.Time) string { return t.UTC().Format(time.RFC3339Nano) }, "stamp": stamp, "daytime": daytime, "took": took, "since": func(from, to time.Time) string { return took(to.Sub(from)) },
		"size": func(n int64) string { return size.Text(n) }, "len64": func(s string) int64 { return int64(len(s)) }, "who": who, "add": func(a, b int) int { return a + b }, "dict": dict, "slug": slug,
		"nav": func() []place { return places }, "files": fileInfos, "pretty": func(b []byte) string { return pretty(b) }, "ranges": view.Ranges, "verdict": func(v evaluate.Verdict) string { return view.VerdictLine(&v) },
	}).ParseFS(templateFiles, "templates/layout.html", "templates/parts.html"))
	all := make(map[string]*template.Template)
	files, err := fs.Glob(templateFiles, "templates/*.html")
	if err != nil {
		panic(err)
	}
	for _, file := range files {
		name := strings.TrimSuffix(strings.TrimPrefix(file, "templates/"), ".html")
		all[name] = template.Must(template.Must(common.Clone()).ParseFS(templateFiles, file))
	}
	return all
}

// pageTime is for writing a page, from when it is made, which may have taken long beside others.
const pageTime = 30 * time.Second

// show answers with a page.
func (c *Console) show(w http.ResponseWriter, r *http.Request, code int, p *page) {
	p.Person, _ = r.Context().Value(personKey{}).(Person)
	p.Keys, p.Version, p.Now = c.cfg.Identify != nil, c.cfg.Version, c.cfg.Now()
	var b bytes.Buffer
	if err := templates[p.Name].ExecuteTemplate(&b, "layout", p); err != nil {
		c.cfg.Logger.Error("a page of the console cannot be shown", "page", p.Name, "err", err)
		http.Error(w, "this page cannot be shown: the log of Cortex says why", http.StatusInternalServerError)
		return
	}
	w.Header().Set("Content-Type", "text/html; charset=utf-8")
	_ = http.NewResponseController(w).SetWriteDeadline(time.Now().Add(pageTime)) // a test's writer has none
	w.WriteHeader(code)
	_, _ = w.Write(b.Bytes()) // who asks may be gone
}

// Bounds of what pages that read a whole conversation take in memory at the same time, in bytes.
const (
	mostPages = 256 << 20
	ownPages  = 64 << 20 // of a person
)

// enterPage waits until there is room for a page of so many bytes. What it takes is given back by leave.
func (c *Console) enterPage(ctx context.Context, w http.ResponseWriter, who Person, n int) (leave func(), err error) {
	if !c.pages.Take(ctx, who.User, int64(n)) {
		w.Header().Set("Retry-After", "10")
		return nil, wrong{http.StatusTooManyRequests, "too many long pages are being read: try again in a moment"}
	}
	return func() { c.pages.Give(who.User, int64(n)) }, nil
}

// enterStore waits until a live page of somebody may read a part of the store, until leave is called.
func (c *Console) enterStore(ctx context.Context, user string) (leave func(), err error) {
	for !c.pages.Take(ctx, user, 2*maxShown) {
		if err := ctx.Err(); err != nil {
			return nil, err
		}
	}
	return func() { c.pages.Give(user, 2*maxShown) }, nil
}

// again returns the address of a page that shows what is open, for a browser without JavaScript to load soon, or nothing. A browser that is told to
// load the address where it is, with its fragment, only scrolls there, so the query differs each time.
func again(r *http.Request, open bool) string {
	if !open {
		return ""
	}
	q := r.URL.Query()
	if q.Has("again") {
		q.Del("again")
	} else {
		q.Set("again", "1")
	}
	to := url.URL{Path: r.URL.Path, RawQuery: q.Encode(), Fragment: "end"}
	return to.String()
}

// fragment renders a part of a page.
func fragment(name string, data any) (string, error) {
	var b strings.Builder
	err := templates["parts"].ExecuteTemplate(&b, name, data)
	return b.String(), err
}

var (
	errNoPage   = errors.New("there is no such page")
	errOperator = errors.New("only an operator may do that: log in with the orchestrator's credentials")
)

// wrong is an error of what somebody asked for, with the status of its answer.
type wrong struct {
	code int
	text string
}

func (w wrong) Error() string { return w.text }

// fail answers with an error: in a page, or in a line for programs.
func (c *Console) fail(w http.ResponseWriter, r *http.Request, _ Person, err error) {
	if r.Context().Err() != nil {
		return // nobody waits
	}
	code, text := http.StatusInternalServerError, prompt.Clean(err.Error(), maxLine)
	var is wrong
	var large *http.MaxBytesError
	switch {
	case errors.As(err, &is):
		code = is.code
	case errors.Is(err, errNoPage), errors.Is(err, transport.ErrNotFound):
		code = http.StatusNotFound
	case errors.Is(err, errOperator), errors.Is(err, transport.ErrForbidden):
		code = http.StatusForbidden
	case errors.Is(err, transport.ErrTooLarge), errors.As(err, &large):
		code = http.StatusRequestEntityTooLarge
	case errors.Is(err, transport.ErrInvalid):
		code = http.StatusBadRequest
	case errors.Is(err, transport.ErrFull):
		code = http.StatusTooManyRequests
	case errors.Is(err, transport.ErrFilesFull):
		code = http.StatusInsufficientStorage
	case errors.Is(err, transport.ErrUnavailable):
		code = http.StatusServiceUnavailable
	case errors.Is(err, conversation.ErrDamaged):
		text += ": `cortex doctor` says what is lost, and repairs it"
	default:
		c.cfg.Logger.Warn("a page of the console has failed", "path", prompt.Clean(r.URL.Path, maxLine), "err", text)
	}
	if wantsJSON(r) || r.Header.Get("Accept") == eventStream || r.Header.Get("X-Fetch") != "" {
		http.Error(w, text, code)
		return
	}
	c.show(w, r, code, &page{Name: "error", Title: http.StatusText(code), Data: text})
}

// wantsJSON reports whether a request accepts JSON and no page.
func wantsJSON(r *http.Request) bool {
	accept := r.Header.Get("Accept")
	return strings.Contains(accept, "application/json") && !strings.Contains(accept, "text/html")
}

// json answers with the JSON of the corresponding command.
func answerJSON(w http.ResponseWriter, v any) error {
	w.Header().Set("Content-Type", "application/json")
	return view.WriteJSON(w, v)
}

// answerList answers with a list as answerJSON does, one value after the other: all of them together may be larger than any memory.
func answerList[T any](w http.ResponseWriter, all iter.Seq2[T, error]) error {
	var b bytes.Buffer
	enc := view.NewJSON(&b)
	deadlines, sep := http.NewResponseController(w), "["
	w.Header().Set("Content-Type", "application/json")
	for v, err := range all {
		if err == nil {
			b.Reset()
			err = enc.Encode(v)
		}
		if err == nil {
			_ = deadlines.SetWriteDeadline(time.Now().Add(writeTime)) // a test's writer has none
			_, err = fmt.Fprintf(w, "%s\n  %s", sep, view.Indented(b.Bytes(), 1))
		}
		switch {
		case err != nil && sep != "[":
			panic(http.ErrAbortHandler) // the beginning was sent
		case err != nil:
			return err
		}
		sep = ","
	}
	end := "\n]\n"
	if sep == "[" {
		end = "[]\n"
	}
	_, err := io.WriteString(w, end)
	return err
}

// who returns a sender's name for people.
func who(from string) string {
	if from == "user" {
		return "You"
	}
	return prompt.Clean(transport.PersonName(from), maxWord)
}

// stamp formats a time for people, in the time zone of the process.
func stamp(t time.Time) string {
	if t.IsZero() {
		return ""
	}
	return t.Local().Format(time.DateTime)
}

// daytime formats when something was, in the time zone of the process: the time of the day if it was today.
func daytime(t, now time.Time) string {
	t, now = t.Local(), now.Local()
	if t.Year() == now.Year() && t.YearDay() == now.YearDay() {
		return t.Format(time.TimeOnly)
	}
	return t.Format("2 Jan 15:04")
}

// ago formats how long ago something was.
func ago(t, now time.Time) string {
	if t.IsZero() {
		return "never"
	}
	switch d := now.Sub(t); {
	case d < 2*time.Second:
		return "now"
	case d < 2*time.Minute:
		return fmt.Sprintf("%d s ago", int(d.Seconds()))
	case d < 2*time.Hour:
		return fmt.Sprintf("%d min ago", int(d.Minutes()))
	case d < 48*time.Hour:
		return fmt.Sprintf("%d h ago", int(d.Hours()))
	case d < 60*24*time.Hour:
		return fmt.Sprintf("%d days ago", int(d.Hours()/24))
	}
	return t.Local().Format(time.DateOnly)
}

// took formats how long something lasted.
func took(d time.Duration) string {
	switch {
	case d < 0:
		return "0 s"
	case d < time.Second:
		return fmt.Sprintf("%d ms", d.Milliseconds())
	case d < time.Minute:
		return fmt.Sprintf("%.1f s", d.Seconds())
	case d < time.Hour:
		return fmt.Sprintf("%d min %02d s", int(d.Minutes()), int(d.Seconds())%60)
	case d < 48*time.Hour:
		return fmt.Sprintf("%d h %02d min", int(d.Hours()), int(d.Minutes())%60)
	}
	return fmt.Sprintf("%d days", int(d.Hours()/24))
}

// slug makes a word for a class of a state.
func slug(s string) string { return strings.ReplaceAll(s, " ", "-") }

// dict makes the arguments of a part with several.
func dict(pairs ...any) (map[string]any, error) {
	if len(pairs)%2 != 0 {
		return nil, errors.New("a key has no value")
	}
	m := make(map[string]any, len(pairs)/2)
	for i := 0; i < len(pairs); i += 2 {
		key, ok := pairs[i].(string)
		if !ok {
			return nil, fmt.Errorf("%v is no key", pairs[i])
		}
		m[key] = pairs[i+1]
	}
	return m, nil
}

// place is a page in the navigation.
type place struct{ Section, Name, Path, Key string }

var places = []place{
	{"agents", "Agents", "/agents", "a"},
	{"activity", "Activity", "/activity", "l"},
	{"tasks", "Tasks", "/tasks", "t"},
	{"dead", "Dead letters", "/dead", "d"},
	{"cost", "Cost", "/cost", "o"},
	{"system", "System", "/system", "s"},
}

// fileInfo is what is shown of a file.
type fileInfo struct {
	Key   string // "": it is kept no longer
	Name  string
	About string
	Image bool
}

// fileInfos describes files.
func fileInfos(parts []*a2a.Part) []fileInfo {
	var all []fileInfo
	for i, p := range parts {
		name, kind, n, ok := transport.FileOf(p)
		f := fileInfo{Name: prompt.Clean(transport.FileName(name, kind, i+1), maxWord), About: prompt.Clean(kind, maxWord)}
		if ok {
			f.About = strings.TrimPrefix(f.About+", "+size.Text(n), ", ")
			f.Image = slices.Contains(shownKinds, kind) && n <= maxShownImage
			f.Key = conversation.FileKey(p)
		}
		if transport.IsForgotten(p) {
			f.Key, f.About = "", f.About+", not kept any more"
		}
		all = append(all, f)
	}
	return all
}

// maxShownImage bounds an image that is shown within a page, in bytes.
const maxShownImage = 4 << 20

// stateName returns a task's state in words for the person who looks at it.
func stateName(s a2a.TaskState) string {
	if s == a2a.TaskStateInputRequired {
		return "asks you"
	}
	return client.StateName(s)
}

// stateClass returns the class of a task's state. A submitted task is open, and so is a turn, whose class that is.
func stateClass(s a2a.TaskState) string {
	if s == a2a.TaskStateSubmitted {
		return "submitted"
	}
	return slug(stateName(s))
}
