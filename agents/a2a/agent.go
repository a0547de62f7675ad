package a2a

import (
	"cmp"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"maps"
	"net/http"
	"net/url"
	"path/filepath"
	"reflect"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/a2aproject/a2a-go/v2/a2a"

	"github.com/cortex-orchestrator/cortex/agentcard"
	"github.com/cortex-orchestrator/cortex/agents"
	"github.com/cortex-orchestrator/cortex/internal/pin"
	"github.com/cortex-orchestrator/cortex/internal/shorten"
	"github.com/cortex-orchestrator/cortex/internal/taskfile"
	"github.com/cortex-orchestrator/cortex/transport"
)

const (
	firstPause = 500 * time.Millisecond // before the card of a peer that is away is read again
	maxPause   = time.Minute
)

// DefaultPatience is how long a peer may be away before its agent is draining, unless [Options] say otherwise. It is as long as Cortex waits for an agent that
// has gone; a task waits longer.
const DefaultPatience = 10 * time.Second

// Options configures an Agent.
type Options struct {
	// Dir is where agents keep their cards and journals. Each agent has a subfolder, which only one process can use at a time.
	Dir string
	// Version is this program's version, which peers are told.
	Version string
	// Patience is how long the peer may be away, as while it is started again, before the agent is draining; 0 means DefaultPatience.
	Patience time.Duration
	// Logger logs the peer's state, without credentials; nil discards.
	Logger *slog.Logger
}

// Agent is an [agents.Executor] whose skills are those of a peer.
type Agent struct {
	peer    *Peer
	home    *url.URL // of its card
	o       Options
	log     *slog.Logger
	http    *http.Client
	changes chan agents.Change
	look    chan struct{} // signals that the peer seems to be away
	orphan  chan struct{} // signals that a task was left at the peer

	lastOrphan string // that was canceled, or tried; of cancelDue
	journal    *journal
	path       string // of the kept card
	pins       *pin.File

	mu   sync.Mutex
	id   string
	etag string
	of   *a2a.AgentCard // the peer's card
	card *a2a.AgentCard // as it is announced
	conn *connection
	away error // why the card could not be read last, or nil
	age  time.Duration
	busy map[string]int // tasks that are worked on, by the names of their records

	lost time.Time // since when the peer is away; of Open and then Run only
	told []string  // skills of which it was told that they have changed; likewise
}

// Open reads the card of a peer. If that cannot be reached, its last good card is used. Call [Agent.Run] to follow changes of the
// card, and [Agent.Close] at the end.
func Open(ctx context.Context, p *Peer, o *Options) (*Agent, error) {
	of := *p
	home, err := of.card()
	if err != nil {
		return nil, err
	}
	a := &Agent{peer: &of, home: home, o: *o, log: o.Logger, changes: make(chan agents.Change, 1), look: make(chan struct{}, 1), orphan: make(chan struct{}, 1), busy: map[string]int{}}
	a.log = cmp.Or(a.log, slog.New(slog.DiscardHandler))
	a.log = a.log.With("card", shownURL(home.String()))
	a.http = a.newHTTP()
	folder := filepath.Join(o.Dir, folderOf(home))
	a.path = filepath.Join(folder, "card.json")
	a.pins = &pin.File{Path: filepath.Join(folder, "skills.json"), Noun: "skills"}
	if a.journal, err = openJournal(folder, time.Now(), a.log); err != nil {
		return nil, err
	}
	if err := a.begin(ctx); err != nil {
		return nil, errors.Join(err, a.Close())
	}
	return a, nil
}

// folderOf returns the name of the folder for the card at a URL.
func folderOf(home *url.URL) string {
	sum := sha256.Sum256([]byte(home.String()))
	return strings.Map(func(r rune) rune {
		if r >= 'a' && r <= 'z' || r >= '0' && r <= '9' || r == '-' || r == '.' {
			return r
		}
		return '_'
	}, strings.ToLower(said(home.Hostname(), 100))) + "-" + hex.EncodeToString(sum[:8])
}

