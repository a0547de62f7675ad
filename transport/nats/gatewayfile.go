package nats

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"math"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/nats-io/nats-server/v2/server"
	natsgo "github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"
	"golang.org/x/time/rate"

	"github.com/cortex-orchestrator/cortex/transport"
)

const (
	// maxOwnChunks bounds the files that one agent or person stores, in chunks: 16 GiB.
	maxOwnChunks = 1 << 16

	recountEvery = time.Minute // period of counting a sender's chunks: others than this process store and remove files, too
	recountPace  = 10          // counts a second of a sender for whom this process stores files
	maxShelves   = 10_000      // senders whose chunks are known; a further one clears them all
	roomKnown    = time.Second // how long the known free space is used
	maxUploads   = 1000        // uploads per caller whose progress is known; a further one clears them all
	uploadKnown  = time.Minute // how long an upload's progress is known

	// withdrawWithin bounds the removal of a refused file. What remains is removed later, as a file that nothing refers to.
	withdrawWithin = 10 * time.Second
)

// upload is the progress of a file.
type upload struct {
	last int // number of the last stored chunk
	at   time.Time
}

// shelf is what one sender stores, by the gateway or by this process, which speaks for people who come by HTTP. It is safe for concurrent use.
type shelf struct {
	from   string
	counts *rate.Limiter // for what this process stores

	mu      sync.Mutex
	chunks  int       // as last counted
	counted time.Time // when chunks was counted
}

// shelf returns the shelf of a sender.
func (g *gateway) shelf(from string) *shelf {
	g.mu.Lock()
	defer g.mu.Unlock()
	s := g.shelves[from]
	if s == nil {
		if g.shelves == nil || len(g.shelves) >= maxShelves {
			g.shelves = map[string]*shelf{}
		}
		s = &shelf{from: from, counts: rate.NewLimiter(recountPace, recountPace)}
		g.shelves[from] = s
	}
	return s
}

func (s *shelf) known() (chunks int, counted time.Time) {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.chunks, s.counted
}

func (s *shelf) know(chunks int, counted time.Time) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.chunks, s.counted = chunks, counted
}

// add takes note of a chunk of n bytes that was stored on a shelf.
func (g *gateway) add(s *shelf, n int) {
	s.mu.Lock()
	s.chunks++
	s.mu.Unlock()
	g.room.take(n)
}

// shelfOf returns the shelf of a sender for whom this process stores files, with the gateway that counts them; nil where nobody has shown who they are,
// and for Cortex itself.
func (b *Bus) shelfOf(tenant, from string) (*gateway, *shelf) {
	b.mu.Lock()
	g := b.gateways[tenant]
	b.mu.Unlock()
	if g == nil || from == transport.Cortex {
		return nil, nil
	}
	return g, g.shelf(from)
}

// file stores a chunk of a file for the caller and passes the answer on. Its bytes are charged like those of events. When a chunk is refused, file
// removes the whole file, to which nothing refers yet.
func (g *gateway) file(c *caller, subject string, m *natsgo.Msg) error {
	if object, ok := strings.CutSuffix(subject, takeBack); ok {
		return g.takeBack(c, object, m.Reply)
	}
	o, n, err := parseChunkSubject(subject)
	if err != nil || o.Tenant != g.tenant || o.From != c.who.ID || chunkSubject(o, n) != subject {
		return forbidden(c.who, "publish to "+subject)
	}
	if err := transport.ValidateChunk(o, n, m.Data); err != nil {
		return err
	}
	if most := g.bus.maxFile; most > 0 && int64(n) > (most-1)/transport.FileChunk {
		return g.stop(c, o, n, fmt.Errorf("%w: %w: a file may have at most %s here (--max-file of the Cortex that runs)", transport.ErrInvalid, transport.ErrTooLarge, transport.SizeText(most)))
	}
	if err := g.follows(c, o, n); err != nil {
		return err
	}
	own := g.shelf(c.who.ID)
	if err := g.fileRoom(own, func() error { return g.charge(c, countCost, 0) }); err != nil {
		return g.stop(c, o, n, err)
	}
	ctx, cancel := context.WithTimeout(g.ctx, attemptTimeout)
	defer cancel()
	stored, err := g.nc.RequestMsgWithContext(ctx, chunkMessage(o, n, m.Data))
	if err != nil {
		return translate(err) // the sender repeats its request
	}
	var answer struct {
		Error *jetstream.APIError `json:"error"`
	}
	if err := json.Unmarshal(stored.Data, &answer); err != nil {
		return err
	}
	if answer.Error != nil {
		err := translate(answer.Error)
		if hasNoRoom(err) {
			err = fmt.Errorf("%w: the NATS server stores no more: %s: %w", transport.ErrFilesFull, roomAdvice, err)
		}
		if errors.Is(err, transport.ErrFilesFull) {
			return g.stop(c, o, n, err)
		}
		return err
	}
	g.add(own, len(m.Data))
	if c.uploads == nil || len(c.uploads) >= maxUploads {
		c.uploads = map[transport.Object]upload{}
	}
	c.uploads[o] = upload{n, time.Now()}
	if m.Reply == "" {
		return nil
	}
	return g.nc.Publish(m.Reply, stored.Data)
}

