package memory

import (
	"container/heap"
	"time"
)

// agenda runs alarms when they are due: with one timer for the whole world, and none while it has no clients. Guarded by w.mu.
type agenda struct {
	w      *world
	alarms queue[*alarm] // the earliest first
	timer  *time.Timer
}

// alarm is an entry of the agenda.
type alarm struct {
	at    time.Time
	index int    // in the heap; -1: not in it
	fire  func() // called with w.mu held

	r *record // the event that waits for it, if any
}

func (a *alarm) before(b *alarm) bool { return a.at.Before(b.at) }
func (a *alarm) place() *int          { return &a.index }

// add adds an alarm.
func (a *agenda) add(at time.Time, fire func()) *alarm {
	al := &alarm{at: at, fire: fire}
	heap.Push(&a.alarms, al)
	if al.index == 0 {
		a.arm()
	}
	return al
}

// remove removes al; it does nothing when al has fired or is nil.
func (a *agenda) remove(al *alarm) {
	if al != nil && al.index >= 0 {
		heap.Remove(&a.alarms, al.index)
	}
}

// run fires all alarms that are due and sets the timer for the rest.
func (a *agenda) run() {
	for len(a.alarms) > 0 && !time.Now().Before(a.alarms[0].at) {
		heap.Pop(&a.alarms).(*alarm).fire()
	}
	a.arm()
}

func (a *agenda) arm() {
	if len(a.alarms) == 0 || a.w.clients == 0 {
		return
	}
	d := time.Until(a.alarms[0].at)
	if a.timer != nil {
		a.timer.Reset(d)
		return
	}
	a.timer = time.AfterFunc(d, func() {
		a.w.mu.Lock()
		defer a.w.mu.Unlock()
		if a.w.clients > 0 {
			a.run()
		}
	})
}
