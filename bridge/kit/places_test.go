package kit_test

import (
	"context"
	"fmt"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/cortex-orchestrator/cortex/bridge/kit"
)

// TestPlaces has a caller take all places, with calls that wait and with calls whose messages never arrive: others get theirs.
func TestPlaces(t *testing.T) {
	for name, arrived := range map[string]bool{"calls at work": true, "calls without messages": false} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				p := kit.NewPlaces(8, 8)
				enter := func(from string) context.Context {
					t.Helper()
					ctx, ok := p.Enter(t.Context(), from, "")
					if !ok {
						return nil
					}
					if arrived || from != "mallory" {
						kit.Arrived(ctx)
					}
					return ctx
				}
				var own []context.Context
				for i := range 9 {
					ctx := enter("mallory")
					if (ctx != nil) != (i < 8) {
						t.Fatalf("call %d of one: %v", i, ctx)
					}
					time.Sleep(time.Millisecond)
					own = append(own, ctx)
				}
				var others []context.Context
				for range 4 {
					others = append(others, enter("ada"))
					synctest.Wait()
				}
				for i, ctx := range others {
					if i < 3 && (ctx == nil || ctx.Err() != nil) {
						t.Errorf("call %d of another: %v", i, ctx)
					}
				}
				if own[0].Err() == nil || own[7].Err() != nil {
					t.Errorf("of the calls of one the oldest has ended with %v, the latest with %v", own[0].Err(), own[7].Err())
				}
				if enter("mallory") != nil && arrived {
					t.Error("who has most gets the place of another")
				}
				if ctx := others[0]; ctx.Err() != nil {
					t.Errorf("who has less has lost a place: %v", ctx.Err())
				}
			})
		})
	}
}

// TestLatePlaces has as many callers as there are places, each with one call whose message never arrives: another call gets one of these soon.
func TestLatePlaces(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := kit.NewPlaces(4, 4)
		for _, from := range []string{"a", "b", "c", "d"} {
			if _, ok := p.Enter(t.Context(), from, ""); !ok {
				t.Fatalf("%s gets no place", from)
			}
		}
		if _, ok := p.Enter(t.Context(), "ada", ""); ok {
			t.Error("a message has no time to arrive")
		}
		time.Sleep(time.Second)
		ctx, ok := p.Enter(t.Context(), "ada", "")
		if !ok {
			t.Fatal("calls without messages keep their places")
		}
		kit.Arrived(ctx)
		kit.Leave(ctx)
		if _, ok := p.Enter(t.Context(), "bob", ""); !ok || ctx.Err() != nil {
			t.Errorf("a place that was left is free: %t, and the call has ended with %v", ok, ctx.Err())
		}
	})
}

// TestPlacesAreGivenBack checks that calls that end give their places back.
func TestPlacesAreGivenBack(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := kit.NewPlaces(2, 1)
		for range 10 {
			parent, end := context.WithCancel(t.Context())
			if _, ok := p.Enter(parent, "ada", ""); !ok {
				t.Fatal("a place is gone")
			}
			if _, ok := p.Enter(parent, "ada", ""); ok {
				t.Fatal("somebody has more than their share")
			}
			end()
			synctest.Wait()
		}
	})
}

// TestPlacesOfAMachine has a machine take all places by as many connections, whose calls do not end: another machine gets its share, half of them, and the
// connections of one machine share theirs as before.
func TestPlacesOfAMachine(t *testing.T) { synctest.Test(t, testPlacesOfAMachine) }

func testPlacesOfAMachine(t *testing.T) {
	p := kit.NewPlaces(8, 8)
	enter := func(from string) context.Context {
		ctx, ok := p.Enter(t.Context(), from, kit.Host(from))
		if !ok {
			return nil
		}
		kit.Arrived(ctx)
		time.Sleep(time.Millisecond)
		return ctx
	}
	var first []context.Context
	for i := range 9 {
		ctx := enter(fmt.Sprint("192.0.2.1:", 1000+i))
		if (ctx != nil) != (i < 8) {
			t.Fatalf("call %d of one machine: %v", i, ctx)
		}
		first = append(first, ctx)
	}
	var others []context.Context
	for i := range 5 {
		ctx := enter("192.0.2.2:1")
		if (ctx != nil) != (i < 4) {
			t.Fatalf("call %d of another: %v", i, ctx)
		}
		others = append(others, ctx)
	}
	for i, ctx := range first[:8] {
		if (ctx.Err() != nil) != (i < 4) {
			t.Errorf("call %d of the first machine: %v", i, ctx.Err())
		}
	}
	if enter("192.0.2.2:2") == nil || others[0].Err() == nil {
		t.Error("a connection has no place beside one of its machine that has four")
	}
	if enter("192.0.2.1:2000") != nil {
		t.Error("who has as many as the others gets more")
	}
}

func TestHost(t *testing.T) {
	for address, want := range map[string]string{
		"192.0.2.1:80": "192.0.2.1", "[::ffff:192.0.2.1]:80": "192.0.2.1", "[2001:db8::1]:80": "2001:db8::/64", "[2001:db8::2%eth0]:80": "2001:db8::/64", "[::1]:80": "::1", "@": "@", "": "",
	} {
		if got := kit.Host(address); got != want {
			t.Errorf("Host(%q) = %q, want %q", address, got, want)
		}
	}
}

// children is a context that knows how many contexts are made of it and have not ended.
type children struct {
	context.Context
	n atomic.Int32
}

func (c *children) AfterFunc(func()) (stop func() bool) {
	c.n.Add(1)
	return func() bool { c.n.Add(-1); return true }
}

func (*children) Done() <-chan struct{} { return make(chan struct{}) }

// TestRefusedLeavesNothing checks that a call for which there is no place leaves no context and no timer behind: a server of gRPC does not end the context
// of a call that its tap refuses.
func TestRefusedLeavesNothing(t *testing.T) {
	p := kit.NewPlaces(1, 1)
	of := &children{Context: t.Context()}
	ctx, ok := p.Enter(of, "ada", "")
	if !ok || of.n.Load() == 0 {
		t.Fatalf("the first call: %t, with %d contexts", ok, of.n.Load())
	}
	kit.Arrived(ctx)
	refused := &children{Context: t.Context()}
	for _, from := range []string{"ada", "bob"} {
		if ctx, ok := p.Enter(refused, from, ""); ok || ctx != refused || refused.n.Load() != 0 {
			t.Errorf("a call of %s: %t, and %d contexts are left", from, ok, refused.n.Load())
		}
	}
	kit.End(ctx, context.Canceled)
	if n := of.n.Load(); n != 0 {
		t.Errorf("a call that has ended leaves %d contexts", n)
	}
}
