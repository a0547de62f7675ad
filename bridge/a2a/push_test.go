package a2a_test

import (
	"context"
	"errors"
	"net/http"
	"strconv"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	sdk "github.com/a2aproject/a2a-go/v2/a2a"
	"github.com/a2aproject/a2a-go/v2/a2aclient"
	"github.com/a2aproject/a2a-go/v2/a2apb/v1"

	"github.com/cortex-orchestrator/cortex/bridge/a2a"
	"github.com/cortex-orchestrator/cortex/cortex/conversation"
	"github.com/cortex-orchestrator/cortex/cortex/memstore"
	"github.com/cortex-orchestrator/cortex/cortex/storage"
	"github.com/cortex-orchestrator/cortex/transport"
)

// TestPushConfigs has the SDK's clients make, get, list and delete configs, in the three bindings, of Cortex and of an agent.
func TestPushConfigs(t *testing.T) {
	w := newWorld(t, true)
	url, _ := w.pushing(func(token string) (string, error) {
		if !strings.HasPrefix(token, "of-") {
			return "", errors.New("that is no token")
		}
		return "user:" + token[3:], nil
	}, plain)
	for _, binding := range bindings {
		for _, agent := range []string{"", "/agents/worker"} {
			t.Run("PUSH-CREATE-001 "+string(binding)+agent, func(t *testing.T) {
				ada, bob := w.join(binding, url+agent, "Authorization", "Bearer of-ada"), w.join(binding, url+agent, "Authorization", "Bearer of-bob")
				task := w.send(ada, said("paint "+string(binding)+agent))
				ctx := t.Context()
				want := &sdk.PushConfig{TaskID: task.ID, ID: "mine", URL: "https://example.com/hook", Token: "tok", Auth: &sdk.PushAuthInfo{Scheme: "Bearer", Credentials: "s3cret"}}
				made, err := ada.CreateTaskPushConfig(ctx, want)
				must(t, err)
				same := func(got *sdk.PushConfig, url string) {
					t.Helper()
					if got == nil || got.ID != want.ID || got.TaskID != want.TaskID || got.URL != url || got.Token != want.Token || got.Auth == nil || *got.Auth != *want.Auth {
						t.Errorf("%+v, want %+v", got, want)
					}
				}
				same(made, want.URL)
				get := func() (*sdk.PushConfig, error) {
					return ada.GetTaskPushConfig(ctx, &sdk.GetTaskPushConfigRequest{TaskID: task.ID, ID: "mine"})
				}
				got, err := get()
				must(t, err)
				same(got, want.URL)
				other := *want
				other.URL = "https://example.com/other"
				_, err = ada.CreateTaskPushConfig(ctx, &other)
				must(t, err)
				got, err = get()
				must(t, err)
				same(got, other.URL)
				unnamed, err := ada.CreateTaskPushConfig(ctx, &sdk.PushConfig{TaskID: task.ID, URL: "https://example.com/"})
				must(t, err)
				list, err := ada.ListTaskPushConfigs(ctx, &sdk.ListTaskPushConfigRequest{TaskID: task.ID})
				must(t, err)
				if len(list) != 2 || unnamed.ID == "" || list[0].ID != unnamed.ID && list[1].ID != unnamed.ID {
					t.Errorf("PUSH-LIST-001: %+v", list)
				}
				for name, of := range map[string]struct {
					c  *a2aclient.Client
					id sdk.TaskID
				}{"another's": {bob, task.ID}, "no task": {ada, "none"}} {
					_, made := of.c.CreateTaskPushConfig(ctx, &sdk.PushConfig{TaskID: of.id, ID: "mine", URL: "https://example.com/"})
					_, got := of.c.GetTaskPushConfig(ctx, &sdk.GetTaskPushConfigRequest{TaskID: of.id, ID: "mine"})
					_, listed := of.c.ListTaskPushConfigs(ctx, &sdk.ListTaskPushConfigRequest{TaskID: of.id})
					deleted := of.c.DeleteTaskPushConfig(ctx, &sdk.DeleteTaskPushConfigRequest{TaskID: of.id, ID: "mine"})
					for i, err := range []error{made, got, listed, deleted} {
						if !errors.Is(err, sdk.ErrTaskNotFound) {
							t.Errorf("%s: call %d: %v", name, i, err)
						}
					}
				}
				for range 2 {
					if err := ada.DeleteTaskPushConfig(ctx, &sdk.DeleteTaskPushConfigRequest{TaskID: task.ID, ID: "mine"}); err != nil {
						t.Errorf("PUSH-DEL-001: %v", err)
					}
				}
				if _, err := get(); !errors.Is(err, sdk.ErrTaskNotFound) {
					t.Errorf("PUSH-DEL-002: %v", err)
				}
				for i := range 9 {
					_, err := ada.CreateTaskPushConfig(ctx, &sdk.PushConfig{TaskID: task.ID, URL: "https://example.com/"})
					if refused := errors.Is(err, sdk.ErrInvalidParams); refused != (i >= 7) {
						t.Errorf("config %d: %v", i+2, err)
					}
				}
			})
		}
	}
	for name, test := range map[string]struct{ config, code string }{
		"no URL":          {`{}`, "url"},
		"no TLS":          {`{"url":"http://example.com/"}`, "TLS"},
		"private":         {`{"url":"https://10.0.0.1/"}`, "public"},
		"metadata":        {`{"url":"https://[::ffff:169.254.169.254]/"}`, "public"},
		"a user":          {`{"url":"https://a:b@example.com/"}`, "user"},
		"a header":        {`{"url":"https://example.com/","token":"a\r\nb: c"}`, "token"},
		"a long token":    {`{"url":"https://example.com/","token":"` + strings.Repeat("x", 5000) + `"}`, "token"},
		"a strange id":    {`{"url":"https://example.com/","id":"a b"}`, "id"},
		"a scheme":        {`{"url":"https://example.com/","authentication":{"scheme":"a b","credentials":"c"}}`, "scheme"},
		"credentials":     {`{"url":"https://example.com/","authentication":{"scheme":"a","credentials":"c\n"}}`, "credentials"},
		"of another task": {`{"url":"https://example.com/","taskId":"x"}`, "task"},
	} {
		t.Run(name, func(t *testing.T) {
			body := `{"message":{"messageId":"1","role":"ROLE_USER","parts":[{"text":"a"}]},"configuration":{"taskPushNotificationConfig":` + test.config + `}}`
			code, _, said := do(t, http.MethodPost, url+"/message:send", body, "Authorization", "Bearer of-ada")
			if code != http.StatusBadRequest || !strings.Contains(said, "INVALID_PARAMS") || !strings.Contains(said, test.code) {
				t.Errorf("%d %s", code, said)
			}
		})
	}
	if w.times(w.done, "a") != 0 {
		t.Error("a message was sent whose config is refused")
	}
	_, _, card := do(t, http.MethodGet, url+"/.well-known/agent-card.json", "")
	if !strings.Contains(card, `"pushNotifications":true`) {
		t.Errorf("the card: %s", card)
	}
}

