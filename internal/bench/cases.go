package bench

import (
	"bytes"
	"cmp"
	"context"
	"errors"
	"fmt"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/nats-io/nats.go/jetstream"
)

// CasesConfig configures Cases. Binary is required.
type CasesConfig struct {
	Binary   string        // of cortex, for the cases with processes of their own
	Only     []string      // cases to measure, of CaseNames; empty: all
	Turns    int           // of each row; 0 is 1,000, or 5 of each conversation if that is more
	Limit    time.Duration // of each case, after which nothing more begins; 0 is a minute
	Progress Progress
	Row      func(Row) // gets each row when it was measured
}

// Row is what turns cost in one situation. Times are in microseconds; what is unknown is 0: the system may not say it, or another process knows it.
type Row struct {
	Case          string  `json:"case"` // of CaseNames
	Name          string  `json:"row"`
	Conversations int     `json:"conversations"` // simultaneous
	Agents        int     `json:"agents"`
	Bytes         int     `json:"bytes"` // of a message
	Turns         int     `json:"turns"` // measured
	Lost          int     `json:"lost"`
	Dup           int     `json:"dup"`
	P50           float64 `json:"p50_us"`
	P99           float64 `json:"p99_us"`
	PerSecond     float64 `json:"per_s"`
	CPU           float64 `json:"cpu_us"`  // a turn, of all processes but the model's; like all that follow
	Objects       float64 `json:"objects"` // allocated
	Sent          float64 `json:"sent"`    // messages, by all but the server
	Stored        float64 `json:"stored"`  // messages
	Written       float64 `json:"written"` // to files, in bytes

	serve               float64 // CPU of cortex serve, where it is a process of its own, in microseconds a turn
	first, late, late99 float64 // how late a chunk is shown: the first one of each turn at p50, and all at p50 and p99
}

// situation is a row before it is measured.
type situation struct {
	name          string
	conversations int
	agents        int  // 0 is one; more are a fleet of others, of which none fits
	bytes         int  // 0 is payload
	fresh         bool // each message begins a conversation
	processes     bool // Cortex and its agent are processes of their own
	chunks        int  // of each answer of a model in another process, one each chunkEvery; 0: no model
	stores        bool // not a turn: the floor of its messages, stored one after the other
}

// comparison is a case: situations whose measurements alternate, and what is told of them.
type comparison struct {
	name    string
	rows    []situation
	figures func(by map[string]Row) []Figure
}

// The lengths of a model's answers, in chunks. A delegation is as long as a short one.
const shortAnswer, longAnswer = 10, 150

