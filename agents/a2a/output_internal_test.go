package a2a

import (
	"errors"
	"math"
	"strings"
	"testing"
	"unsafe"

	"github.com/a2aproject/a2a-go/v2/a2a"

	"github.com/cortex-orchestrator/cortex/agents"
	"github.com/cortex-orchestrator/cortex/transport"
)

// empty has nothing held for the time of a test, and checks that all that was held in it was given back.
func empty(t *testing.T) {
	t.Helper()
	was := held
	held = &holdings{of: map[string]int{}}
	t.Cleanup(func() {
		if held.all != 0 || len(held.of) > 0 {
			t.Errorf("%d bytes are held behind it, of %v", held.all, held.of)
		}
		held = was
	})
}

// says has a task's peer say more of an artifact.
func says(o *outputs, parts ...*a2a.Part) error {
	return o.update(&agents.Task{}, &a2a.TaskArtifactUpdateEvent{Append: true, Artifact: &a2a.Artifact{ID: "a", Parts: parts}})
}

// TestOutputsTogether checks that what all tasks of a process give is bounded, by their peers' hosts, so that one leaves room for the others, and many have
// no more than all; that who has little has room nevertheless; and that what is passed on does not count any more.
func TestOutputsTogether(t *testing.T) {
	empty(t)
	chunk := a2a.NewTextPart(string(make([]byte, 1<<20)))
	fill := func(host string) (all []*outputs, n int) { // with tasks, until nothing is taken of a new one
		for {
			o := &outputs{host: host}
			said := 0
			var err error
			for said = 0; said < maxOutput>>20; said++ {
				if err = says(o, chunk); err != nil {
					break
				}
			}
			if err != nil && !errors.Is(err, errTooMuch) {
				t.Fatal(err)
			}
			if held.all > maxHeld {
				t.Fatalf("%d MiB are held", held.all>>20)
			}
			if n += said; err == nil {
				all = append(all, o)
				continue
			}
			if o.counted != 0 || o.bytes != 0 {
				t.Fatalf("%d bytes stay of what was refused", o.bytes)
			}
			o = &outputs{host: host}
			for range said {
				if err := says(o, chunk); err != nil {
					t.Fatal(err)
				}
			}
			return append(all, o), n
		}
	}
	hog, n := fill("hog.test")
	if n < maxOutput>>20 || n > 84 {
		t.Errorf("a host has %d MiB", n)
	}
	good, n := fill("good.test")
	if n < 16 {
		t.Errorf("another host has %d MiB", n)
	}
	all := append(hog, good...)
	for i := range 20 {
		more, _ := fill(strings.Repeat("x", i+1) + ".test")
		all = append(all, more...)
	}
	n = 0
	for i := range forLittle/maxLittle + 100 {
		o := &outputs{host: strings.Repeat("y", i+1) + ".test"}
		if err := says(o, a2a.NewTextPart(string(make([]byte, maxLittle-2*pieceHeld-1)))); err == nil {
			n++
		}
		all = append(all, o)
	}
	if held.all > maxHeld || n < (forLittle-1<<20)/maxLittle {
		t.Errorf("%d KiB are held, with little of %d hosts", held.all>>10, n)
	}
	for _, o := range all {
		o.drop()
	}
}

// TestAllThatIsHeldCounts checks that what a peer says is weighed as it is kept.
func TestAllThatIsHeldCounts(t *testing.T) {
	empty(t)
	o := outputs{host: "peer.test"}
	defer o.drop()
	many := make([]*a2a.Part, 1000)
	for i := range many {
		many[i] = &a2a.Part{Content: a2a.Raw{}, Metadata: map[string]any{"long": strings.Repeat("x", 1<<20)}}
	}
	if err := says(&o, many...); err != nil {
		t.Fatal(err)
	}
	if held.all < len(many)*pieceHeld {
		t.Errorf("%d empty parts are held, and %d bytes count", len(many), held.all)
	}
	if err := says(&o, &a2a.Part{Content: a2a.Text("long"), Metadata: many[0].Metadata}); err != nil {
		t.Fatal(err)
	}
	for _, p := range o.all[0].pieces {
		if p.Metadata != nil || p.isText() && (p.Content != a2a.Text("") || string(p.b) != "long") {
			t.Fatalf("%v is kept, with %d metadata", p.Content, len(p.Metadata))
		}
	}
	if err := says(&o, a2a.NewDataPart([]any{math.NaN()})); !errors.Is(err, errStrange) {
		t.Errorf("data that cannot be weighed: %v", err)
	}
	long := "name" + strings.Repeat(" ", 1<<20)
	if short := said(long, maxID); short != "name" || unsafe.StringData(short) == unsafe.StringData(long) {
		t.Errorf("%q is kept with the space behind it", short)
	}
}

