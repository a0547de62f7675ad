package middleware_test

import (
	"context"
	"errors"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"

	"github.com/cortex-orchestrator/cortex/llm"
	"github.com/cortex-orchestrator/cortex/llm/llmtest"
	"github.com/cortex-orchestrator/cortex/llm/middleware"
)

// meter notes what it is told.
type meter struct {
	calls []middleware.Call
	told  []string
}

func (m *meter) Called(c middleware.Call) { m.calls = append(m.calls, c) }
func (m *meter) Retried(e middleware.Endpoint, err error) {
	m.told = append(m.told, "retried "+e.Model+": "+err.Error())
}

func (m *meter) FellBack(e middleware.Endpoint, err error) {
	m.told = append(m.told, "fell back "+e.Model+": "+err.Error())
}

// slow answers after a second with a thought, and after two more with text.
func slow(ctx context.Context, yield func(llm.Chunk, error) bool) {
	<-time.After(time.Second)
	if !yield(llm.Chunk{}, nil) {
		return
	}
	<-time.After(2 * time.Second)
	if ctx.Err() != nil {
		yield(llm.Chunk{}, ctx.Err())
		return
	}
	_ = yield(llm.Chunk{Text: "yes"}, nil) && yield(llm.Chunk{Done: true}, nil)
}

func TestMetered(t *testing.T) {
	of := middleware.Endpoint{Provider: "vendor", Model: "m"}
	for name, tt := range map[string]struct {
		client llm.Client
		limit  time.Duration // of the call
		leave  bool          // after the first chunk
		want   middleware.Call
	}{
		"answered":      {client: yielding(slow), want: middleware.Call{First: time.Second, Took: 3 * time.Second}},
		"left":          {client: yielding(slow), leave: true, want: middleware.Call{First: time.Second, Took: time.Second}},
		"canceled":      {client: yielding(slow), limit: 2 * time.Second, want: middleware.Call{First: time.Second, Took: 3 * time.Second, Err: context.DeadlineExceeded}},
		"failed":        {client: llmtest.Script(llmtest.Fail(llm.ErrQuota)), want: middleware.Call{Err: llm.ErrQuota}},
		"without a end": {client: llmtest.Script(llmtest.Answer{Text: "half", Cut: true}), want: middleware.Call{First: 1, Err: llm.ErrTruncated}},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				m := &meter{}
				ctx := t.Context()
				if tt.limit > 0 {
					limited, cancel := context.WithTimeout(ctx, tt.limit)
					defer cancel()
					ctx = limited
				}
				r := &llm.Request{System: "12", Schema: []byte("{}"), Messages: []llm.Message{llm.User("34"), llm.Assistant("567"), {Parts: []llm.Part{{Image: &llm.Image{Data: []byte("x")}}}}}}
				for range middleware.Metered(tt.client, of, m).Generate(ctx, r) {
					if tt.leave {
						break
					}
				}
				tt.want.Endpoint, tt.want.Prompt = of, 9
				if diff := cmp.Diff([]middleware.Call{tt.want}, m.calls, cmpopts.EquateErrors()); diff != "" {
					t.Errorf("calls (-want +got):\n%s", diff)
				}
			})
		})
	}
}

func TestMeteredByNobody(t *testing.T) {
	c := llmtest.Script()
	if got := middleware.Metered(c, middleware.Endpoint{}, nil); got != llm.Client(c) {
		t.Errorf("Metered without a meter = %v, want the client itself", got)
	}
}

// TestMeterOfAttempts checks that retries and fallbacks are told.
func TestMeterOfAttempts(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		m := &meter{}
		first, second := middleware.Endpoint{Model: "first"}, middleware.Endpoint{Model: "second"}
		busy, broken := failure(llm.ErrRateLimited), errors.New("broken")
		c := middleware.Fallback([]middleware.Named{
			{
				Name: "a", Client: middleware.Retry(llmtest.Script(llmtest.Fail(busy), llmtest.Fail(broken)), &middleware.RetryOptions{
					OnRetry: func(err error) { m.Retried(first, err) },
				}),
				OnNext: func(err error) { m.FellBack(first, err) },
			},
			{Name: "b", Client: llmtest.Script(llmtest.Text("yes")), OnNext: func(err error) { m.FellBack(second, err) }},
		}, nil)
		if g := call(t, t.Context(), c); g.Text != "yes" {
			t.Errorf("got %+v", g)
		}
		want := []string{"retried first: test: rate limited", "fell back first: after 2 attempts: broken"}
		if diff := cmp.Diff(want, m.told); diff != "" {
			t.Errorf("told (-want +got):\n%s", diff)
		}
	})
}
