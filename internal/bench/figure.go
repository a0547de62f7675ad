package bench

import "fmt"

// Figure is a measured number, with what it is held against.
type Figure struct {
	Case  string  `json:"case"`
	What  string  `json:"what"` // for people
	Value float64 `json:"value"`
	Unit  string  `json:"unit"`
	// Least is what it has to be at least, and Aim what it should be; or at most, for what is better when it is Less. 0: nothing is
	// asked of it.
	Least float64 `json:"at_least,omitempty"`
	Aim   float64 `json:"aim,omitempty"`
	Less  bool    `json:"less_is_better,omitempty"`
}

// Asked reports whether something is asked of the figure.
func (f Figure) Asked() bool { return f.Least != 0 }

// Met reports whether it is what it has to be at least.
func (f Figure) Met() bool {
	if f.Less {
		return f.Value <= f.Least
	}
	return f.Value >= f.Least
}

// goal is what is asked of turns with a number of conversations at once.
type goal struct {
	contexts   int
	least, aim float64
}

var (
	goalsP50     = map[string][]goal{"inproc": {{1, 12, 6}}, "tcp": {{1, 7, 3}}} // times the floor's
	goalsRate    = []goal{{64, 0.10, 0.2}, {256, 0.08, 0.2}}                     // share of the floor's
	goalsDelayed = []goal{{256, 90, 97}, {1000, 80, 90}}                         // percent of the ideal
)

// Compare returns what turns cost beside their floor, or, with a Delay, how near they come to the ideal, in which nothing but the
// decisions takes time. What is asked of turns is asked of those with one delegation.
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

// plural says how many of something there are.
func plural(n int, noun string) string {
	if n == 1 {
		return "1 " + noun
	}
	return fmt.Sprintf("%d %ss", n, noun)
}
