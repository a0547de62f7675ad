// Package nats is Cortex's own home: a NATS server, with conversations in its JetStream. Only package app names it.
package nats

import (
	"context"

	"github.com/cortex-orchestrator/cortex/cortex/jetstore"
	"github.com/cortex-orchestrator/cortex/cortex/storage"
	"github.com/cortex-orchestrator/cortex/internal/home"
	"github.com/cortex-orchestrator/cortex/transport/nats"
)

// Home is NATS. The zero value is ready.
type Home struct{}

var _ home.Home = Home{}

// Dial implements [home.Home].
func (Home) Dial(ctx context.Context, o *home.Options) (*home.Conn, error) {
	return dial(ctx, o, nil)
}

// dial connects to a server of this process, unless that is nil.
func dial(ctx context.Context, o *home.Options, own *server) (*home.Conn, error) {
	no := &nats.Options{
		URL: o.URL, Name: o.Name, Creds: o.Creds, Tenant: o.Tenant, Replicas: o.Replicas, MaxFile: o.MaxFile, TLS: nats.TLS(o.TLS),
		Logger: o.Logger, OnConn: o.OnConn,
	}
	if own != nil {
		no.Server = own.Server
	}
	if o.Locate != nil {
		no.Locate = func() (nats.Place, error) {
			at, err := o.Locate()
			return nats.Place(at), err
		}
	}
	bus, err := nats.Dial(ctx, no)
	if err != nil {
		return nil, err
	}
	open := func(ctx context.Context) (storage.Store, error) {
		so := &jetstore.Options{API: bus.API(), Replicas: o.Replicas, Logger: o.Logger}
		if o.Runs {
			reads, err := bus.Reads()
			if err != nil {
				return nil, err
			}
			so.Reads = reads
		}
		store, err := jetstore.Open(ctx, bus.Conn(), so)
		if err != nil {
			return nil, err
		}
		if own != nil {
			for _, d := range own.audit.all().Damaged {
				if own.serves(d) {
					store.NoteDamaged(ctx, d)
				}
			}
		}
		return store, nil
	}
	return &home.Conn{Bus: bus, Who: bus.Identity(), Store: open}, nil
}
