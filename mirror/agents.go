package mirror

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"sync"
	"time"

	"github.com/a2aproject/a2a-go/v2/a2a"
	"github.com/cenkalti/backoff/v5"
	"github.com/jackc/pgx/v5"
	"golang.org/x/sync/errgroup"

	"github.com/cortex-orchestrator/cortex/cortex/registry"
	"github.com/cortex-orchestrator/cortex/internal/rest"
)

// heartbeatEvery is how often the heartbeats of one agent are written: ten thousand agents send thirty million a day.
const heartbeatEvery = time.Minute

// beside copies the log, and the agents beside it, for which the log does not wait.
func (m *Mirror) beside(ctx context.Context, c *copier) error {
	if m.opts.Transport == nil {
		return c.copy(ctx)
	}
	ctx, end := context.WithCancel(ctx)
	var agents sync.WaitGroup
	agents.Go(func() { m.copyAgents(ctx) })
	defer agents.Wait()
	defer end()
	return c.copy(ctx)
}

// copyAgents copies the agents until ctx ends, again after an error.
func (m *Mirror) copyAgents(ctx context.Context) {
	pauses := &backoff.ExponentialBackOff{InitialInterval: firstPause, MaxInterval: maxPause, Multiplier: 2, RandomizationFactor: 0.25}
	told := map[string]bool{}
	for {
		began := time.Now()
		err := hide(m.db, m.agentsOnce(ctx))
		if ctx.Err() != nil {
			return
		}
		if time.Since(began) > maxPause {
			pauses.Reset()
			clear(told)
		}
		if reason := reasonOf(err); !told[reason] && len(told) < maxReasons {
			told[reason] = true
			m.log.Warn("agents are not mirrored now, the log is: it is tried again and again", "postgres", where(m.db), "err", err)
		}
		if rest.For(ctx, pauses.NextBackOff()) != nil {
			return
		}
	}
}

// agentsOnce copies the agents until an error.
func (m *Mirror) agentsOnce(ctx context.Context) error {
	conn, err := pgx.ConnectConfig(ctx, m.db.Copy())
	if err != nil {
		return fmt.Errorf("PostgreSQL: %w", err)
	}
	defer closeConn(ctx, conn)
	g, ctx := errgroup.WithContext(ctx)
	a := &agents{tenant: m.opts.Tenant, conn: conn, events: make(chan registry.Event), beats: map[string]time.Time{}}
	r := registry.New(registry.Config{Tenant: m.opts.Tenant, Seen: true, Logger: m.log, OnEvent: func(e registry.Event) {
		select {
		case a.events <- e:
		case <-ctx.Done():
		}
	}})
	g.Go(func() error { return r.Run(ctx, m.opts.Transport) })
	g.Go(func() error { return a.write(ctx, r) })
	return g.Wait()
}

// agents writes the states of a tenant's agents. What it writes depends on what the database has: an agent that is announced again is not registered
// again.
type agents struct {
	tenant string
	conn   *pgx.Conn
	events chan registry.Event
	beats  map[string]time.Time // when the heartbeat of an agent was last written
}

// write writes events until an error.
func (a *agents) write(ctx context.Context, r *registry.Registry) error {
	synced := r.Synced()
	for {
		select {
		case <-ctx.Done():
			return ctx.Err()
		case e := <-a.events:
			if e.Kind == registry.EventSeen && e.Time.Sub(a.beats[e.AgentID]) < heartbeatEvery {
				continue
			}
			if err := a.put(ctx, e.Record, e.Time, e.Reason); err != nil {
				return fmt.Errorf("PostgreSQL: agent %s: %w", e.AgentID, err)
			}
		case <-synced:
			synced = nil
			if err := a.missing(ctx, r.Snapshot()); err != nil {
				return fmt.Errorf("PostgreSQL: agents: %w", err)
			}
		}
	}
}

