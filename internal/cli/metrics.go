package cli

import (
	"context"
	"errors"
	"net/http"
	"strings"
	"time"

	bridgekit "github.com/cortex-orchestrator/cortex/bridge/kit"
	"github.com/cortex-orchestrator/cortex/cortex"
	"github.com/cortex-orchestrator/cortex/cortex/registry"
	"github.com/cortex-orchestrator/cortex/internal/metrics"
	"github.com/cortex-orchestrator/cortex/llm"
	"github.com/cortex-orchestrator/cortex/transport"
	"github.com/cortex-orchestrator/cortex/transport/nats/auth"
)

// newMetrics returns the metrics of a service. running returns its node, nil until it is ready.
func (e *env) newMetrics(running func() *node, owned *ownership) *metrics.Metrics {
	m := metrics.New(buildVersion())
	var left func(context.Context) (float64, error)
	if e.settings.budget.Day != (llm.Budget{}) {
		left = func(ctx context.Context) (float64, error) {
			n := running()
			if n == nil {
				return 0, errUnknown
			}
			left, _, err := n.orchestrator.BudgetLeft(ctx)
			return left, err
		}
	}
	m.Watch(metrics.Process{
		Stats: func() cortex.Stats {
			if n := running(); n != nil {
				return n.orchestrator.Stats()
			}
			return cortex.Stats{}
		},
		Owned: func() []int {
			if n := running(); n != nil {
				return n.orchestrator.Owned()
			}
			return nil
		},
		Deciding: func() (deciding, waiting int) {
			if n := running(); n != nil {
				return n.orchestrator.Deciding()
			}
			return 0, 0
		},
		Inbox:      func(ctx context.Context) (int, time.Time, error) { return running().inbox(ctx) },
		Dead:       func(ctx context.Context) (int, error) { return running().dead(ctx) },
		BudgetLeft: left,
		Events:     agentEventKinds(),
		Ready:      func() bool { return running() != nil && owned.lost(time.Now()) == nil },
		Instances: func() (instances int) {
			if n := running(); n != nil {
				for _, r := range n.Registry.Snapshot().Agents() {
					instances += len(r.Instances)
				}
			}
			return instances
		},
		Agents: func() map[string]int {
			count := map[string]int{}
			for _, state := range []registry.State{registry.StateUnknown, registry.StateActive, registry.StateDraining, registry.StateRefused} {
				count[string(state)] = 0
			}
			if n := running(); n != nil {
				for _, r := range n.Registry.Snapshot().Agents() {
					if _, ok := count[string(r.State)]; ok {
						count[string(r.State)]++
					}
				}
			}
			return count
		},
	})
	return m
}

// agentEventKinds returns the kinds of events of agents.
func agentEventKinds() (kinds []string) {
	for _, k := range []registry.EventKind{
		registry.EventRegistered, registry.EventUpdated, registry.EventCapabilities, registry.EventSeen, registry.EventDraining, registry.EventJoined,
		registry.EventLeft, registry.EventDeregistered, registry.EventConflict, registry.EventRefused,
	} {
		kinds = append(kinds, string(k))
	}
	return kinds
}

// errUnknown is why a number of a node is not known.
var errUnknown = errors.New("it is not known")

// inbox returns how many events wait for Cortex, and when the oldest was sent, zero if that is unknown. n may be nil.
func (n *node) inbox(ctx context.Context) (waiting int, oldest time.Time, err error) {
	if n == nil {
		return 0, time.Time{}, errUnknown
	}
	inbox := transport.Inbox(n.tenant, transport.Cortex)
	if age, ok := n.bus.(transport.InboxAge); ok {
		return age.Age(ctx, inbox)
	}
	depth, ok := n.bus.(transport.InboxDepth)
	if !ok {
		return 0, time.Time{}, errUnknown
	}
	waiting, err = depth.Waiting(ctx, inbox)
	return waiting, time.Time{}, err
}

// maxDeadCounted bounds the dead letters that are counted: counting reads them.
const maxDeadCounted = 1000

// dead returns how many dead letters there are, up to maxDeadCounted. n may be nil.
func (n *node) dead(ctx context.Context) (count int, err error) {
	if n == nil {
		return 0, errUnknown
	}
	letters, err := n.deadLetters()
	if err != nil {
		return 0, err
	}
	for _, err := range letters.DeadLetters(ctx, n.tenant) {
		if err != nil {
			return 0, err
		}
		if count++; count == maxDeadCounted {
			break
		}
	}
	return count, nil
}

// metricsHandler answers scrapes. Where people have keys, a scrape needs a person's token: the names of agents are not for everybody.
func (e *env) metricsHandler(m *metrics.Metrics, running func() *node, waits error) http.Handler {
	return whenReady(running, waits, func(n *node) http.Handler {
		identify := e.settings.identify(n, auth.Person)
		scrape := fromOutside(m.Handler())
		if identify == nil {
			return scrape
		}
		return forPeople(scrape, identify)
	})
}

// forPeople returns h for people, each with one request at a time: only a few are answered at the same time.
func forPeople(h http.Handler, identify func(token string) (id string, err error)) http.Handler {
	var asking bridgekit.Calls
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		token, _ := strings.CutPrefix(r.Header.Get("Authorization"), "Bearer ")
		user, err := identify(token)
		if err != nil {
			w.Header().Set("WWW-Authenticate", "Bearer")
			why := "a bearer token is needed: see cortex auth token"
			if errors.Is(err, auth.ErrEarlier) {
				why = err.Error()
			}
			http.Error(w, why, http.StatusUnauthorized)
			return
		}
		if !asking.Enter(user, 1) {
			http.Error(w, "another request of yours is answered now: make one at a time", http.StatusServiceUnavailable)
			return
		}
		defer asking.Leave(user)
		h.ServeHTTP(w, r)
	})
}

// fromOutside returns h without requests from this machine that name another one: those of a page in a browser whose name was made to point here.
func fromOutside(h http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if byAnotherName(r) {
			http.Error(w, "on this machine, ask for 127.0.0.1 or localhost", http.StatusForbidden)
			return
		}
		h.ServeHTTP(w, r)
	})
}
