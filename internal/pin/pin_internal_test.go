package pin

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
)

// named returns things of which this is said.
func named(about string, names ...string) []Thing {
	var all []Thing
	for _, name := range names {
		all = append(all, Of(name, about))
	}
	return all
}

func newFile(t *testing.T) *File { return &File{filepath.Join(t.TempDir(), "tools.json"), "tools"} }

// flood returns things whose names were not seen before.
func flood(round int) []Thing {
	var names []string
	for i := range 250 {
		names = append(names, fmt.Sprintf("t%05d-%04d", round, i)+strings.Repeat("x", 110))
	}
	return named("is new", names...)
}

// A changed thing stays a changed one, however many others are named.
func TestPinsFull(t *testing.T) {
	p, now := newFile(t), time.Now()
	if changed, strange, err := p.Compare(named("reads", "read"), now); len(changed)+len(strange) != 0 || err != nil {
		t.Errorf("at first: %v, %v, %v", changed, strange, err)
	}
	var last []Thing
	for round := range 40 {
		last = flood(round)
		changed, strange, _ := p.Compare(append(named("sends", "read"), last...), now)
		if diff := cmp.Diff([]string{"read"}, changed); diff != "" {
			t.Fatalf("round %d: changed (-want +got)\n%s%d others", round, diff, len(strange))
		}
	}
	info, err := os.Stat(p.Path)
	if err != nil || info.Size() > maxFile {
		t.Errorf("the file has %d bytes, %v", info.Size(), err)
	}
	if _, strange, err := p.Compare(last, now); len(strange) != len(last) || err == nil || !strings.Contains(err.Error(), "remove it") {
		t.Errorf("%d of %d are not remembered, %v", len(strange), len(last), err)
	}
	later := now.Add(age + 48*time.Hour)
	if changed, strange, err := p.Compare(append(named("sends", "read"), last...), later); len(changed) != 1 || len(strange) != 0 || err != nil {
		t.Errorf("when the others are long gone: %v, %d, %v", changed, len(strange), err)
	}
	if changed, strange, err := p.Compare(named("lies", last[0].Name), later); len(changed) != 1 || len(strange) != 0 || err != nil {
		t.Errorf("a change of one that was new: %v, %d, %v", changed, len(strange), err)
	}
}

// When the file cannot be read, all things count as changed.
func TestPinsDamaged(t *testing.T) {
	for _, b := range []string{"{", "null", "[]", strings.Repeat(" ", maxFile+1)} {
		p := newFile(t)
		if err := os.WriteFile(p.Path, []byte(b), 0o600); err != nil {
			t.Fatal(err)
		}
		if _, strange, err := p.Compare(named("reads", "read"), time.Now()); len(strange) != 1 || err == nil {
			t.Errorf("%.10q: %v, %v", b, strange, err)
		}
	}
}
