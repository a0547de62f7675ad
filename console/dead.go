package console

import (
	"fmt"
	"net/http"

	"github.com/cortex-orchestrator/cortex/internal/view"
	"github.com/cortex-orchestrator/cortex/transport"
)

// deadData is the page of dead letters.
type deadData struct {
	Rows []deadRow
	More bool
	None string // why there are none to see
}

type deadRow struct {
	view.DeadJSON
	Kind, Payload string
}

const maxDead = 100

// deadLetters returns the transport's dead letters, for operators.
func (c *Console) deadLetters(who Person) (transport.DeadLetters, error) {
	if !who.Operator {
		return nil, errOperator
	}
	dead, ok := c.cfg.Client.Transport.(transport.DeadLetters)
	if !ok {
		return nil, wrong{http.StatusNotFound, "this transport keeps no dead letters"}
	}
	return dead, nil
}

func (c *Console) dead(w http.ResponseWriter, r *http.Request, who Person) error {
	dead, err := c.deadLetters(who)
	if err != nil {
		return err
	}
	leave, err := c.enterPage(r.Context(), w, who, 2*maxShown)
	if err != nil {
		return err
	}
	defer leave()
	if wantsJSON(r) {
		return answerList(w, func(yield func(view.DeadJSON, error) bool) {
			n := 0
			for letter, err := range dead.DeadLetters(r.Context(), c.cfg.Client.Tenant) {
				if err != nil {
					yield(view.DeadJSON{}, err)
					return
				}
				if n++; n > maxDead || !yield(view.NewDeadJSON(letter), nil) {
					return
				}
			}
		})
	}
	d := &deadData{}
	for letter, err := range dead.DeadLetters(r.Context(), c.cfg.Client.Tenant) {
		if err != nil {
			return err
		}
		if len(d.Rows) == maxDead {
			d.More = true
			break
		}
		row := deadRow{view.NewDeadJSON(letter), view.KindOf(letter.Event), view.PayloadText(letter.Event.Payload)}
		event := *letter.Event
		event.Payload, row.Event = nil, &event // of the payload its beginning is shown
		d.Rows = append(d.Rows, row)
	}
	c.show(w, r, http.StatusOK, &page{Name: "dead", Title: "Dead letters", Section: "dead", Data: d})
	return nil
}

// settleDead replays or removes one dead letter, or all.
func (c *Console) settleDead(w http.ResponseWriter, r *http.Request, who Person) error {
	dead, err := c.deadLetters(who)
	if err != nil {
		return err
	}
	if err := r.ParseForm(); err != nil {
		return wrong{http.StatusBadRequest, "the form cannot be read"}
	}
	do := dead.ReplayDead
	switch r.PostForm.Get("do") {
	case "replay":
	case "remove":
		do = dead.RemoveDead
	default:
		return wrong{http.StatusBadRequest, "what is to be done with it?"}
	}
	ids := []string{r.PostForm.Get("id")}
	if r.PostForm.Has("all") {
		ids = nil
		for letter, err := range dead.DeadLetters(r.Context(), c.cfg.Client.Tenant) {
			if err != nil {
				return err
			}
			ids = append(ids, letter.ID)
		}
	}
	failed := 0
	for _, id := range ids {
		if err = do(r.Context(), c.cfg.Client.Tenant, id); err != nil {
			failed++
		}
	}
	switch {
	case failed > 0 && len(ids) == 1:
		return err
	case failed > 0:
		return wrong{http.StatusConflict, fmt.Sprintf("%d of %d dead letters were left as they are", failed, len(ids))}
	}
	http.Redirect(w, r, "/dead", http.StatusSeeOther)
	return nil
}
