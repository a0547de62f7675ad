package tests

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/signal"
	"slices"
	"strings"

	"github.com/cortex-orchestrator/cortex/bridge/rockbot/rockbottest"
)

// rockpeer plays a program of RockBot, with the RabbitMQ that RABBIT names: `rockpeer agent NAME` or `rockpeer ask AGENT SKILL TEXT`. `rockpeer rabbitmq` is a
// RabbitMQ itself, whose files are in the current folder, and says where it is.
func rockpeer() {
	if err := playRockBot(os.Args[1:]); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}

func playRockBot(args []string) error {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt)
	defer stop()
	url := "amqp://guest:guest@" + os.Getenv("RABBIT") + "/"
	switch args[0] {
	case "rabbitmq":
		dir, err := os.Getwd()
		if err != nil {
			return err
		}
		s, err := rockbottest.Start(dir)
		if err != nil {
			return err
		}
		defer s.Kill()
		if err := s.Begin(); err != nil {
			return err
		}
		if err := os.WriteFile("address", []byte(strings.TrimSuffix(strings.TrimPrefix(s.URL(), "amqp://guest:guest@"), "/")), 0o600); err != nil {
			return err
		}
		<-ctx.Done()
		return nil
	case "agent":
		return playAgent(ctx, url, args[1])
	case "ask":
		p := &rockbottest.Program{Name: "RockBot"}
		if err := p.Connect(url); err != nil {
			return err
		}
		defer p.Close()
		m, err := p.Response(ctx, p.Invoke(args[1], args[2], args[3]), 1)
		if err == nil {
			fmt.Println(m.Text())
		}
		return err
	}
	return fmt.Errorf("there is no program %s", args[0])
}

// playAgent says what it is told until it is interrupted, and prints which agents it knows.
func playAgent(ctx context.Context, url, name string) error {
	p := &rockbottest.Program{Name: name, Skills: []string{"say"}, Wrong: func(err error) { fmt.Println("wrong:", err) }}
	if err := p.Connect(url); err != nil {
		return err
	}
	defer p.Close()
	p.Announce()
	known := ""
	err := p.Until(ctx, func(_ []*rockbottest.Message, cards map[string]*rockbottest.Message) bool {
		var names []string
		for name := range cards {
			names = append(names, name)
		}
		slices.Sort(names)
		if now := strings.Join(names, " "); now != known {
			known = now
			fmt.Println("knows:", known)
		}
		return false
	})
	p.Leave()
	if errors.Is(err, context.Canceled) {
		err = nil
	}
	return err
}
