package console_test

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/chromedp/cdproto"
	"github.com/chromedp/cdproto/emulation"
	"github.com/chromedp/chromedp"

	"github.com/cortex-orchestrator/cortex/app"
)

// chromium returns the path of a Chromium, or "".
func chromium() string {
	for _, name := range []string{"chromium", "chromium-browser", "google-chrome", "chrome"} {
		if path, err := exec.LookPath(name); err == nil {
			return path
		}
	}
	return ""
}

// theBrowser is the only Chromium of the package. Tests have tabs of their own in it.
var theBrowser struct {
	once sync.Once
	ctx  context.Context
	end  func()
	err  error
}

func TestMain(m *testing.M) {
	if os.Getenv(asCortex) != "" {
		app.Main(app.Options{Providers: map[string]app.Provider{"drip": {Model: "drip-1", Open: openDrip}}})
	}
	code := m.Run()
	if theBrowser.end != nil {
		theBrowser.end()
	}
	os.Exit(code)
}

// openBrowser starts Chromium. Without one, the test ends with a loud line, and fails where CI is set.
func openBrowser(t *testing.T) context.Context {
	t.Helper()
	path := chromium()
	if path == "" {
		if os.Getenv("CI") != "" {
			t.Fatal("there is no Chromium: install Debian's package chromium")
		}
		fmt.Fprintln(os.Stderr, "NOT TESTED: the console in a browser: there is no chromium here")
		t.Skip("there is no Chromium")
	}
	theBrowser.once.Do(func() {
		dir, err := os.MkdirTemp("", "console-chromium-")
		if err != nil {
			theBrowser.err = err
			return
		}
		opts := append(chromedp.DefaultExecAllocatorOptions[:], chromedp.ExecPath(path), chromedp.NoSandbox, chromedp.DisableGPU, chromedp.UserDataDir(dir),
			chromedp.Flag("disable-quic", true), chromedp.Flag("disable-component-update", true), chromedp.Flag("disable-background-networking", true),
			chromedp.Flag("disable-sync", true), chromedp.Flag("hide-scrollbars", true), chromedp.Flag("font-render-hinting", "none"), chromedp.Flag("force-prefers-reduced-motion", true),
			chromedp.WindowSize(1280, 800))
		ctx, end := chromedp.NewExecAllocator(context.Background(), opts...)
		ctx, closeTab := chromedp.NewContext(ctx)
		theBrowser.ctx, theBrowser.err = ctx, chromedp.Do(ctx)
		theBrowser.end = func() {
			closeTab()
			end()
			os.RemoveAll(dir)
		}
	})
	must(t, theBrowser.err)
	return theBrowser.ctx
}

// tab is a tab of the browser, with cookies of its own.
type tab struct {
	t       *testing.T
	ctx     context.Context
	excused atomic.Pointer[string] // a message with this text is no trouble
}

// patience bounds what a test waits for in the browser.
const patience = time.Minute

// newTab opens a tab. The test fails on every error in its console, which violations of the policy are, too.
func newTab(t *testing.T) *tab {
	t.Helper()
	ctx, end := chromedp.NewContext(openBrowser(t), chromedp.WithNewBrowserContext())
	p := &tab{t: t, ctx: ctx}
	must(t, chromedp.Do(ctx))
	_, err := chromedp.Call(ctx, emulation.SetFocusEmulationEnabled, emulation.SetFocusEmulationEnabledParams{Enabled: true}) // also behind another tab
	must(t, err)
	reading, stop := context.WithCancel(ctx)
	var reads sync.WaitGroup
	messages := chromedp.Console(reading)
	reads.Go(func() {
		for m, err := range messages {
			if err != nil {
				return
			}
			excused := p.excused.Load()
			if text := fmt.Sprintf("%+v", m); isTrouble(text) && (excused == nil || !strings.Contains(text, *excused)) {
				t.Errorf("the browser's console: %s", text)
			}
		}
	})
	t.Cleanup(func() {
		stop()
		reads.Wait()
		end()
	})
	return p
}

// isTrouble reports whether a message of the browser's console is one of trouble. A lost connection is what some tests are about.
func isTrouble(m string) bool {
	low := strings.ToLower(m)
	return (strings.Contains(low, "error") || strings.Contains(low, "violat") || strings.Contains(low, "exception") || strings.Contains(low, "refused")) &&
		!strings.Contains(m, "ERR_CONNECTION_REFUSED") && !strings.Contains(m, "ERR_INCOMPLETE_CHUNKED_ENCODING") && !strings.Contains(m, "ERR_CONNECTION_RESET") && !strings.Contains(m, "ERR_EMPTY_RESPONSE")
}

