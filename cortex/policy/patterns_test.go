package policy_test

import (
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/cortex-orchestrator/cortex/cortex/policy"
)

func TestPatterns(t *testing.T) {
	p := parse(t, `
rules:
  - {agents: ["pay*"], bids: false}
  - {agents: ["pay2"], board: false}
  - {agents: ["sing*"], swarm: {}}
  - {agents: ["sing1"], skills: [high], from: ["user:ann"], swarm: {agents: 2, rounds: 5, tokens: 100}}
  - {agents: ["bank"], calls: {most: 3, per: 1m}}
  - {agents: ["bank"], skills: [send], from: ["user*"], calls: {most: 1, per: 1h, by: all}, repeat: {within: 10m, gives: result}}
  - {agents: ["bank"], skills: [send], from: ["user:ann"], repeat: {within: 1m}}
`)
	for agent, want := range map[string][2]bool{"pay1": {false, true}, "pay2": {false, false}, "sing1": {true, true}} {
		if got := [2]bool{p.Bids(agent), p.Board(agent)}; got != want {
			t.Errorf("%s bids, and has a board: %v, want %v", agent, got, want)
		}
	}
	for _, test := range []struct {
		from, agent, skill string
		want               *policy.Swarm
	}{
		{"user", "pay1", "x", nil},
		{"user", "sing1", "high", &policy.Swarm{Agents: 3, Rounds: 2, Tokens: 20_000}},
		{"user:ann", "sing1", "high", &policy.Swarm{Agents: 2, Rounds: 2, Tokens: 100}},
		{"user:ann", "sing1", "low", &policy.Swarm{Agents: 3, Rounds: 2, Tokens: 20_000}},
	} {
		if d := cmp.Diff(test.want, p.Swarm(test.from, test.agent, test.skill)); d != "" {
			t.Errorf("swarm of %s for %s (-want +got):\n%s", test.agent, test.from, d)
		}
	}
	any3 := policy.Calls{Most: 3, Per: time.Minute, By: policy.ByAsker}
	for _, test := range []struct {
		from, skill string
		calls       []policy.Calls
		repeat      *policy.Repeat
	}{
		{"agent", "send", []policy.Calls{any3}, nil},
		{"user", "get", []policy.Calls{any3}, nil},
		{"user", "send", []policy.Calls{any3, {Most: 1, Per: time.Hour, By: policy.ByAll, Skill: true}}, &policy.Repeat{Within: 10 * time.Minute, First: true}},
		{"user:ann", "send", []policy.Calls{any3, {Most: 1, Per: time.Hour, By: policy.ByAll, Skill: true}}, &policy.Repeat{Within: 10 * time.Minute}},
	} {
		if d := cmp.Diff(test.calls, p.Calls(test.from, "bank", test.skill)); d != "" {
			t.Errorf("calls of %s for %s (-want +got):\n%s", test.skill, test.from, d)
		}
		if d := cmp.Diff(test.repeat, p.Repeat(test.from, "bank", test.skill)); d != "" {
			t.Errorf("repetition of %s for %s (-want +got):\n%s", test.skill, test.from, d)
		}
	}
	if !p.Counted() || parse(t, rules).Counted() || (*policy.Policy)(nil).Counted() {
		t.Error("Counted is wrong")
	}
}

func TestPatternErrors(t *testing.T) {
	for rule, want := range map[string]string{
		"bids: false, skills: [x]":                     "bids and board: they are about all that its agents are asked for",
		"board: false, from: [x]":                      "bids and board: they are about all that its agents are asked for",
		"bids: true":                                   "it changes nothing",
		"allow: false, bids: false":                    "with false nothing else counts",
		"allow: false, calls: {most: 1, per: 1m}":      "with false nothing else counts",
		"swarm: {agents: 1}":                           "agents: it is a number of agents from 2 to 8",
		"swarm: {agents: 9}":                           "agents: it is a number of agents from 2 to 8",
		"swarm: {rounds: 6}":                           "rounds: it is a number of rounds from 1 to 5",
		"swarm: {rounds: 0}":                           "rounds: it is a number of rounds from 1 to 5",
		"swarm: {tokens: 1000001}":                     "tokens: it is a number of tokens from 1 to 1000000",
		"swarm: {round: 1}":                            "did you mean rounds?",
		"swarm: 3":                                     "swarm: it has to have keys",
		"calls: {most: 1}":                             "it needs most and per",
		"calls: {per: 1m}":                             "it needs most and per",
		"calls: {most: 1001, per: 1m}":                 "most: it is a number of calls from 1 to 1000",
		"calls: {most: 1, per: 60}":                    "per: it is a span of time from 1s to 168h0m0s",
		"calls: {most: 1, per: 169h}":                  "per: it is a span of time from 1s to 168h0m0s",
		"calls: {most: 1, per: 1ms}":                   "per: it is a span of time from 1s to 168h0m0s",
		"calls: {most: 1, per: 1m, by: user}":          `by: it is asker, person or all, and not "user"`,
		"repeat: {gives: result}":                      "it needs within",
		"repeat: {within: -1m}":                        "within: it is a span of time from 1s to 168h0m0s",
		"repeat: {within: 1m, gives: nothing, x: 1}":   `unknown key "x"`,
		"repeat: {within: 1m, gives: nothing}":         `gives: it is refusal or result, and not "nothing"`,
		"repeat: {within: 1m, gives: result, with: 1}": "did you mean within?",
	} {
		_, err := policy.Parse("policy.yaml", []byte("rules: [{agents: [a], "+rule+"}]"))
		if err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: error %v, want %q", rule, err, want)
		}
	}
}