// TestPushJSON makes the four calls by JSON-RPC and checks each answer strictly; keys may be in snake_case.
func TestPushJSON(t *testing.T) {
	w := newWorld(t, false)
	url, _ := w.pushing(nil, plain)
	task := w.send(w.join(sdk.TransportProtocolJSONRPC, url), said("paint"))
	id := `"` + string(task.ID) + `"`
	for _, test := range []struct {
		method, params string
		want           int
	}{
		{"CreateTaskPushNotificationConfig", `{"task_id":` + id + `,"id":"b","url":"https://example.com/","token":"t"}`, 0},
		{"CreateTaskPushNotificationConfig", `{"taskId":` + id + `,"id":"a","url":"https://example.com/","authentication":{"scheme":"Bearer"}}`, 0},
		{"GetTaskPushNotificationConfig", `{"task_id":` + id + `,"id":"a"}`, 0},
		{"GetTaskPushNotificationConfig", `{"taskId":` + id + `,"id":"c"}`, -32001},
	} {
		result, code, _ := rpc(t, url, test.method, test.params)
		if code != test.want {
			t.Errorf("%s: %d", test.method, code)
		} else if code == 0 {
			strict(t, result, &a2apb.TaskPushNotificationConfig{})
		}
	}
	var ids []string
	for token := ""; ; {
		result, code, _ := rpc(t, url, "ListTaskPushNotificationConfigs", `{"taskId":`+id+`,"pageSize":1,"pageToken":"`+token+`"}`)
		var page a2apb.ListTaskPushNotificationConfigsResponse
		if code != 0 {
			t.Fatal(code)
		}
		strict(t, result, &page)
		for _, c := range page.GetConfigs() {
			ids = append(ids, c.GetId())
		}
		if token = page.GetNextPageToken(); token == "" {
			break
		}
	}
	if strings.Join(ids, " ") != "a b" {
		t.Errorf("%q", ids)
	}
	if _, code, _ := rpc(t, url, "ListTaskPushNotificationConfigs", `{"taskId":`+id+`,"pageSize":101}`); code != -32602 {
		t.Errorf("a large page: %d", code)
	}
	other := w.send(w.join(sdk.TransportProtocolJSONRPC, url), said("paint"))
	if result, code, _ := rpc(t, url, "ListTaskPushNotificationConfigs", `{"taskId":"`+string(other.ID)+`"}`); code != 0 || string(result) != `{"configs":[]}` {
		t.Errorf("a list of none: %d %s", code, result)
	}
}

