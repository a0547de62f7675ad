package persona_test

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
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
