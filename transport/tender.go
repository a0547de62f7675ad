package transport

import (
	"errors"
	"fmt"
	"math"
	"time"
)

// Tender asks an agent, on its control topic, for what it would do a task. The agent answers with a [Bid] on the control topic of Cortex, before
// Until. Neither is stored: who wins, and by which bids, is in the log with the decision.
type Tender struct {
	ID    string    `json:"id"`              // of this agent's part of the tender; nobody else is told it
	Skill string    `json:"skill,omitempty"` // the skill that is asked for
	Task  string    `json:"task"`            // what is to be done; at most [MaxTender] bytes of it
	Until time.Time `json:"until"`           // when bids are no longer waited for, by Cortex's clock
}

// MaxTender bounds the text of a Tender, in bytes.
const MaxTender = 4 << 10

// Bid answers a Tender.
type Bid struct {
	Tender     string  `json:"tender"`            // the Tender's ID
	Confidence float64 `json:"confidence"`        // how likely the agent does the task well, from 0 to 1
	Cost       float64 `json:"cost,omitempty"`    // what it costs, from 0 to [MaxBidCost], in the currency of the budgets
	Seconds    float64 `json:"seconds,omitempty"` // how long it takes, from 0 to [MaxBidSeconds]; 0: not specified
	Declined   bool    `json:"declined,omitempty"`
}

// Bounds of a Bid.
const (
	MaxBidCost    = 1e6
	MaxBidSeconds = 7 * 24 * 60 * 60
)

// Check returns why nothing can be concluded from b, or nil.
func (b *Bid) Check() error {
	for _, f := range []struct {
		name        string
		value, most float64
	}{{"confidence", b.Confidence, 1}, {"cost", b.Cost, MaxBidCost}, {"seconds", b.Seconds, MaxBidSeconds}} {
		if math.IsNaN(f.value) || f.value < 0 || f.value > f.most {
			return fmt.Errorf("%s is %.6g, it must be from 0 to %v", f.name, f.value, f.most)
		}
	}
	return nil
}

func (t *Tender) validate() error {
	if err := CheckID(t.ID); err != nil {
		return fmt.Errorf("tender: its id %w", err)
	}
	if len(t.Task) > MaxTender {
		return fmt.Errorf("tender: its text is %d bytes long, at most %d are allowed", len(t.Task), MaxTender)
	}
	return nil
}

func (b *Bid) validate() error {
	if err := CheckID(b.Tender); err != nil {
		return fmt.Errorf("bid: the id of its tender %w", err)
	}
	for _, v := range []float64{b.Confidence, b.Cost, b.Seconds} {
		if math.IsNaN(v) || math.IsInf(v, 0) {
			return errors.New("bid: one of its numbers is none")
		}
	}
	return nil
}
