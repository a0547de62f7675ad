package llm_test

import (
	"bufio"
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"iter"
	"net/http"
	"net/http/httptest"
	"strings"
	"time"

	"github.com/a2aproject/a2a-go/v2/a2a"

	"github.com/cortex-orchestrator/cortex/llm"
	"github.com/cortex-orchestrator/cortex/prompt"
)

// jsonLines is a complete provider. Its endpoint takes a JSON object, and answers with one on each line: pieces of text,
// and at the end what they cost.
type jsonLines struct{ url, key, model string }

func (c *jsonLines) Generate(ctx context.Context, r *llm.Request) iter.Seq2[llm.Chunk, error] {
	return func(yield func(llm.Chunk, error) bool) {
		fail := func(e *llm.Error) { // when ctx has ended, that is the reason; and no error shows the key
			e.Provider, e.Model, e.Err = "lines", c.model, cmp.Or(ctx.Err(), e.Err)
			yield(llm.Chunk{}, e.Redact(c.key))
		}
		body, _ := json.Marshal(map[string]any{"model": c.model, "system": r.System, "messages": r.Messages, "schema": r.Schema, "temperature": r.Temperature})
		req, _ := http.NewRequestWithContext(ctx, http.MethodPost, c.url, bytes.NewReader(body))
		req.Header.Set("Authorization", "Bearer "+c.key)
		resp, err := http.DefaultClient.Do(req)
		if err != nil {
			fail(&llm.Error{Kind: llm.ErrUnavailable, Err: err})
			return
		}
		defer resp.Body.Close()
		if resp.StatusCode != http.StatusOK {
			said, _ := io.ReadAll(io.LimitReader(resp.Body, 4<<10))
			fail(&llm.Error{Kind: llm.KindOfStatus(resp.StatusCode), Status: resp.StatusCode, Message: string(said), RetryAfter: llm.RetryAfter(resp.Header, time.Now())})
			return
		}
		lines := bufio.NewScanner(io.LimitReader(resp.Body, 16<<20)) // of at most 64 KiB each
		for lines.Scan() {
			chunk := llm.Chunk{Model: c.model} // the lines are like it: text, done, usage
			if json.Unmarshal(lines.Bytes(), &chunk) != nil {
				break
			}
			if !yield(chunk, nil) || chunk.Done {
				return
			}
		}
		fail(&llm.Error{Kind: llm.ErrTruncated, Err: lines.Err()})
	}
}

// A provider is one method.
func ExampleClient() {
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.Header.Get("Authorization") != "Bearer secret" {
			http.Error(w, "I do not know the "+r.Header.Get("Authorization"), http.StatusUnauthorized)
			return
		}
		fmt.Fprintln(w, `{"text": "{\"kind\": \"respond\", \"say\": \"Hello, "}`)
		fmt.Fprintln(w, `{"text": "world.\", \"delegations\": [], \"reason\": \"greeting\"}"}`)
		fmt.Fprintln(w, `{"done": true, "usage": {"input": 700, "output": 20}}`)
	}))
	defer server.Close()
	tmpl, err := prompt.New("")
	if err != nil {
		panic(err)
	}
	t := &llm.Turn{ContextID: "c1", Input: prompt.Input{User: "hi"}}

	decider := llm.NewDecider(&jsonLines{server.URL, "secret", "m1"}, tmpl, nil)
	d, err := decider.Decide(context.Background(), t, func(text string) { fmt.Printf("[%s]", text) })
	fmt.Println("", d.Kind, d.Model, d.Usage.Tokens(), err)

	_, err = llm.NewDecider(&jsonLines{server.URL, "guess", "m1"}, tmpl, nil).Decide(context.Background(), t, nil)
	fmt.Println(err)
	fmt.Println(errors.Is(err, llm.ErrAuth))
	// Output:
	// [Hello, ][world.] respond m1 720 <nil>
	// ask the model: lines m1: not authorized (401): I do not know the Bearer [secret]
	// true
}

// parrot stands for a model: it gives all its work to agent_echo, when that is there.
type parrot struct{}

func (parrot) Generate(ctx context.Context, r *llm.Request) iter.Seq2[llm.Chunk, error] {
	return func(yield func(llm.Chunk, error) bool) {
		reply := `{"kind":"respond","say":"I know nothing.","delegations":[],"reason":"no agent"}`
		if strings.Contains(r.System, "agent_echo") {
			reply = `{"kind":"delegate","say":null,"delegations":[{"id":"a","agent":"agent_echo","task":"hi"}],"reason":"asked"}`
		}
		for _, word := range strings.SplitAfter(reply, " ") {
			if ctx.Err() != nil {
				yield(llm.Chunk{}, ctx.Err())
				return
			}
			if !yield(llm.Chunk{Text: word}, nil) {
				return
			}
		}
		yield(llm.Chunk{Done: true, Model: "parrot-1", Usage: llm.Usage{Input: len(r.System), Output: len(reply)}}, nil)
	}
}

// NewDecider makes a decider of a client. What it decides depends on the agents that are there.
func ExampleNewDecider() {
	tmpl, err := prompt.New("")
	if err != nil {
		panic(err)
	}
	decider := llm.NewDecider(parrot{}, tmpl, nil)
	t := &llm.Turn{ContextID: "c1", Input: prompt.Input{User: "say hi"}}
	show := func(text string) { fmt.Printf("[%s]", text) }

	d, err := decider.Decide(context.Background(), t, show)
	fmt.Println("", d.Kind, d.Model, err)

	t.Agents = []prompt.Agent{{ID: "agent_echo", Card: &a2a.AgentCard{Name: "agent_echo"}, Seen: true}}
	d, err = decider.Decide(context.Background(), t, show)
	fmt.Println(d.Kind, d.Delegations[0].Agent, d.Delegations[0].Task, err)
	// Output:
	// [I ][know ][nothing.] respond parrot-1 <nil>
	// delegate agent_echo hi <nil>
}