// comparisons is what is measured, in this order.
var comparisons = []comparison{
	{"one", []situation{
		{name: "stored", conversations: 1, stores: true},
		{name: "turn", conversations: 1},
		{name: "first turn", conversations: 1, fresh: true},
		{name: "10 KB", conversations: 1, bytes: 10 << 10},
	}, func(by map[string]Row) []Figure {
		return []Figure{
			{Case: "stored_p50", What: "p50, 1 conversation, of its messages stored", Value: ratio(by["turn"].P50, by["stored"].P50), Unit: "x", Less: true},
			{Case: "first_cpu", What: "CPU, conversation of one question, of a turn", Value: ratio(by["first turn"].CPU, by["turn"].CPU), Unit: "x", Least: 1.3, Aim: 1.1, Less: true},
			{Case: "large_p50", What: "p50, message of 10 KB, of a small one", Value: ratio(by["10 KB"].P50, by["turn"].P50), Unit: "x", Least: 2, Aim: 1.3, Less: true},
		}
	}},
	{"agents", []situation{
		{name: "stored", conversations: 64, stores: true},
		{name: "turn", conversations: 64},
		{name: "100 agents", conversations: 64, agents: 100},
		{name: "10000 agents", conversations: 64, agents: 10_000},
	}, func(by map[string]Row) []Figure {
		f := []Figure{{Case: "stored_rate", What: "turns/s, 64 conversations, of their messages stored", Value: ratio(by["turn"].PerSecond, by["stored"].PerSecond), Unit: "x"}}
		for _, name := range []string{"100 agents", "10000 agents"} {
			f = append(f, Figure{
				Case: "agents_rate", What: "turns/s, 64 conversations, " + name + ", of one agent", Value: ratio(by[name].PerSecond, by["turn"].PerSecond),
				Unit: "x", Least: 0.7, Aim: 0.9,
			})
		}
		return f
	}},
	{"processes", []situation{
		{name: "turn", conversations: 64},
		{name: "processes", conversations: 64, processes: true},
	}, func(by map[string]Row) []Figure {
		return []Figure{{Case: "processes_cpu", What: "CPU, Cortex and agent in processes of their own", Value: ratio(by["processes"].CPU, by["turn"].CPU), Unit: "x", Less: true}}
	}},
	{"many", []situation{
		{name: "turn", conversations: 1000},
		{name: "10000 active", conversations: 10_000},
	}, func(by map[string]Row) []Figure {
		return []Figure{{
			Case: "active_cpu", What: "CPU, 10000 active conversations, of 1000", Value: ratio(by["10000 active"].CPU, by["turn"].CPU), Unit: "x", Least: 1.3, Aim: 1.1, Less: true,
		}}
	}},
	streamed(64, 92, 95), streamed(256, 70, 85), streamed(1000, 30, 50),
	{"chunks", []situation{
		{name: "short answers", conversations: 32, processes: true, chunks: shortAnswer},
		{name: "long answers", conversations: 32, processes: true, chunks: longAnswer},
		{name: "at once", conversations: 256, processes: true, chunks: longAnswer},
	}, func(by map[string]Row) []Figure {
		short, long, full := by["short answers"], by["long answers"], by["at once"]
		a, b := (long.serve-short.serve)/(longAnswer-shortAnswer), (full.serve-short.serve)/(longAnswer-shortAnswer)
		return []Figure{
			{Case: "chunk_cpu", What: "CPU of cortex serve for a chunk, 32 streams", Value: a, Unit: "us", Least: 60, Aim: 30, Less: true},
			{Case: "chunk_cpu", What: "the same, 256 streams", Value: b, Unit: "us", Least: 60, Aim: 30, Less: true},
			{Case: "streams", What: "streams of 50 chunks a second for two cores by that", Value: 2e6 * chunkEvery.Seconds() / b, Unit: "streams", Least: 600, Aim: 1200},
			{Case: "first_late", What: "first chunk shown later than sent, p50", Value: long.first / 1000, Unit: "ms", Least: 4, Aim: 2, Less: true},
			{Case: "late_p50", What: "a chunk shown later than sent, p50", Value: long.late / 1000, Unit: "ms", Least: 2, Aim: 1, Less: true},
			{Case: "late_p99", What: "the same, p99", Value: long.late99 / 1000, Unit: "ms", Least: 10, Aim: 5, Less: true},
		}
	}},
}

// streamed is the case of models that stream.
func streamed(conversations int, least, aim float64) comparison {
	name := fmt.Sprintf("stream-%d", conversations)
	return comparison{name, []situation{{name: name, conversations: conversations, processes: true, chunks: shortAnswer}}, func(by map[string]Row) []Figure {
		ideal := float64(conversations) / (2 * shortAnswer * chunkEvery.Seconds())
		return []Figure{{
			Case: "stream_ideal", What: fmt.Sprintf("turns/s, %s, a model that streams, of %.0f", plural(conversations, "conversation"), ideal),
			Value: 100 * by[name].PerSecond / ideal, Unit: "%", Least: least, Aim: aim,
		}}
	}}
}

// CaseNames returns the names of the cases, in their order.
func CaseNames() (names []string) {
	for _, k := range comparisons {
		names = append(names, k.name)
	}
	return names
}