// TestPushMost has somebody who has as many configs as one may have; another person can make one.
func TestPushMost(t *testing.T) {
	w := newWorld(t, true)
	var all []string
	for i := range 512 {
		all = append(all, `{"id":"`+strconv.Itoa(i)+`","url":"https://example.com/"}`)
	}
	value := []byte(`{"user":"user:ada","task":"x","targets":[` + strings.Join(all, ",") + `]}`)
	_, err := w.store.PutNote(t.Context(), "", storage.NotePush, storage.Note{Key: "a2a-x.y", Value: value})
	must(t, err)
	url := w.serve(w.doorWith(func(c *a2a.Config) { c.Push = &a2a.Push{} }), func(token string) (string, error) { return "user:" + token, nil })
	for who, refused := range map[string]bool{"ada": true, "bob": false} {
		c := w.join(sdk.TransportProtocolJSONRPC, url, "Authorization", "Bearer "+who)
		task := w.send(c, said("paint"))
		_, err := c.CreateTaskPushConfig(t.Context(), &sdk.PushConfig{TaskID: task.ID, URL: "https://example.com/"})
		if (err != nil) != refused || refused && !strings.Contains(err.Error(), "512 push notification configs of yours") {
			t.Errorf("%s: %v", who, err)
		}
	}
}

// Nothing is pushed any more for whoever has been revoked, and the configs go; those of others stay.
func TestPushOfRevoked(t *testing.T) {
	w := newWorld(t, true)
	revoked := atomic.Bool{}
	url, _ := w.pushing(func(token string) (string, error) { return "user:" + token, nil }, func(c *a2a.Config) {
		c.Push.Key = func(token string) string { return "key of " + token }
		c.Push.Holds = func(key string, then time.Time) bool {
			return !then.IsZero() && (key == "key of bob" || key == "key of ada" && !revoked.Load())
		}
	})
	receiver := newReceiver(t)
	for _, binding := range bindings {
		for _, who := range []string{"ada", "bob"} {
			w.send(w.join(binding, url, "Authorization", "Bearer "+who), pushTo(atOnce(said("slow "+string(binding)+" "+who)), receiver.url+"/"+who+"/"+string(binding)))
			w.until("it works", func() bool { return len(receiver.all("/"+who+"/"+string(binding))) > 0 })
		}
	}
	revoked.Store(true)
	before := map[string]int{}
	for _, binding := range bindings {
		before[string(binding)] = len(receiver.all("/ada/" + string(binding)))
	}
	close(w.gate)
	kept := func() (n int) {
		for note, err := range w.store.Notes(t.Context(), "", storage.NotePush) {
			must(t, err)
			n += strings.Count(string(note.Value), "key of ada")
		}
		return n
	}
	w.until("the configs of who was revoked go", func() bool { return kept() == 0 })
	for _, binding := range bindings {
		w.until("bob is told", func() bool { return strings.Contains(receiver.words("/bob/"+string(binding)), "completed") })
		if n := len(receiver.all("/ada/" + string(binding))); n != before[string(binding)] {
			t.Errorf("%s: who was revoked was told: %s", binding, receiver.words("/ada/"+string(binding)))
		}
	}
}

