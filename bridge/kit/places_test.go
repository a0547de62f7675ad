package kit_test

import (
	"context"
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
					ctx, ok := p.Enter(t.Context(), from)
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
			if _, ok := p.Enter(t.Context(), from); !ok {
				t.Fatalf("%s gets no place", from)
			}
		}
		if _, ok := p.Enter(t.Context(), "ada"); ok {
			t.Error("a message has no time to arrive")
		}
		time.Sleep(time.Second)
		ctx, ok := p.Enter(t.Context(), "ada")
		if !ok {
			t.Fatal("calls without messages keep their places")
		}
		kit.Arrived(ctx)
		kit.Leave(ctx)
		if _, ok := p.Enter(t.Context(), "bob"); !ok || ctx.Err() != nil {
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
			if _, ok := p.Enter(parent, "ada"); !ok {
				t.Fatal("a place is gone")
			}
			if _, ok := p.Enter(parent, "ada"); ok {
				t.Fatal("somebody has more than their share")
			}
			end()
			synctest.Wait()
		}
	})
}
