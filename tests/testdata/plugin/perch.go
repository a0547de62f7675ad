package main

import (
	"context"
	"flag"
	"io"
	"net/http"

	"github.com/a2aproject/a2a-go/v2/a2a"

	"github.com/cortex-orchestrator/cortex/app"
	"github.com/cortex-orchestrator/cortex/app/role"
	"github.com/cortex-orchestrator/cortex/client"
)

// openPerch has passers-by ask Cortex by HTTP: the body of a POST is the question, and what comes back is the answer. A role that speaks to
// anybody has to find out who asks, and says so in From.
func openPerch(f *flag.FlagSet) role.Run {
	addr := f.String("perch", "", "`ADDRESS` on which passers-by ask")
	return func(ctx context.Context, at *app.Site) error {
		if *addr == "" {
			return nil
		}
		l, err := at.Listen(ctx, *addr)
		if err != nil {
			return err
		}
		at.Logger.Info("perch", "url", "http://"+l.Addr().String())
		at.Ready()
		return at.Serve(ctx, l, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			question, err := io.ReadAll(r.Body)
			if err != nil {
				http.Error(w, err.Error(), http.StatusBadRequest)
				return
			}
			answer, err := ask(r.Context(), at.Client, string(question))
			if err != nil {
				http.Error(w, err.Error(), http.StatusServiceUnavailable)
				return
			}
			for _, p := range answer.Parts {
				_, _ = io.WriteString(w, p.Text())
			}
		}))
	}
}

// ask asks in a conversation of its own.
func ask(ctx context.Context, c *client.Client, question string) (*a2a.Message, error) {
	m := client.Text(c.NextID(), question)
	m.From = "user:passer-by"
	turn, err := c.Send(ctx, m)
	if err != nil {
		return nil, err
	}
	return c.Answer(ctx, turn)
}
