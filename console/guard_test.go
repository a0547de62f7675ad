package console_test

import (
	"bufio"
	"context"
	"fmt"
	"io"
	"iter"
	"maps"
	"net/http"
	"net/url"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/a2aproject/a2a-go/v2/a2a"

	"github.com/cortex-orchestrator/cortex/client"
	"github.com/cortex-orchestrator/cortex/console"
	"github.com/cortex-orchestrator/cortex/cortex/conversation"
	"github.com/cortex-orchestrator/cortex/cortex/memstore"
	"github.com/cortex-orchestrator/cortex/cortex/storage"
	"github.com/cortex-orchestrator/cortex/llm"
	"github.com/cortex-orchestrator/cortex/transport"
)

// status sends a request with these headers, which are pairs, and returns the status and the body.
func status(t *testing.T, c *http.Client, method, url, body string, headers ...string) (int, string) {
	t.Helper()
	r, err := http.NewRequestWithContext(t.Context(), method, url, strings.NewReader(body))
	must(t, err)
	if body != "" {
		r.Header.Set("Content-Type", "application/x-www-form-urlencoded")
	}
	for i := 0; i < len(headers); i += 2 {
		if r.Header.Set(headers[i], headers[i+1]); headers[i] == "Host" {
			r.Host = headers[i+1]
		}
	}
	answer, err := c.Do(r)
	must(t, err)
	defer answer.Body.Close()
	b, err := io.ReadAll(answer.Body)
	must(t, err)
	return answer.StatusCode, string(b)
}

// TestLinkIsGoodOnce uses a link twice, one that is too old, and one of another key.
func TestLinkIsGoodOnce(t *testing.T) {
	w := newWorld(t)
	stranger := func() *http.Client {
		return &http.Client{CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }}
	}
	link := w.link()
	if code, _ := status(t, stranger(), "GET", link, ""); code != http.StatusSeeOther {
		t.Errorf("the link answers %d, want a redirect", code)
	}
	if code, text := status(t, stranger(), "GET", link, ""); code != http.StatusForbidden || !strings.Contains(text, "used already") || !strings.Contains(text, "cortex console") {
		t.Errorf("the link answers %d the second time:\n%s", code, text)
	}
	for name, token := range map[string]string{
		"old": console.Token(w.key, time.Now().Add(-time.Second)), "of another key": console.Token([]byte("fedcba9876543210"), time.Now().Add(time.Minute)), "nonsense": "x",
	} {
		if code, _ := status(t, stranger(), "GET", w.url+"?token="+token, ""); code != http.StatusForbidden {
			t.Errorf("a link that is %s answers %d", name, code)
		}
	}
	if code, text := status(t, stranger(), "GET", w.url, ""); code != http.StatusSeeOther || strings.Contains(text, "What shall be done") {
		t.Errorf("without a session the page answers %d", code)
	}
	if code, text := status(t, stranger(), "GET", w.url+"login", ""); code != 200 || !strings.Contains(text, "cortex console") {
		t.Errorf("the page for those who are not logged in answers %d:\n%s", code, text)
	}
}

// TestForeignRequests sends what a page elsewhere could have a browser send.
func TestForeignRequests(t *testing.T) {
	w := newWorld(t)
	b := w.browser()
	if code, _ := status(t, b, "GET", w.url, ""); code != 200 {
		t.Fatalf("the page answers %d", code)
	}
	for name, headers := range map[string][]string{
		"a name that leads here": {"Host", "evil.example:8420"},
		"a proxy":                {"X-Forwarded-For", "192.0.2.1"},
	} {
		if code, text := status(t, b, "GET", w.url, "", headers...); code != http.StatusForbidden || strings.Contains(text, "What shall") {
			t.Errorf("%s: the page answers %d", name, code)
		}
	}
	for name, headers := range map[string][]string{
		"another origin":    {"Origin", "https://evil.example"},
		"another site":      {"Sec-Fetch-Site", "cross-site"},
		"another port":      {"Origin", "http://127.0.0.1:1"},
		"a sandbox":         {"Origin", "null"},
		"a site next to it": {"Sec-Fetch-Site", "same-site"},
	} {
		if code, _ := status(t, b, "POST", w.url+"c/x/say", "text=hello", headers...); code != http.StatusForbidden {
			t.Errorf("%s: a message is answered with %d", name, code)
		}
	}
	for name := range map[string]bool{"//evil.example/": true, "https://evil.example/": true, "/\\evil.example": true} {
		_, _ = status(t, b, "GET", w.url+"login?to="+url.QueryEscape(name), "")
		r, err := b.Get(w.url + "login?to=" + url.QueryEscape(name))
		must(t, err)
		r.Body.Close()
		if to := r.Header.Get("Location"); to != "/" {
			t.Errorf("after the login %s leads to %s", name, to)
		}
	}
	for _, info := range contexts(t, w) {
		t.Errorf("conversation %s has begun", info)
	}
}

