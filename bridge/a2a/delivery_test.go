package a2a_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"strings"
	"sync"
	"testing"
	"time"

	sdk "github.com/a2aproject/a2a-go/v2/a2a"
	"github.com/a2aproject/a2a-go/v2/a2aclient"
	"github.com/a2aproject/a2a-go/v2/a2apb/v1"

	"github.com/cortex-orchestrator/cortex/bridge/a2a"
	"github.com/cortex-orchestrator/cortex/cortex/conversation"
	"github.com/cortex-orchestrator/cortex/cortex/memstore"
	"github.com/cortex-orchestrator/cortex/cortex/storage"
	"github.com/cortex-orchestrator/cortex/internal/erase"
)

// TestPushDelivery has receivers told what happens to tasks, in order and once.
func TestPushDelivery(t *testing.T) {
	w := newWorld(t, false)
	url, _ := w.pushing(nil, plain)
	r := newReceiver(t)
	for _, binding := range bindings {
		for _, agent := range []string{"", "/agents/worker"} {
			c := w.join(binding, url+agent)
			path := "/" + string(binding) + agent
			t.Run("PUSH-DELIVER-001"+path, func(t *testing.T) {
				task := w.send(c, pushTo(said("hello"), r.url+path))
				w.until("the end is pushed", func() bool { return strings.HasSuffix(r.words(path), "completed") })
				ids := map[string]bool{}
				for _, p := range r.all(path) {
					strict(t, p.body, &a2apb.StreamResponse{})
					if h := p.header; h.Get("Content-Type") != "application/a2a+json" || h.Get("Authorization") != "Bearer s3cret" || h.Get("A2A-Notification-Token") != "tok" ||
						h.Get("User-Agent") != "cortex/test" || h.Get("A2A-Version") != "1.0" {
						t.Errorf("%v", h)
					}
					if p.event.TaskInfo().TaskID != task.ID || p.event.TaskInfo().ContextID != task.ContextID {
						t.Errorf("%s", p.body)
					}
					ids[p.header.Get("Idempotency-Key")] = true
				}
				got := r.words(path)
				if got != "working answer completed" && got != "working result answer completed" && !strings.HasSuffix(got, "answer completed") || len(ids) != len(r.all(path)) || ids[""] {
					t.Errorf("%s, with the ids %v", got, ids)
				}
			})
			t.Run("through a question"+path, func(t *testing.T) {
				path := path + "/asked"
				asks := w.send(c, said("paint"))
				_, err := c.CreateTaskPushConfig(t.Context(), &sdk.PushConfig{TaskID: asks.ID, URL: r.url + path})
				must(t, err)
				w.send(c, in(said("blue"), "", asks.ID))
				w.until("the end is pushed", func() bool { return strings.HasSuffix(r.words(path), "completed") })
				if got := r.words(path); strings.Count(got, "working") != 1 || strings.Contains(got, "input_required") {
					t.Errorf("%s", got)
				}
			})
			t.Run("by a stream"+path, func(t *testing.T) {
				path := path + "/stream"
				collect(t, c.SendStreamingMessage(t.Context(), pushTo(said("paint"), r.url+path)))
				w.until("the question is pushed", func() bool { return strings.HasSuffix(r.words(path), "input_required") })
			})
			t.Run("of what is over"+path, func(t *testing.T) {
				path := path + "/over"
				over := w.send(c, said("hello"))
				_, err := c.CreateTaskPushConfig(t.Context(), &sdk.PushConfig{TaskID: over.ID, URL: r.url + path})
				must(t, err)
				w.until("the end is pushed", func() bool { return strings.HasSuffix(r.words(path), "answer completed") })
			})
		}
	}
}

