package kit_test

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/cortex-orchestrator/cortex/bridge/kit"
)

// TestFits checks which cards a bridge of at most eight agents takes, whose cards have at most 800 bytes.
func TestFits(t *testing.T) {
	cards := func(n, weight int, from string) []kit.Card {
		return slices.Repeat([]kit.Card{{Weight: weight, From: from}}, n)
	}
	for _, c := range []struct {
		others []kit.Card
		is     kit.Card
		old    *kit.Card
		want   string
	}{
		{others: cards(7, 10, ""), is: kit.Card{Weight: 10}},
		{others: cards(8, 10, ""), is: kit.Card{Weight: 10}, want: "no more are allowed"},
		{others: cards(7, 10, ""), is: kit.Card{Weight: 10}, old: &kit.Card{Weight: 1}},
		{others: cards(5, 10, "a"), is: kit.Card{Weight: 10, From: "a"}},
		{others: cards(6, 10, "a"), is: kit.Card{Weight: 10, From: "a"}, want: "a has registered 6"},
		{others: cards(6, 10, "a"), is: kit.Card{Weight: 10, From: "b"}},
		{others: cards(7, 10, "a"), is: kit.Card{Weight: 10, From: "a"}, old: &kit.Card{Weight: 10, From: "a"}},
		{others: cards(1, 700, ""), is: kit.Card{Weight: 100}},
		{others: cards(1, 700, ""), is: kit.Card{Weight: 101}, want: "the cards of all agents take"},
		{others: cards(1, 790, ""), is: kit.Card{Weight: 101}, old: &kit.Card{Weight: 102}},
		{others: cards(1, 790, ""), is: kit.Card{Weight: 101}, old: &kit.Card{Weight: 100}, want: "the cards of all agents take"},
		{others: cards(3, 150, "a"), is: kit.Card{Weight: 150, From: "a"}},
		{others: cards(4, 150, "a"), is: kit.Card{Weight: 50, From: "a"}, want: "the cards of all agents of a take"},
		{others: cards(4, 150, "a"), is: kit.Card{Weight: 50, From: "a"}, old: &kit.Card{Weight: 60, From: "a"}},
		{others: cards(4, 150, "a"), is: kit.Card{Weight: 200, From: "b"}},
	} {
		err := kit.Fits(slices.Values(c.others), c.is, c.old, 8, 800)
		if (err == nil) != (c.want == "") || err != nil && !strings.Contains(fmt.Sprint(err), c.want) {
			t.Errorf("%d others of %v, %v in the place of %v: %v, want %q", len(c.others), c.others[0], c.is, c.old, err, c.want)
		}
	}
}

func TestOther(t *testing.T) {
	for address, want := range map[string]string{"127.0.0.1:80": "", "[::1]:80": "", "[::ffff:127.0.0.1]:80": "", "192.0.2.1:80": "192.0.2.1", "[2001:db8::1]:80": "2001:db8::/64", "": ""} {
		if got := kit.Other(address); got != want {
			t.Errorf("Other(%q) = %q, want %q", address, got, want)
		}
	}
}
