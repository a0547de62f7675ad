package console_test

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/chromedp/cdproto/emulation"
	"github.com/chromedp/chromedp"
)

// TestChat says things in a browser: the answer appears as it is written, tasks with their progress, a question with a form.
func TestChat(t *testing.T) {
	w := newWorld(t)
	p := newTab(t)
	p.open(w.link())
	p.says("What shall be done?")
	if got := eval[string](p, "location.search"); got != "" {
		t.Errorf("the URL keeps the token: %s", got)
	}
	p.picture("new")
	p.say("two things")
	p.says("half way through slow one")
	p.says("fast two")
	p.await("document.querySelector('.task .is-working') && document.querySelector('#history [aria-current]')")
	p.picture("running")
	close(w.gate)
	p.says("done: fast two")
	p.await("!document.querySelector('.is-open')")
	p.say("markdown please")
	p.says("ICE 701")
	p.say("paint")
	p.says("Which colour shall it be?")
	p.do(chromedp.SendKeys(chromedp.CSS(".reply textarea"), "blue"), chromedp.Click(chromedp.CSS(".reply button")))
	p.says("done: blue")
	p.await("!document.querySelector('.reply')")
	p.says("asked you") // it waits no longer
	p.say("fail")
	p.await("document.querySelectorAll('.again button').length === 1")
	p.picture("failed")
	p.do(chromedp.Click(chromedp.CSS(".again button")))
	p.await("document.querySelectorAll('.again button').length === 2")
	p.say("danger here")
	p.says("Yes, do it")
	p.picture("chat")
	p.do(chromedp.Click(chromedp.CSS(".reply .primary")))
	p.says("done: danger here")
}

// TestTwoBrowsers has two browsers in one conversation: both see what each says, as it is written.
func TestTwoBrowsers(t *testing.T) {
	w := newWorld(t)
	one, two := newTab(t), newTab(t)
	one.open(w.link())
	one.say("stream it")
	one.says("word20 ")
	two.open(w.link())
	two.open(w.url + strings.TrimPrefix(eval[string](one, "location.pathname"), "/"))
	two.says("stream it")
	close(w.gate)
	for _, p := range []*tab{one, two} {
		p.says("word199")
		p.await("!document.querySelector('.is-open')")
		if n := eval[int](p, "document.body.innerText.split('word7 ').length - 1"); n != 1 {
			t.Errorf("a word of the answer is there %d times", n)
		}
	}
	two.say("from the second")
	one.says("done: from the second")
	if n := eval[int](one, "document.querySelectorAll('.turn').length"); n != 2 {
		t.Errorf("the first browser has %d turns, want 2", n)
	}
}

// TestStop stops a turn in its decision, and a task of another turn, with the keyboard.
func TestStop(t *testing.T) {
	w := newWorld(t)
	p := newTab(t)
	p.open(w.link())
	p.say("think hard")
	p.await("document.querySelector('.stop-turn')")
	p.do(chromedp.Click(chromedp.CSS(".stop-turn")))
	p.says("Canceled.")
	p.say("two more")
	p.await("document.querySelectorAll('.task form button').length == 1")
	p.do(chromedp.Focus(chromedp.CSS(".task form button")), chromedp.KeyEvent("\r"))
	p.await("!document.querySelector('.is-open')")
	p.says("canceled")
	if got := eval[bool](p, "document.activeElement !== document.body"); !got {
		t.Error("the keyboard is nowhere after a button has gone")
	}
}

// TestApproveOnAPhone says yes on a window of a phone's width, which nothing exceeds.
func TestApproveOnAPhone(t *testing.T) {
	w := newWorld(t)
	p := newTab(t)
	p.size(360, 700)
	p.open(w.link())
	p.say("danger ahead")
	p.says("Nothing is sent before you say yes.")
	p.noOverflow()
	p.do(chromedp.Click(chromedp.CSS(".reply .primary")))
	p.says("done: danger ahead")
}

// noOverflow checks that the page is not wider than the window.
func (p *tab) noOverflow() {
	p.t.Helper()
	if wide := eval[int](p, "document.documentElement.scrollWidth - document.documentElement.clientWidth"); wide > 0 {
		p.t.Errorf("%s is %d px wider than the window", eval[string](p, "location.pathname"), wide)
	}
}

// TestHostileTexts shows texts that would do something: nothing happens, and they are there to be read.
func TestHostileTexts(t *testing.T) {
	w := newWorld(t)
	w.join("<script>alert(1)</script>", hostile)
	w.ask("x", "hostile "+hostile)
	w.ask("x", "long")
	p := newTab(t)
	p.size(360, 700)
	p.open(w.link())
	p.open(w.url + "c/x")
	p.says("start xxx")
	p.noOverflow()
	if n := eval[int](p, "document.querySelectorAll('main script, main img, main [onerror], a[href^=javascript]').length"); n != 0 {
		t.Errorf("%d hostile elements are in the page: %s", n, eval[string](p, "document.querySelector('.answer').outerHTML"))
	}
	if eval[bool](p, "document.body.innerText.includes('\\u202e')") {
		t.Error("a text reverses the direction of what follows")
	}
	p.says("<script>alert(1)</script>")
	if n := eval[int](p, "document.body.innerText.length"); n > 300_000 {
		t.Errorf("a page shows %d characters of a line of a million", n)
	}
}

// TestWithoutJavaScript talks by forms alone.
func TestWithoutJavaScript(t *testing.T) {
	w := newWorld(t)
	p := newTab(t)
	_, err := chromedp.Call(p.ctx, emulation.SetScriptExecutionDisabled, emulation.SetScriptExecutionDisabledParams{Value: true})
	must(t, err)
	p.do(chromedp.Navigate(w.link()))
	p.do(chromedp.SendKeys(chromedp.CSS("[data-compose] textarea"), "danger without scripts"), chromedp.Click(chromedp.CSS("[data-compose] button")))
	p.await("document.querySelector('.reply .primary')") // the page loads itself again until the turn is over
	p.picture("no-script")
	p.do(chromedp.Click(chromedp.CSS(".reply .primary")))
	p.await("document.querySelector('.turn:nth-child(2) .answer')")
	p.do(chromedp.SendKeys(chromedp.CSS("[data-compose] textarea"), "stream it"), chromedp.Click(chromedp.CSS("[data-compose] button")))
	p.await("document.querySelector('.turn:nth-child(3)') && location.search.includes('again=')")
	p.await("document.querySelector('.turn:nth-child(3)') && !location.search.includes('again=')") // and once more
	close(w.gate)
	p.says("word199")
}

// TestFiles sends a file, and gets one.
func TestFiles(t *testing.T) {
	w := newWorld(t)
	p := newTab(t)
	p.open(w.link())
	path := filepath.Join(t.TempDir(), "notes.txt")
	must(t, os.WriteFile(path, []byte("hello"), 0o600))
	p.do(chromedp.SetUploadFiles(chromedp.CSS("input[type=file]"), []string{path}))
	p.say("file this")
	p.says("here: notes.txt")
	p.says("t able.csv")
	got := eval[string](p, `fetch(document.querySelector('.answer ~ .files a').href).then(async r => r.headers.get('content-disposition') + ' ' + r.headers.get('content-security-policy') + ' ' + await r.text())`)
	if want := "attachment; filename=\"t able.csv\" sandbox; default-src 'none' a,b\n1,2\n"; got != want {
		t.Errorf("the file is %q, want %q", got, want)
	}
}