// TestPushSentAgain sends a message twice with its config, as a client does whose connection was lost: there is one config.
func TestPushSentAgain(t *testing.T) {
	w := newWorld(t, false)
	url, _ := w.pushing(nil, plain)
	c := w.join(sdk.TransportProtocolHTTPJSON, url, "Idempotency-Key", "k")
	r := newReceiver(t)
	task := w.send(c, pushTo(said("paint"), r.url+"/"))
	w.send(c, pushTo(said("paint"), r.url+"/"))
	list, err := c.ListTaskPushConfigs(t.Context(), &sdk.ListTaskPushConfigRequest{TaskID: task.ID})
	must(t, err)
	if len(list) != 1 {
		t.Errorf("%+v", list)
	}
	w.until("the question is pushed", func() bool { return strings.HasSuffix(r.words("/"), "input_required") })
	w.send(c, in(said("blue"), "", task.ID))
	w.until("the end is pushed", func() bool { return strings.HasSuffix(r.words("/"), "completed") })
	if got := r.words("/"); strings.Count(got, "input_required") != 1 || strings.Count(got, "completed") != 1 {
		t.Errorf("%s", got)
	}
}

// TestPushDown has a receiver that is down, in several ways, and then up: it gets everything in order. Another one is not held up.
func TestPushDown(t *testing.T) {
	for _, status := range []int{500, 404, 429, 302, 307} {
		w := newWorld(t, false)
		url, d := w.pushing(nil, plain)
		c := w.join(sdk.TransportProtocolJSONRPC, url)
		down, up := newReceiver(t), newReceiver(t)
		down.answers(status)
		task := w.send(c, pushTo(said("paint"), down.url+"/"))
		_, err := c.CreateTaskPushConfig(t.Context(), &sdk.PushConfig{TaskID: task.ID, URL: up.url + "/"})
		must(t, err)
		w.send(c, in(said("blue"), "", task.ID))
		w.until("the other one gets the end", func() bool { return strings.HasSuffix(up.words("/"), "completed") })
		w.until("it is tried again", func() bool { return down.tries() > 5 })
		w.until("it is said that it is down", func() bool {
			return len(d.Trouble()) == 1 && strings.Contains(d.Trouble()[0], ": 1: receivers that take none now")
		})
		if got := down.words("/"); got != "" {
			t.Errorf("%d: %s", status, got)
		}
		down.mu.Lock()
		for _, id := range down.ids["/"] {
			if id == "" || id != down.ids["/"][0] {
				t.Errorf("%d: one event is tried as %q", status, down.ids["/"])
			}
		}
		down.mu.Unlock()
		down.answers(0)
		w.until("it gets the end", func() bool { return strings.HasSuffix(down.words("/"), "completed") })
		if got := down.words("/"); !strings.HasSuffix(got, "input_required working answer completed") || strings.Count(got, "completed") != 1 {
			t.Errorf("%d: %s", status, got)
		}
		w.until("nothing is said any more", func() bool { return len(d.Trouble()) == 0 })
	}
}

// clock is a clock that a test sets.
type clock struct {
	mu sync.Mutex
	by time.Duration
}

func (c *clock) now() time.Time {
	c.mu.Lock()
	defer c.mu.Unlock()
	return time.Now().Add(c.by)
}

func (c *clock) goOn(d time.Duration) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.by += d
}