// follows returns an error for a chunk whose predecessor is missing. A refused file is removed; a sender that did not receive the refusal would
// continue, and store only the file's end.
func (g *gateway) follows(c *caller, o transport.Object, n int) error {
	if is, ok := c.uploads[o]; n == 0 || ok && n <= is.last+1 && time.Since(is.at) < uploadKnown {
		return nil
	}
	if err := g.charge(c, infoCost, 0); err != nil {
		return err
	}
	there, err := g.chunks(chunkSubject(o, n-1))
	if err == nil && there == 0 {
		err = fmt.Errorf("%w: chunk %d of a file of which chunk %d is not there: its beginning was removed, store the whole file again", transport.ErrInvalid, n, n-1)
	}
	return err
}

// stop removes the stored chunks of a file whose n-th chunk is refused, and returns why. If chunk n is stored already, this is a repeated request:
// the file may be complete, and stop keeps it.
func (g *gateway) stop(c *caller, o transport.Object, n int, why error) error {
	delete(c.uploads, o)
	if n == 0 {
		return why
	}
	if err := g.charge(c, countCost, 0); err != nil {
		return why
	}
	if there, err := g.chunks(chunkSubject(o, n)); err != nil || there > 0 {
		return why
	}
	ctx, cancel := context.WithTimeout(g.ctx, withdrawWithin)
	defer cancel()
	if err := g.remove(ctx, c, o); err != nil {
		c.warn(g.bus.log, "a file that was refused is not removed", "who", c.who.String(), "context_id", o.ContextID, "err", err)
	}
	return why
}

// fileRoom returns ErrFilesFull when a sender stores as much as it may: [maxOwnChunks], and no more than is free for others, so that newcomers
// find room. Before it refuses it counts again, since files may have been deleted; charge waits until the sender may have that done.
func (g *gateway) fileRoom(own *shelf, charge func() error) error {
	left, err := g.room.left(g, false)
	if chunks, counted := own.known(); err == nil && time.Since(counted) < recountEvery && chunks < g.share(left) {
		return nil
	}
	if err := charge(); err != nil {
		return err
	}
	left, err = g.room.left(g, true)
	total := 0
	if err == nil {
		total, err = g.chunks(filePrefix + transport.Escape(g.tenant) + ".*." + transport.Escape(own.from) + ".>")
	}
	if err != nil { // the number is unknown, not 0
		return fmt.Errorf("%w: the files of %s cannot be counted, try again later: %w", transport.ErrUnavailable, own.from, err)
	}
	own.know(total, time.Now())
	const ask = "ask whoever runs Cortex to delete conversations that have some (`cortex conversations delete`); files that no conversation has go by themselves within minutes"
	switch {
	case total >= g.ownChunks:
		return fmt.Errorf("%w: %s keeps %s of files already, which is as much as one may: %s", transport.ErrFilesFull, own.from, chunksText(total), ask)
	case total >= g.share(left):
		return fmt.Errorf("%w: %s keeps %s of files, and there is room for %s more of everybody's; nobody keeps more than is left to others: %s",
			transport.ErrFilesFull, own.from, chunksText(total), transport.SizeText(max(left, 0)), ask)
	}
	return nil
}

func chunksText(n int) string { return transport.SizeText(int64(n) * transport.FileChunk) }

// share returns how many chunks one sender may store while left bytes are free for all.
func (g *gateway) share(left int64) int {
	return int(min(int64(g.ownChunks), max(left, 0)/transport.FileChunk))
}