func contexts(t *testing.T, w *world) (ids []string) {
	for info, err := range w.store.Contexts(t.Context(), "") {
		must(t, err)
		ids = append(ids, info.ContextID)
	}
	return ids
}

// TestHeaders checks the headers of pages, assets and errors.
func TestHeaders(t *testing.T) {
	w := newWorld(t)
	b := w.browser()
	for _, path := range []string{"", "static/console.js", "nothing", "login"} {
		r, err := b.Get(w.url + path)
		must(t, err)
		r.Body.Close()
		if csp := r.Header.Get("Content-Security-Policy"); !strings.Contains(csp, "default-src 'none'; script-src 'self'") || strings.Contains(csp, "unsafe") {
			t.Errorf("/%s has the policy %q", path, csp)
		}
		if r.Header.Get("X-Content-Type-Options") != "nosniff" || r.Header.Get("Referrer-Policy") != "no-referrer" {
			t.Errorf("/%s has the headers %v", path, r.Header)
		}
	}
	for _, c := range b.Jar.Cookies(must1(url.Parse(w.url))(t)) {
		if !strings.HasPrefix(c.Name, "cortex_") {
			t.Errorf("there is a cookie %s", c.Name)
		}
	}
}

func must1[T any](v T, err error) func(*testing.T) T {
	return func(t *testing.T) T {
		t.Helper()
		must(t, err)
		return v
	}
}

// TestKeys logs in with bearer tokens: each acts in their own name, and nobody who is not let in speaks in a conversation of another. A token that is
// revoked ends what its owner has open.
func TestKeys(t *testing.T) {
	valid := map[string]string{"ada-token": "user:ada", "bob-token": "user:bob"}
	w := newWorld(t, func(c *console.Config) {
		c.Identify = func(token string) (console.Person, error) {
			if who, ok := valid[token]; ok {
				return console.Person{User: who}, nil
			}
			return console.Person{}, fmt.Errorf("nobody has this token")
		}
	})
	anyone := &http.Client{CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }}
	in := func(token string) []string {
		return []string{"Cookie", "cortex_" + must1(url.Parse(w.url))(t).Port() + "=" + token}
	}
	if code, text := status(t, anyone, "POST", w.url+"login", "token=wrong"); code != http.StatusForbidden || !strings.Contains(text, ">Nobody has this token.<") {
		t.Errorf("a wrong token answers %d:\n%s", code, text)
	}
	r, err := anyone.PostForm(w.url+"login", url.Values{"token": {"ada-token"}, "to": {"/c/x"}})
	must(t, err)
	r.Body.Close()
	if cookie := r.Header.Get("Set-Cookie"); r.StatusCode != http.StatusSeeOther || r.Header.Get("Location") != "/c/x" || !strings.Contains(cookie, "HttpOnly") || !strings.Contains(cookie, "SameSite=Lax") {
		t.Errorf("the login answers %s, %v", r.Status, r.Header)
	}
	if code, _ := status(t, anyone, "POST", w.url+"c/x/say", "text=hello&message=m1", in("ada-token")...); code != http.StatusSeeOther {
		t.Fatalf("Ada's message answers %d", code)
	}
	c := &client.Client{Transport: w.bus, Log: client.ReadLog(w.store, ""), Poll: 20 * time.Millisecond}
	if _, err := c.Answer(t.Context(), client.Turn{ContextID: "x", From: "user:ada", MessageID: "m1"}); err != nil {
		t.Fatal(err)
	}
	_, text := status(t, anyone, "GET", w.url+"c/x", "", in("bob-token")...)
	if !strings.Contains(text, "done: hello") || !strings.Contains(text, "They can let you in") || strings.Contains(text, "data-compose") {
		t.Errorf("Bob sees:\n%s", text)
	}
	link := func(token string) (int, string) {
		return status(t, anyone, "POST", w.url+"login/link", "", "Authorization", "Bearer "+token)
	}
	if code, _ := link("wrong"); code != http.StatusForbidden {
		t.Errorf("a link for a wrong token answers %d", code)
	}
	code, one := link("bob-token")
	if r, err := anyone.Get(w.url + "?token=" + one); err != nil || code != 200 || !strings.Contains(r.Header.Get("Set-Cookie"), "bob-token") {
		t.Errorf("Bob's link answers %d, %v", code, err)
	}
	if code, _ := status(t, anyone, "GET", w.url+"?token="+one, ""); code != http.StatusForbidden {
		t.Errorf("Bob's link answers %d again", code)
	}
}

