package console_test

import (
	"context"
	"fmt"
	"strings"
	"testing"

	"github.com/chromedp/chromedp"

	"github.com/cortex-orchestrator/cortex/client"
	"github.com/cortex-orchestrator/cortex/console"
)

// TestPages looks at the other pages, each with something on it, by the keys alone; all fit on a phone.
func TestPages(t *testing.T) {
	w := newWorld(t, func(c *console.Config) {
		c.Checks = nil
	})
	w.ask("x", "hello "+hostile)
	w.ask("y", "fail")
	must1((&client.Client{Transport: w.bus}).Send(t.Context(), client.Text("z", "slow work")))(t)
	p := newTab(t)
	p.open(w.link())
	p.await("document.documentElement.classList.contains('live')")
	go_ := func(key, path, says string) {
		t.Helper()
		eval[string](p, "document.activeElement.blur() || ''")
		// One after the other without a pause: the second has to come within a second and a half.
		eval[string](p, fmt.Sprintf("for (const key of ['g', %q]) document.body.dispatchEvent(new KeyboardEvent('keydown', {key, bubbles: true})); ''", key))
		p.await("location.pathname === '" + path + "' && document.readyState === 'complete' && document.documentElement.classList.contains('live')")
		p.says(says)
		p.picture(strings.TrimPrefix(path, "/"))
		p.size(360, 700)
		p.noOverflow()
		p.size(1280, 800)
	}
	go_("l", "/activity", "the printer is out of paper")
	go_("t", "/tasks", "slow work")
	go_("d", "/dead", "Nothing was given up.")
	go_("o", "/cost", "test-1")
	go_("s", "/system", "Replicas")
	go_("a", "/agents", "danger")
	p.do(chromedp.KeyEvent("?"))
	p.await("document.getElementById('keys').open")
	p.picture("keys")
	p.do(chromedp.KeyEvent("\u001b"))
	p.await("!document.getElementById('keys').open")
	p.do(chromedp.KeyEvent("k", chromedp.KeyModifiers(chromedp.ModifierCtrl)))
	p.await("document.getElementById('palette').open && document.querySelectorAll('#palette li').length > 8")
	p.do(chromedp.KeyEvent("dang"))
	p.picture("palette")
	p.do(chromedp.KeyEvent("\r"))
	p.await("location.pathname === '/agents/danger'")
	p.open(w.url + "tasks")
	p.do(chromedp.Click(chromedp.CSS("td form button")))
	p.says("No agent is working on anything.")
}

// TestJSONOfPages gets each page as JSON.
func TestJSONOfPages(t *testing.T) {
	w := newWorld(t)
	w.ask("x", "hello")
	b := w.browser()
	for path, want := range map[string]string{
		"activity": `"kind": "answer"`, "tasks?all": `"agent": "worker"`, "dead": "[]", "cost": `"model": "test-1"`, "system": "[", "conversations": `"contextId": "x"`, "agents/worker": `"id": "worker"`,
	} {
		if code, text := status(t, b, "GET", w.url+path, "", "Accept", "application/json"); code != 200 || !strings.Contains(text, want) {
			t.Errorf("/%s is %d:\n%s\nwant %s", path, code, text, want)
		}
	}
}

// TestOperators checks that a person who is no operator can neither see dead letters nor change what was learned.
func TestOperators(t *testing.T) {
	w := newWorld(t, func(c *console.Config) {
		c.Identify = func(string) (console.Person, error) { return console.Person{User: "user:ada"}, nil }
	})
	b := w.browser() // the link of the gate is an operator's
	if code, _ := status(t, b, "GET", w.url+"dead", ""); code != 200 {
		t.Errorf("an operator gets %d", code)
	}
	_, port, _ := strings.Cut(strings.TrimSuffix(strings.TrimPrefix(w.url, "http://"), "/"), ":")
	b.Jar = nil
	ada := []string{"Cookie", "cortex_" + port + "=x"}
	for _, path := range []string{"GET dead", "POST dead", "POST agents/worker/forget"} {
		method, path, _ := strings.Cut(path, " ")
		if code, text := status(t, b, method, w.url+path, "", ada...); code != 403 || !strings.Contains(text, "operator") {
			t.Errorf("%s %s answers %d", method, path, code)
		}
	}
}