// begin takes the peer's card, or the kept one if the peer is away.
func (a *Agent) begin(ctx context.Context) error {
	failed := a.refresh(ctx)
	if failed == nil {
		return nil
	}
	if ctx.Err() != nil {
		return context.Cause(ctx)
	}
	var k kept
	if ok, err := taskfile.ReadRecord(a.path, maxRecord, &k); err != nil || !ok {
		return failed
	}
	if err := a.take(ctx, &k); err != nil {
		return errors.Join(failed, err)
	}
	a.away, a.lost = failed, time.Now()
	a.log.Warn("agent is away: its last card is used", "err", failed)
	return nil
}

// refresh reads the card, and takes it if it has changed.
func (a *Agent) refresh(ctx context.Context) error {
	a.mu.Lock()
	etag := a.etag
	a.mu.Unlock()
	f, err := a.fetch(ctx, etag)
	if err != nil {
		plain := errors.New(a.credentials().hide(err.Error()))
		if _, ok := errors.AsType[*refusedError](err); ok || errors.Is(err, errNoCard) {
			return &unreadableError{plain}
		}
		return plain
	}
	a.mu.Lock()
	a.age = f.age
	a.mu.Unlock()
	if f.same {
		return nil
	}
	if err := a.take(ctx, &f.kept); err != nil {
		return &unreadableError{err}
	}
	b, err := json.Marshal(&f.kept)
	if err == nil {
		err = taskfile.Write(a.path, b)
	}
	if err != nil {
		a.log.Warn("card is not kept", "err", err)
	}
	return nil
}

// unreadableError says that a peer was reached, but that its card cannot be used.
type unreadableError struct{ error }

func (e *unreadableError) Unwrap() error { return e.error }

// take makes the agent that of a card.
func (a *Agent) take(ctx context.Context, k *kept) error {
	of, err := readCard(k.Card)
	if err != nil {
		return err
	}
	conn, err := a.connect(ctx, of)
	if err != nil {
		return err
	}
	changed := a.changed(of)
	a.mu.Lock()
	defer a.mu.Unlock()
	if a.id == "" {
		name := cmp.Or(a.peer.Name, a.peer.Prefix+of.Name)
		if a.id, err = transport.AgentID(name); err == nil && transport.IsReserved(a.id) {
			a.id, err = "", fmt.Errorf("the name %s is the orchestrator's own: give another with --name", name)
		}
		if err != nil {
			_ = conn.Destroy()
			return fmt.Errorf("its card: %w", err)
		}
	}
	card := announced(a.id, said(shownURL(a.home.String()), agentcard.MaxWord), of, changed)
	if err := transport.ValidateCard(card); err != nil {
		_ = conn.Destroy()
		return fmt.Errorf("its %w", err)
	}
	if a.conn != nil && a.conn.at == conn.at { // calls go on
		_ = conn.Destroy()
		conn.Client = a.conn.Client
	} else if a.conn != nil {
		_ = a.conn.Destroy() // calls are cut off, and followed anew
	}
	if !reflect.DeepEqual(card, a.card) {
		a.card = card
	}
	a.of, a.conn, a.etag = of, conn, k.ETag
	if len(changed) > 0 {
		a.etag = "" // the same card is another one when the user has removed the line of a skill from the file
	}
	return nil
}

// changed returns the ids of the skills that need a yes, since they are not what they were when they were first seen, or are not remembered.
func (a *Agent) changed(of *a2a.AgentCard) []string {
	var things []pin.Thing
	said, by, theirs := map[string][]any{}, map[string][]string{}, agentcard.SpecOf(of).Abilities
	for i, n := 0, 0; i < len(of.Skills) && n < transport.MaxSkills; i++ { // those that are announced, by the ids that they have there
		s := &of.Skills[i]
		announced, id := announcedID(s), agentcard.SkillID(s)
		if announced == "" {
			continue
		}
		name, is := shorten.To(announced, 128), theirs[id]
		said[name] = append(said[name], id, s.Name, s.Description, s.Tags, s.Examples, s.InputModes, s.OutputModes, is.InputSchema, is.Confirm)
		by[name] = append(by[name], announced)
		n++
	}
	for _, name := range slices.Sorted(maps.Keys(said)) {
		things = append(things, pin.Of(name, said[name]...))
	}
	changed, strange, err := a.pins.Compare(things, time.Now())
	if err != nil {
		a.log.Warn("skills are not remembered, and need a yes", "skills", len(strange), "err", err)
	}
	var all []string
	for _, name := range changed {
		if !slices.Contains(a.told, name) {
			a.log.Warn("skill is not what it was, and needs a yes: what the card says of it has changed; its line in the file is what it was", "skill", name, "file", a.pins.Path)
		}
		all = append(all, by[name]...)
	}
	a.told = changed
	for _, name := range strange {
		all = append(all, by[name]...)
	}
	return all
}