// TestPushGivenUp has a receiver that takes nothing for a day, and one that wants nothing any more. Its client can make the config again.
func TestPushGivenUp(t *testing.T) {
	w := newWorld(t, false)
	var at clock
	url, d := w.pushing(nil, func(c *a2a.Config) { c.Client.Now = at.now })
	c := w.join(sdk.TransportProtocolJSONRPC, url)
	r := newReceiver(t)
	r.answers(500)
	task := w.send(c, said("paint"))
	config := &sdk.PushConfig{TaskID: task.ID, ID: "a", URL: r.url + "/"}
	_, err := c.CreateTaskPushConfig(t.Context(), config)
	must(t, err)
	w.send(c, in(said("blue"), "", task.ID))
	w.until("it is tried", func() bool { return r.tries() > 3 })
	at.goOn(23 * time.Hour)
	n := r.tries()
	w.until("it is tried for a day", func() bool { return r.tries() > n+1 })
	at.goOn(2 * time.Hour)
	w.until("it is given up", func() bool {
		return len(d.Trouble()) == 1 && strings.Contains(d.Trouble()[0], ": 1: receivers that were given up")
	})
	n = r.tries()
	if n < 10 {
		t.Errorf("it is given up after %d attempts: the clock may have been set", n)
	}
	r.answers(0)
	_, err = c.CreateTaskPushConfig(t.Context(), config)
	must(t, err)
	w.until("it goes on where it was", func() bool { return strings.HasSuffix(r.words("/"), "working answer completed") })
	if r.tries() != n+len(r.all("/")) {
		t.Errorf("tried %d times after it was given up", r.tries()-n-len(r.all("/")))
	}
	gone := newReceiver(t)
	gone.answers(http.StatusGone)
	_, err = c.CreateTaskPushConfig(t.Context(), &sdk.PushConfig{TaskID: task.ID, ID: "b", URL: gone.url + "/"})
	must(t, err)
	w.until("it is tried", func() bool { return gone.tries() == 1 })
	w.until("it is given up at once", func() bool {
		return len(d.Trouble()) == 1 && strings.Contains(d.Trouble()[0], ": 1: receivers that were given up")
	})
	if gone.tries() != 1 {
		t.Errorf("410: tried %d times", gone.tries())
	}
	w.until("nothing is kept of what is over", func() bool {
		at.goOn(time.Hour)
		return w.notes() == 0
	})
}

// TestPushReplicas has two servers on one store. The one that leads pushes; when it does not any more, the other one goes on.
func TestPushReplicas(t *testing.T) {
	w := newWorld(t, false)
	var mu sync.Mutex
	leader := 0
	leads := func(i int) func() bool {
		return func() bool {
			mu.Lock()
			defer mu.Unlock()
			return leader == i || leader < 0
		}
	}
	r := newReceiver(t)
	var clients [2]*a2aclient.Client
	var servers [2]*a2a.Server
	for i := range 2 {
		var url string
		url, servers[i] = w.pushing(nil, func(c *a2a.Config) { c.Push.Leads, c.Version = leads(i), fmt.Sprint("replica", i) })
		clients[i] = w.join(sdk.TransportProtocolJSONRPC, url)
	}
	for round, path := range []string{"/a", "/b", "/c", "/d"} {
		r.answers(503)
		task := w.send(clients[1-round%2], pushTo(said("paint"), r.url+path)) // at the one that does not push
		n := r.tries()
		w.until("it is tried", func() bool { return r.tries() > n })
		if n := r.triedBy("replica1"); round == 0 && n > 0 {
			t.Errorf("the one that does not lead has pushed %d times", n)
		}
		mu.Lock()
		leader = []int{1, 0, -1, 0}[round] // -1: both believe it
		mu.Unlock()
		w.until("the other one tries", func() bool { return leader < 0 || len(servers[leader].Trouble()) > 0 })
		r.answers(0)
		w.send(clients[round%2], in(said("blue"), "", task.ID))
		w.until("the end is pushed", func() bool { return strings.Contains(r.words(path), "completed") }) // when both push, something older may come after it
		seen, by := map[string]bool{}, map[string]bool{}
		var once []string
		for i, p := range r.all(path) {
			id := p.header.Get("Idempotency-Key")
			if !seen[id] {
				once = append(once, strings.Fields(r.words(path))[i])
			}
			if of := id + p.header.Get("User-Agent"); by[of] {
				t.Errorf("%s was sent twice by one server", p.body)
			} else {
				seen[id], by[of] = true, true
			}
		}
		if got := strings.Join(once, " "); !strings.HasSuffix(got, "input_required working answer completed") || strings.Count(got, "completed") != 1 {
			t.Errorf("round %d: %s", round, got)
		}
	}
}

