package console

import (
	"context"
	"net/http"
	"slices"
	"time"

	"github.com/cortex-orchestrator/cortex/internal/view"
	"github.com/cortex-orchestrator/cortex/transport"
)

// systemData is the page of the system.
type systemData struct {
	Checks   []Check
	Replicas []view.ReplicaJSON
	Free     int         // partitions without an owner
	None     string      // why there are no replicas to see
	Waiting  int         // events in the inbox; -1: unknown
	People   []peopleRow // who is logged in by an identity provider; for operators
	Agents   int
	Routable int
}

// Wrong is how many checks say that something is wrong.
func (d *systemData) Wrong() (n int) {
	for _, is := range d.Checks {
		if !is.OK {
			n++
		}
	}
	return n
}

// Partitions is how many parts the conversations are divided into.
func (*systemData) Partitions() int { return transport.Partitions }

// peopleRow is somebody who is logged in.
type peopleRow struct {
	User     string
	Operator bool
	Sessions int
	Last     time.Time // the last login
}

// people returns who is logged in by an identity provider, the last one first.
func (c *Console) people(ctx context.Context) (rows []peopleRow, err error) {
	all, err := c.loginSessions(ctx)
	if err != nil {
		return nil, err
	}
	for _, is := range all {
		i := slices.IndexFunc(rows, func(r peopleRow) bool { return r.User == is.User })
		if i < 0 {
			i = len(rows)
			rows = append(rows, peopleRow{User: is.User, Last: is.Began})
		}
		rows[i].Sessions++
		rows[i].Operator = rows[i].Operator || is.Operator
	}
	return rows, nil
}

func (c *Console) system(w http.ResponseWriter, r *http.Request, who Person) error {
	ctx, cancel := context.WithTimeout(r.Context(), 5*time.Second)
	defer cancel()
	inbox := transport.Inbox(c.cfg.Client.Tenant, transport.Cortex)
	d := &systemData{Waiting: -1, Agents: len(c.cfg.Agents().Agents()), Routable: len(c.cfg.Agents().Routable()), Replicas: []view.ReplicaJSON{}}
	if c.cfg.Checks != nil {
		d.Checks = c.cfg.Checks(ctx)
		slices.SortStableFunc(d.Checks, func(a, b Check) int { // what is wrong comes first
			switch {
			case a.OK == b.OK:
				return 0
			case b.OK:
				return -1
			}
			return 1
		})
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
	if c.cfg.Login != nil && who.Operator {
		var err error
		if d.People, err = c.people(ctx); err != nil {
			return err
		}
	}
	if wantsJSON(r) {
		return answerJSON(w, d.Replicas)
	}
	c.show(w, r, http.StatusOK, &page{Name: "system", Title: "System", Section: "system", Data: d})
	return nil
}
