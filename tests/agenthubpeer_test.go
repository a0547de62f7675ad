package tests

import (
	"bufio"
	"context"
	"fmt"
	"os"
	"os/signal"

	"github.com/cortex-orchestrator/cortex/bridge/agenthub/hubtest"
)

// hubpeer plays the program of AgentHub that its first argument names, with the hub at the address of the second.
func hubpeer() {
	if err := playHub(os.Args[1], os.Args[2]); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}

func playHub(program, address string) error {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt)
	defer stop()
	if program == "broker" {
		_, end, err := new(hubtest.Broker).Serve(address)
		if err == nil {
			<-ctx.Done()
			end()
		}
		return err
	}
	hub, end, err := hubtest.Dial(address)
	if err != nil {
		return err
	}
	defer end()
	run := func(a *hubtest.SubAgent) error {
		a.OnStream = func() { fmt.Println("subscribed") }
		a.Refused = func(why string) { fmt.Println("refused:", why) }
		if err := a.Run(ctx, hub); ctx.Err() == nil {
			return err
		}
		return nil
	}
	switch program {
	case "echo_agent":
		return run(hubtest.Echo())
	case "subscriber":
		return run(hubtest.Subscriber(func(kind string) { fmt.Println("done:", kind) }))
	case "publisher":
		return hubtest.Publish(ctx, hub)
	case "chat_cli":
		c := &hubtest.CLI{Hub: hub}
		if err := c.Subscribe(ctx); err != nil {
			return err
		}
		for in := bufio.NewScanner(os.Stdin); in.Scan(); {
			if _, err := c.Say(ctx, in.Text()); err != nil {
				return err
			}
			fmt.Println((<-c.Shown).GetContent()[0].GetText())
		}
		return nil
	}
	return fmt.Errorf("there is no program %s", program)
}
