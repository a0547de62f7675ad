package cli

import (
	"fmt"
	"log/slog"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/cortex-orchestrator/cortex/console"
	"github.com/cortex-orchestrator/cortex/cortex"
	"github.com/cortex-orchestrator/cortex/cortex/registry"
	"github.com/cortex-orchestrator/cortex/internal/logs"
	"github.com/cortex-orchestrator/cortex/internal/screen"
	"github.com/cortex-orchestrator/cortex/internal/table"
	"github.com/cortex-orchestrator/cortex/prompt"
	"github.com/cortex-orchestrator/cortex/repl"
)

// serving tells what a service does: in its log, or, at a terminal where no log is wanted, a person.
type serving struct {
	e      *env
	log    *slog.Logger
	person bool
	shown  atomic.Bool // the page is, and the service is not stopping: agents that come and go are told
	listed sync.Map    // ids of agents that the page says are there, and of which no event has come
}

func (e *env) newServing() *serving {
	s := &serving{e: e, person: screen.IsTerminal(e.stderr) && !e.settings.wantsLogs()}
	if !s.person {
		s.log = e.settings.logger(e.logTo(), slog.LevelInfo)
		return s
	}
	s.log = logs.New(logs.Sentences{Level: slog.LevelInfo, Say: s.say, Hides: isAside})
	return s
}

// asides are messages that are not for people: what the server within notes, and what a person is told in other words.
var asides = []string{"nats server", "agent joined", "agent left", "host joined", "host left", "host handed over"}

// isAside reports whether a record is not for people: one of the asides, or what goes well with a single conversation or task.
func isAside(message string, level slog.Level, attrs []slog.Attr) bool {
	return level <= slog.LevelInfo && (slices.Contains(asides, message) ||
		slices.ContainsFunc(attrs, func(a slog.Attr) bool { return a.Key == "context_id" || a.Key == "task_id" }))
}

// say shows a person a line, beside the time.
func (s *serving) say(line string) {
	at := repl.Quiet(s.e.stderr, s.e.settings.color.value, time.Now().Format(time.TimeOnly))
	rows := table.Wrap(line, max(screen.Width(s.e.stderr)-len(time.TimeOnly)-2, 20))
	indent := "\n" + strings.Repeat(" ", len(time.TimeOnly)+2)
	fmt.Fprintf(s.e.logTo(), "%s  %s\n", at, strings.Join(rows, indent))
}

// ready tells that a service takes work. health is its health endpoint, or nil.
func (s *serving) ready(n *node, open *ports) {
	if !s.person {
		s.log.Info("cortex is ready", "url", n.url, "data", s.e.settings.data, "llm", s.e.settings.describeLLM(), "agents", len(n.Routable("")), "version", buildVersion())
		if open.http != nil {
			s.log.Info("health endpoint", "url", open.scheme()+open.http.Addr().String()+"/readyz")
		}
		if open.a2a != nil {
			s.log.Info("A2A server", "card", open.scheme()+open.a2a.Addr().String()+a2aCard)
		}
		return
	}
	quiet := func(text string) string { return repl.Quiet(s.e.stderr, s.e.settings.color.value, text) }
	fmt.Fprintf(s.e.logTo(), "cortex is ready %s\n\n", quiet("· "+buildVersion()+" · Ctrl-C ends it"))
	fmt.Fprint(s.e.logTo(), s.page(n, open).Render(screen.Width(s.e.stderr), quiet))
	flags := s.e.settings.joinFlags()
	s.e.advise("cortex chat"+flags, "talk to it", "cortex agent exec"+flags+" --card CARD -- PROGRAM", "have a program join")
	fmt.Fprintln(s.e.logTo())
	s.shown.Store(true)
}

// maxPageAgents bounds the agents on the page of a service.
const maxPageAgents = 8