// Cases measures turns in situations in which people are, beside plain turns, on nodes of their own in temporary folders. A row with answers that were
// lost, or came twice, is returned like others. A case with a row for which no time was left has no figures.
func Cases(ctx context.Context, cfg CasesConfig) (figures []Figure, err error) {
	cfg.Limit = cmp.Or(cfg.Limit, defaultLimit)
	for _, k := range comparisons {
		if len(cfg.Only) > 0 && !slices.Contains(cfg.Only, k.name) {
			continue
		}
		err := withFolder(func(dir string) error {
			by, err := k.measure(ctx, cfg, dir)
			if err == nil && len(by) == len(k.rows) {
				figures = append(figures, k.figures(by)...)
			}
			return err
		})
		if err != nil {
			return figures, fmt.Errorf("case %s: %w", k.name, err)
		}
	}
	return figures, nil
}

// place is where rows are measured.
type place struct {
	*node
	pids  []int // of other processes, without the model's
	close func() error
}

// measured is a row with what measures it.
type measured struct {
	*situation
	place *place
	side  side
	used  cost
	users []*user
	mu    sync.Mutex // of users
}

// measure returns the rows of which turns were measured, by their names.
func (c *comparison) measure(ctx context.Context, cfg CasesConfig, dir string) (by map[string]Row, err error) {
	places := map[string]*place{}
	defer func() {
		for _, p := range places {
			err = errors.Join(err, p.close())
		}
	}()
	var all []*measured
	for i := range c.rows {
		s := &c.rows[i]
		key := fmt.Sprintf("%d-%v", s.agents, s.processes)
		p := places[key]
		if p == nil {
			if p, err = s.open(ctx, cfg, filepath.Join(dir, key)); err != nil {
				return nil, err
			}
			places[key] = p
		}
		m := &measured{situation: s, place: p}
		defer func() {
			for _, u := range m.users {
				u.Close()
			}
		}()
		if err := m.prepare(cfg); err != nil {
			return nil, err
		}
		all = append(all, m)
	}
	if err := c.interleave(ctx, cfg, all); err != nil {
		return nil, err
	}
	by = map[string]Row{}
	for _, m := range all {
		r, err := m.row()
		if err != nil {
			return nil, err
		}
		r.Case = c.name
		if cfg.Row != nil {
			cfg.Row(r)
		}
		if r.Turns > 0 {
			by[r.Name] = r
		}
	}
	return by, nil
}

// interleave measures the rows in pieces that alternate.
func (c *comparison) interleave(ctx context.Context, cfg CasesConfig, all []*measured) error {
	cfg.Progress.tell(c.name, 0, 1)
	end, pieces := time.Now().Add(cfg.Limit), maxPieces
	for _, m := range all {
		if _, err := spread(ctx, m.conversations, m.conversations, end, m.side.do); err != nil { // once each, to set up everything
			return err
		}
		pieces = min(pieces, max(1, m.side.n/(minPerPiece*m.conversations)))
	}
	end = time.Now().Add(cfg.Limit)
	for p := range pieces {
		for i, m := range all {
			before, err := m.place.costs(ctx, m.place.pids)
			if err != nil {
				return err
			}
			one := side{do: m.side.do, width: m.side.width, n: m.side.n*(p+1)/pieces - m.side.n*p/pieces}
			left := (pieces-p)*len(all) - i // each has its share of the time, so that the last one has some
			if err := interleave(ctx, 1, time.Until(end)/time.Duration(left), func(int, int) {}, &one); err != nil {
				return err
			}
			m.side.sample.add(&one.sample)
			if err := m.place.settle(); err != nil && !errors.Is(err, errLate) {
				return err
			}
			after, err := m.place.costs(ctx, m.place.pids)
			if err != nil {
				return err
			}
			m.used.add(after, 1)
			m.used.add(before, -1)
		}
		cfg.Progress.tell(c.name, p+1, pieces)
	}
	return nil
}

// open starts a place for the situation.
func (s *situation) open(ctx context.Context, cfg CasesConfig, dir string) (*place, error) {
	if s.processes {
		return openProcesses(ctx, cfg, dir, s.chunks > 0)
	}
	n, err := startNode(ctx, nodeConfig{dir: dir, workers: 1})
	if err != nil {
		return nil, err
	}
	if s.agents > 0 {
		if err := n.announceFleet(s.agents-1, cfg.Progress); err != nil {
			return nil, errors.Join(err, n.Close())
		}
	}
	return &place{node: n, close: n.Close}, nil
}