// TestSystemSaysWhatIsWrong shows what is wrong first, and what to do about it.
func TestSystemSaysWhatIsWrong(t *testing.T) {
	w := newWorld(t, func(c *console.Config) {
		c.Checks = func(context.Context) []console.Check {
			return []console.Check{{Name: "takes and keeps work", OK: true, Text: "yes"}, {Name: "trouble", Text: "the disk is full"}}
		}
	})
	_, text := status(t, w.browser(), "GET", w.url+"system", "")
	wrong, well := strings.Index(text, "the disk is full"), strings.Index(text, "takes and keeps work")
	if wrong < 0 || well < wrong || !strings.Contains(text, "One thing needs a look") || !strings.Contains(text, "cortex doctor") {
		t.Errorf("the page is:\n%s", text)
	}
}

// TestLongNames logs in with a name as long as an address may be: it is beside nothing else, also in what a link asks; and one can log out on a phone.
func TestLongNames(t *testing.T) {
	long := strings.Repeat("x", 64) + "@example.com"
	w := newWorld(t, func(c *console.Config) {
		c.Identify = func(token string) (console.Person, error) { return console.Person{User: "user:" + token}, nil }
	})
	p := newTab(t)
	p.open(w.url + "login")
	p.do(chromedp.SendKeys(chromedp.CSS("#token"), long+"\r"))
	p.await("document.querySelector('.side')")
	if !eval[bool](p, "document.querySelector('.foot form').getBoundingClientRect().right <= document.querySelector('.side').getBoundingClientRect().right") || !eval[bool](p, "(b => b.scrollWidth <= b.clientWidth)(document.querySelector('.foot button'))") {
		t.Error("the name is wider than its column")
	}
	p.open(w.link())
	p.says("Log in as an operator?")
	p.picture("switch")
	for _, width := range []int64{1280, 360} {
		p.size(width, 760)
		p.noOverflow()
		if !eval[bool](p, "[...document.querySelectorAll('.login > *, .login a, .login button')].every(e => e.getBoundingClientRect().right <= document.querySelector('.login').getBoundingClientRect().right + 1)") {
			t.Errorf("at %d px the name is beside the page", width)
		}
	}
	p.do(chromedp.Click(chromedp.CSS(".login a.primary")))
	p.await("document.querySelector('.side')")
	p.picture("named")
	p.size(360, 760)
	p.noOverflow()
	p.do(chromedp.Click(chromedp.CSS(".foot form button")))
	p.says("Your token")
}

// TestTabsAreOnePerson has two tabs of a browser. When somebody else logs in with one, the other does not go on as the page of the first person, whose words
// would be said in the name of the second; when they log out, it is live no more, and keeps what was typed.
func TestTabsAreOnePerson(t *testing.T) {
	w := newWorld(t, func(c *console.Config) {
		c.Identify = func(token string) (console.Person, error) { return console.Person{User: "user:" + token}, nil }
	})
	one := newTab(t)
	one.open(w.url + "login")
	one.do(chromedp.SendKeys(chromedp.CSS("#token"), "ada\r"))
	one.await("document.querySelector('.foot bdi')?.textContent === 'ada'")
	ctx, end := chromedp.NewContext(one.ctx)
	defer end()
	must(t, chromedp.Do(ctx))
	two := &tab{t: t, ctx: ctx}
	two.open(w.url + "c/x")
	two.await("document.querySelector('.foot bdi')?.textContent === 'ada'")
	two.await("document.documentElement.classList.contains('live')")
	one.do(chromedp.Click(chromedp.CSS(".foot form button")))
	two.says("You are not logged in any more")
	one.do(chromedp.SendKeys(chromedp.CSS("#token"), "bob\r"))
	one.await("document.querySelector('.foot bdi')?.textContent === 'bob'")
	two.await("document.querySelector('.foot bdi')?.textContent === 'bob'")
}
