package torture

import (
	"context"
	"encoding/json"
	"math/rand/v2"
	"slices"
	"sync"
	"time"

	"github.com/cortex-orchestrator/cortex/internal/rest"
	"github.com/cortex-orchestrator/cortex/transport/nats"
)

// Parameters of the killing.
const (
	roundOf   = 25                     // kills, after which accepted messages have to be answered
	betweenAt = 900 * time.Millisecond // between two kills, at most
	downAt    = 800 * time.Millisecond // until a killed process is restarted, at most
	freezeIn  = 12                     // one time in this many, a replica is also frozen
	leaderIn  = 3                      // one kill of a cluster's server in this many hits the leader
)

// kindLeader counts kills of leaders, beside the kinds of process.
const kindLeader = "leader"

// killer kills processes at random.
type killer struct {
	run  *run
	rand *rand.Rand
	bus  *nats.Bus // to find the leader; nil until it is needed
	thaw sync.WaitGroup

	mu     sync.Mutex
	kills  map[string]int // by kind
	frozen int
	times  []time.Time     // of kills, freezes and thaws
	owners []string        // findings of the spy
	calms  []time.Duration // how long each round took to calm down
}

func newKiller(r *run) *killer { return &killer{run: r, rand: r.rand, kills: map[string]int{}} }

// work kills until there are enough kills or ctx ends. After every round it waits until accepted messages are answered.
func (k *killer) work(ctx context.Context) error {
	defer k.thaw.Wait()
	defer func() {
		if k.bus != nil {
			k.bus.Close()
		}
	}()
	s := newSpy(k.run.ready)
	watched, stop := context.WithCancel(ctx)
	var spying sync.WaitGroup
	spying.Go(func() { s.work(watched) })
	defer func() {
		stop()
		spying.Wait()
		k.owners = s.found
	}()
	for k.total() < k.run.cfg.Kills {
		if err := rest.For(ctx, k.within(betweenAt)+100*time.Millisecond); err != nil {
			return err
		}
		k.run.cfg.Progress("killing", k.total())
		if k.rand.IntN(freezeIn) == 0 {
			k.freezeReplica(ctx)
		}
		if !k.killOne(ctx) {
			continue
		}
		if n := k.total(); n%roundOf == 0 || n == k.run.cfg.Kills {
			k.thaw.Wait()
			k.run.cfg.Progress("waiting for answers", n)
			last := slices.MaxFunc(k.disturbances(), time.Time.Compare)
			if err := k.run.watcher.calm(ctx, last); err != nil {
				return err
			}
			k.calms = append(k.calms, time.Since(last))
		}
	}
	return nil
}

func (k *killer) within(d time.Duration) time.Duration { return time.Duration(k.rand.Int64N(int64(d))) }

// killOne kills a process of a random kind. It returns false when that is not running.
func (k *killer) killOne(ctx context.Context) bool {
	kinds := []string{kindReplica, kindAgent, kindClient}
	if len(k.run.troupe.all(kindServer)) > 0 {
		kinds = append(kinds, kindServer)
	}
	kind := kinds[k.rand.IntN(len(kinds))]
	some := k.run.troupe.all(kind)
	p, pause, lead := some[k.rand.IntN(len(some))], k.within(downAt), k.rand.IntN(leaderIn) == 0
	if lead && kind == kindServer && len(some) > 1 {
		if name := k.leader(ctx); name != "" {
			at := slices.IndexFunc(some, func(p *member) bool { return p.name == name })
			if at >= 0 {
				kind, p = kindLeader, some[at]
			}
		}
	}
	at := time.Now()
	if !p.kill(pause) {
		return false
	}
	k.mu.Lock()
	defer k.mu.Unlock()
	k.kills[kind]++
	k.times = append(k.times, at)
	return true
}

// freezeReplica stops one of several replicas for four to six seconds: its leases end before it continues.
func (k *killer) freezeReplica(ctx context.Context) {
	some := k.run.troupe.all(kindReplica)
	p, pause := some[k.rand.IntN(len(some))], 4*time.Second+k.within(2*time.Second)
	if len(some) < 2 || !p.freeze() {
		return
	}
	k.disturb(&k.frozen)
	k.thaw.Go(func() {
		_ = rest.For(ctx, pause) // it has to continue in any case
		p.thaw()
		k.disturb(nil)
	})
}

// disturb records the time of a disturbance, and counts it.
func (k *killer) disturb(count *int) {
	k.mu.Lock()
	defer k.mu.Unlock()
	k.times = append(k.times, time.Now())
	if count != nil {
		*count++
	}
}

func (k *killer) total() int {
	k.mu.Lock()
	defer k.mu.Unlock()
	n := 0
	for _, m := range k.kills {
		n += m
	}
	return n
}

// disturbances returns the times of disturbances, in order.
func (k *killer) disturbances() []time.Time {
	k.mu.Lock()
	defer k.mu.Unlock()
	return slices.SortedFunc(slices.Values(k.times), time.Time.Compare)
}

// leader returns the name of the server that leads the inboxes, or "" when it cannot find out quickly.
func (k *killer) leader(ctx context.Context) string {
	ctx, cancel := context.WithTimeout(ctx, time.Second)
	defer cancel()
	if k.bus == nil {
		bus, err := nats.Dial(ctx, &nats.Options{URL: k.run.plan.URL, Name: "torture"})
		if err != nil {
			return ""
		}
		k.bus = bus
	}
	stream := "CORTEX_INBOX"
	if k.rand.IntN(2) == 0 {
		stream = "CORTEX_LOG"
	}
	m, err := k.bus.Conn().RequestWithContext(ctx, "$JS.API.STREAM.INFO."+stream, nil)
	if err != nil {
		return ""
	}
	var info struct {
		Cluster struct {
			Leader string `json:"leader"`
		} `json:"cluster"`
	}
	if json.Unmarshal(m.Data, &info) != nil {
		return ""
	}
	return info.Cluster.Leader
}
