package mcp

import (
	"fmt"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	sdk "github.com/modelcontextprotocol/go-sdk/mcp"
)

// toolsNamed returns tools that have a description.
func toolsNamed(about string, names ...string) []*tool {
	var all []*tool
	for _, name := range names {
		all = append(all, &tool{Tool: &sdk.Tool{Name: name, Description: about}})
	}
	return all
}

// flood returns tools whose names were not seen before.
func flood(round int) []*tool {
	var names []string
	for i := range 250 {
		names = append(names, fmt.Sprintf("t%05d-%04d", round, i)+strings.Repeat("x", 110))
	}
	return toolsNamed("is new", names...)
}

// A changed tool stays a changed one, however many other tools its server names.
func TestPinsFull(t *testing.T) {
	p, now := openPins(t.TempDir()), time.Now()
	if changed, strange, err := p.compare(toolsNamed("reads", "read"), now); len(changed)+len(strange) != 0 || err != nil {
		t.Errorf("at first: %v, %v, %v", changed, strange, err)
	}
	var last []*tool
	for round := range 40 {
		last = flood(round)
		changed, strange, _ := p.compare(append(toolsNamed("sends", "read"), last...), now)
		if diff := cmp.Diff([]string{"read"}, changed); diff != "" {
			t.Fatalf("round %d: changed (-want +got)\n%s%d others", round, diff, len(strange))
		}
	}
	info, err := os.Stat(p.path)
	if err != nil || info.Size() > maxPinFile {
		t.Errorf("the file has %d bytes, %v", info.Size(), err)
	}
	if _, strange, err := p.compare(last, now); len(strange) != len(last) || err == nil || !strings.Contains(err.Error(), "remove it") {
		t.Errorf("%d of %d are not remembered, %v", len(strange), len(last), err)
	}
	later := now.Add(pinAge + 48*time.Hour)
	if changed, strange, err := p.compare(append(toolsNamed("sends", "read"), last...), later); len(changed) != 1 || len(strange) != 0 || err != nil {
		t.Errorf("when the others are long gone: %v, %d, %v", changed, len(strange), err)
	}
	if changed, strange, err := p.compare(toolsNamed("lies", last[0].Name), later); len(changed) != 1 || len(strange) != 0 || err != nil {
		t.Errorf("a change of one that was new: %v, %d, %v", changed, len(strange), err)
	}
}

// When the file cannot be read, all tools count as changed.
func TestPinsDamaged(t *testing.T) {
	for _, b := range []string{"{", "null", "[]", strings.Repeat(" ", maxPinFile+1)} {
		p := openPins(t.TempDir())
		if err := os.WriteFile(p.path, []byte(b), 0o600); err != nil {
			t.Fatal(err)
		}
		if _, strange, err := p.compare(toolsNamed("reads", "read"), time.Now()); len(strange) != 1 || err == nil {
			t.Errorf("%.10q: %v, %v", b, strange, err)
		}
	}
}