// do takes steps one after the other. A step is taken again when the document was replaced between its search for a node and its use of the node:
// then it has done nothing.
func (p *tab) do(steps ...chromedp.Action[chromedp.Void]) {
	p.t.Helper()
	ctx, cancel := context.WithTimeout(p.ctx, patience)
	defer cancel()
	for _, step := range steps {
		err := chromedp.Do(ctx, step)
		for ctx.Err() == nil && isStale(err) {
			err = chromedp.Do(ctx, step)
		}
		if err != nil {
			p.t.Fatalf("%v; the page says:\n%s", err, p.text())
		}
	}
}

// isStale reports whether the node that a step had found is no longer known to the browser, or not shown any more.
func isStale(err error) bool {
	e, ok := errors.AsType[*cdproto.Error](err)
	return ok && regexp.MustCompile("(?i)node|element|quads").MatchString(e.Message) || errors.Is(err, chromedp.ErrInvalidDimensions)
}

func (p *tab) open(url string) {
	p.t.Helper()
	p.do(chromedp.Navigate(url))
	to, _, _ := strings.Cut(url, "?")
	p.await(fmt.Sprintf("location.href.startsWith(%q) && document.readyState === 'complete'", to))
}

// text returns what the page says.
func (p *tab) text() string {
	ctx, cancel := context.WithTimeout(p.ctx, 5*time.Second)
	defer cancel()
	text, _ := chromedp.Run(ctx, chromedp.Evaluate[string]("document.body.innerText")) // or nothing
	if len(text) > 3000 {
		text = text[:3000] + "…"
	}
	return text
}

// eval evaluates an expression.
func eval[T any](p *tab, js string) T {
	p.t.Helper()
	ctx, cancel := context.WithTimeout(p.ctx, patience)
	defer cancel()
	v, err := chromedp.Run(ctx, chromedp.Evaluate[T](js, chromedp.EvalAwaitPromise))
	if err != nil {
		p.t.Fatalf("%s: %v", js, err)
	}
	return v
}

// await waits until an expression is true, also across pages.
func (p *tab) await(js string) {
	p.t.Helper()
	ctx, cancel := context.WithTimeout(p.ctx, patience)
	defer cancel()
	again := time.NewTicker(25 * time.Millisecond)
	defer again.Stop()
	for {
		ok, err := chromedp.Run(ctx, chromedp.Evaluate[bool]("!!("+js+")"))
		if ok && err == nil {
			return
		}
		select {
		case <-again.C:
		case <-ctx.Done():
			p.t.Fatalf("%s is not true: %v; the page says:\n%s", js, err, p.text())
		}
	}
}

// says waits until the page has a text.
func (p *tab) says(text string) {
	p.t.Helper()
	p.await(fmt.Sprintf("document.body.innerText.includes(%q)", text))
}

// say types a message and sends it with the Enter key.
func (p *tab) say(text string) {
	p.t.Helper()
	p.await("document.documentElement.classList.contains('live')")
	p.do(chromedp.SendKeys(chromedp.CSS("[data-compose] textarea"), text+"\r"))
}

// size sets the size of the window.
func (p *tab) size(width, height int64) {
	p.t.Helper()
	p.do(chromedp.EmulateViewport(width, height))
}

// scheme sets whether the user prefers light or dark.
func (p *tab) scheme(name string) {
	p.t.Helper()
	_, err := chromedp.Call(p.ctx, emulation.SetEmulatedMedia, emulation.SetEmulatedMediaParams{
		Features: []*emulation.MediaFeature{{Name: "prefers-color-scheme", Value: name}, {Name: "prefers-reduced-motion", Value: "reduce"}},
	})
	must(p.t, err)
}

// picture keeps a picture of the page for people, where CONSOLE_PICTURES names a folder.
func (p *tab) picture(name string) {
	dir := os.Getenv("CONSOLE_PICTURES")
	if dir == "" {
		return
	}
	for _, scheme := range []string{"light", "dark"} {
		p.scheme(scheme)
		for _, width := range []int64{1280, 360} {
			p.size(width, 760)
			b, err := chromedp.Run(p.ctx, chromedp.CaptureScreenshot())
			must(p.t, err)
			must(p.t, os.WriteFile(filepath.Join(dir, fmt.Sprintf("%s-%s-%d.png", name, scheme, width)), b, 0o644))
		}
	}
	p.scheme("light")
	p.size(1280, 800)
}