// TestPushRestart ends a server between what happens and its delivery. The next one, which never heard of it, delivers it.
func TestPushRestart(t *testing.T) {
	w := newWorld(t, false)
	first := w.doorWith(func(c *a2a.Config) { c.Push = &a2a.Push{Hosts: []string{"127.0.0.1"}} })
	c := w.join(sdk.TransportProtocolGRPC, w.serve(first, nil))
	r := newReceiver(t)
	task := w.send(c, pushTo(said("paint"), r.url+"/"))
	end := w.deliver(first)
	w.until("the question is pushed", func() bool { return strings.HasSuffix(r.words("/"), "input_required") })
	w.until("it is noted", func() bool { return w.noted() == w.length(task.ContextID) })
	end()
	w.send(c, in(said("blue"), "", task.ID))
	w.pushing(nil, plain)
	w.until("the end is pushed", func() bool { return strings.HasSuffix(r.words("/"), "completed") })
	if got := r.words("/"); !strings.HasSuffix(got, "input_required working answer completed") || strings.Count(got, "input_required") != 1 {
		t.Errorf("%s", got)
	}
}

// TestPushErased erases a conversation: nothing is kept of its configs, and nothing is pushed any more.
func TestPushErased(t *testing.T) {
	w := newWorld(t, false)
	url, _ := w.pushing(nil, plain)
	c := w.join(sdk.TransportProtocolJSONRPC, url)
	r := newReceiver(t)
	r.answers(500)
	task, other := w.send(c, pushTo(said("paint"), r.url+"/")), w.send(c, pushTo(said("paint"), r.url+"/other"))
	w.until("it is tried", func() bool { return r.tries() > 3 })
	_, err := erase.Conversation(t.Context(), w.store, w.bus, "", task.ContextID)
	must(t, err)
	tries := func() int {
		r.mu.Lock()
		defer r.mu.Unlock()
		return len(r.ids["/"])
	}
	before := tries()
	if n := w.notes(); n != 1 {
		t.Errorf("%d notes are left, want that of the other conversation", n)
	}
	r.answers(0)
	w.until("the other one gets its question", func() bool { return strings.HasSuffix(r.words("/other"), "input_required") })
	if _, err := c.GetTaskPushConfig(t.Context(), &sdk.GetTaskPushConfigRequest{TaskID: task.ID, ID: "x"}); !errors.Is(err, sdk.ErrTaskNotFound) {
		t.Errorf("%v", err)
	}
	if err := c.DeleteTaskPushConfig(t.Context(), &sdk.DeleteTaskPushConfigRequest{TaskID: other.ID, ID: "x"}); err != nil {
		t.Error(err)
	}
	if n := tries() + len(r.all("/")) - before; n > 1 { // which was on its way
		t.Errorf("it was tried %d times after it was erased", n)
	}
}

// TestPushDeleted deletes a config while its receiver is down: it gets nothing any more.
func TestPushDeleted(t *testing.T) {
	w := newWorld(t, false)
	url, _ := w.pushing(nil, plain)
	c := w.join(sdk.TransportProtocolJSONRPC, url)
	r := newReceiver(t)
	r.answers(500)
	task := w.send(c, pushTo(said("paint"), r.url+"/"))
	w.until("it is tried", func() bool { return r.tries() > 3 })
	list, err := c.ListTaskPushConfigs(t.Context(), &sdk.ListTaskPushConfigRequest{TaskID: task.ID})
	must(t, err)
	must(t, c.DeleteTaskPushConfig(t.Context(), &sdk.DeleteTaskPushConfigRequest{TaskID: task.ID, ID: list[0].ID}))
	_, err = c.CreateTaskPushConfig(t.Context(), &sdk.PushConfig{TaskID: task.ID, URL: r.url + "/other"})
	must(t, err)
	w.send(c, in(said("blue"), "", task.ID))
	n := r.tries()
	w.until("the other config is tried", func() bool { return r.tries() > n+3 })
	r.answers(0)
	w.until("the end is pushed", func() bool { return strings.HasSuffix(r.words("/other"), "completed") })
	if got := r.words("/"); got != "" {
		t.Errorf("%s", got)
	}
}

