package console

import (
	"context"
	"net/http"
	"time"

	"github.com/cortex-orchestrator/cortex/internal/view"
	"github.com/cortex-orchestrator/cortex/transport"
)

// systemData is the page of the system.
type systemData struct {
	Checks   []Check
	Replicas []view.ReplicaJSON
	Free     int    // partitions without an owner
	None     string // why there are no replicas to see
	Waiting  int    // events in the inbox; -1: unknown
	Agents   int
	Routable int
}

func (c *Console) system(w http.ResponseWriter, r *http.Request, _ Person) error {
	ctx, cancel := context.WithTimeout(r.Context(), 5*time.Second)
	defer cancel()
	inbox := transport.Inbox(c.cfg.Client.Tenant, transport.Cortex)
	d := &systemData{Waiting: -1, Agents: len(c.cfg.Agents().Agents()), Routable: len(c.cfg.Agents().Routable()), Replicas: []view.ReplicaJSON{}}
	if c.cfg.Checks != nil {
		d.Checks = c.cfg.Checks(ctx)
	}
	if known, ok := c.cfg.Client.Transport.(transport.Owners); ok {
		owners, err := known.Owners(ctx, inbox)
		if err != nil {
			d.None = err.Error()
		}
		d.Free = transport.Partitions
		for _, o := range owners {
			d.Free -= len(o.Partitions)
			d.Replicas = append(d.Replicas, view.NewReplicaJSON(&o))
		}
	} else {
		d.None = "This transport does not tell who owns what."
	}
	if depth, ok := c.cfg.Client.Transport.(transport.InboxDepth); ok {
		if n, err := depth.Waiting(ctx, inbox); err == nil {
			d.Waiting = n
		}
	}
	if wantsJSON(r) {
		return answerJSON(w, d.Replicas)
	}
	c.show(w, r, http.StatusOK, &page{Name: "system", Title: "System", Section: "system", Data: d})
	return nil
}