// page returns the page of a service: one line for each fact.
func (s *serving) page(n *node, open *ports) *table.Table {
	t := &table.Table{Columns: make([]table.Column, 2), Wrap: true}
	set := s.e.settings
	t.Row("address", n.url)
	t.Row("data", set.data)
	decides := set.describeLLM()
	if decides == "fake" {
		decides = offline
	}
	t.Row("decides", decides)
	var ids []string
	for _, a := range n.Routable("") {
		s.listed.Store(a.ID, true)
		ids = append(ids, prompt.Clean(a.ID, pageWord))
	}
	switch more := len(ids) - maxPageAgents; {
	case len(ids) == 0:
		ids = []string{"none yet"}
	case more > 0:
		ids = append(ids[:maxPageAgents], fmt.Sprintf("and %d more", more))
	}
	t.Row("agents", strings.Join(ids, ", "))
	if open.http != nil {
		t.Row("console", open.door.link(console.BannerLife, n.sender != ""))
		t.Row("health", open.scheme()+open.http.Addr().String()+"/readyz")
		t.Row("as a tool", open.scheme()+open.http.Addr().String()+"/mcp")
	}
	if open.a2a != nil {
		t.Row("A2A", open.scheme()+open.a2a.Addr().String()+a2aCard)
	}
	if open.grpc != nil {
		t.Row("A2A, gRPC", open.grpc.Addr().String())
	}
	return t
}

// joinFlags returns the flags with which another command joins this service.
func (s *settings) joinFlags() string {
	text := tenantFlag(s.tenant)
	for _, f := range []struct{ name, value string }{{"data", s.data}, {"nats", s.nats}, {"transport", s.transport}} {
		if s.given[f.name] != 0 && f.value != "" {
			text += " --" + f.name + " " + shellWord(f.value)
		}
	}
	return text
}

// stopping tells that a service ends. Its own agents leave now, which goes without saying.
func (s *serving) stopping() {
	if s.person {
		s.shown.Store(false)
		fmt.Fprintln(s.e.logTo()) // below the ^C of the terminal
	}
	s.log.Info("cortex is stopping")
}

// stopped tells that a service has ended, and what it did.
func (s *serving) stopped(did cortex.Stats) {
	if s.person {
		s.say(fmt.Sprintf("cortex has stopped: %s, %s", counted(int(did.Decisions), "decision"), counted(int(did.Tasks), "task")))
		return
	}
	s.log.Info("cortex has stopped", "entries", did.Entries, "decisions", did.Decisions, "tasks", did.Tasks, "retries", did.Retries, "ignored", did.Ignored, "refused", did.Refused)
}

// pinned tells of an event of a well-known agent, which is there whether it runs or not.
func (s *serving) pinned(agent string, e registry.Event) {
	switch running := len(e.Record.Instances); {
	case e.Kind == registry.EventJoined && running == 1:
		s.say(agent + " runs: " + prompt.Clean(e.Record.Card.Description, pageWord))
	case e.Kind == registry.EventLeft && running == 0:
		s.say(agent + " does not run now; work for it waits")
	}
}

// event tells of an event of an agent.
func (s *serving) event() func(registry.Event) {
	if !s.person {
		return logEvent(s.log)
	}
	return func(e registry.Event) {
		agent := prompt.Clean(e.AgentID, pageWord)
		_, listed := s.listed.LoadAndDelete(e.AgentID)
		switch {
		case e.Kind == registry.EventRefused:
			s.say(fmt.Sprintf("warning: %s is given no work: %s", agent, prompt.Clean(e.Reason, 300)))
		case e.Kind == registry.EventConflict:
			s.say("warning: " + agent + " is announced with different cards: the newer card is used")
		case !s.shown.Load():
		case e.Record != nil && e.Record.Pinned:
			s.pinned(agent, e)
		case listed && e.Kind == registry.EventRegistered:
		case e.Kind == registry.EventRegistered:
			s.say(agent + " is there: " + prompt.Clean(e.Record.Card.Description, pageWord))
		case e.Kind == registry.EventUpdated:
			s.say(agent + " is updated: " + prompt.Clean(e.Record.Card.Description, pageWord)) // or takes work again
		case e.Kind == registry.EventDraining && e.Record.State == registry.StateDraining:
			s.say(agent + " takes no new work")
		case e.Kind == registry.EventDeregistered && e.Reason == registry.ReasonRequested:
			s.say(agent + " has left")
		case e.Kind == registry.EventDeregistered:
			s.say(agent + " is gone: it is not heard of any more")
		}
	}
}