// TestLinkOfAnother has a person's browser open the link of another, as a page elsewhere can have it do: it is asked first. Links that people open by
// themselves let them in at once.
func TestLinkOfAnother(t *testing.T) {
	w := newWorld(t, func(c *console.Config) {
		c.Identify = func(token string) (console.Person, error) {
			if token != "ada" && token != "bob" {
				return console.Person{}, fmt.Errorf("no")
			}
			return console.Person{User: "user:" + token}, nil
		}
	})
	anyone := &http.Client{CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }}
	cookie := "cortex_" + must1(url.Parse(w.url))(t).Port() + "="
	send := func(method, path, form string, headers ...string) (code int, text, session string) {
		t.Helper()
		r, err := http.NewRequestWithContext(t.Context(), method, w.url+path, strings.NewReader(form))
		must(t, err)
		for i := 0; i < len(headers); i += 2 {
			r.Header.Set(headers[i], headers[i+1])
		}
		if form != "" {
			r.Header.Set("Content-Type", "application/x-www-form-urlencoded")
		}
		answer, err := anyone.Do(r)
		must(t, err)
		defer answer.Body.Close()
		b, err := io.ReadAll(answer.Body)
		must(t, err)
		for _, c := range answer.Cookies() {
			session += c.Value
		}
		return answer.StatusCode, string(b), session
	}
	linkOf := func(who string) string {
		_, link, _ := send("POST", "login/link", "", "Authorization", "Bearer "+who)
		return link
	}
	operators := strings.TrimPrefix(w.link(), w.url+"?token=")
	for name, test := range map[string]struct {
		link    string
		headers []string
		asks    bool
		session string
	}{
		"another's, logged in":            {linkOf("bob"), []string{"Cookie", cookie + "ada"}, true, "bob"},
		"an operator's, logged in":        {operators, []string{"Cookie", cookie + "ada"}, true, ""},
		"from elsewhere, not logged in":   {linkOf("bob"), []string{"Sec-Fetch-Site", "cross-site"}, true, "bob"},
		"next to it, not logged in":       {linkOf("bob"), []string{"Sec-Fetch-Site", "same-site"}, true, "bob"},
		"one's own, logged in":            {linkOf("ada"), []string{"Cookie", cookie + "ada", "Sec-Fetch-Site", "cross-site"}, false, "ada"},
		"opened oneself, not logged in":   {linkOf("bob"), []string{"Sec-Fetch-Site", "none"}, false, "bob"},
		"an old browser, not logged in":   {linkOf("bob"), nil, false, "bob"},
		"opened with a session that ends": {linkOf("bob"), []string{"Cookie", cookie + "carol"}, false, "bob"},
	} {
		code, text, session := send("GET", "c/x?token="+test.link+"&all=1", "", test.headers...)
		if !test.asks {
			if code != http.StatusSeeOther || session != test.session {
				t.Errorf("%s: answers %d with the session %q", name, code, session)
			}
			continue
		}
		if code != 200 || session != "" || !strings.Contains(text, test.link) || !strings.Contains(text, `href="/c/x?all=1"`) {
			t.Errorf("%s: answers %d with the session %q:\n%s", name, code, session, text)
		}
		yes := "link=" + test.link + "&to=/c/x"
		if code, _, session := send("POST", "login", yes, append(test.headers, "Sec-Fetch-Site", "cross-site")...); code != http.StatusForbidden || session != "" {
			t.Errorf("%s: a page elsewhere says yes: %d with the session %q", name, code, session)
		}
		if code, _, session := send("POST", "login", yes, append(test.headers, "Sec-Fetch-Site", "same-origin")...); code != http.StatusSeeOther || session == "" || test.session != "" && session != test.session {
			t.Errorf("%s: yes answers %d with the session %q", name, code, session)
		}
		if code, _, session := send("POST", "login", yes, append(test.headers, "Sec-Fetch-Site", "same-origin")...); code != http.StatusForbidden || session != "" {
			t.Errorf("%s: yes answers %d with the session %q again", name, code, session)
		}
	}
}

