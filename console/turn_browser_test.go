package console_test

import (
	"strings"
	"testing"

	"github.com/chromedp/chromedp"
)

// TestTurnPage looks at a turn while it runs, and when it is over: the page goes on by itself.
func TestTurnPage(t *testing.T) {
	w := newWorld(t)
	w.ask("x", "fail")
	p := newTab(t)
	p.open(w.link())
	p.open(w.url + "c/x")
	p.say("two things")
	p.says("half way")
	p.do(chromedp.Click(chromedp.CSS(".is-open .meta a")))
	p.says("still running")
	p.says("give out 2 tasks")
	p.says("Stop this turn")
	p.picture("turn-running")
	close(w.gate)
	p.says("Answered")
	p.says("done: slow one")
	p.says("they can do it") // why
	p.noOverflow()
	p.picture("turn")
	p.do(chromedp.Click(chromedp.CSS("details.more summary")))
	p.says(`"cause"`)
	p.size(360, 700)
	p.noOverflow()
	p.size(1280, 800)
	p.open(w.url + "c/x")
	p.do(chromedp.Click(chromedp.CSS(".turn .meta a")))
	p.says("the printer is out of paper")
	p.picture("turn-failed")
}

// TestTurnJSON gets the entries of a turn as JSON, and an error as a line.
func TestTurnJSON(t *testing.T) {
	w := newWorld(t)
	turn := w.ask("x", "hello")
	b := w.browser()
	code, text := status(t, b, "GET", w.url+"c/x/t/"+turn, "", "Accept", "application/json")
	if code != 200 || !strings.HasPrefix(text, "[") || !strings.Contains(text, `"decision"`) {
		t.Errorf("the turn is %d:\n%s", code, text)
	}
	code, text = status(t, b, "GET", w.url+"c/x/t/none", "", "Accept", "application/json")
	if code != 404 || text != "there is no such turn in this conversation\n" {
		t.Errorf("no turn is %d: %s", code, text)
	}
	if code, text = status(t, b, "GET", w.url+"c/x", "", "Accept", "application/json"); code != 200 || !strings.HasPrefix(text, `{"seq":1`) {
		t.Errorf("the log is %d: %s", code, text)
	}
}
