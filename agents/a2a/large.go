package a2a

import (
	"context"
	"fmt"
	"io"
	"net/http"
	"sync"
	"time"

	"github.com/cortex-orchestrator/cortex/internal/httpserver"
	"github.com/cortex-orchestrator/cortex/internal/publicnet"
)

// Bounds of what large answers and events of all peers of this process take that are arriving, in bytes. A list may have many peers that are one.
const (
	mostLarge = 256 << 20
	ownLarge  = 2 * maxBody // of the peers at a host
	largeTime = time.Minute // for one that has room
)

// larges is the room for them.
var larges = httpserver.NewRoom(mostLarge, ownLarge)

var errLate = fmt.Errorf("%w, too slowly: a long answer has to arrive within %v", errTooMuch, largeTime)

// large is an answer, or an event of a stream: it needs room when what has arrived of it takes more than [freeAnswer] when it is decoded. nil needs none.
type large struct {
	ctx      context.Context //nolint:containedctx // of the request
	room     *httpserver.Room
	from     string
	patience time.Duration

	mu   sync.Mutex
	has  bool
	late bool
	end  *time.Timer
}

// host returns the name of the machine that the peer's card is on, for which what its peers take counts: they may be many, at as many ports.
func (a *Agent) host() string { return publicnet.Host(a.home.Hostname()) }

func (x *exchange) large(r *http.Request) *large {
	return &large{ctx: r.Context(), room: larges, from: x.a.host(), patience: largeTime}
}

// grow notes how much what has arrived of it takes. It waits for room when that is much, and has body closed when the rest does not arrive in time.
func (l *large) grow(size int64, body io.Closer) error {
	if l == nil || size <= freeAnswer || l.hasRoom() {
		return nil
	}
	for !l.room.Take(l.ctx, l.from, maxBody) {
		if l.ctx.Err() != nil {
			return context.Cause(l.ctx)
		}
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	l.has = true
	l.end = time.AfterFunc(l.patience, func() {
		l.mu.Lock()
		l.late = l.late || l.has
		late := l.late
		l.mu.Unlock()
		if late {
			_ = body.Close()
		}
	})
	return nil
}

func (l *large) hasRoom() bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.has
}

// isLate reports whether its rest has not arrived in time.
func (l *large) isLate() bool {
	if l == nil {
		return false
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.late
}

// over gives back its room.
func (l *large) over() {
	if l == nil {
		return
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	if !l.has {
		return
	}
	l.end.Stop()
	l.has = false
	l.room.Give(l.from, maxBody)
}