// TestManyStreams opens more streams than one person may have, and ends the service: all end at once.
func TestManyStreams(t *testing.T) {
	w := newWorld(t)
	w.ask("x", "hello")
	b := w.browser()
	var bodies []io.ReadCloser
	for range 200 {
		r, err := b.Get(w.url + "c/x/events")
		must(t, err)
		if r.StatusCode != 200 {
			t.Fatalf("stream %d answers %s", len(bodies), r.Status)
		}
		bodies = append(bodies, r.Body)
	}
	for _, body := range bodies { // each has the turn
		defer body.Close()
		lines := bufio.NewScanner(body)
		lines.Buffer(nil, 1<<20)
		for lines.Scan() && !strings.HasPrefix(lines.Text(), "data: ") {
		}
		if !strings.Contains(lines.Text(), "done: hello") {
			t.Fatalf("a stream begins with %q", lines.Text())
		}
	}
	w.stop()
	select {
	case <-w.ended:
	case <-time.After(patience):
		t.Error("the service does not end with 200 streams")
	}
}

// TestStreamsOfLongConversations opens so many streams of long conversations that they would fill the memory: some are refused in words, until others are
// closed.
func TestStreamsOfLongConversations(t *testing.T) {
	w := newWorld(t)
	b := w.browser()
	made := 0
	open := func() (kept bool, body io.Closer) {
		id, last := fmt.Sprint("x", made), conversation.Version(0)
		made++
		for i := range uint64(4) { // pages of one conversation share what is kept of it
			turn := fmt.Sprint("m", i)
			m := &a2a.Message{ID: turn, ContextID: id, Role: a2a.MessageRoleUser, Parts: a2a.ContentParts{a2a.NewTextPart(strings.Repeat("long ", 180_000))}}
			v, err := w.store.Append(t.Context(), "", id, last, &conversation.Entry{
				Seq: i + 1, Time: time.Now(), Turn: turn, Cause: &transport.Event{ID: turn, From: "user", ContextID: id, Payload: m},
				Decision: &llm.Decision{Kind: llm.KindRespond, Say: strings.Repeat("long ", 180_000)},
			})
			must(t, err)
			last = v
		}
		r, err := b.Get(w.url + "c/" + id + "/events")
		must(t, err)
		lines := bufio.NewScanner(r.Body)
		lines.Buffer(nil, 4<<20)
		for lines.Scan() {
			switch text := lines.Text(); {
			case strings.HasPrefix(text, "event: turn"):
				return true, r.Body
			case strings.Contains(text, "too many live pages of long conversations"):
				return false, r.Body
			}
		}
		t.Fatalf("a stream ends: %v", lines.Err())
		return false, r.Body
	}
	var bodies []io.Closer
	for kept := true; kept; {
		var body io.Closer
		kept, body = open()
		if bodies = append(bodies, body); len(bodies) > 100 {
			t.Fatal("all are kept")
		}
	}
	if len(bodies) < 5 {
		t.Errorf("%d streams are kept", len(bodies))
	}
	for _, body := range bodies {
		body.Close()
	}
	for end := time.Now().Add(patience); ; {
		kept, body := open()
		body.Close()
		if kept {
			break
		}
		if time.Now().After(end) {
			t.Fatal("none is kept when the others are closed")
		}
	}
}

