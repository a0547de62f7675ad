package a2a_test

import (
	"context"
	"errors"
	"fmt"
	"iter"
	"runtime"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"

	sdk "github.com/a2aproject/a2a-go/v2/a2a"
	"github.com/a2aproject/a2a-go/v2/a2aclient"

	"github.com/cortex-orchestrator/cortex/bridge/a2a"
	"github.com/cortex-orchestrator/cortex/cortex/conversation"
	"github.com/cortex-orchestrator/cortex/cortex/storage"
)

// counted is a store that counts how often a log is read, and how many entries of it.
type counted struct {
	storage.Store
	loads, entries atomic.Int64
}

func (s *counted) Load(ctx context.Context, tenant, contextID string, after conversation.Version) iter.Seq2[*conversation.Entry, error] {
	s.loads.Add(1)
	return func(yield func(*conversation.Entry, error) bool) {
		for e, err := range s.Store.Load(ctx, tenant, contextID, after) {
			if s.entries.Add(1); !yield(e, err) {
				return
			}
		}
	}
}

// TestReadsWhatIsNew checks that a call for a task of a long conversation reads no more of it than what is new, and that a deleted conversation is
// not remembered, also when there is another one of its name.
func TestReadsWhatIsNew(t *testing.T) {
	w := newWorld(t, false)
	store := &counted{Store: w.store}
	c := w.join(sdk.TransportProtocolJSONRPC, w.serve(w.doorWith(func(cfg *a2a.Config) { cfg.Store = store }), nil))
	other := w.join(sdk.TransportProtocolJSONRPC, w.serve(w.server(), nil))
	say := func(c *a2aclient.Client, i int) *sdk.Task {
		r := in(said(fmt.Sprint("hello ", i)), "notes", "")
		r.Message.ID = fmt.Sprint("m", i)
		return w.send(c, r)
	}
	var tasks []*sdk.Task
	for i := range 20 {
		tasks = append(tasks, say(c, i))
	}
	w.get(c, tasks[0].ID)
	before := store.entries.Load()
	for _, task := range tasks {
		if got := w.get(c, task.ID); got.Status.State != sdk.TaskStateCompleted || answer(got) != answer(task) {
			t.Errorf("%+v, want %+v", got, task)
		}
	}
	if n := store.entries.Load() - before; n > int64(len(tasks)) {
		t.Errorf("%d calls read %d entries, want one each", len(tasks), n)
	}

	eraseOnly(t, w)
	gone := func(id sdk.TaskID) {
		t.Helper()
		if _, err := c.GetTask(t.Context(), &sdk.GetTaskRequest{ID: id}); !errors.Is(err, sdk.ErrTaskNotFound) {
			t.Errorf("a task of a deleted conversation: %v", err)
		}
	}
	gone(tasks[19].ID)
	anew := say(c, 20)
	eraseOnly(t, w)
	if again := say(other, 21); again.Status.State != sdk.TaskStateCompleted || len(again.History) != 1 {
		t.Errorf("in a conversation of the same name: %+v", again)
	}
	gone(anew.ID)
}

