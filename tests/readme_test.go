package tests

import (
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
)

// pages returns the README, with the pages that it leads to.
func pages(t *testing.T) string {
	t.Helper()
	all := read(t, "README.md")
	more, err := filepath.Glob("docs/*.md")
	if err != nil || len(more) == 0 {
		t.Fatalf("docs has %d pages, %v", len(more), err)
	}
	for _, page := range more {
		all += read(t, page)
	}
	return all
}

// TestLinks checks that what pages link to is there: files, and headings.
func TestLinks(t *testing.T) {
	var files []string
	for _, of := range []string{"*.md", "docs/*.md", "cortex/DESIGN.md", "deploy/*.md", "llm/*.md", "cortex/router/*.md"} {
		found, err := filepath.Glob(of)
		if err != nil || len(found) == 0 {
			t.Fatalf("%s: %d pages, %v", of, len(found), err)
		}
		files = append(files, found...)
	}
	for _, file := range files {
		for _, link := range regexp.MustCompile(`\]\(([^)\s]+)\)`).FindAllStringSubmatch(read(t, file), -1) {
			to, heading, _ := strings.Cut(link[1], "#")
			if strings.Contains(to, ":") {
				continue // elsewhere
			}
			if to = filepath.Join(filepath.Dir(file), to); strings.HasPrefix(link[1], "#") {
				to = file
			}
			if _, err := os.Stat(to); err != nil {
				t.Errorf("%s links to %s: %v", file, link[1], err)
			} else if heading != "" && !slices.Contains(headings(read(t, to)), heading) {
				t.Errorf("%s links to %s, which has no such heading", file, link[1])
			}
		}
	}
}

// headings returns the names by which links reach the headings of a page, as GitHub makes them.
func headings(page string) []string {
	var all []string
	for _, h := range regexp.MustCompile(`(?m)^#+ (.*)$`).FindAllStringSubmatch(page, -1) {
		name := regexp.MustCompile(`[^\pL\pN _-]`).ReplaceAllString(strings.ToLower(h[1]), "")
		all = append(all, strings.ReplaceAll(name, " ", "-"))
	}
	return all
}

// TestReadmeCommandsAreRun checks that every command in the README is run by a script of tests/testdata/script (as `cortex …`), or by CI.
func TestReadmeCommandsAreRun(t *testing.T) {
	run := read(t, ".ci/run")
	scripts, err := filepath.Glob("tests/testdata/script/*.txtar")
	if err != nil || len(scripts) == 0 {
		t.Fatalf("no scripts: %v", err)
	}
	for _, file := range scripts {
		run += read(t, file)
	}
	if strings.Contains(run, "\ngo test -race ") && strings.Contains(run, "$(go list ./... ") {
		run += "\ngo test ./...\n"
	}
	anyPort := strings.NewReplacer("127.0.0.1:50051", "$HUB", "127.0.0.1:5672", "$RABBIT", "127.0.0.1:8430", "$RTFS", "splitter.py 127.0.0.1:8431", "splitter.py $SPLITTER", "~/", "$HOME/", "nats://127.0.0.1:4222", "$URL", "127.0.0.1:4222", "127.0.0.1:0", "127.0.0.1:8420", "127.0.0.1:0")
	blocks := regexp.MustCompile("(?s)```sh\n(.*?)```").FindAllStringSubmatch(pages(t), -1)
	if len(blocks) < 4 {
		t.Fatalf("%d blocks of commands in the README, want more", len(blocks))
	}
	// Commands of other programs are in indented blocks. Those of Cortex among them, or within them, are run like the others.
	for _, own := range regexp.MustCompile(`(?m)^    (?:.*\$\()?(cortex [^\n)]*)`).FindAllStringSubmatch(pages(t), -1) {
		if !strings.Contains(own[1], "nats://a:4222") { // which takes three machines
			blocks = append(blocks, own)
		}
	}
	for _, block := range blocks {
		for command := range strings.Lines(block[1]) {
			command = strings.Replace(strings.TrimSpace(command), "go run .", "cortex", 1)
			if !strings.Contains(run, anyPort.Replace(command)) {
				t.Errorf("README: no test runs %q", command)
			}
		}
	}
}

// TestReadmeFilesAreUsed checks that the files in the README are those of a script.
func TestReadmeFilesAreUsed(t *testing.T) {
	scripts, err := filepath.Glob("tests/testdata/script/*.txtar")
	if err != nil {
		t.Fatal(err)
	}
	all := ""
	for _, file := range scripts {
		all += read(t, file)
	}
	for _, block := range regexp.MustCompile("(?s)```(?:yaml|json|python)\n(.*?)```").FindAllStringSubmatch(pages(t), -1) {
		if !strings.Contains(all, block[1]) {
			t.Errorf("README: no test uses this file:\n%s", block[1])
		}
	}
}

// TestReadmeShowsItsFiles checks that every file that a command of the README reads is shown there, with its name.
func TestReadmeShowsItsFiles(t *testing.T) {
	readme := pages(t)
	for _, block := range regexp.MustCompile("(?s)```sh\n(.*?)```").FindAllStringSubmatch(readme, -1) {
		for _, file := range regexp.MustCompile(`[\w-]+\.(?:yaml|jsonl?|py|sh)\b`).FindAllString(block[1], -1) {
			if shown := "`" + regexp.QuoteMeta(file) + "`[^\n]{0,120}\n\n```(?:yaml|json|python)\n"; !regexp.MustCompile(shown).MatchString(readme) {
				t.Errorf("README: %s is named, and not shown", file)
			}
		}
	}
}

// TestReadmeExamplesAreTested checks that the programs in the README are compiled and run by tests.
func TestReadmeExamplesAreTested(t *testing.T) {
	blocks := regexp.MustCompile("(?s)```go\n(.*?)```").FindAllStringSubmatch(pages(t), -1)
	if len(blocks) < 2 {
		t.Fatalf("%d blocks of Go in the README, want more", len(blocks))
	}
	all := read(t, "cortex/example_test.go") + read(t, "tests/testdata/plugin/main.go") + read(t, "bridge/a2a/example_test.go")
	for _, block := range blocks {
		if !strings.Contains(all, block[1]) {
			t.Errorf("README: no test runs this code:\n%s", block[1])
		}
	}
}

func read(t *testing.T, file string) string {
	t.Helper()
	b, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	return string(b)
}
