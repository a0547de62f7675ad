package mirror

import (
	"errors"
	"testing"
	"testing/synctest"
)

// TestListenEnds: a mirror that gets further again, as one that stands by and copies nothing, does not wait any more.
func TestListenEnds(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		told := make(chan error, 8)
		m, err := New(nil, &Options{Postgres: "postgres://postgres@127.0.0.1/audit", Waits: func(err error) { told <- err }})
		if err != nil {
			t.Fatal(err)
		}
		alive, end := m.listen()
		for range 2 {
			if err := <-told; !errors.Is(err, errSilent) {
				t.Errorf("it waits since %v, want the silence", err)
			}
			alive()
			synctest.Wait()
			select {
			case err := <-told:
				if err != nil {
					t.Errorf("it waits since %v, want that it goes on", err)
				}
			default:
				t.Error("nobody is told that it goes on")
			}
		}
		end()
		synctest.Wait()
		if len(told) > 0 {
			t.Errorf("it waits since %v after its end", <-told)
		}
	})
}