// TestLongConversation checks that what a server keeps of a conversation is bounded, whatever is in it, and that all of it can be read nevertheless.
func TestLongConversation(t *testing.T) {
	w := newWorld(t, false)
	close(w.read)
	asks := w.join(sdk.TransportProtocolJSONRPC, w.serve(w.server(), nil))
	large := strings.Repeat(" "+strings.Repeat("x", 1023), 512) // few words: they are looked at one by one
	var tasks []*sdk.Task
	for i := range 24 {
		r := in(said(fmt.Sprint(i, large)), "notes", "")
		r.Message.ID = fmt.Sprint("m", i)
		tasks = append(tasks, w.send(asks, r))
	}
	d := w.server() // it has read nothing
	c := w.join(sdk.TransportProtocolJSONRPC, w.serve(d, nil))
	inUse := func() int64 {
		var m runtime.MemStats
		runtime.GC()
		runtime.GC()
		runtime.ReadMemStats(&m)
		return int64(m.HeapAlloc) //nolint:gosec // it is not that large
	}
	before := inUse()
	w.get(c, tasks[len(tasks)-1].ID)
	if kept := inUse() - before; kept > 14<<20 {
		t.Errorf("%d MiB are kept of a conversation", kept>>20)
	}
	runtime.KeepAlive(d)

	whole := func(got, want *sdk.Task) {
		t.Helper()
		if got.ID != want.ID || answer(got) != answer(want) || len(got.History) != 1 || text(got.History[0].Parts) != text(want.History[0].Parts) {
			t.Errorf("task %s is not as it was: %d messages, an answer of %d bytes", got.ID, len(got.History), len(answer(got)))
		}
	}
	for _, task := range []*sdk.Task{tasks[0], tasks[12], tasks[23]} {
		whole(w.get(c, task.ID), task)
	}
	var listed []*sdk.Task
	for token := ""; len(listed) == 0 || token != ""; {
		page, err := c.ListTasks(t.Context(), &sdk.ListTasksRequest{ContextID: "notes", IncludeArtifacts: true, PageToken: token})
		must(t, err)
		if len(page.Tasks) == 0 {
			t.Fatal("a page has no tasks")
		}
		listed, token = append(listed, page.Tasks...), page.NextPageToken
	}
	if len(listed) != len(tasks) {
		t.Fatalf("%d tasks are listed, want %d", len(listed), len(tasks))
	}
	slices.Reverse(tasks)
	for i, task := range tasks {
		whole(listed[i], task)
	}
	slices.Reverse(tasks)
	again := in(said(fmt.Sprint(0, large)), "notes", "") // the first message, sent once more
	again.Message.ID = "m0"
	whole(w.send(c, again), tasks[0])
}

// eraseOnly erases the only conversation.
func eraseOnly(t *testing.T, w *world) {
	t.Helper()
	var contextID string
	for info, err := range w.store.Contexts(t.Context(), "") {
		must(t, err)
		contextID = info.ContextID
	}
	must(t, storage.KeepErased(t.Context(), w.store, "", contextID)) // as internal/erase does
	must(t, w.store.Erase(t.Context(), "", contextID))
}

// TestReadTogether asks for tasks of a conversation in which others are under way.
func TestReadTogether(t *testing.T) {
	w := newWorld(t, false)
	c := w.join(sdk.TransportProtocolHTTPJSON, w.serve(w.server(), nil))
	first := w.send(c, atOnce(in(said("slow"), "notes", "")))
	ctx, stop := context.WithCancel(t.Context())
	var asking sync.WaitGroup
	for range 4 {
		asking.Go(func() {
			for ctx.Err() == nil {
				if got, err := c.GetTask(ctx, &sdk.GetTaskRequest{ID: first.ID}); err == nil && len(got.History) == 0 {
					t.Errorf("%+v", got)
				}
				if list, err := c.ListTasks(ctx, &sdk.ListTasksRequest{ContextID: "notes", IncludeArtifacts: true}); err == nil && len(list.Tasks) == 0 {
					t.Error("the list is empty")
				}
			}
		})
	}
	for i := range 10 {
		r := in(said(fmt.Sprint("hello ", i)), "notes", "")
		r.Message.ID = fmt.Sprint("other", i)
		if got := w.send(c, r); answer(got) != fmt.Sprint("done: hello ", i) {
			t.Errorf("%+v", got)
		}
	}
	if got := w.get(c, first.ID); got.Status.State != sdk.TaskStateWorking {
		t.Errorf("%+v", got)
	}
	close(w.gate)
	w.until("the slow task's end", func() bool { return answer(w.get(c, first.ID)) == "done: slow" })
	stop()
	asking.Wait()
}
