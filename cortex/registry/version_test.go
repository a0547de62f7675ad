package registry_test

import (
	"strings"
	"testing"

	"github.com/cortex-orchestrator/cortex/cortex/registry"
)

// TestVersionOrder checks that agents' versions have the precedence of semantic versions.
func TestVersionOrder(t *testing.T) {
	order := []string{ // from https://semver.org, section 11, and more
		"", "0.0.0-0", "0", "0.9.10", "1.0.0-1", "1.0.0-2", "1.0.0-10", "1.0.0--", "1.0.0-alpha", "1.0.0-alpha.1", "1.0.0-alpha.beta", "1.0.0-beta",
		"1.0.0-beta.2", "1.0.0-beta.11", "1.0.0-rc.1", "1.0.0", "v1.0.1", "1.2", "1.10.0", "2", "10.0.0",
	}
	for i, low := range order {
		for k, high := range order[i+1:] {
			s := registryOf(offering("a", low, "s"), offering("b", high, "s")).Snapshot()
			if got := offerers(ability(s, "s")); got != "b a" {
				t.Errorf("%q (%d) is not before %q (%d)", high, i+1+k, low, i)
			}
		}
	}
	for _, none := range []string{"latest", "1.2.3.4", "1..2", "-1", "1.0.0-", "1.x", "1.0.0-a..b", "99999999999999999999.0.0", "1.0.0-" + strings.Repeat("a", 300)} {
		s := registryOf(offering("a", none, "s"), offering("b", "0.0.0-0", "s")).Snapshot()
		if got := offerers(ability(s, "s")); got != "b a" {
			t.Errorf("%q counts more than the lowest version", none)
		}
	}
}

func TestVersionRanges(t *testing.T) {
	all := []string{"0.0.1", "0.0.2", "0.1.0", "0.2.5", "1.0.0-rc.1", "1.0.0", "1.2.0", "1.2.9", "1.3.0", "2.0.0-0", "2.0.0", "2.1.0+build"}
	var agents []profile
	for _, v := range all {
		agents = append(agents, profile{id: v, version: v})
	}
	agents = append(agents, profile{id: "none", version: "latest"})
	s := registryOf(agents...).Snapshot()
	for _, test := range []struct{ constraint, want string }{
		{"*", "0.0.1 0.0.2 0.1.0 0.2.5 1.0.0 1.2.0 1.2.9 1.3.0 2.0.0 2.1.0+build"},
		{"1", "1.0.0 1.2.0 1.2.9 1.3.0"},
		{"1.2", "1.2.0 1.2.9"},
		{"=1.2.x", "1.2.0 1.2.9"},
		{"v1.2.0", "1.2.0"},
		{"2.1", "2.1.0+build"},
		{">=1.2.0 <2.0.0", "1.2.0 1.2.9 1.3.0"},
		{">= 1.2.0 , < 2.0.0", "1.2.0 1.2.9 1.3.0"},
		{">1.2", "1.3.0 2.0.0 2.1.0+build"},
		{">1.2.0", "1.2.9 1.3.0 2.0.0 2.1.0+build"},
		{"<=1.2", "0.0.1 0.0.2 0.1.0 0.2.5 1.0.0 1.2.0 1.2.9"},
		{"<0.1", "0.0.1 0.0.2"},
		{">=1 !=1.2", "1.0.0 1.3.0 2.0.0 2.1.0+build"},
		{"~1.2.1", "1.2.9"},
		{"~1", "1.0.0 1.2.0 1.2.9 1.3.0"},
		{"^1.2.1", "1.2.9 1.3.0"},
		{"^0.2", "0.2.5"},
		{"^0.0.1", "0.0.1"},
		{"^0.0", "0.0.1 0.0.2"},
		{"^0", "0.0.1 0.0.2 0.1.0 0.2.5"},
		{"^2.0.0-0", "2.0.0 2.0.0-0 2.1.0+build"},
		{">=1.0.0-alpha <1.2", "1.0.0 1.0.0-rc.1"},
		{"^1.0.0-0", "1.0.0 1.0.0-rc.1 1.2.0 1.2.9 1.3.0"},
		{"0.2.5 || >=2", "0.2.5 2.0.0 2.1.0+build"},
		{">2 <1", ""},
	} {
		found, err := s.Find(registry.Query{Version: test.constraint, States: []registry.State{registry.StateActive}})
		if got := strings.Join(ids(found), " "); err != nil || got != test.want {
			t.Errorf("%q = %s, %v, want %s", test.constraint, got, err, test.want)
		}
	}
	for _, bad := range []string{" ", "||", ">=", "1 ||", "1.2.3.4", "1.0.0 and 2", "> =1", "latest", "%", "99999999999999999999"} {
		if err := (&registry.Query{Version: bad}).Validate(); err == nil {
			t.Errorf("constraint %q is none, and not refused", bad)
		}
	}
}