// TestPushOfRefused sends messages with push notification configs that say nothing, or for which Cortex has no room: nothing of them is stored, and what was
// there before stays.
func TestPushOfRefused(t *testing.T) {
	w := newWorld(t, false)
	store := &putting{Store: w.store}
	var full atomic.Bool
	url := w.serve(w.doorWith(func(c *a2a.Config) {
		c.Push, c.Store = &a2a.Push{Hosts: []string{"127.0.0.1"}}, store
		c.Client.Admit = func(string, int) error {
			if full.Load() {
				return transport.ErrFull
			}
			return nil
		}
	}), nil)
	c := w.join(sdk.TransportProtocolJSONRPC, url)
	asks := w.send(c, pushTo(said("danger one"), "http://127.0.0.1:1/"))
	if n := store.puts.Load(); n != 1 {
		t.Fatalf("%d notes were stored, want 1", n)
	}
	for name, r := range map[string]*sdk.SendMessageRequest{"waits": pushTo(said(" "), "http://127.0.0.1:1/"), "at once": pushTo(atOnce(said("\n")), "http://127.0.0.1:1/")} {
		if _, err := c.SendMessage(t.Context(), r); !errors.Is(err, sdk.ErrInvalidParams) {
			t.Errorf("blank, %s: %v, want ErrInvalidParams", name, err)
		}
	}
	full.Store(true)
	for name, r := range map[string]*sdk.SendMessageRequest{
		"waits": pushTo(said("one"), "http://127.0.0.1:1/"), "at once": pushTo(atOnce(said("two")), "http://127.0.0.1:1/"), "same": pushTo(in(said("three"), "", asks.ID), "http://127.0.0.1:1/"),
	} {
		if _, err := c.SendMessage(t.Context(), r); !errors.Is(err, sdk.ErrServerError) {
			t.Errorf("%s: %v, want ErrServerError", name, err)
		}
		for _, err := range c.SendStreamingMessage(t.Context(), r) {
			if !errors.Is(err, sdk.ErrServerError) {
				t.Errorf("%s, streamed: %v, want ErrServerError", name, err)
			}
		}
	}
	if n := store.puts.Load(); n != 1 {
		t.Errorf("%d notes were stored for messages that were refused", n-1)
	}
	if n := w.notes(); n != 1 {
		t.Errorf("%d notes are left, want that of before", n)
	}
}

// putting is a store that counts the notes of push notification configs that are put.
type putting struct {
	*memstore.Store
	puts atomic.Int64
}

// PutNote implements storage.Notes.
func (s *putting) PutNote(ctx context.Context, tenant, kind string, n storage.Note) (conversation.Version, error) {
	if kind == storage.NotePush {
		s.puts.Add(1)
	}
	return s.Store.PutNote(ctx, tenant, kind, n)
}

// TestPushEmpty has notes without configs in the store, of an older version: they are removed, and a task whose last config is deleted leaves none.
func TestPushEmpty(t *testing.T) {
	w := newWorld(t, false)
	for key, value := range map[string]string{"a2a-x.y": `{"user":"user","task":"x","targets":[],"changed":"` + time.Now().UTC().Format(time.RFC3339) + `"}`, "a2a-x.z": `?`} {
		_, err := w.store.PutNote(t.Context(), "", storage.NotePush, storage.Note{Key: key, Value: []byte(value)})
		must(t, err)
	}
	url, _ := w.pushing(nil, plain)
	w.until("they are removed", func() bool { return w.notes() == 0 })
	c := w.join(sdk.TransportProtocolJSONRPC, url)
	task := w.send(c, said("paint"))
	made, err := c.CreateTaskPushConfig(t.Context(), &sdk.PushConfig{TaskID: task.ID, URL: "https://example.com/"})
	must(t, err)
	must(t, c.DeleteTaskPushConfig(t.Context(), &sdk.DeleteTaskPushConfigRequest{TaskID: task.ID, ID: made.ID}))
	if n := w.notes(); n != 0 {
		t.Errorf("%d notes are left of a task without configs", n)
	}
}
