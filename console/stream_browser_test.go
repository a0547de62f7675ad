package console_test

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/chromedp/chromedp"

	"github.com/cortex-orchestrator/cortex/client"
	"github.com/cortex-orchestrator/cortex/console"
	"github.com/cortex-orchestrator/cortex/transport"
)

// TestThousandTokens has the page of a conversation show a thousand tokens in a second: it has them all, in order, reacts meanwhile, and needs no more
// elements for more of them.
func TestThousandTokens(t *testing.T) {
	w := newWorld(t)
	p := newTab(t)
	p.open(w.link())
	p.say("flood it")
	p.says("t1000 ")
	p.do(chromedp.Click(chromedp.CSS("#open-palette")))
	p.await("document.getElementById('palette').open")
	if p.await("document.querySelector('.is-open .draft')"); w.wrote.Load() == 0 {
		t.Fatal("nothing is written")
	}
	const inOrder = "el => el.textContent.trim().split(/\\s+/).findIndex((word, i) => word !== 't' + i)"
	at := w.wrote.Load()
	if bad := eval[int](p, "("+inOrder+")(document.querySelector('.draft'))"); bad >= 0 {
		t.Errorf("word %d of %d is another one", bad, at)
	}
	if n := eval[int](p, "document.querySelector('.draft').childNodes.length"); n > 2 {
		t.Errorf("the text has %d nodes", n)
	}
	if eval[bool](p, "!document.querySelector('.is-open')") {
		t.Error("all was written before the page reacted")
	}
	p.do(chromedp.KeyEvent("\u001b"))
	close(w.gate)
	p.await("!document.querySelector('.is-open')")
	if bad := eval[int](p, "("+inOrder+")(document.querySelector('.answer'))"); bad >= 0 {
		t.Errorf("word %d of the answer is another one", bad)
	}
	if n, want := eval[int](p, "document.querySelector('.answer').textContent.trim().split(/\\s+/).length"), int(w.wrote.Load()); n != want {
		t.Errorf("the answer has %d words, want %d", n, want)
	}
	t.Logf("%d tokens; %d at the click", w.wrote.Load(), at)
}

// TestTokenIsRevoked revokes the token of a person who looks at a conversation: nothing more of it comes, and the page says so, and keeps what they have
// typed.
func TestTokenIsRevoked(t *testing.T) {
	var mu sync.Mutex
	valid := map[string]console.Person{"ada-token": {User: "user:ada"}}
	w := newWorld(t, func(c *console.Config) {
		c.Identify = func(token string) (console.Person, error) {
			mu.Lock()
			defer mu.Unlock()
			if who, ok := valid[token]; ok {
				return who, nil
			}
			return console.Person{}, fmt.Errorf("no")
		}
	})
	p := newTab(t)
	unauthorized := "401 (Unauthorized)"
	p.excused.Store(&unauthorized)
	p.open(w.url + "login?to=/c/x")
	p.do(chromedp.SendKeys(chromedp.ID("token"), "ada-token\r"))
	p.await("location.pathname === '/c/x' && document.documentElement.classList.contains('live')")
	p.say("hello")
	p.says("done: hello")
	p.do(chromedp.SendKeys(chromedp.CSS("[data-compose] textarea"), "half a sentence"))
	mu.Lock()
	delete(valid, "ada-token")
	mu.Unlock()
	p.says("You are not logged in any more")
	w.ask("x", "secret")
	if eval[bool](p, "document.body.innerText.includes('secret')") {
		t.Error("the page shows what was said after the token was revoked")
	}
	if got := eval[string](p, "document.querySelector('[data-compose] textarea').value"); got != "half a sentence" {
		t.Errorf("what was typed is %q", got)
	}
	p.picture("revoked")
	p.do(chromedp.Click(chromedp.CSS(".offline a")))
	p.says("Your token")
	if to := eval[string](p, "new URL(location.href).searchParams.get('to')"); to != "/c/x" {
		t.Errorf("after the login comes %s", to)
	}
}

// TestFirstText has a browser and a client, as `cortex ask` is one, wait for the same answers, and logs by how much later the browser shows the first
// text of each.
func TestFirstText(t *testing.T) {
	w := newWorld(t)
	p := newTab(t)
	p.open(w.link())
	p.say("hello")
	p.says("done: hello")
	id := eval[string](p, "location.pathname.split('/')[2]")
	eval[string](p, `new MutationObserver(() => {
		const draft = document.querySelector('.is-open .draft:not([hidden])')
		if (draft?.textContent && !window.shown) { window.shown = {text: draft.textContent}; requestAnimationFrame(() => { window.shown.at = Date.now() }) }
	}).observe(document.getElementById('turns'), {subtree: true, childList: true, characterData: true, attributes: true}); ''`)
	ctx, cancel := context.WithCancel(t.Context())
	deltas := make(chan time.Time)
	var listening sync.WaitGroup
	defer listening.Wait()
	defer cancel()
	listening.Go(func() {
		c := &client.Client{Transport: w.bus}
		seen := make(map[string]bool)
		_ = c.Listen(ctx, id, func(e *transport.Event) {
			if d, ok := e.Payload.(*transport.Delta); ok && !seen[d.Turn] {
				seen[d.Turn] = true
				select {
				case deltas <- time.Now():
				case <-ctx.Done():
				}
			}
		})
	})
	var behind []time.Duration
	for range 11 {
		eval[string](p, "delete window.shown; ''")
		p.say("stream it")
		at := <-deltas
		p.await("window.shown?.at")
		behind = append(behind, time.UnixMilli(eval[int64](p, "window.shown.at")).Sub(at))
		if text := eval[string](p, "window.shown.text"); !strings.HasPrefix(text, "word0 ") {
			t.Fatalf("the first text is %q", text)
		}
		select {
		case w.gate <- struct{}{}: // it is written on when the first text was shown
		case <-time.After(patience):
			t.Fatal("the answer is not being written")
		}
		p.await("!document.querySelector('.is-open')")
	}
	slices.Sort(behind)
	t.Logf("the browser shows the first text later than a client has it: median %v, at most %v", behind[len(behind)/2], behind[len(behind)-1])
}