// ID returns the agent's id.
func (a *Agent) ID() string { return a.Card().Name }

// Card returns the agent's current card.
func (a *Agent) Card() *a2a.AgentCard {
	a.mu.Lock()
	defer a.mu.Unlock()
	return a.card
}

// Changes returns the channel for [agents.Options].
func (a *Agent) Changes() <-chan agents.Change { return a.changes }

// tell sends a change, in place of one that was not received yet.
func (a *Agent) tell(c agents.Change) {
	select {
	case <-a.changes:
	default:
	}
	a.changes <- c // Open and then Run are the only senders
}

// suspect has Run read the card, since the peer seems to be away.
func (a *Agent) suspect() {
	select {
	case a.look <- struct{}{}:
	default:
	}
}

// Run reads the card again and again until ctx ends. While the peer cannot be reached, the agent is draining after Options.Patience. Tasks of the peer for which nobody waits any
// more are canceled there.
func (a *Agent) Run(ctx context.Context) error {
	var canceling sync.WaitGroup
	canceling.Go(func() { a.cancelOrphans(ctx) })
	defer canceling.Wait()
	pauses := pausesFrom(firstPause, maxPause)
	patience, draining := cmp.Or(a.o.Patience, DefaultPatience), false
	for {
		a.mu.Lock()
		away, before, pause := a.away, a.card, cmp.Or(a.peer.Refresh, a.age, DefaultRefresh)
		a.mu.Unlock()
		look := a.look
		if away != nil {
			pause, look = pauses.NextBackOff(), nil
			if !draining {
				pause = min(pause, max(0, time.Until(a.lost.Add(patience))))
			}
		}
		select {
		case <-ctx.Done():
			return nil
		case <-look:
		case <-time.After(pause):
		}
		err := a.refresh(ctx)
		if ctx.Err() != nil {
			return nil
		}
		if _, ok := errors.AsType[*unreadableError](err); ok {
			a.log.Warn("card cannot be used, and the last one stays", "err", err)
			err = nil
		}
		a.mu.Lock()
		a.away = err
		card := a.card
		a.mu.Unlock()
		switch {
		case err != nil && away == nil:
			a.lost = time.Now()
			a.log.Warn("agent is away, and is looked for again and again", "err", err)
		case err != nil && !draining && time.Since(a.lost) >= patience:
			draining = true
			a.tell(agents.Change{Draining: true})
		case err == nil && away != nil:
			pauses.Reset()
			draining = false
			a.log.Info("agent is there")
			a.tell(agents.Change{Card: card})
		case err == nil && card != before:
			a.log.Info("card has changed")
			a.tell(agents.Change{Card: card})
		}
	}
}

// Close ends the connection to the peer.
func (a *Agent) Close() error {
	a.mu.Lock()
	conn := a.conn
	a.conn = nil
	a.mu.Unlock()
	if conn != nil {
		_ = conn.Destroy()
	}
	a.http.CloseIdleConnections()
	return a.journal.Close()
}

// client returns the present connection.
func (a *Agent) client() (*connection, error) {
	a.mu.Lock()
	defer a.mu.Unlock()
	if a.conn == nil {
		return nil, errors.New("the agent is closed")
	}
	return a.conn, nil
}

func (a *Agent) credentials() *Credentials { return a.peer.Credentials }
