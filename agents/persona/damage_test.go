package persona_test

import (
	"bytes"
	"log/slog"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/cortex-orchestrator/cortex/agents/persona"
)

// Whatever bit of a record is flipped, no call that has an effect is made a second time, and the task says what is wrong.
func TestDamagedRecord(t *testing.T) {
	o, notes := withServers(t)
	w := open(t, "", o, call("mcp__notes__append", `{"text":"once"}`))
	if got := w.do(task("note it")); !strings.HasPrefix(got, "failed: ") {
		t.Fatalf("with a model that ends in the middle, the task is %s", got)
	}
	all, err := filepath.Glob(filepath.Join(w.dir, "helper", "tasks", "*.json"))
	if err != nil || len(all) != 1 {
		t.Fatalf("records are %v, %v", all, err)
	}
	record, err := os.ReadFile(all[0])
	if err != nil {
		t.Fatal(err)
	}
	again := task("note it")
	again.Delivery = 2
	for bit := range 8 * len(record) {
		damaged := append([]byte{}, record...)
		damaged[bit/8] ^= 1 << (bit % 8)
		if err := os.WriteFile(all[0], damaged, 0o600); err != nil {
			t.Fatal(err)
		}
		if got := w.do(again); !strings.Contains(got, "what was asked before cannot be read") {
			t.Errorf("with bit %d flipped, in %q, the task is %s", bit, damaged, got)
		}
		if b, _ := os.ReadFile(notes); string(b) != "once\n" {
			t.Fatalf("with bit %d flipped, in %q, notes are %q", bit, damaged, b)
		}
	}
}

// TestDamagedMemory damages what is remembered in a conversation: its tasks are told, and the log says it once, with the name of the file.
func TestDamagedMemory(t *testing.T) {
	var log bytes.Buffer
	w := open(t, "cortex: {memory: true}", persona.Options{Logger: slog.New(slog.NewTextHandler(&log, nil))}, call("remember", `{"key":"city","value":"Oslo"}`), answer("ok"),
		call("recall", `{"key":"city"}`, "remember", `{"key":"city","value":"Bergen"}`), answer("ok"))
	if got := w.do(task("x")); got != "completed: ok" {
		t.Fatal(got)
	}
	all, err := filepath.Glob(filepath.Join(w.dir, "helper", "memory", "*.json"))
	if err != nil || len(all) != 1 {
		t.Fatalf("memories are %v, %v", all, err)
	}
	b, err := os.ReadFile(all[0])
	if err == nil {
		b[2] ^= 1
		err = os.WriteFile(all[0], b, 0o600)
	}
	if err != nil {
		t.Fatal(err)
	}
	next := task("y")
	next.ID = "another"
	if got := w.do(next); got != "completed: ok" || strings.Count(w.lastPrompt(), "its record is damaged") != 2 {
		t.Errorf("got %s; the model is told %s", got, w.lastPrompt())
	}
	if got := log.String(); strings.Count(got, "level=WARN") != 1 || !strings.Contains(got, "file="+all[0]) {
		t.Errorf("the log has %s, want one warning with %s", got, all[0])
	}
}

// TestOpenTasksAreLost has the records of tasks be too old, as when the clock is set forward: the log says how many were not done, and what becomes of them.
func TestOpenTasksAreLost(t *testing.T) {
	var log bytes.Buffer
	o := persona.Options{Dir: t.TempDir(), Logger: slog.New(slog.NewTextHandler(&log, nil))}
	w := open(t, "", o, answer("ok"))
	if got := w.do(task("x")); got != "completed: ok" {
		t.Fatal(got)
	}
	next := task("y")
	next.ID = "another"
	if got := w.do(next); !strings.HasPrefix(got, "failed: ") { // the model says nothing more
		t.Fatal(got)
	}
	if err := w.agent.Close(); err != nil {
		t.Fatal(err)
	}
	all, err := filepath.Glob(filepath.Join(w.dir, "helper", "tasks", "*.json"))
	if err != nil || len(all) != 2 {
		t.Fatalf("records are %v, %v", all, err)
	}
	for _, path := range all {
		if err := os.Chtimes(path, time.Time{}, time.Now().Add(-8*24*time.Hour)); err != nil {
			t.Fatal(err)
		}
	}
	log.Reset()
	open(t, "", o)
	if got := log.String(); strings.Count(got, "level=WARN") != 1 || !strings.Contains(got, " tasks=1 ") || !strings.Contains(got, "ask again for all of it") {
		t.Errorf("the log has %s, want one warning about one task", got)
	}
}
