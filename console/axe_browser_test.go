package console_test

import (
	"archive/tar"
	"bytes"
	"compress/gzip"
	"context"
	"crypto/sha512"
	"encoding/base64"
	"encoding/json"
	"fmt"
	"io"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/cortex-orchestrator/cortex/client"
	"github.com/cortex-orchestrator/cortex/console"
	"github.com/cortex-orchestrator/cortex/transport"
)

// axe-core of npm, which looks for what keeps people from using a page: https://github.com/dequelabs/axe-core.
const (
	axePackage   = "axe-core@4.14.1"
	axeIntegrity = "sha512-FHfa+lmNjQZfJz1q8wKqIDwC6DExcHt/pkjNQb09a3NPjCKg2rhu5qb2S4r76ASyFNNtuFooJpZe37OgudVGtQ=="
)

// axe returns the script of axe-core. Where npm cannot get it, the test ends with a loud line, and fails where CI is set.
func axe(t *testing.T) string {
	t.Helper()
	missing := func(why string) {
		t.Helper()
		if os.Getenv("CI") != "" {
			t.Fatal(why)
		}
		fmt.Fprintln(os.Stderr, "NOT TESTED: the console's accessibility:", why)
		t.Skip(why)
	}
	if _, err := exec.LookPath("npm"); err != nil {
		missing("there is no npm here, which gets axe-core")
	}
	dir := t.TempDir()
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	npm := exec.CommandContext(ctx, "npm", "pack", "--prefer-offline", "--ignore-scripts", "--silent", "--pack-destination", dir, axePackage)
	npm.Dir = dir
	npm.WaitDelay = time.Second
	if out, err := npm.CombinedOutput(); err != nil {
		missing(fmt.Sprintf("npm cannot get %s: %v: %.300s", axePackage, err, out))
	}
	files, err := filepath.Glob(filepath.Join(dir, "*.tgz"))
	must(t, err)
	if len(files) != 1 {
		t.Fatalf("npm has made the files %v, want one", files)
	}
	b, err := os.ReadFile(files[0])
	must(t, err)
	sum := sha512.Sum512(b)
	if got := "sha512-" + base64.StdEncoding.EncodeToString(sum[:]); got != axeIntegrity {
		t.Fatalf("%s has the integrity %s, want %s", axePackage, got, axeIntegrity)
	}
	unzipped, err := gzip.NewReader(bytes.NewReader(b))
	must(t, err)
	for archive := tar.NewReader(unzipped); ; {
		head, err := archive.Next()
		must(t, err) // also at the end, when the file is missing
		if head.Name == "package/axe.min.js" {
			script, err := io.ReadAll(archive)
			must(t, err)
			return string(script)
		}
	}
}

// axeRun has axe look at the page, and returns what it found, a line for each. Colours alone are all that the scheme changes.
const axeRun = `axe.run(document, {resultTypes: ['violations'], runOnly: %s}).then(r => JSON.stringify(r.violations.map(v =>
	v.id + ' (' + v.help + '): ' + v.nodes.slice(0, 4).map(n => n.target.join(' ') + ' [' + n.any.concat(n.all, n.none).map(c => c.message).join('; ').slice(0, 200) + ']').join(' | '))))`

// TestAccessible has axe look at every page, light and dark, on a desk and on a phone.
func TestAccessible(t *testing.T) {
	openBrowser(t)
	script := axe(t)
	keys := map[string]console.Person{"ada-token": {User: "user:ada"}}
	w := newWorld(t, func(c *console.Config) {
		c.Identify = func(token string) (console.Person, error) {
			if who, ok := keys[token]; ok {
				return who, nil
			}
			return console.Person{}, fmt.Errorf("no")
		}
		c.Checks = func(context.Context) []console.Check {
			return []console.Check{{Name: "takes and keeps work", Text: "yes", OK: true}, {Name: "trouble", Text: "an agent is gone"}}
		}
	})
	w.join("<script>alert(1)</script>", hostile)
	w.giveUp("the letter is damaged")
	for _, text := range []string{"hello", "fail", "markdown please", "wide", "hostile " + hostile, "file it", "danger one", "paint"} {
		w.ask("x", text)
	}
	begun := must1((&client.Client{Transport: w.bus}).Send(t.Context(), client.Text("open", "two slow ones")))(t)
	until(t, "a turn is open", func() bool {
		for info, err := range w.store.Contexts(t.Context(), "") {
			if err == nil && info.ContextID == "open" {
				return true
			}
		}
		return false
	})
	failed := w.ask("y", "fail")
	p := newTab(t)
	notFound := "404 (Not Found)" // of the last page
	p.open(w.url + "login")
	pages := []struct{ name, path string }{
		{"login", "login"},
		{"new", ""},
		{"chat", "c/x"},
		{"open", "c/open"},
		{"search", "c/none?q=none"},
		{"turn-open", "c/open/t/" + (&client.Client{}).ID(begun)},
		{"turn", "c/y/t/" + failed},
		{"prompt", "c/y/p/1"},
		{"agents", "agents"},
		{"agent", "agents/worker"},
		{"agent-hostile", "agents/" + url.PathEscape(must1(transport.AgentID("<script>alert(1)</script>"))(t))},
		{"activity", "activity"},
		{"tasks", "tasks"},
		{"tasks-all", "tasks?all"},
		{"dead", "dead"},
		{"cost", "cost"},
		{"system", "system"},
		{"error", "nothing"},
	}
	for _, page := range pages {
		if page.name == "error" {
			p.excused.Store(&notFound)
		}
		if page.path == "" {
			p.open(w.link())
		}
		p.open(w.url + page.path)
		p.await("document.documentElement.classList.contains('live')")
		eval[string](p, "for (const d of document.querySelectorAll('details')) d.open = true; ''")
		eval[string](p, script+";''")
		for _, width := range []int64{1280, 360} {
			p.size(width, 760)
			for i, scheme := range []string{"light", "dark"} {
				p.scheme(scheme)
				rules := "undefined"
				if i > 0 {
					rules = "['color-contrast', 'link-in-text-block']"
				}
				var found []string
				must(t, json.Unmarshal([]byte(eval[string](p, fmt.Sprintf(axeRun, rules))), &found))
				if len(found) > 0 {
					t.Errorf("%s, %d px, %s:\n%s", page.name, width, scheme, strings.Join(found, "\n"))
				}
			}
		}
		p.scheme("light")
		p.size(1280, 800)
	}
}