// TestPushOld has a client of A2A 0.3 make a config: it gets tasks, in the form of 0.3.
func TestPushOld(t *testing.T) {
	w := newWorld(t, false)
	url, _ := w.pushing(nil, func(c *a2a.Config) { c.Old = true })
	r := newReceiver(t)
	_, _, body := do(t, http.MethodPost, url, `{"jsonrpc":"2.0","id":1,"method":"message/send","params":{"message":{"kind":"message","messageId":"1","role":"user",`+
		`"parts":[{"kind":"text","text":"hello"}]},"configuration":{"blocking":true,"pushNotificationConfig":{"url":"`+r.url+`/old","token":"tok"}}}}`, "A2A-Version", "")
	var said struct{ Result struct{ ID string } }
	must(t, json.Unmarshal([]byte(body), &said))
	var last struct {
		Kind, ID  string
		Status    struct{ State string }
		Artifacts []any
	}
	w.until("the end is pushed", func() bool {
		all := r.all("/old")
		return len(all) > 0 && json.Unmarshal(all[len(all)-1].body, &last) == nil && last.Status.State == "completed"
	})
	if last.Kind != "task" || last.ID != said.Result.ID || len(last.Artifacts) == 0 || r.all("/old")[0].header.Get("A2A-Notification-Token") != "tok" {
		t.Errorf("%+v of %s", last, body)
	}
	for method, want := range map[string]string{
		"set": `"url":"https://example.com/"`, "get": `"url":"https://example.com/"`, "list": `"url":"https://example.com/"`, "delete": `"id":1`,
	} {
		params := `{"taskId":"` + last.ID + `","pushNotificationConfig":{"id":"a","url":"https://example.com/"}}`
		if method != "set" {
			_, _, _ = do(t, http.MethodPost, url, `{"jsonrpc":"2.0","id":1,"method":"tasks/pushNotificationConfig/set","params":`+params+`}`, "A2A-Version", "")
			params = `{"id":"` + last.ID + `","pushNotificationConfigId":"a"}`
		}
		_, _, body := do(t, http.MethodPost, url, `{"jsonrpc":"2.0","id":1,"method":"tasks/pushNotificationConfig/`+method+`","params":`+params+`}`, "A2A-Version", "")
		if !strings.Contains(body, want) || strings.Contains(body, `"error"`) {
			t.Errorf("%s: %s", method, body)
		}
	}
}

// TestPushOther pushes what else may become of a task.
func TestPushOther(t *testing.T) {
	w := newWorld(t, false)
	url, _ := w.pushing(nil, plain)
	c := w.join(sdk.TransportProtocolJSONRPC, url+"/agents/worker")
	r := newReceiver(t)
	w.send(c, pushTo(said("fail"), r.url+"/fail"))
	w.until("the failure is pushed", func() bool { return r.words("/fail") == "working failed" })
	asks := w.send(c, pushTo(said("paint"), r.url+"/cancel"))
	_, err := c.CancelTask(t.Context(), &sdk.CancelTaskRequest{ID: asks.ID})
	must(t, err)
	w.until("the cancellation is pushed", func() bool { return strings.HasSuffix(r.words("/cancel"), "input_required canceled") })
	w.send(c, pushTo(said("huge"), r.url+"/huge"))
	w.until("the end is pushed", func() bool { return strings.HasSuffix(r.words("/huge"), "completed") })
	for _, p := range r.all("/huge") {
		if e, ok := p.event.(*sdk.TaskArtifactUpdateEvent); ok && (len(p.body) > 4<<10 || !strings.Contains(text(e.Artifact.Parts), "huge.bin")) {
			t.Errorf("an artifact of %d bytes: %.200s", len(p.body), p.body)
		}
	}
}

