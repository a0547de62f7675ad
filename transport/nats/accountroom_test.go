package nats

import (
	"fmt"
	"testing"

	"github.com/nats-io/nats-server/v2/server"
	"github.com/nats-io/nats.go/jetstream"

	"github.com/cortex-orchestrator/cortex/transport/nats/auth"
)

// TestAccountsAreBounded has two accounts of a disk of 40 GiB grow, delete and grow again, as the server sees them: what is too much ends, whoever took it,
// and what erases is possible. What is not bounded there is what an account may have else.
func TestAccountsAreBounded(t *testing.T) {
	trust := keys(t, "", "acme")
	n := newNode(t, ServerOptions{Auth: trust})
	for _, tenant := range []string{"", "acme"} { // which makes its streams
		n.dial(t, &Options{Creds: auth.Admin(trust, tenant)})
	}
	r := n.srv.room
	r.mu.Lock() // the real disk is not looked at
	defer r.mu.Unlock()
	is, err := r.ns.Jsz(&server.JSzOptions{Accounts: true})
	if err != nil || len(is.AccountDetails) != 2 {
		t.Fatalf("%d accounts, %v, want 2", len(is.AccountDetails), err)
	}
	limits := func(account int) server.JetStreamAccountLimits {
		t.Helper()
		a, err := r.ns.LookupAccount(is.AccountDetails[account].Id)
		if err != nil {
			t.Fatal(err)
		}
		return a.JetStreamUsage().Limits
	}
	was := limits(0)
	const none, any = 0, -1
	for _, test := range []struct {
		name        string
		free        uint64 // MiB
		store       []uint64
		least, most []int64 // MiB by which it may grow; any: as before
	}{
		{"much is free", 2000, []uint64{500, 10}, []int64{any, any}, []int64{any, any}},
		{"it begins", 1000, []uint64{600, 10}, []int64{400, 400}, []int64{500, 500}},
		{"one grows", 50, []uint64{1550, 10}, []int64{5, 5}, []int64{20, 20}},
		{"it has the rest", 30, []uint64{1559, 10}, []int64{none, 2}, []int64{none, 2}},
		{"it deletes", 1239, []uint64{350, 10}, []int64{600, 600}, []int64{610, 610}},
		{"another takes it", 30, []uint64{350, 613}, []int64{none, none}, []int64{2, none}},
		{"the disk has less than deletions leave", 7, []uint64{350, 613}, []int64{none, none}, []int64{none, none}},
		{"another has next to nothing", 30, []uint64{352, 0}, []int64{none, any}, []int64{none, any}},
		{"there is room again", 2000, []uint64{500, 0}, []int64{any, any}, []int64{any, any}},
		{"one is alone", 30, []uint64{1580}, []int64{any}, []int64{any}},
	} {
		seen := *is
		seen.AccountDetails = nil
		for i, mb := range test.store {
			detail := *is.AccountDetails[i]
			detail.Store = mb << 20
			seen.AccountDetails = append(seen.AccountDetails, &detail)
		}
		r.boundAccounts(&seen, test.free<<20, 40<<30)
		for i, mb := range test.store {
			got := limits(i)
			grows := got.MaxStore>>20 - int64(mb)
			switch least, most := test.least[i], test.most[i]; {
			case least == any && got.MaxStore != was.MaxStore, least != any && (got.MaxStore < 0 || grows < least || grows > most):
				t.Errorf("%s: account %d of %d MiB may have %d bytes, want %d to %d MiB more", test.name, i, mb, got.MaxStore, least, most)
			}
			if bounded := test.free < 2000 && len(test.store) > 1; bounded != (got.MaxStreams == fewStreams) {
				t.Errorf("%s: account %d may have %d streams", test.name, i, got.MaxStreams)
			}
			if got.MaxConsumers != was.MaxConsumers {
				t.Errorf("%s: account %d may have %d consumers, which makes room of those of others", test.name, i, got.MaxConsumers)
			}
		}
	}
}

// TestReservedAccountsAreBounded has a tenant make a stream for which the server promises as much as it promises at all: what accounts have is bounded nevertheless.
func TestReservedAccountsAreBounded(t *testing.T) {
	trust := keys(t, "", "acme")
	n := newNode(t, ServerOptions{Auth: trust})
	n.dial(t, &Options{Creds: auth.Admin(trust, "")})
	b := n.dial(t, &Options{Creds: auth.Admin(trust, "acme")})
	made := 0
	for size := int64(1) << 62; size >= 1<<20; size /= 2 { // all that is left of it, but for a megabyte
		if _, err := b.js.CreateStream(t.Context(), jetstream.StreamConfig{Name: fmt.Sprint("S", size), Subjects: []string{fmt.Sprint("s.", size)}, MaxBytes: size}); err == nil {
			made++
		}
	}
	if made == 0 {
		t.Fatal("no stream is made")
	}
	r := n.srv.room
	r.mu.Lock() // the real disk is not looked at
	defer r.mu.Unlock()
	all, err := r.ns.Jsz(&server.JSzOptions{Accounts: true})
	if err != nil || len(all.AccountDetails) != 2 {
		t.Fatalf("%d accounts, %v, want 2", len(all.AccountDetails), err)
	}
	for _, detail := range all.AccountDetails {
		detail.Store = 500 << 20
	}
	r.boundAccounts(all, 30<<20, 40<<30)
	for _, detail := range all.AccountDetails {
		a, err := r.ns.LookupAccount(detail.Id)
		if err != nil {
			t.Fatal(err)
		}
		if got := a.JetStreamUsage().Limits.MaxStore; got < 0 || got > 502<<20 {
			t.Errorf("%s, which has 500 MiB, may have %d bytes", detail.Name, got)
		}
	}
}