// TestPositions reads a stream from where a browser was: it gets what it has not, once.
func TestPositions(t *testing.T) {
	w := newWorld(t)
	b := w.browser()
	first, second := w.ask("x", "one"), w.ask("x", "second")
	read := func(last string, events int) (names []string, id string) {
		t.Helper()
		r, err := http.NewRequestWithContext(t.Context(), "GET", w.url+"c/x/events", nil)
		must(t, err)
		if last != "" {
			r.Header.Set("Last-Event-ID", last)
		}
		answer, err := b.Do(r)
		must(t, err)
		defer answer.Body.Close()
		lines := bufio.NewScanner(answer.Body)
		lines.Buffer(nil, 1<<20)
		for len(names) < events && lines.Scan() {
			if is, ok := strings.CutPrefix(lines.Text(), "id: "); ok {
				id = is
			}
			if is, ok := strings.CutPrefix(lines.Text(), "data: "); ok {
				_, turn, _ := strings.Cut(is, `"id":"t-`)
				turn, _, _ = strings.Cut(turn, `"`)
				names = append(names, turn)
			}
		}
		return names, id
	}
	got, id := read("", 2)
	if want := []string{first, second}; fmt.Sprint(got) != fmt.Sprint(want) || id == "" {
		t.Fatalf("from the beginning the turns are %v up to %q, want %v", got, id, want)
	}
	third := w.ask("x", "three")
	got, last := read(id, 1)
	if fmt.Sprint(got) != fmt.Sprint([]string{third}) || last == id {
		t.Errorf("after %s the turns are %v up to %q, want only %s", id, got, last, third)
	}
}

// TestBudget shows how much of the day's budget is spent.
func TestBudget(t *testing.T) {
	w := newWorld(t, func(c *console.Config) { c.Budget = llm.Budget{Cost: 4, Tokens: 1000} })
	_, err := w.store.Spend(t.Context(), "", time.Now().UTC().Format(time.DateOnly), llm.Usage{Input: 1500, Output: 500, Cost: 1})
	must(t, err)
	_, page := status(t, w.browser(), "GET", w.url+"cost", "")
	for _, want := range []string{"1.00 of 4.00, 25 %", "2000 of 1000 tokens: <strong>used up</strong>"} {
		if !strings.Contains(page, want) {
			t.Errorf("the page does not say %q:\n%s", want, page)
		}
	}
}

// TestCostOfNothing: what cost nothing is not among the most expensive.
func TestCostOfNothing(t *testing.T) {
	w := newWorld(t)
	w.ask("x", "free")
	_, page := status(t, w.browser(), "GET", w.url+"cost", "")
	if !strings.Contains(page, "Decisions") || strings.Contains(page, "most expensive") {
		t.Errorf("the page says what was the most expensive of nothing:\n%s", page)
	}
}

// askedStore notes for whom the logs of conversations are read.
type askedStore struct {
	*memstore.Store

	mu sync.Mutex
	of map[string]bool
}

func (s *askedStore) Load(ctx context.Context, tenant, contextID string, after conversation.Version) iter.Seq2[*conversation.Entry, error] {
	s.mu.Lock()
	s.of[storage.Requester(ctx)] = true
	s.mu.Unlock()
	return s.Store.Load(ctx, tenant, contextID, after)
}

// TestReadsAreSomebodys checks that a page reads for the person who asked for it: a store serves those who read by turns.
func TestReadsAreSomebodys(t *testing.T) {
	var store *askedStore
	w := newWorld(t, func(c *console.Config) {
		store = &askedStore{Store: c.Store.(*memstore.Store), of: map[string]bool{}}
		c.Store = store
		c.Identify = func(token string) (console.Person, error) { return console.Person{User: "user:" + token}, nil }
	})
	w.ask("x", "hello")
	for _, page := range []string{"c/x", "cost", "tasks?all", "conversations?text=words"} {
		status(t, http.DefaultClient, "GET", w.url+page, "", "Cookie", "cortex_"+must1(url.Parse(w.url))(t).Port()+"=ada")
	}
	if want := map[string]bool{"user:ada": true}; !maps.Equal(store.of, want) {
		t.Errorf("the logs are read for %v, want %v", store.of, want)
	}
}