// TestPushRejected has Cortex refuse a message, which is in no log then.
func TestPushRejected(t *testing.T) {
	w := refusing(t)
	url, _ := w.pushing(nil, plain)
	r := newReceiver(t)
	w.send(w.join(sdk.TransportProtocolJSONRPC, url), pushTo(said("hello"), r.url+"/"))
	w.until("the refusal is pushed", func() bool { return r.words("/") == "rejected" })
}

// TestPushSlow has one receiver that does not answer for many configs: few of them are posted at once, and another receiver is told meanwhile.
func TestPushSlow(t *testing.T) {
	w := newWorld(t, false)
	url, _ := w.pushing(nil, plain)
	c := w.join(sdk.TransportProtocolJSONRPC, url)
	slow, quick := newReceiver(t), newReceiver(t)
	held := make(chan struct{})
	slow.slow = map[string]chan struct{}{"/": held}
	for range 4 {
		task := w.send(c, pushTo(said("paint"), slow.url+"/"))
		for range 7 {
			_, err := c.CreateTaskPushConfig(t.Context(), &sdk.PushConfig{TaskID: task.ID, URL: slow.url + "/"})
			must(t, err)
		}
		w.send(c, in(said("blue"), "", task.ID))
	}
	w.until("the slow one has what it may have", func() bool { return slow.tries() >= 4 })
	for range 4 {
		w.send(c, pushTo(said("hello"), quick.url+"/"))
	}
	w.until("the quick one is told", func() bool { return strings.Count(quick.words("/"), "completed") == 4 })
	slow.mu.Lock()
	if slow.most != 4 {
		t.Errorf("%d at once, want 4", slow.most)
	}
	close(held)
	slow.mu.Unlock()
	w.until("the slow one is told", func() bool { return strings.Count(slow.words("/"), "completed") == 32 })
	if slow.most > 4 {
		t.Errorf("%d at once, want 4", slow.most)
	}
}

// TestPushSlowOfOthers has people whose receivers do not answer, on the host of another person's, who is told meanwhile. The host is written in several
// ways.
func TestPushSlowOfOthers(t *testing.T) {
	w := newWorld(t, false)
	url, _ := w.pushing(func(token string) (string, error) { return "user:" + token, nil }, func(c *a2a.Config) {
		c.Push.Hosts, c.Push.Timeout = append(c.Push.Hosts, "localhost"), time.Hour
	})
	by := func(person string) *a2aclient.Client {
		return w.join(sdk.TransportProtocolJSONRPC, url, "Authorization", "Bearer "+person)
	}
	r := newReceiver(t)
	held := make(chan struct{})
	release := sync.OnceFunc(func() { close(held) })
	t.Cleanup(release)
	r.slow = map[string]chan struct{}{"/slow": held}
	port := r.url[strings.LastIndex(r.url, ":"):]
	for _, person := range []string{"ann", "bob"} {
		c := by(person)
		for range 6 {
			for _, host := range []string{"localhost", "LocalHost"} {
				w.send(c, pushTo(said("hello"), "http://"+host+port+"/slow"))
			}
		}
	}
	w.until("the slow ones have what they may have", func() bool { return r.tries() >= 7 })
	w.send(by("carla"), pushTo(said("hello"), "http://localhost"+port+"/quick"))
	w.until("the quick one is told", func() bool { return strings.HasSuffix(r.words("/quick"), "completed") })
	r.mu.Lock()
	if r.most > 8 {
		t.Errorf("%d at once, want 8 at most", r.most)
	}
	r.mu.Unlock()
	release()
	w.until("the slow ones are told", func() bool { return strings.Count(r.words("/slow"), "completed") == 24 })
}

// TestPushUnkept has a store that does not take a config: its message is not sent.
func TestPushUnkept(t *testing.T) {
	w := newWorld(t, false)
	url := w.serve(w.doorWith(func(c *a2a.Config) {
		c.Push = &a2a.Push{}
		c.Store = unkept{w.store}
	}), nil)
	if _, err := w.join(sdk.TransportProtocolJSONRPC, url).SendMessage(t.Context(), pushTo(said("order"), "https://example.com/")); !errors.Is(err, sdk.ErrServerError) {
		t.Errorf("%v", err)
	}
	if w.times(w.done, "order") != 0 {
		t.Error("it was sent")
	}
}

