package console_test

import (
	"encoding/json"
	"fmt"
	"regexp"
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
	at := eval[string](p, "location.href")
	p.do(chromedp.Click(chromedp.CSS("#step-1 a[href*='/p/']")))
	p.says("What the model was told")
	p.do(chromedp.Click(chromedp.CSS("details.more summary")))
	p.says("delegations")
	p.picture("prompt")
	p.open(at)
	p.says("Answered")
	p.do(chromedp.Click(chromedp.CSS("details.more summary")))
	p.says(`"cause"`)
	p.size(360, 700)
	p.noOverflow()
	p.size(1280, 800)
	p.open(w.url + "c/x")
	p.do(chromedp.Click(chromedp.CSS(".turn .meta a")))
	p.says("worker failed: the printer is out of paper")
	p.picture("turn-failed")
	p.do(chromedp.Click(chromedp.CSS(".again button")))
	p.await("location.pathname === '/c/x' && document.querySelectorAll('.turn').length === 3 && document.querySelectorAll('.again').length === 2")
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

// TestPrompts shows the prompt of each decision, rendered again from the log: it is what the decider was shown then, though agents have come since,
// more than it lists; but for how many there were beside those.
func TestPrompts(t *testing.T) {
	w := newWorld(t)
	b := w.browser()
	w.ask("x", "hello")
	w.join("timetable", "Knows when trains leave")
	w.ask("x", "fail")
	w.join("accounts", hostile)
	w.ask("x", "paint")
	w.ask("x", "danger please")
	w.ask("x", "hostile "+hostile)
	for i := range 45 {
		w.join(fmt.Sprint("clerk", i), "Books letters and trains")
	}
	w.ask("x", "book a train")
	w.ask("x", "hello again")
	var seqs []uint64
	for e, err := range w.store.Load(t.Context(), "", "x", 0) {
		must(t, err)
		if e.Decision != nil && e.Decision.Model != "policy" {
			seqs = append(seqs, e.Seq)
		}
	}
	if len(seqs) != len(w.prompts) || len(seqs) < 7 {
		t.Fatalf("%d decisions, %d prompts", len(seqs), len(w.prompts))
	}
	beside := regexp.MustCompile(`Agents that can be given work, beside those shown: \d+\. Search for what is missing\.\n`)
	choices := 0
	for i, seq := range seqs {
		code, text := status(t, b, "GET", w.url+fmt.Sprint("c/x/p/", seq), "", "Accept", "application/json")
		var got struct {
			System   string
			Messages []struct{ Role, Text string }
		}
		if err := json.Unmarshal([]byte(text), &got); err != nil || code != 200 {
			t.Fatalf("entry %d: %d, %v", seq, code, err)
		}
		want := w.prompts[i]
		last := &want.Messages[len(want.Messages)-1]
		if is := beside.ReplaceAllString(last.Text, ""); is != last.Text {
			last.Text = is
			choices++
		}
		if got.System != want.System {
			t.Errorf("entry %d: the instructions are\n%s\nwant\n%s", seq, got.System, want.System)
		}
		for j, m := range want.Messages {
			if j >= len(got.Messages) || got.Messages[j].Text != m.Text || got.Messages[j].Role != string(m.Role) {
				t.Errorf("entry %d, message %d: want\n%s\ngot\n%+v", seq, j, m.Text, got.Messages)
				break
			}
		}
		if len(got.Messages) != len(want.Messages) {
			t.Errorf("entry %d: %d messages, want %d", seq, len(got.Messages), len(want.Messages))
		}
	}
	if choices == 0 {
		t.Error("no prompt has a choice of agents")
	}
	if code, text := status(t, b, "GET", w.url+fmt.Sprint("c/x/p/", seqs[4]), ""); code != 200 || !strings.Contains(text, "not kept") || strings.Contains(text, "<script>alert") {
		t.Errorf("the page is %d:\n%s", code, text)
	}
	for _, path := range []string{"c/x/p/1000", "c/x/p/nothing", "c/none/p/1"} {
		if code, _ := status(t, b, "GET", w.url+path, ""); code != 404 {
			t.Errorf("%s is %d", path, code)
		}
	}
}