// prepare gives the row something to do.
func (m *measured) prepare(cfg CasesConfig) (err error) {
	m.side.width, m.side.n = m.conversations, cmp.Or(cfg.Turns, max(1000, 5*m.conversations))
	switch {
	case m.stores:
		m.side.do, err = m.place.store()
	case m.fresh:
		m.side.do = func(ctx context.Context, _ int) (time.Duration, error) {
			u, err := m.join()
			if err != nil {
				return 0, err
			}
			return m.say(ctx, u)
		}
	default:
		for range m.conversations {
			if _, err := m.join(); err != nil {
				return err
			}
		}
		m.side.do = func(ctx context.Context, w int) (time.Duration, error) { return m.say(ctx, m.users[w]) }
	}
	return err
}

// join begins a conversation.
func (m *measured) join() (*user, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	u, err := m.place.newUser(fmt.Sprintf("%s-%d", strings.ReplaceAll(m.name, " ", "-"), len(m.users)+1), 0)
	if err == nil {
		m.users = append(m.users, u)
	}
	return u, err
}

// say sends one message of the situation.
func (m *measured) say(ctx context.Context, u *user) (time.Duration, error) {
	s := saying{to: u.n.agents, size: m.bytes}
	if m.chunks > 0 {
		s.ask = func(id string) string { return question(id, m.chunks) }
	}
	return u.say(ctx, s)
}

// row returns what was measured.
func (m *measured) row() (Row, error) {
	s, n := &m.side.sample, max(1, float64(len(m.side.sample.latencies)))
	got, err := m.place.count(m.users)
	var late, first sample
	for _, u := range m.users {
		u.mu.Lock()
		late.latencies, first.latencies = append(late.latencies, u.late...), append(first.latencies, u.first...)
		u.mu.Unlock()
	}
	r := Row{
		Name: m.name, Conversations: m.conversations, Agents: max(1, m.agents), Bytes: cmp.Or(m.bytes, payload), Turns: len(s.latencies), Lost: got.lost, Dup: got.dup,
		P50: round(s.quantile(0.5)), P99: round(s.quantile(0.99)), PerSecond: round(s.perSecond()), CPU: round(m.used.cpu / n), Stored: round(m.used.stored / n),
		serve: m.used.serve / n, first: first.quantile(0.5), late: late.quantile(0.5), late99: late.quantile(0.99),
	}
	if !m.processes {
		r.Objects, r.Sent, r.Written = round(m.used.objects/n), round(m.used.sent/n), round(m.used.bytes/n)
	}
	if got.wrong != "" && err == nil {
		err = fmt.Errorf("%s got no right answer (%s); the first one was told %.200q", plural(got.lost, "message"), m.name, got.wrong)
	}
	return r, err
}

// What a turn stores: the messages and their size, measured. The floor stores as much.
const storedMessages, storedSize = 5, 1400

// store returns an action that stores as many messages as a turn does, one after the other.
func (p *place) store() (action, error) {
	js, err := jetstream.New(p.userBus.Conn())
	if err != nil {
		return nil, err
	}
	const name = "BENCH_FLOOR"
	if _, err := js.CreateStream(p.ctx, jetstream.StreamConfig{Name: name, Subjects: []string{name + ".>"}}); err != nil {
		return nil, fmt.Errorf("floor: %w", err)
	}
	data := bytes.Repeat([]byte("f"), storedSize)
	return func(ctx context.Context, w int) (time.Duration, error) {
		begin := time.Now()
		for range storedMessages {
			if _, err := js.Publish(ctx, fmt.Sprintf("%s.%d", name, w), data); err != nil {
				return 0, fmt.Errorf("floor: %w", err)
			}
		}
		return time.Since(begin), nil
	}, nil
}
