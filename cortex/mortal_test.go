package cortex_test

import (
	"context"
	"iter"
	"sync/atomic"

	"github.com/cortex-orchestrator/cortex/cortex"
	"github.com/cortex-orchestrator/cortex/cortex/conversation"
	"github.com/cortex-orchestrator/cortex/cortex/storage"
	"github.com/cortex-orchestrator/cortex/llm"
	"github.com/cortex-orchestrator/cortex/transport"
)

// mortal counts the steps of an orchestrator and ends it at one of them. The steps are before and after each of its effects on the
// world, and before it acknowledges an event.
type mortal struct {
	dieAt int64 // 0: never
	die   func() error
	steps atomic.Int64
}

// step returns nil, or, from the fatal step on, the result of die. In a process that is really killed it does not return.
func (m *mortal) step() error {
	if n := m.steps.Add(1); m.dieAt > 0 && n >= m.dieAt {
		return m.die()
	}
	return nil
}

// around runs f between two steps.
func (m *mortal) around(f func() error) error {
	if err := m.step(); err != nil {
		return err
	}
	if err := f(); err != nil {
		return err
	}
	return m.step()
}

type mortalTransport struct {
	transport.Transport
	*mortal
}

func (t mortalTransport) Publish(ctx context.Context, topic transport.Topic, e *transport.Event) error {
	return t.around(func() error { return t.Transport.Publish(ctx, topic, e) })
}

func (t mortalTransport) Subscribe(ctx context.Context, topic transport.Topic, o *transport.SubscribeOptions) (transport.Subscription, error) {
	sub, err := t.Transport.Subscribe(ctx, topic, o)
	return mortalSubscription{sub, t.mortal}, err
}

// Withdraw makes mortalTransport a transport.Withdrawer.
func (t mortalTransport) Withdraw(ctx context.Context, topic transport.Topic, contextID, from, id string) error {
	w, ok := t.Transport.(transport.Withdrawer)
	if !ok {
		return nil
	}
	return t.around(func() error { return w.Withdraw(ctx, topic, contextID, from, id) })
}

type mortalSubscription struct {
	transport.Subscription
	*mortal
}

func (s mortalSubscription) Serve(ctx context.Context, h transport.Handler) error {
	return s.Subscription.Serve(ctx, func(ctx context.Context, e *transport.Event) error {
		return s.around(func() error { return h(ctx, e) })
	})
}

type mortalStore struct {
	storage.Store
	*mortal
}

func (s mortalStore) Append(ctx context.Context, tenant, contextID string, after conversation.Version, e *conversation.Entry) (v conversation.Version, err error) {
	err = s.around(func() error {
		v, err = s.Store.Append(ctx, tenant, contextID, after, e)
		return err
	})
	return v, err
}

func (s mortalStore) Load(ctx context.Context, tenant, contextID string, after conversation.Version) iter.Seq2[*conversation.Entry, error] {
	return func(yield func(*conversation.Entry, error) bool) {
		if err := s.step(); err != nil {
			yield(nil, err)
			return
		}
		for e, err := range s.Store.Load(ctx, tenant, contextID, after) {
			if !yield(e, err) {
				return
			}
		}
		if err := s.step(); err != nil {
			yield(nil, err)
		}
	}
}

// Spent and Spend make mortalStore a storage.SpendLog, like the stores of this project.
func (s mortalStore) Spent(ctx context.Context, tenant, day string) (u llm.Usage, err error) {
	err = s.around(func() error {
		u, err = s.Store.(storage.SpendLog).Spent(ctx, tenant, day)
		return err
	})
	return u, err
}

func (s mortalStore) Spend(ctx context.Context, tenant, day string, u llm.Usage) (sum llm.Usage, err error) {
	err = s.around(func() error {
		sum, err = s.Store.(storage.SpendLog).Spend(ctx, tenant, day, u)
		return err
	})
	return sum, err
}

type mortalDecider struct {
	llm.Decider
	*mortal
}

func (d mortalDecider) Decide(ctx context.Context, t *llm.Turn, stream func(string)) (dec *llm.Decision, err error) {
	err = d.around(func() error {
		dec, err = d.Decider.Decide(ctx, t, stream)
		return err
	})
	return dec, err
}

type mortalCompactor struct {
	mortalDecider
	compactor llm.Compactor
}

func (c mortalCompactor) Compact(ctx context.Context, t *llm.Turn, force bool) (s *llm.Summary, err error) {
	err = c.around(func() error {
		s, err = c.compactor.Compact(ctx, t, force)
		return err
	})
	return s, err
}

// mortalConfig returns cfg with m counting all steps of the orchestrator. It has a limit for the day, so that the spend log
// is written before the log.
func mortalConfig(cfg cortex.Config, m *mortal) cortex.Config {
	cfg.Budget.Day.Tokens = 1 << 40
	cfg.Transport = mortalTransport{cfg.Transport, m}
	cfg.Store = mortalStore{cfg.Store, m}
	d := mortalDecider{cfg.Decider, m}
	if c, ok := cfg.Decider.(llm.Compactor); ok {
		cfg.Decider = mortalCompactor{d, c}
	} else {
		cfg.Decider = d
	}
	return cfg
}
