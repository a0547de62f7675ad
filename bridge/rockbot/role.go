package rockbot

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"io"
	"path"
	"slices"
	"strings"
	"time"

	amqp "github.com/rabbitmq/amqp091-go"

	"github.com/cortex-orchestrator/cortex/app/role"
	"github.com/cortex-orchestrator/cortex/bridge/kit"
	"github.com/cortex-orchestrator/cortex/internal/document"
	"github.com/cortex-orchestrator/cortex/internal/publicnet"
	"github.com/cortex-orchestrator/cortex/transport"
)

// Role returns the role of `cortex serve` by which Cortex and RockBot give each other work.
func Role() role.Role {
	return role.Role{Name: "rockbot", About: "Agents of RockBot work for Cortex, and Cortex for them, by way of RabbitMQ (--rockbot).", Open: open}
}

// maxKnown bounds a file of well-known agents, in bytes.
const maxKnown = 1 << 20

// options are the role's flags.
type options struct {
	url      string // with a password
	name     string // Cortex's at RockBot
	prefix   string
	known    string   // file
	announce []string // globs of ids
	first    []string // callers of the first generation
	strict   bool

	pinned []*card
}

// open adds the flags.
func open(f *flag.FlagSet) role.Run {
	o := &options{name: "Cortex", announce: []string{transport.Cortex}}
	f.Func("rockbot", "`URL`: of the RabbitMQ where RockBot is, such as amqp://guest:guest@127.0.0.1:5672/, or amqps:// with TLS", o.setURL)
	f.Func("rockbot-name", "`NAME`: of Cortex at RockBot (default Cortex)", func(text string) error {
		if err := checkName(text); err != nil {
			return errors.New(strings.Replace(err.Error(), "agentName", "the name", 1))
		}
		o.name = text
		return nil
	})
	kit.WordFlag(f, "rockbot-prefix", &o.prefix, "`TEXT`: what the ids of RockBot's agents begin with in Cortex, such as rb.")
	f.Func("rockbot-known", "`FILE`: RockBot's well-known-agents.json, whose agents get work also while they are away", func(text string) error {
		o.known = text
		return nil
	})
	f.Func("rockbot-announce", "`AGENTS`: that RockBot can give work to, such as cortex,calc*, or none (default cortex: Cortex itself)", o.setAnnounce)
	f.Func("rockbot-g1", "`CALLERS`: of RockBot's first generation, for whom a question is the end of a task, such as RockBot", func(text string) error {
		o.first = list(text)
		return nil
	})
	f.BoolVar(&o.strict, "rockbot-strict", false, "drop answers that do not say that they come from the agent that was asked")
	return o.run
}

func list(text string) (all []string) {
	for word := range strings.SplitSeq(text, ",") {
		if word = strings.TrimSpace(word); word != "" && word != "none" {
			all = append(all, word)
		}
	}
	return all
}

// setURL takes the address of RabbitMQ. Its errors do not repeat it, since it has a password.
func (o *options) setURL(text string) error {
	if text == "" || text == "none" {
		o.url = ""
		return nil
	}
	if _, err := amqp.ParseURI(text); err != nil || !strings.HasPrefix(text, "amqp://") && !strings.HasPrefix(text, "amqps://") {
		return errors.New("want a URL such as amqp://user:password@127.0.0.1:5672/ (it is not shown: it may have a password; in that, write %40 for @, %2F for / and %3A for :)")
	}
	o.url = text
	return nil
}

func (o *options) setAnnounce(text string) error {
	o.announce = list(text)
	for _, glob := range o.announce {
		if _, err := path.Match(glob, ""); err != nil {
			return fmt.Errorf("%q: want ids of agents, in which * stands for any text", glob)
		}
	}
	return nil
}

// isFirst reports whether a caller is of the first generation.
func (o *options) isFirst(source string) bool {
	return slices.ContainsFunc(o.first, func(name string) bool { return strings.EqualFold(name, source) })
}

func (o *options) run(ctx context.Context, at *role.Site) error {
	if o.url == "" {
		return nil
	}
	var err error
	if o.pinned, err = readKnown(ctx, o.known); err != nil {
		return transport.Permanent(fmt.Errorf("--rockbot-known: %w", err))
	}
	if u, err := amqp.ParseURI(o.url); err == nil && u.Scheme == "amqp" && !publicnet.IsLoopback(u.Host) {
		at.Logger.Warn("RabbitMQ is reached without encryption: whoever is between here and it can read and change all; amqps:// has it", "address", shown(o.url))
	}
	at.Logger.Info("whoever may use this RabbitMQ can ask Cortex, and be an agent of it, under any name: keys of Cortex do not count there", "address", shown(o.url))
	at.Ready() // RabbitMQ may come later
	return lead(ctx, at, o, usual)
}

// lead works while this process leads: another one has the same tasks.
func lead(ctx context.Context, at *role.Site, o *options, t times) error {
	tick := time.NewTicker(t.lead)
	defer tick.Stop()
	for {
		if at.Leads() {
			if err := whileLeading(ctx, at, o, t, tick.C); err != nil {
				return err
			}
		}
		select {
		case <-tick.C:
		case <-ctx.Done():
			return ctx.Err()
		}
	}
}

// whileLeading works until ctx ends or another process leads.
func whileLeading(ctx context.Context, at *role.Site, o *options, t times, tick <-chan time.Time) error {
	b, err := newBridge(at, o, t)
	if err != nil {
		return err
	}
	leading, end := context.WithCancel(ctx)
	defer end()
	done := make(chan error, 1)
	go func() { done <- b.run(leading, func() bool { return ctx.Err() != nil }) }()
	for {
		select {
		case err := <-done:
			return err
		case <-tick:
			if !at.Leads() && leading.Err() == nil {
				at.Logger.Info("another process leads, and works with RockBot")
				end()
				if err := <-done; err != nil && !errors.Is(err, context.Canceled) {
					return err
				}
				return ctx.Err()
			}
		}
	}
}

// readKnown reads a file of well-known agents, as RockBot has it. An agent with nothing but a URL is left to `cortex agent a2a`.
func readKnown(ctx context.Context, path string) ([]*card, error) {
	if path == "" {
		return nil, nil
	}
	f, err := document.Open(ctx, path, maxKnown+1)
	if err != nil {
		return nil, err
	}
	defer f.Close() //nolint:errcheck // it was read only
	text, err := io.ReadAll(io.LimitReader(f, maxKnown+1))
	if err != nil {
		return nil, err
	}
	if len(text) > maxKnown {
		return nil, fmt.Errorf("%s has more than %d bytes", path, maxKnown)
	}
	var entries []json.RawMessage
	if err := json.Unmarshal(bytes.TrimPrefix(text, []byte("\ufeff")), &entries); err != nil {
		return nil, fmt.Errorf(`%s: want a list of agents, [{"agentName": …}, …]`, path)
	}
	var cards []*card
	names := map[string]bool{}
	for i, raw := range entries {
		c, err := readCard(raw)
		if err == nil && names[strings.ToLower(c.AgentName)] {
			err = fmt.Errorf("%s is there twice", c.AgentName)
		}
		if err != nil {
			return nil, fmt.Errorf("%s: entry %d: %w", path, i+1, err)
		}
		names[strings.ToLower(c.AgentName)] = true
		if c.url == "" {
			cards = append(cards, c)
		}
	}
	return cards, nil
}
