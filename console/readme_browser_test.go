package console_test

import (
	"flag"
	"os"
	"path/filepath"
	"testing"

	"github.com/chromedp/chromedp"
)

var update = flag.Bool("update", false, "make the pictures of the README anew")

// TestReadmePictures makes the pictures of the README from what a Cortex does; without -update it only does that.
func TestReadmePictures(t *testing.T) {
	w := newWorld(t)
	w.join("timetable", "Knows when trains leave, and from which platform")
	w.join("accounts", "Reads invoices and books them")
	p := newTab(t)
	keep := func(name, scheme string) {
		t.Helper()
		p.scheme(scheme)
		p.size(1000, 640)
		b, err := chromedp.Run(p.ctx, chromedp.CaptureScreenshot())
		must(t, err)
		if len(b) == 0 {
			t.Fatalf("the picture %s is empty", name)
		}
		if *update {
			must(t, os.WriteFile(filepath.Join("testdata", name+".png"), b, 0o644))
		}
	}
	p.open(w.link())
	p.says("What shall be done?")
	p.say("markdown which trains are there to Hamburg before nine?")
	p.says("ICE 701")
	p.say("two reports, the numbers of October, and a letter to the board")
	p.says("half way")
	keep("chat", "light")
	p.do(chromedp.Click(chromedp.CSS(".is-open .meta a")))
	p.says("still running")
	close(w.gate)
	p.says("Answered")
	keep("turn", "light")
	p.open(w.url + "agents")
	p.says("4 known now")
	keep("agents", "dark")
}
