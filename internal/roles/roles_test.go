package roles

import (
	"context"
	"errors"
	"log/slog"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/cortex-orchestrator/cortex/app/role"
	"github.com/cortex-orchestrator/cortex/transport"
)

// line joins the lines of an error.
func line(err error) string { return strings.Join(strings.Fields(err.Error()), " ") }

// TestRoleIsRunAgain lets a role fail repeatedly: it is restarted after pauses that grow up to a bound, the failure is reported until it is ready,
// and after it has worked for long the pauses are short again.
func TestRoleIsRunAgain(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var began []time.Time
		ctx, cancel := context.WithCancel(t.Context())
		r := &running{line: line, name: "ferry", state: "it is starting"}
		b := &Group{all: []*running{r}}
		at := &role.Site{Ready: func() { r.tell(true, "") }}
		says := func(told, starting string) {
			t.Helper()
			lines, err := b.Trouble()
			if got := ""; err != nil {
				if got = err.Error(); got != starting {
					t.Errorf("starting: %q, want %q", got, starting)
				}
			} else if starting != "" {
				t.Errorf("it has begun, want %q", starting)
			}
			if want := []string{told}; told != "" && !slices.Equal(lines, want) || told == "" && len(lines) > 0 {
				t.Errorf("it tells %q, want %q", lines, told)
			}
		}
		r.run = func(ctx context.Context, at *role.Site) error {
			began = append(began, time.Now())
			switch len(began) {
			case 1:
				says("", "role ferry: it is starting")
				return errors.New("no\nwater")
			case 10: // works for an hour
				says("role ferry: it has failed and is run again: no water", "")
				at.Ready()
				says("", "")
				<-time.After(time.Hour) // in the bubble
				return errors.New("no water")
			case 11:
				cancel()
				return errors.New("no harbor")
			}
			return errors.New("no water")
		}
		if err := r.keep(ctx, at, slog.New(slog.DiscardHandler)); err != nil {
			t.Errorf("keep = %v, want nil", err)
		}
		near := func(n int, worked, want time.Duration) {
			t.Helper()
			if pause := began[n].Sub(began[n-1]) - worked; pause < want*3/4 || pause > want*5/4 {
				t.Errorf("the pause before run %d is %v, want about %v", n+1, pause, want)
			}
		}
		near(1, 0, rolePause)
		near(2, 0, 2*rolePause)
		near(9, 0, maxRolePause)
		near(10, time.Hour, rolePause)
	})
}

// TestRoleFailsAnyHow lets a role fail with an open listener, and with a panic: it is restarted, and can listen again.
func TestRoleFailsAnyHow(t *testing.T) {
	ctx, cancel := context.WithTimeout(t.Context(), 30*time.Second)
	defer cancel()
	r := &running{line: line, name: "ferry", state: "it is starting"}
	addr, runs := "127.0.0.1:0", 0
	r.run = func(ctx context.Context, at *role.Site) error {
		l, err := at.Listen(ctx, addr)
		if err != nil {
			return err
		}
		addr = l.Addr().String()
		switch runs++; runs {
		case 1:
			return errors.New("no water")
		case 2:
			panic("an iceberg")
		}
		cancel()
		return nil
	}
	if err := r.keep(ctx, &role.Site{}, slog.New(slog.DiscardHandler)); err != nil || runs != 3 {
		t.Errorf("keep = %v after %d runs, want nil after 3", err, runs)
	}
}

// TestRoleEnds checks which results of a role end the service.
func TestRoleEnds(t *testing.T) {
	for name, test := range map[string]struct{ err, want error }{
		"nothing to do": {nil, nil},
		"for good":      {transport.Permanent(context.DeadlineExceeded), context.DeadlineExceeded},
	} {
		r := &running{line: line, state: "it is starting", run: func(context.Context, *role.Site) error { return test.err }}
		if err := r.keep(t.Context(), &role.Site{}, slog.New(slog.DiscardHandler)); !errors.Is(err, test.want) {
			t.Errorf("%s: keep = %v, want %v", name, err, test.want)
		}
		if _, starting := (&Group{all: []*running{r}}).Trouble(); starting != nil && test.err == nil {
			t.Errorf("%s: the service waits for it: %v", name, starting)
		}
	}
}

// TestRoleWaits checks that a role which waits says so until it goes on, and not before it has begun.
func TestRoleWaits(t *testing.T) {
	told := make(chan func(why error))
	g := New(line, Role{Name: "ferry", Run: func(ctx context.Context, at *role.Site) error {
		at.Waits(errors.New("no water"))
		told <- at.Waits
		at.Ready()
		told <- at.Waits
		<-ctx.Done()
		return nil
	}})
	g.Start(t.Context(), func() *role.Site { return &role.Site{Logger: slog.New(slog.DiscardHandler)} })
	defer g.End(slog.New(slog.DiscardHandler))
	<-told
	waits := <-told
	for _, tt := range []struct {
		why  error
		want []string
	}{{errors.New("no\nwater"), []string{"role ferry: it waits: no water"}}, {nil, nil}} {
		waits(tt.why)
		if lines, err := g.Trouble(); err != nil || !slices.Equal(lines, tt.want) {
			t.Errorf("after waits(%v): Trouble() = %q, %v, want %q", tt.why, lines, err, tt.want)
		}
	}
}