// chunks returns the number of chunks whose subjects match filter.
func (g *gateway) chunks(filter string) (int, error) {
	var info struct {
		Error *jetstream.APIError `json:"error"`
		Total int                 `json:"total"`
	}
	g.counting.Lock()
	defer g.counting.Unlock()
	if err := g.askServer("STREAM.INFO."+fileStream, infoGet{Subjects: filter, Offset: math.MaxInt32}, &info); err != nil {
		return 0, err
	}
	if info.Error != nil {
		return 0, fmt.Errorf("%w: %w", transport.ErrUnavailable, info.Error)
	}
	return info.Total, nil
}

// askServer sends a request to the server's API and decodes the answer.
func (g *gateway) askServer(request string, body, answer any) error {
	m, err := apiMessage(request, body)
	if err != nil {
		return err
	}
	ctx, cancel := context.WithTimeout(g.ctx, apiTimeout)
	defer cancel()
	got, err := g.counts.RequestWithContext(ctx, m.Subject, m.Data)
	if err != nil {
		return translate(err)
	}
	return json.Unmarshal(got.Data, answer)
}

// fileSpace caches how much room there is for files.
type fileSpace struct {
	mu     sync.Mutex
	known  time.Time
	bytes  int64
	stored int64 // bytes that were ever stored
	asking int   // requests that the server has not answered yet
}

// left returns how many bytes of files can be stored, without the reserve for everything else: the smaller of the free space on the disk of this
// process's embedded server and the rest of the account's limit. With now, it does not use the cached value. While one caller waits for the server's
// answer, others use an older value, so that a slow answer does not stop all uploads.
func (s *fileSpace) left(g *gateway, now bool) (int64, error) {
	s.mu.Lock()
	old := roomKnown
	if s.asking > 0 {
		old = recountEvery
	}
	bytes, stored := s.bytes, s.stored
	if !now && time.Since(s.known) < old {
		s.mu.Unlock()
		return bytes, nil
	}
	s.asking++
	s.mu.Unlock()
	bytes, err := g.askRoom()
	s.mu.Lock()
	defer s.mu.Unlock()
	s.asking--
	if err != nil {
		return 0, err
	}
	s.known, s.bytes = time.Now(), bytes-(s.stored-stored) // the answer may be older than what was stored meanwhile
	return s.bytes, nil
}

// askRoom asks the disk and the server how many bytes of files can be stored.
func (g *gateway) askRoom() (int64, error) {
	left := int64(math.MaxInt64)
	if srv := g.bus.server; srv != nil && srv.room != nil {
		if free, size, err := srv.room.disk(srv.room.dir); err == nil {
			left = min(left, bytesLeft(free, reserveOf(size)))
		}
	}
	var account struct {
		Error *jetstream.APIError `json:"error"`
		server.JetStreamAccountStats
	}
	if err := g.askServer("INFO", struct{}{}, &account); err != nil {
		return 0, err
	}
	if account.Error != nil {
		return 0, fmt.Errorf("%w: %w", transport.ErrUnavailable, account.Error)
	}
	for _, tier := range append(slices.Collect(maps.Values(account.Tiers)), account.JetStreamTier) {
		if most := tier.Limits.MaxStore; most > 0 {
			left = min(left, bytesLeft(uint64(most)-min(uint64(most), tier.Store), reserveOf(uint64(most))))
		}
	}
	return left, nil
}

// take subtracts n bytes that were stored since the last count.
func (s *fileSpace) take(n int) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.bytes -= int64(n)
	s.stored += int64(n)
}

// bytesLeft returns how many of the free bytes files may use.
func bytesLeft(free, reserve uint64) int64 {
	return int64(min(free-min(free, reserve), math.MaxInt64))
}

// chunk checks a request for a chunk of a file and forwards it. Any caller may read it: only a reference to the file has its key.
func (g *gateway) chunk(c *caller, request string, m *natsgo.Msg) (*natsgo.Msg, error) {
	var asked msgGet
	if json.Unmarshal(m.Data, &asked) != nil || !g.within(filePrefix, asked.Last, false) {
		return nil, forbidden(c.who, "ask for "+request)
	}
	return nil, g.messages(c, request, msgGet{Last: asked.Last}, m.Reply)
}
