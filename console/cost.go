package console

import (
	"fmt"
	"net/http"
	"slices"
	"strings"
	"time"

	"github.com/cortex-orchestrator/cortex/cortex/storage"
	"github.com/cortex-orchestrator/cortex/llm"
	"github.com/cortex-orchestrator/cortex/transport"
)

// costData is the page of costs.
type costData struct {
	Today  []bounded   // what is left of the day's budget
	Days   []dayCost   // the spend log, of all conversations
	Models []modelCost // of the conversations that changed last
	Rows   []costRow
	Most   int // conversations that were looked at
	All    bool
}

type dayCost struct {
	Day   string    `json:"day"`
	Usage llm.Usage `json:"usage"`
}

// bounded is a budget of the day, and how much of it is spent.
type bounded struct {
	Of    string  `json:"of"` // tokens or cost
	Spent float64 `json:"spent"`
	Bound float64 `json:"bound"`
}

// Text says how much is spent of how much.
func (b bounded) Text() string {
	if b.Of == "cost" {
		return fmt.Sprintf("%.2f of %.2f", b.Spent, b.Bound)
	}
	return fmt.Sprintf("%.0f of %.0f tokens", b.Spent, b.Bound)
}

// Percent is how much is spent.
func (b bounded) Percent() int { return int(100 * b.Spent / b.Bound) }

// today compares what was spent today with the budget of a day.
func (c *Console) today(spent llm.Usage) (all []bounded) {
	if most := c.cfg.Budget.Cost; most > 0 {
		all = append(all, bounded{"cost", spent.Cost, most})
	}
	if most := c.cfg.Budget.Tokens; most > 0 {
		all = append(all, bounded{"tokens", float64(spent.Tokens()), float64(most)})
	}
	return all
}

type modelCost struct {
	Day       string    `json:"day"`
	Model     string    `json:"model"`
	Decisions int       `json:"decisions"`
	Usage     llm.Usage `json:"usage"`
}

type costRow struct {
	storage.ContextInfo
	Usage llm.Usage
	Turns int
}

// Bounds of the page of costs.
const (
	costDays   = 3 // that a store keeps at least
	costScan   = 200
	maxCostRow = 20
)

func (c *Console) cost(w http.ResponseWriter, r *http.Request, who Person) error {
	leave, err := c.enterPage(r.Context(), w, who, 2*maxShown) // many logs are read
	if err != nil {
		return err
	}
	defer leave()
	ctx, tenant, now := r.Context(), c.cfg.Client.Tenant, c.cfg.Now().UTC()
	d := &costData{All: true}
	if log, ok := c.cfg.Store.(storage.SpendLog); ok {
		for i := range costDays {
			day := now.AddDate(0, 0, -i).Format(time.DateOnly)
			u, err := log.Spent(ctx, tenant, day)
			if err != nil {
				return err
			}
			d.Days = append(d.Days, dayCost{day, u})
		}
		d.Today = c.today(d.Days[0].Usage)
	}
	byModel := make(map[[2]string]*modelCost)
	for info, err := range c.cfg.Store.Contexts(ctx, tenant) {
		if err != nil {
			return err
		}
		if d.Most == costScan {
			d.All = false
			break
		}
		if now.Sub(info.Updated) > costDays*24*time.Hour {
			break
		}
		d.Most++
		row := costRow{ContextInfo: info}
		for e, err := range c.cfg.Store.Load(ctx, tenant, info.ContextID, 0) {
			if err != nil {
				break // what is damaged is said where the conversation is
			}
			spent := e.Spent()
			row.Usage = row.Usage.Add(spent)
			if m, ok := transport.Request(e.Cause); ok && m != nil {
				row.Turns++
			}
			day := e.Time.UTC().Format(time.DateOnly)
			if e.Decision == nil && spent == (llm.Usage{}) || now.Sub(e.Time) > costDays*24*time.Hour {
				continue
			}
			model := "(failed decisions)"
			if e.Decision != nil {
				model = e.Decision.Model
			}
			one := byModel[[2]string{day, model}]
			if one == nil {
				one = &modelCost{Day: day, Model: model}
				byModel[[2]string{day, model}] = one
			}
			one.Decisions++
			one.Usage = one.Usage.Add(spent)
		}
		if row.Usage.Tokens() > 0 || row.Usage.Cost > 0 {
			d.Rows = append(d.Rows, row)
		}
	}
	for _, one := range byModel {
		d.Models = append(d.Models, *one)
	}
	slices.SortFunc(d.Models, func(a, b modelCost) int {
		if by := strings.Compare(b.Day, a.Day); by != 0 {
			return by
		}
		return strings.Compare(a.Model, b.Model)
	})
	slices.SortStableFunc(d.Rows, func(a, b costRow) int {
		switch {
		case a.Usage.Cost > b.Usage.Cost:
			return -1
		case a.Usage.Cost < b.Usage.Cost:
			return 1
		}
		return b.Usage.Tokens() - a.Usage.Tokens()
	})
	d.Rows = d.Rows[:min(len(d.Rows), maxCostRow)]
	if wantsJSON(r) {
		return answerJSON(w, struct {
			Budget []bounded   `json:"budget,omitempty"`
			Days   []dayCost   `json:"days"`
			Models []modelCost `json:"models"`
		}{d.Today, d.Days, d.Models})
	}
	c.show(w, r, http.StatusOK, &page{Name: "cost", Title: "Cost", Section: "cost", Data: d})
	return nil
}