// TestSnapshotsKeepTheirRoom checks that a task of which its peer tells again and again does not lose its room to others meanwhile.
func TestSnapshotsKeepTheirRoom(t *testing.T) {
	empty(t)
	o := outputs{host: "peer.test"}
	defer o.drop()
	snapshot := func(n int) []*a2a.Artifact {
		return []*a2a.Artifact{{ID: "a", Parts: a2a.ContentParts{a2a.NewTextPart(string(make([]byte, 1<<20)))}}, {ID: "b", Parts: a2a.ContentParts{a2a.NewTextPart(string(make([]byte, n)))}}}
	}
	if err := o.set(&agents.Task{}, snapshot(20<<20)); err != nil {
		t.Fatal(err)
	}
	defer Fill(0)()
	if err := o.set(&agents.Task{}, snapshot(20<<20)); err != nil {
		t.Errorf("the same again: %v", err)
	}
	if n := held.of["peer.test"]; n > 21<<20+3*pieceHeld+1<<10 || n < 21<<20 {
		t.Errorf("%d bytes count", n)
	}
	if err := o.set(&agents.Task{}, snapshot(21<<20)); !errors.Is(err, errTooMuch) || !strings.Contains(err.Error(), "there is no room for the agent's answer now") {
		t.Errorf("a larger one: %v", err)
	}
}

// TestWordsCount checks that a message that is the answer, or the last one of a task, counts too, without what is not passed on of it.
func TestWordsCount(t *testing.T) {
	empty(t)
	said := a2a.NewMessage(a2a.MessageRoleAgent, a2a.NewTextPart(string(make([]byte, 1<<20))))
	said.Metadata = map[string]any{"long": string(make([]byte, 1<<20))}
	w := &work{r: &record{}, t: &agents.Task{}, out: outputs{host: "peer.test"}}
	if w.status(a2a.TaskStatus{State: a2a.TaskStateCompleted, Message: said}); w.last.Message.Metadata != nil || len(transport.Text(w.last.Message.Parts)) != 1<<20 {
		t.Error("the last message is not kept as it is passed on")
	}
	if err := w.out.hear(said); err != nil || held.all < 2<<20 {
		t.Errorf("%d bytes count: %v", held.all, err)
	}
	w.out.drop()
	defer Fill(1 << 20)()
	if _, err := w.event(said); !errors.Is(err, errTooMuch) {
		t.Errorf("an answer: %v", err)
	}
	if _, err := w.settle(t.Context()); !errors.Is(err, errTooMuch) || w.last.Message != nil {
		t.Errorf("a last message: %v; it is kept: %t", err, w.last.Message != nil)
	}
}

// TestNamesAreShort checks that a peer cannot have much kept in what is not counted: the ids and the names of artifacts, which may be as long as an answer.
func TestNamesAreShort(t *testing.T) {
	var o outputs
	defer o.drop()
	long := string(make([]byte, 1<<20))
	if err := o.put(&a2a.Artifact{ID: a2a.ArtifactID(long)}, false); !errors.Is(err, errStrange) || len(o.all) > 0 {
		t.Errorf("a long id: %v, and %d artifacts", err, len(o.all))
	}
	for range 2 { // the second replaces the first
		if err := o.put(&a2a.Artifact{ID: "a", Name: "name" + long}, false); err != nil {
			t.Fatal(err)
		}
		if n := o.all[0].name; len(n) > 2*maxID || !strings.HasPrefix(n, "name") {
			t.Errorf("of a name %d bytes are kept: %.20q", len(n), n)
		}
	}
}

// TestStatusIsShort checks that what a peer says of its state is not kept as it is: it may be as long as an answer, for as long as the task takes.
func TestStatusIsShort(t *testing.T) {
	long := string(make([]byte, 1<<20))
	w := &work{r: &record{}, t: &agents.Task{}}
	for state, settled := range map[a2a.TaskState]bool{a2a.TaskStateWorking: false, a2a.TaskState(long): false, a2a.TaskStateInputRequired: true, a2a.TaskStateFailed: true} {
		said := a2a.NewMessage(a2a.MessageRoleAgent, a2a.NewTextPart("which one? "+long))
		said.ID = long
		if got := w.status(a2a.TaskStatus{State: state, Message: said}); got != settled {
			t.Errorf("%.20q is settled: %v, want %v", state, got, settled)
		}
		kept := w.last.Message
		if n := len(w.last.State) + len(kept.ID) + len(transport.Text(kept.Parts)) + len(w.told); n > 2*maxQuestion || !strings.HasPrefix(words(kept, ""), "which one?") {
			t.Errorf("of %.20q %d bytes are kept: %.20q", state, n, words(kept, ""))
		}
	}
}
