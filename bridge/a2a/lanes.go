package a2a

import (
	"context"
	"slices"
	"sync"
)

// oneShare bounds each person's part of a lane, as a multiple of what is free: whoever comes finds room, and the parts shrink as people become more.
const oneShare = 3

// lanes bound what happens at the same time, by key. Who has to wait for one key does not hold up others. The zero value is empty.
type lanes struct {
	mu sync.Mutex
	of map[string]*lane
}

type lane struct {
	most, in int
	people   map[string]*walker
	order    []*walker // of all that wait, in the order of arrival
}

// walker is a person in a lane.
type walker struct {
	in      int
	waiting []chan struct{} // in the order of arrival; closed when it is in
}

// enter waits until fewer than most are in a lane, and the person has less than three times as much in it as is free. The next place is that of who has
// the fewest. The lane is one person's if person is "". leave is called once, when it is over.
func (l *lanes) enter(ctx context.Context, key, person string, most int) (leave func(), err error) {
	l.mu.Lock()
	of := l.of[key]
	if of == nil {
		if l.of == nil {
			l.of = map[string]*lane{}
		}
		of = &lane{most: most, people: map[string]*walker{}}
		l.of[key] = of
	}
	w := of.people[person]
	if w == nil {
		w = &walker{}
		of.people[person] = w
	}
	in := make(chan struct{})
	w.waiting, of.order = append(w.waiting, in), append(of.order, w)
	of.admit()
	l.mu.Unlock()
	out := func() {
		l.mu.Lock()
		defer l.mu.Unlock()
		if i := slices.Index(w.waiting, in); i >= 0 {
			w.waiting = slices.Delete(w.waiting, i, i+1)
			of.order = slices.Delete(of.order, slices.Index(of.order, w), slices.Index(of.order, w)+1)
		} else {
			of.in--
			w.in--
		}
		of.admit()
		if w.in == 0 && len(w.waiting) == 0 {
			delete(of.people, person)
		}
		if len(of.people) == 0 {
			delete(l.of, key)
		}
	}
	select {
	case <-in:
		return out, nil
	case <-ctx.Done():
		out()
		return nil, ctx.Err()
	}
}

// admit lets in who may be. l.mu is held.
func (of *lane) admit() {
	for of.in < of.most {
		next := -1
		for i, w := range of.order {
			if (of.people[""] == w || w.in < oneShare*(of.most-of.in)) && (next < 0 || w.in < of.order[next].in) {
				next = i
			}
		}
		if next < 0 {
			return
		}
		w := of.order[next]
		of.order = slices.Delete(of.order, next, next+1)
		close(w.waiting[0])
		w.waiting = w.waiting[1:]
		of.in++
		w.in++
	}
}
