package tests

import (
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
)

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
	blocks := regexp.MustCompile("(?s)```sh\n(.*?)```").FindAllStringSubmatch(read(t, "README.md"), -1)
	if len(blocks) < 4 {
		t.Fatalf("%d blocks of commands in the README, want more", len(blocks))
	}
	// Commands of other programs are in indented blocks. Those of Cortex among them, or within them, are run like the others.
	for _, own := range regexp.MustCompile(`(?m)^    (?:.*\$\()?(cortex [^\n)]*)`).FindAllStringSubmatch(read(t, "README.md"), -1) {
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
	for _, block := range regexp.MustCompile("(?s)```(?:yaml|json|python)\n(.*?)```").FindAllStringSubmatch(read(t, "README.md"), -1) {
		if !strings.Contains(all, block[1]) {
			t.Errorf("README: no test uses this file:\n%s", block[1])
		}
	}
}

// TestReadmeShowsItsFiles checks that every file that a command of the README reads is shown there, with its name.
func TestReadmeShowsItsFiles(t *testing.T) {
	readme := read(t, "README.md")
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
	blocks := regexp.MustCompile("(?s)```go\n(.*?)```").FindAllStringSubmatch(read(t, "README.md"), -1)
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
