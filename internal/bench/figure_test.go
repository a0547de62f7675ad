package bench

import (
	"encoding/json"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
)

// TestCompare checks the targets of turns.
func TestCompare(t *testing.T) {
	line := func(transport string, contexts int, p50, perSecond float64) Line {
		return Line{Transport: transport, Contexts: contexts, Turns: 10, P50: p50, PerSecond: perSecond}
	}
	type asked struct {
		Case              string
		Value, Least, Aim float64
		Met               bool
	}
	for name, test := range map[string]struct {
		cfg         TurnsConfig
		floor, turn Line
		want        []asked
	}{
		"one, in process": {
			TurnsConfig{Contexts: 1},
			line("inproc", 1, 10, 1000), line("inproc", 1, 120, 100),
			[]asked{{"p50_ratio", 12, 12, 6, true}, {"rate_ratio", 0.1, 0, 0, true}},
		},
		"too slow": {
			TurnsConfig{Contexts: 1},
			line("inproc", 1, 10, 1000), line("inproc", 1, 121, 100),
			[]asked{{"p50_ratio", 12.1, 12, 6, false}, {"rate_ratio", 0.1, 0, 0, true}},
		},
		"one, TCP": {
			TurnsConfig{Contexts: 1, TCP: true},
			line("tcp", 1, 10, 1000), line("tcp", 1, 80, 100),
			[]asked{{"p50_ratio", 8, 7, 3, false}, {"rate_ratio", 0.1, 0, 0, true}},
		},
		"64": {
			TurnsConfig{Contexts: 64},
			line("inproc", 64, 10, 1000), line("inproc", 64, 500, 90),
			[]asked{{"p50_ratio", 50, 0, 0, false}, {"rate_ratio", 0.09, 0.1, 0.2, false}},
		},
		"256": {
			TurnsConfig{Contexts: 256},
			line("inproc", 256, 10, 1000), line("inproc", 256, 500, 90),
			[]asked{{"p50_ratio", 50, 0, 0, false}, {"rate_ratio", 0.09, 0.08, 0.2, true}},
		},
		"three tasks": {
			TurnsConfig{Contexts: 64, Delegations: 3},
			line("inproc", 64, 10, 1000), line("inproc", 64, 500, 90),
			[]asked{{"p50_ratio", 50, 0, 0, false}, {"rate_ratio", 0.09, 0, 0, true}},
		},
		"slow decisions": {
			TurnsConfig{Contexts: 256, Delay: 200 * time.Millisecond},
			Line{},
			line("inproc", 256, 0, 608),
			[]asked{{"rate_ideal", 95, 90, 97, true}},
		},
		"many of them": {
			TurnsConfig{Contexts: 1000, Delay: 200 * time.Millisecond},
			Line{},
			line("inproc", 1000, 0, 1750),
			[]asked{{"rate_ideal", 70, 80, 90, false}},
		},
		"nothing": {
			TurnsConfig{Contexts: 1},
			line("inproc", 1, 10, 1000),
			Line{},
			nil,
		},
	} {
		t.Run(name, func(t *testing.T) {
			var got []asked
			for _, f := range Compare(test.cfg, test.floor, test.turn) {
				if f.Asked() != (f.Least != 0) || f.What == "" {
					t.Errorf("figure %+v", f)
				}
				got = append(got, asked{f.Case, f.Value, f.Least, f.Aim, f.Met()})
			}
			if diff := cmp.Diff(test.want, got); diff != "" {
				t.Errorf("(-want +got)\n%s", diff)
			}
		})
	}
}

// TestLineAsJSON checks the JSON of a line, which programs read.
func TestLineAsJSON(t *testing.T) {
	got, err := json.Marshal(Line{"turn", "tcp", 64, 1000, 1, 2, 3.5, 4.5, 5.5, 6.5})
	want := `{"case":"turn","transport":"tcp","contexts":64,"turns":1000,"lost":1,"dup":2,"p50_us":3.5,"p99_us":4.5,"per_s":5.5,"stored_per_turn":6.5}`
	if err != nil || string(got) != want {
		t.Errorf("Marshal = %s, %v, want %s", got, err, want)
	}
}
