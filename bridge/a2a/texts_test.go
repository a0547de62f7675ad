package a2a_test

import (
	"fmt"
	"strings"
	"testing"

	sdk "github.com/a2aproject/a2a-go/v2/a2a"
)

// TestLongTexts lists tasks whose messages are long, and gets one with a long history: a page ends when it has enough, the next goes on, and of a history the
// newest messages are shown.
func TestLongTexts(t *testing.T) {
	const tasks, most = 6, 5 << 20 // bytes of an answer: 4 MiB, and what made it too many
	long := strings.Repeat("long ", 180<<10)
	w := newWorld(t, false)
	c := w.join(sdk.TransportProtocolJSONRPC, w.serve(w.server(), nil))
	message := func(i int) *sdk.SendMessageRequest {
		r := said(fmt.Sprint("paint ", i, " ", long))
		r.Message.ID = fmt.Sprint("m", i)
		return r
	}
	for i := range tasks {
		w.send(c, in(message(i), "many", ""))
	}
	all, seen, pages := 100, map[sdk.TaskID]bool{}, 0
	r := &sdk.ListTasksRequest{ContextID: "many", PageSize: tasks, HistoryLength: &all}
	for {
		page, err := c.ListTasks(t.Context(), r)
		must(t, err)
		size := 0
		for _, task := range page.Tasks {
			seen[task.ID] = true
			size += len(text(task.History[0].Parts))
		}
		if pages++; size > most || len(page.Tasks) == 0 {
			t.Errorf("a page of %d tasks has %d bytes", len(page.Tasks), size)
		}
		if r.PageToken = page.NextPageToken; r.PageToken == "" {
			break
		}
	}
	if len(seen) != tasks || pages < 2 {
		t.Errorf("%d pages have %d tasks, want all %d", pages, len(seen), tasks)
	}
	one := w.send(c, in(message(tasks), "one", ""))
	for i := range tasks {
		one = w.send(c, in(message(tasks+1+i), "one", one.ID))
	}
	size := 0
	for _, m := range one.History {
		size += len(text(m.Parts))
	}
	if got := w.get(c, one.ID); size > most || len(got.History) != len(one.History) || one.History[0].ID == fmt.Sprint("m", tasks) ||
		!strings.HasPrefix(text(got.History[len(got.History)-2].Parts), fmt.Sprint("paint ", 2*tasks)) {
		t.Errorf("a history of %d messages has %d bytes", len(one.History), size)
	}
}
