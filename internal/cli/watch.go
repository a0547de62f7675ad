package cli

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"maps"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/spf13/cobra"

	"github.com/cortex-orchestrator/cortex/cortex/registry"
	"github.com/cortex-orchestrator/cortex/internal/cli/typed"
	"github.com/cortex-orchestrator/cortex/internal/screen"
	"github.com/cortex-orchestrator/cortex/internal/table"
	"github.com/cortex-orchestrator/cortex/internal/view"
	"github.com/cortex-orchestrator/cortex/prompt"
)

func (e *env) newWatch(asJSON *bool) *cobra.Command {
	var seen bool
	c := &cobra.Command{
		Use:   "watch",
		Short: "Print agents as they join, change and leave",
		Long: `Print what happens to agents until interrupted, beginning with those that are there: registered, updated,
capabilities-changed, draining, deregistered, instance-joined, instance-left, conflict and refused; with --seen also each time
that one is heard of and nothing is new. --json prints an object a line, as Cortex publishes it on the cards topic.`,
		Example: "  cortex agents watch\n  cortex agents watch --json --seen",
		Args:    typed.Exact(),
		RunE:    func(cmd *cobra.Command, _ []string) error { return e.watchAgents(cmd.Context(), *asJSON, seen) },
	}
	c.Flags().BoolVar(&seen, "seen", false, "also when an agent is merely heard of")
	return c
}

func (e *env) watchAgents(ctx context.Context, asJSON, seen bool) error {
	log := e.commandLog(slog.LevelError)
	conn := new(outage)
	ctx, end := context.WithCancelCause(ctx)
	defer end(nil)
	l, err := e.settings.mustJoin(ctx, "watch", log, func(up bool, err error) {
		conn.onConn(up, err)
		if why := e.settings.shutOut(err); why != nil {
			end(why)
		}
	})
	if err != nil {
		return err
	}
	defer l.Close()
	wellKnown, err := e.settings.shownWellKnown(ctx, log)
	if err != nil {
		return err
	}
	var mu sync.Mutex // of alike
	alike := view.NewLookalikes(nil)
	show := func(ev registry.Event) {
		if asJSON {
			view.NewJSON(e.stdout).Encode(ev.Wire()) //nolint:errcheck // a reader that went away ends the process
			return
		}
		mu.Lock()
		defer mu.Unlock()
		switch ev.Kind {
		case registry.EventRegistered:
			alike.Add(ev.AgentID)
		case registry.EventDeregistered:
			alike.Remove(ev.AgentID)
		}
		printEvent(e.stdout, ev, alike)
	}
	cfg := registry.Config{
		Tenant: l.tenant, WellKnown: wellKnown, Logger: log, Seen: seen, StrictAbilities: e.settings.node.strict, OnEvent: show,
	}
	var o *untilSynced
	if cfg.StrictAbilities {
		o = &untilSynced{show: show, held: map[string][]registry.Event{}}
		cfg.OnEvent, cfg.Keep = o.hear, l.recollection()
	}
	r := registry.New(cfg)
	conn.tell(r)
	if o != nil {
		o.synced = r.Synced()
		go func() {
			select {
			case <-o.synced:
				o.end()
			case <-ctx.Done():
			}
		}()
	}
	err = r.Run(ctx, l.bus)
	if cause := context.Cause(ctx); cause != nil {
		err = cause
	}
	if errors.Is(err, context.Canceled) { // the user interrupted it
		return nil
	}
	return err
}

// untilSynced delays events until all present agents are known: only then is it known which agent came first, and so has an exclusive ability.
type untilSynced struct {
	show   func(registry.Event)
	synced <-chan struct{}

	mu   sync.Mutex
	held map[string][]registry.Event // by agent; nil when it is over
}

// hear receives the events of the registry, one at a time.
func (o *untilSynced) hear(e registry.Event) {
	select {
	case <-o.synced:
		o.end()
		o.show(e)
	default:
		o.mu.Lock()
		defer o.mu.Unlock()
		o.held[e.AgentID] = append(o.held[e.AgentID], e)
	}
}

// end shows the agents that are present.
func (o *untilSynced) end() {
	o.mu.Lock()
	defer o.mu.Unlock()
	for _, id := range slices.Sorted(maps.Keys(o.held)) {
		events := o.held[id]
		is := events[len(events)-1]
		if is.Record.State == registry.StateGone {
			continue
		}
		is.Kind, is.Instance, is.Reason, is.Added, is.Removed = registry.EventRegistered, "", "", nil, nil
		o.show(is)
		if i := slices.IndexFunc(events, func(e registry.Event) bool { return e.Kind == registry.EventConflict }); i >= 0 {
			o.show(events[i])
		}
		if is.Kind, is.Reason = registry.EventRefused, is.Record.Refused; is.Reason != "" {
			o.show(is)
		}
	}
	o.held = nil
}

// printEvent prints one aligned line.
func printEvent(w io.Writer, e registry.Event, alike *view.Lookalikes) {
	detail := eventDetail(e)
	if e.Kind == registry.EventRegistered || e.Kind == registry.EventUpdated {
		detail = marked(alike.MarkOf(e.Record), detail)
	}
	line := fmt.Sprintf("%s  %-20s  %s  %s", e.Time.Local().Format(time.TimeOnly), e.Kind, table.Pad(prompt.Clean(e.AgentID, 60), 24), detail)
	line = strings.TrimRight(line, " ")
	if width := screen.Width(w); width > 0 && e.Kind == registry.EventRegistered { // its description; of others all has to be read
		line = table.Fit(line, width)
	}
	fmt.Fprintln(w, line)
}

// maxDetail bounds the description of an event, in characters.
const maxDetail = 200

// eventDetail describes an event in a few words, without the agent.
func eventDetail(e registry.Event) string {
	instances := fmt.Sprintf("%d instances", len(e.Record.Instances))
	if len(e.Record.Instances) == 1 {
		instances = "1 instance"
	}
	var text string
	switch e.Kind {
	case registry.EventRegistered:
		if text = e.Record.Card.Description; e.Instance == "" && e.Record.Pinned {
			text = "well known: " + text
		}
	case registry.EventUpdated:
		if e.Record.Version != "" {
			text = "version " + e.Record.Version
		}
	case registry.EventCapabilities:
		var parts []string
		for _, id := range e.Added {
			parts = append(parts, "+skill "+id)
		}
		for _, id := range e.Removed {
			parts = append(parts, "-skill "+id)
		}
		text = strings.Join(parts, ", ")
	case registry.EventDraining:
		if e.Record.State != registry.StateDraining {
			text = "one of " + instances
		}
	case registry.EventJoined:
		text = instances
	case registry.EventLeft:
		text = reasonText(e.Reason) + ", " + instances
	case registry.EventDeregistered:
		text = reasonText(e.Reason)
	case registry.EventRefused:
		text = e.Reason
	case registry.EventConflict:
		text = "its instances announce different cards"
	}
	return prompt.Clean(text, maxDetail)
}

func reasonText(reason string) string {
	switch reason {
	case registry.ReasonRequested:
		return "said goodbye"
	case registry.ReasonExpired:
		return "lease ended"
	}
	return strings.ReplaceAll(reason, "-", " ")
}
