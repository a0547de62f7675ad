package mirror

import (
	"context"
	"errors"
	"flag"

	"github.com/cortex-orchestrator/cortex/app/role"
	"github.com/cortex-orchestrator/cortex/transport"
)

// Role returns the role of `cortex serve` that mirrors the log to PostgreSQL.
func Role() role.Role {
	return role.Role{Name: "mirror", About: "The log is mirrored to PostgreSQL, for audits and SQL (--postgres).", Open: open}
}

func open(f *flag.FlagSet) role.Run {
	o := &Options{}
	o.AddFlags(f)
	return func(ctx context.Context, at *role.Site) error {
		if o.Postgres == "" {
			return nil
		}
		store, ok := at.Store.(Store)
		if !ok {
			return transport.Permanent(errors.New("--postgres needs a store that has a journal, as Cortex's own has"))
		}
		opts := *o
		opts.Transport, opts.Tenant, opts.Logger, opts.Ready, opts.Waits = at.Transport, at.Tenant, at.Logger, at.Ready, at.Waits
		m, err := New(store, &opts)
		if err != nil {
			return transport.Permanent(err)
		}
		at.Ready() // Cortex does not wait for the database
		return m.Run(ctx)
	}
}
