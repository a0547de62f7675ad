package bench

import "fmt"

// Figure is a measured number, with its target.
type Figure struct {
	Case  string  `json:"case"`
	What  string  `json:"what"` // for people
	Value float64 `json:"value"`
	Unit  string  `json:"unit"`
	// Least is the required value, and Aim the desired one: a minimum, or with Less a maximum. 0: no target.
	Least float64 `json:"at_least,omitempty"`
	Aim   float64 `json:"aim,omitempty"`
	Less  bool    `json:"less_is_better,omitempty"`
}

// Asked reports whether the figure has a target.
func (f Figure) Asked() bool { return f.Least != 0 }

// Met reports whether the figure has the required value.
func (f Figure) Met() bool {
	if f.Less {
		return f.Value <= f.Least
	}
	return f.Value >= f.Least
}

// goal is the target of turns with a number of concurrent conversations.
type goal struct {
	contexts   int
	least, aim float64
}

var (
	goalsP50     = map[string][]goal{"inproc": {{1, 12, 6}}, "tcp": {{1, 7, 3}}} // times the floor's
	goalsRate    = []goal{{64, 0.10, 0.2}, {256, 0.08, 0.2}}                     // share of the floor's
	goalsDelayed = []goal{{256, 90, 97}, {1000, 80, 90}}                         // percent of the ideal
)

// Compare returns the cost of turns relative to their floor, or, with a Delay, relative to the ideal, in which only the decisions take time. Only
// turns with one delegation have targets.
func Compare(cfg TurnsConfig, floor, turn Line) []Figure {
	if turn.Turns == 0 {
		return nil
	}
	of := fmt.Sprintf("%s, %s", plural(turn.Contexts, "conversation"), turn.Transport)
	rate := Figure{Case: "rate_ratio", What: "turns/s, " + of, Unit: "x floor"}
	if cfg.Delay > 0 {
		ideal := float64(turn.Contexts) / (2 * cfg.Delay.Seconds())
		rate = Figure{Case: "rate_ideal", What: fmt.Sprintf("turns/s, %s, of %.0f", of, ideal), Value: 100 * turn.PerSecond / ideal, Unit: "%"}
		return []Figure{rate.ask(cfg, goalsDelayed)}
	}
	p50 := Figure{Case: "p50_ratio", What: "p50, " + of, Value: ratio(turn.P50, floor.P50), Unit: "x floor", Less: true}
	rate.Value = ratio(turn.PerSecond, floor.PerSecond)
	return []Figure{p50.ask(cfg, goalsP50[turn.Transport]), rate.ask(cfg, goalsRate)}
}

func (f Figure) ask(cfg TurnsConfig, goals []goal) Figure {
	for _, g := range goals {
		if g.contexts == cfg.Contexts && cfg.Delegations <= 1 {
			f.Least, f.Aim = g.least, g.aim
		}
	}
	return f
}

func ratio(a, b float64) float64 {
	if b == 0 {
		return 0
	}
	return a / b
}

// plural formats a number of things.
func plural(n int, noun string) string {
	if n == 1 {
		return "1 " + noun
	}
	return fmt.Sprintf("%d %ss", n, noun)
}