// put writes the state of an agent, and the events by which it differs from the one before.
func (a *agents) put(ctx context.Context, r *registry.Record, at time.Time, reason string) error {
	id := clean(r.ID, maxText)
	gone := r.State == registry.StateGone
	if gone {
		delete(a.beats, r.ID)
	} else {
		a.beats[r.ID] = at
	}
	var skills, tags []string
	for _, s := range r.Card.Skills {
		skills = append(skills, clean(s.ID, maxText))
		for _, t := range s.Tags {
			tags = append(tags, clean(t, maxText))
		}
	}
	skills, tags = sorted(skills), sorted(tags)
	card, err := json.Marshal(r.Card)
	if err != nil {
		return err
	}
	card, _ = cleanJSON(card)
	ctx, cancel := context.WithTimeout(ctx, txTimeout)
	defer cancel()
	return pgx.BeginFunc(ctx, a.conn, func(tx pgx.Tx) error {
		var had []string
		present := true
		err := tx.QueryRow(ctx, "SELECT skills FROM cortex.agents WHERE tenant = $1 AND agent_id = $2 AND gone IS NULL FOR UPDATE", a.tenant, id).Scan(&had)
		if errors.Is(err, pgx.ErrNoRows) {
			present, err = false, nil
		}
		if err != nil {
			return err
		}
		added, removed := without(skills, had), without(had, skills)
		switch {
		case gone && !present:
			return nil
		case gone:
			if _, err := tx.Exec(ctx, "UPDATE cortex.agents SET state = $3, gone = $4 WHERE tenant = $1 AND agent_id = $2", a.tenant, id, string(r.State), dated(at)); err != nil {
				return err
			}
			if err := a.say(ctx, tx, at, id, "registry.agent.deregistered", map[string]any{"reason": clean(reason, maxText)}); err != nil {
				return err
			}
			return a.changed(ctx, tx, at, id, nil, had)
		}
		if _, err := tx.Exec(ctx, `INSERT INTO cortex.agents (tenant, agent_id, state, card, skills, tags, registered, last_heartbeat) VALUES ($1, $2, $3, $4, $5, $6, $7, $8)
			ON CONFLICT (tenant, agent_id) DO UPDATE SET state = excluded.state, card = excluded.card, skills = excluded.skills, tags = excluded.tags, gone = NULL,
				registered = CASE WHEN agents.gone IS NULL THEN agents.registered ELSE excluded.registered END, last_heartbeat = excluded.last_heartbeat`,
			a.tenant, id, string(r.State), string(card), skills, tags, dated(at), when(r.LastSeen)); err != nil {
			return err
		}
		if !present {
			if err := a.say(ctx, tx, at, id, "registry.agent.registered", map[string]any{"version": clean(r.Version, maxText), "skills": skills}); err != nil {
				return err
			}
		}
		return a.changed(ctx, tx, at, id, added, removed)
	})
}

// changed says that an agent's skills are others, if they are.
func (a *agents) changed(ctx context.Context, tx pgx.Tx, at time.Time, id string, added, removed []string) error {
	if len(added)+len(removed) == 0 {
		return nil
	}
	return a.say(ctx, tx, at, id, "registry.capability.changed", map[string]any{"added": sorted(added), "removed": sorted(removed)})
}

func (a *agents) say(ctx context.Context, tx pgx.Tx, at time.Time, id, event string, detail map[string]any) error {
	text, err := json.Marshal(detail)
	if err != nil {
		return err
	}
	_, err = tx.Exec(ctx, "INSERT INTO cortex.agent_events (at, tenant, agent_id, event, detail) VALUES ($1, $2, $3, $4, $5)", dated(at), a.tenant, id, event, string(text))
	return err
}

// missing writes that agents are gone which the database has and nobody announces: they left while no mirror ran.
func (a *agents) missing(ctx context.Context, now *registry.Snapshot) error {
	rows, err := a.conn.Query(ctx, "SELECT agent_id FROM cortex.agents WHERE tenant = $1 AND gone IS NULL", a.tenant)
	if err != nil {
		return err
	}
	ids, err := pgx.CollectRows(rows, pgx.RowTo[string])
	if err != nil {
		return err
	}
	there := map[string]bool{}
	for _, r := range now.Agents() {
		there[clean(r.ID, maxText)] = true
	}
	for _, id := range ids {
		if there[id] {
			continue
		}
		r := &registry.Record{ID: id, State: registry.StateGone, Card: &a2a.AgentCard{}}
		if err := a.put(ctx, r, time.Now(), "gone while no mirror ran"); err != nil {
			return err
		}
	}
	return nil
}

// sorted returns a sorted list without repetitions, which is not nil.
func sorted(list []string) []string {
	list = append([]string{}, list...)
	slices.Sort(list)
	return slices.Compact(list)
}

// without returns those of list that are not in other.
func without(list, other []string) []string {
	return slices.DeleteFunc(slices.Clone(list), func(s string) bool { return slices.Contains(other, s) })
}
