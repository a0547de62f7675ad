package bench

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net"
	"net/http"
	"strconv"
	"strings"
	"sync"
	"time"
)

// chunkEvery is the interval of a model's chunks: fifty a second.
const chunkEvery = 20 * time.Millisecond

// The model finds what it is asked in a prompt by these marks.
const questionBegins, questionEnds = "bench-question ", " question-ends"

// question is what a user asks a Model: to answer with the id and this many chunks, after an agent had the task.
func question(id string, chunks int) string {
	return fmt.Sprintf("%s%s %d%s", questionBegins, id, chunks, questionEnds)
}

// Model serves a model with the protocol of OpenAI at l until ctx ends. It gives the agent agent_echo a task for each question, and then answers. It streams
// both, in chunks that come every chunkEvery. The chunks of an answer tell when they were sent, in microseconds.
func Model(ctx context.Context, l net.Listener) error {
	m := &model{asked: map[string]bool{}}
	s := &http.Server{Handler: m, ReadHeaderTimeout: startTimeout}
	defer context.AfterFunc(ctx, func() { s.Close() })() //nolint:errcheck // it was only read
	if err := s.Serve(l); ctx.Err() == nil {
		return err
	}
	return nil
}

type model struct {
	mu    sync.Mutex
	asked map[string]bool
}

// ServeHTTP implements [http.Handler].
func (m *model) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	body, err := io.ReadAll(io.LimitReader(r.Body, 4<<20))
	text := string(body)
	at := max(0, strings.LastIndex(text, questionBegins))
	text, _, _ = strings.Cut(strings.TrimPrefix(text[at:], questionBegins), questionEnds)
	id, number, ok := strings.Cut(text, " ")
	chunks, cerr := strconv.Atoi(number)
	if err != nil || cerr != nil || !ok || chunks < 2 {
		http.Error(w, `{"error":{"message":"there is no question of a bench in it"}}`, http.StatusBadRequest)
		return
	}
	m.mu.Lock()
	again := m.asked[id]
	m.asked[id] = true
	m.mu.Unlock()
	w.Header().Set("Content-Type", "text/event-stream")
	tick := time.NewTicker(chunkEvery)
	defer tick.Stop()
	delegation := fmt.Sprintf(`{"kind":"delegate","say":"","delegations":[{"id":"1","agent":"agent_echo","task":%q}]}`, "say "+id)
	if !again {
		chunks = shortAnswer
	}
	for i := range chunks {
		var piece string
		switch {
		case !again:
			piece = delegation[len(delegation)*i/chunks : len(delegation)*(i+1)/chunks]
		case i == 0:
			piece = fmt.Sprintf(`{"kind":"respond","say":"%s %d`, id, time.Now().UnixMicro())
		case i < chunks-1:
			piece = fmt.Sprintf(` %d`, time.Now().UnixMicro())
		default:
			piece = `"}`
		}
		if send(w, map[string]any{"choices": []any{map[string]any{"index": 0, "delta": map[string]any{"content": piece}}}}) != nil {
			return
		}
		select {
		case <-tick.C:
		case <-r.Context().Done():
			return
		}
	}
	_ = send(w, map[string]any{
		"choices": []any{map[string]any{"index": 0, "delta": map[string]any{}, "finish_reason": "stop"}},
		"usage":   map[string]any{"prompt_tokens": len(body) / 4, "completion_tokens": chunks, "total_tokens": len(body)/4 + chunks},
	})
	io.WriteString(w, "data: [DONE]\n\n") //nolint:errcheck // whoever asked is gone then
}

// send sends a chunk at once, with the fields that the vendors' endpoints have.
func send(w http.ResponseWriter, chunk map[string]any) error {
	chunk["id"], chunk["object"], chunk["created"], chunk["model"] = "chatcmpl-0123456789", "chat.completion.chunk", 1795170000, "bench"
	b, err := json.Marshal(chunk)
	if err == nil {
		_, err = fmt.Fprintf(w, "data: %s\n\n", b)
	}
	if err == nil {
		err = http.NewResponseController(w).Flush()
	}
	return err
}
