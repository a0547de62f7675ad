package a2a

import (
	"context"
	"sync"
)

// lanes bound what happens at the same time, by key. Who has to wait for one key does not hold up others. The zero value is empty.
type lanes struct {
	mu sync.Mutex
	of map[string]*lane
}

type lane struct {
	users int // that are in, or wait
	in    chan struct{}
}

// enter waits until fewer than most are in a lane. leave is called once, when it is over.
func (l *lanes) enter(ctx context.Context, key string, most int) (leave func(), err error) {
	l.mu.Lock()
	of := l.of[key]
	if of == nil {
		if l.of == nil {
			l.of = map[string]*lane{}
		}
		of = &lane{in: make(chan struct{}, most)}
		l.of[key] = of
	}
	of.users++
	l.mu.Unlock()
	out := func() {
		l.mu.Lock()
		defer l.mu.Unlock()
		if of.users--; of.users == 0 {
			delete(l.of, key)
		}
	}
	select {
	case of.in <- struct{}{}:
		return func() {
			<-of.in
			out()
		}, nil
	case <-ctx.Done():
		out()
		return nil, ctx.Err()
	}
}