// unkept is a store that takes no notes.
type unkept struct{ *memstore.Store }

func (unkept) PutNote(context.Context, string, string, storage.Note) (conversation.Version, error) {
	return 0, errors.New("no")
}

// TestPushReplaced makes a config anew, with another URL, while its receiver is down and the pause is long: the other one is told at once all that the
// first was not.
func TestPushReplaced(t *testing.T) {
	w := newWorld(t, false)
	url, _ := w.pushing(nil, func(c *a2a.Config) { c.Push.Rest = nil; c.Push.Random = func() float64 { return 1 } })
	c := w.join(sdk.TransportProtocolJSONRPC, url)
	down, up := newReceiver(t), newReceiver(t)
	down.answers(500)
	task := w.send(c, said("paint"))
	config := &sdk.PushConfig{TaskID: task.ID, ID: "a", URL: down.url + "/"}
	_, err := c.CreateTaskPushConfig(t.Context(), config)
	must(t, err)
	w.send(c, in(said("blue"), "", task.ID))
	w.until("it is tried", func() bool { return down.tries() > 0 })
	config.URL = up.url + "/"
	_, err = c.CreateTaskPushConfig(t.Context(), config)
	must(t, err)
	w.until("the end is pushed", func() bool { return strings.HasSuffix(up.words("/"), "completed") })
	if got := up.words("/"); got != "working answer completed" {
		t.Errorf("%s", got)
	}
}

// interrupted is a store in which something happens just before a note is deleted, once.
type interrupted struct {
	*memstore.Store
	meanwhile func()
	once      sync.Once
	deleted   chan error // what came of it
}

// DeleteNote implements storage.Notes.
func (s *interrupted) DeleteNote(ctx context.Context, tenant, kind, key string, version conversation.Version) error {
	first := false
	s.once.Do(func() {
		first = true
		s.meanwhile()
	})
	err := s.Store.DeleteNote(ctx, tenant, kind, key, version)
	if first {
		s.deleted <- err
	}
	return err
}

// TestPushMadeMeanwhile makes a config just when what is kept of the ones before is removed: it stays, and its receiver is told.
func TestPushMadeMeanwhile(t *testing.T) {
	for _, before := range []string{"over", "deleted"} {
		t.Run(before, func(t *testing.T) {
			w := newWorld(t, false)
			var at clock
			store := &interrupted{Store: w.store, deleted: make(chan error, 1)}
			url, _ := w.pushing(nil, func(c *a2a.Config) { c.Client.Now, c.Store = at.now, store })
			c := w.join(sdk.TransportProtocolJSONRPC, url)
			r := newReceiver(t)
			task := w.send(c, said("hello"))
			config := func(id string) {
				_, err := c.CreateTaskPushConfig(t.Context(), &sdk.PushConfig{TaskID: task.ID, ID: id, URL: r.url + "/" + id})
				if err != nil {
					t.Error(err)
				}
			}
			store.meanwhile = func() { config("second") }
			config("first")
			w.until("the first is told", func() bool { return strings.HasSuffix(r.words("/first"), "completed") })
			if before == "deleted" {
				must(t, c.DeleteTaskPushConfig(t.Context(), &sdk.DeleteTaskPushConfigRequest{TaskID: task.ID, ID: "first"}))
			}
			w.until("what is kept of it is removed", func() bool {
				at.goOn(2 * time.Hour)
				select {
				case err := <-store.deleted:
					if !errors.Is(err, storage.ErrConflict) {
						t.Errorf("the second goes with it: %v", err)
					}
					return true
				default:
					return false
				}
			})
			w.until("the second is told", func() bool { return strings.HasSuffix(r.words("/second"), "completed") })
		})
	}
}
