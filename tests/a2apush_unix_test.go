//go:build unix

package tests

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"math/rand/v2"
	"net/http"
	"net/http/httptest"
	"os"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/a2aproject/a2a-go/v2/a2a"
)

// pushes are the notifications that a receiver has taken, by path.
type pushes struct {
	mu   sync.Mutex
	down bool
	of   map[string][]string // what it was told, without what it was told before
	seen map[string]bool     // ids
	more int                 // what it was told again
}

func (p *pushes) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	body, err := io.ReadAll(r.Body)
	var said a2a.StreamResponse
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.down || err != nil || json.Unmarshal(body, &said) != nil {
		w.WriteHeader(http.StatusServiceUnavailable)
		return
	}
	id := r.Header.Get("Idempotency-Key")
	if p.seen[id] {
		p.more++
		return
	}
	p.seen[id] = true
	switch e := said.Event.(type) {
	case *a2a.TaskStatusUpdateEvent:
		p.of[r.URL.Path] = append(p.of[r.URL.Path], string(e.Status.State))
	case *a2a.TaskArtifactUpdateEvent:
		p.of[r.URL.Path] = append(p.of[r.URL.Path], string(e.Artifact.ID))
	}
}

func (p *pushes) told(path string) []string {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.of[path]
}

func newPushes(t *testing.T) (*pushes, string) {
	p := &pushes{of: map[string][]string{}, seen: map[string]bool{}}
	s := httptest.NewServer(p)
	t.Cleanup(s.Close)
	return p, s.URL
}

// pushed returns a message that does not wait, and asks to be told at a URL.
func pushed(text, url string) *a2a.SendMessageRequest {
	r := words(text)
	r.Config = &a2a.SendMessageConfig{ReturnImmediately: true, PushConfig: &a2a.PushConfig{URL: url}}
	return r
}

// TestA2APushKilled kills Cortex when tasks are over and nobody was told: after its start, the receiver is told everything, in order.
func TestA2APushKilled(t *testing.T) {
	m := newMortal(t)
	ctx, cancel := context.WithTimeout(t.Context(), 2*time.Minute)
	defer cancel()
	p, url := newPushes(t)
	p.down = true
	for i := range 4 {
		text := fmt.Sprint("push", i)
		c := m.join(ctx, []a2a.TransportProtocol{a2a.TransportProtocolJSONRPC, a2a.TransportProtocolHTTPJSON}[i%2], text)
		if _, err := c.SendMessage(ctx, pushed(text, url+"/"+text)); err != nil {
			t.Fatal(err)
		}
	}
	m.eventually("the agent is at work", func() bool { return len(m.lines()) == 4 })
	writeFile(t, m.gate, "")
	c := m.join(ctx, a2a.TransportProtocolJSONRPC, "list")
	m.eventually("the tasks are over", func() bool {
		list, err := c.ListTasks(ctx, &a2a.ListTasksRequest{Status: a2a.TaskStateCompleted})
		return err == nil && list.TotalSize == 4
	})
	m.cortex()
	p.mu.Lock()
	p.down = false
	p.mu.Unlock()
	m.serve()
	for i := range 4 {
		path := fmt.Sprint("/push", i)
		m.eventually("the receiver is told", func() bool {
			all := p.told(path)
			return len(all) > 0 && all[len(all)-1] == string(a2a.TaskStateCompleted)
		})
		if all := p.told(path); all[0] != string(a2a.TaskStateWorking) || len(all) < 3 {
			t.Errorf("%s: %v", path, all)
		}
	}
}

// TestA2APushKillLoop kills Cortex at random while clients ask to be told, and their receiver is down now and then. None is told too little, or in
// another order. A2A_KILLS is the number of kills.
func TestA2APushKillLoop(t *testing.T) {
	kills := a2aKills
	if text := os.Getenv("A2A_KILLS"); text != "" {
		var err error
		if kills, err = strconv.Atoi(text); err != nil {
			t.Fatalf("A2A_KILLS: %v", err)
		}
	}
	m := newMortal(t)
	writeFile(t, m.gate, "")
	ctx, cancel := context.WithTimeout(t.Context(), 2*time.Minute+time.Duration(kills)*5*time.Second)
	defer cancel()
	p, url := newPushes(t)
	stop := make(chan struct{})
	var clients sync.WaitGroup
	var mu sync.Mutex
	sent := map[string]a2a.TaskID{} // by path
	for worker := range 3 {
		clients.Go(func() {
			for n := 0; ctx.Err() == nil; n++ {
				select {
				case <-stop:
					return
				case <-time.After(20 * time.Millisecond):
				}
				text := fmt.Sprintf("%d-%d", worker, n)
				c := m.join(ctx, []a2a.TransportProtocol{a2a.TransportProtocolJSONRPC, a2a.TransportProtocolHTTPJSON}[worker%2], text)
				for ctx.Err() == nil {
					if got, err := c.SendMessage(ctx, pushed(text, url+"/"+text)); err == nil {
						mu.Lock()
						sent["/"+text] = got.(*a2a.Task).ID
						mu.Unlock()
						break
					}
					<-time.After(20 * time.Millisecond)
				}
			}
		})
	}
	for n := range kills {
		<-time.After(time.Duration(rand.IntN(1500)) * time.Millisecond)
		p.mu.Lock()
		p.down = n%3 == 1
		p.mu.Unlock()
		m.cortex()
		m.serve()
	}
	close(stop)
	clients.Wait()
	p.mu.Lock()
	p.down = false
	p.mu.Unlock()
	c := m.join(ctx, a2a.TransportProtocolJSONRPC, "get")
	for path, id := range sent {
		task := toEnd(ctx, c, id)
		if task == nil {
			t.Fatalf("%s is not answered", path)
		}
		want := string(task.Status.State)
		for end := time.Now().Add(time.Minute); !strings.HasSuffix(strings.Join(p.told(path), " "), want); <-time.After(50 * time.Millisecond) {
			if time.Now().After(end) {
				t.Fatalf("%s is %s, and its client was told %v", path, want, p.told(path))
			}
		}
		all := p.told(path)
		if all[0] != string(a2a.TaskStateWorking) || task.Status.State == a2a.TaskStateCompleted && all[len(all)-2] != "answer" {
			t.Errorf("%s: %v", path, all)
		}
	}
	t.Logf("%d kills, %d tasks, %d notifications taken, and %d of them twice", kills, len(sent), len(p.seen), p.more)
}
