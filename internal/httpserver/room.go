package httpserver

import (
	"bytes"
	"context"
	"net/http"
	"runtime"
	"sync"
	"time"
)

// LargeBody is the size, in bytes, up to which a body needs no room and no turn: what all connections may have of them is little.
const LargeBody = 64 << 10

// roomTime is how long a request waits for room.
const roomTime = 10 * time.Second

// Room bounds what the bodies of requests take in memory at the same time, in bytes: for all, and for each sender. A bound of one body is not enough, as a
// sender has many connections. Its methods are safe for concurrent use.
type Room struct {
	most, own int64

	mu    sync.Mutex
	all   int64
	of    map[string]int64
	freed chan struct{} // closed when something was given back
}

// NewRoom returns a Room for so many bytes, of which each sender has at most own.
func NewRoom(most, own int64) *Room {
	return &Room{most: most, own: own, of: make(map[string]int64), freed: make(chan struct{})}
}

// NewTurns returns a Room for large bodies that are decoded at the same time, each of which counts for one: one of each sender, and two of all, or as many as there
// are processors. To decode one takes a processor for some hundredths of a second, and all else in this process, such as the store, waits for its turn behind them: a
// hundred at once made each write last for seconds.
func NewTurns() *Room { return NewRoom(int64(max(2, runtime.GOMAXPROCS(0))), 1) }

// Take reserves n bytes for a request of somebody, until [Room.Give]. It waits some seconds for what others give back, and returns false when that is not
// enough, or ctx ends.
func (m *Room) Take(ctx context.Context, who string, n int64) bool {
	var late <-chan time.Time
	for {
		m.mu.Lock()
		if m.all+n <= m.most && m.of[who]+n <= m.own {
			m.all += n
			m.of[who] += n
			m.mu.Unlock()
			return true
		}
		freed := m.freed
		m.mu.Unlock()
		if late == nil {
			end := time.NewTimer(roomTime)
			defer end.Stop()
			late = end.C
		}
		select {
		case <-freed:
		case <-late:
			return false
		case <-ctx.Done():
			return false
		}
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
	close(m.freed)
	m.freed = make(chan struct{})
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
