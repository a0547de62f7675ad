package httpserver

import (
	"bytes"
	"context"
	"net/http"
	"runtime"
	"slices"
	"sync"
	"time"
)

// LargeBody is the size, in bytes, up to which a body needs no room and no turn: what all connections may have of them is little.
const LargeBody = 64 << 10

// roomTime is how long a request waits for room.
const roomTime = 10 * time.Second

// Room bounds what the bodies of requests take in memory at the same time, in bytes: for all, and for each sender. A bound of one body is not enough, as a
// sender has many connections. What is free goes to who has least, and among equals to who has waited longest: nobody waits for all that another one wants.
// Its methods are safe for concurrent use.
type Room struct {
	most, own int64

	mu      sync.Mutex
	all     int64
	of      map[string]int64
	waiting []*claim // in order of arrival
}

// claim is a request that waits for room.
type claim struct {
	who string
	n   int64
	got chan struct{} // closed when it has it
}

// NewRoom returns a Room for so many bytes, of which each sender has at most own.
func NewRoom(most, own int64) *Room {
	return &Room{most: most, own: own, of: make(map[string]int64)}
}

// NewTurns returns a Room for large bodies that are decoded at the same time, each of which counts for one: one of each sender, and two of all, or as many as there
// are processors. To decode one takes a processor for some hundredths of a second, and all else in this process, such as the store, waits for its turn behind them: a
// hundred at once made each write last for seconds.
func NewTurns() *Room { return NewRoom(int64(max(2, runtime.GOMAXPROCS(0))), 1) }

// Take reserves n bytes for a request of somebody, until [Room.Give]. It waits some seconds for what others give back, and returns false when that is not
// enough, or ctx ends.
func (m *Room) Take(ctx context.Context, who string, n int64) bool {
	if n == 0 {
		return true
	}
	c := &claim{who, n, make(chan struct{})}
	m.mu.Lock()
	m.waiting = append(m.waiting, c)
	m.hand()
	m.mu.Unlock()
	late := time.NewTimer(roomTime)
	defer late.Stop()
	select {
	case <-c.got:
		return true
	case <-late.C:
	case <-ctx.Done():
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	i := slices.Index(m.waiting, c)
	if i < 0 {
		return true // it came at the same time
	}
	m.waiting = slices.Delete(m.waiting, i, i+1)
	m.hand() // what is free may be enough for those behind it
	return false
}

// hand gives what is free to those who wait. Who comes first of them waits until it is enough: otherwise small ones would keep it from a large one. The caller
// holds m.mu.
func (m *Room) hand() {
	for {
		first := -1
		for i, c := range m.waiting {
			if m.of[c.who]+c.n <= m.own && (first < 0 || m.of[c.who] < m.of[m.waiting[first].who]) {
				first = i
			}
		}
		if first < 0 || m.all+m.waiting[first].n > m.most {
			return
		}
		c := m.waiting[first]
		m.waiting = slices.Delete(m.waiting, first, first+1)
		m.all += c.n
		m.of[c.who] += c.n
		close(c.got)
	}
}

// Give gives back what was reserved.
func (m *Room) Give(who string, n int64) {
	if n == 0 {
		return
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	m.all -= n
	if m.of[who] -= n; m.of[who] == 0 {
		delete(m.of, who)
	}
	m.hand()
}

// Need returns what a request with a body of at most so many bytes needs: nothing for a small one.
func Need(r *http.Request, most int64) int64 {
	switch n := r.ContentLength; {
	case n < 0 || n > most:
		return most
	case n > LargeBody:
		return n
	}
	return 0
}

// ReadBody returns the body of a request of somebody, of at most so many bytes. A large one has its room while it arrives; false when there was none in time.
func (m *Room) ReadBody(w http.ResponseWriter, r *http.Request, who string, most int64) (body []byte, ok bool, err error) {
	n := Need(r, most)
	if !m.Take(r.Context(), who, n) {
		return nil, false, nil
	}
	defer m.Give(who, n)
	body, err = ReadAll(w, r, most)
	return body, true, err
}

// ReadAll returns the body of a request, of at most so many bytes. To read one of a known size makes no garbage: [io.ReadAll] makes several times as much.
func ReadAll(w http.ResponseWriter, r *http.Request, most int64) ([]byte, error) {
	var b bytes.Buffer
	b.Grow(int(min(max(r.ContentLength, 0), most)) + bytes.MinRead)
	_, err := b.ReadFrom(http.MaxBytesReader(w, r.Body, most))
	return b.Bytes(), err
}
