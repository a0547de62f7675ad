package nats

import (
	"context"
	"encoding/json"
	"fmt"
	"math"

	natsgo "github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"github.com/cortex-orchestrator/cortex/transport"
)

// maxOwnChunks bounds what one agent or person keeps of files, in chunks: 16 GiB.
const maxOwnChunks = 1 << 16

// file lets through a chunk of a file that who stores. Its bytes are charged as those of events.
func (g *gateway) file(c *caller, subject string, m *natsgo.Msg) (*natsgo.Msg, error) {
	o, n, err := parseChunkSubject(subject)
	if err != nil || o.Tenant != g.tenant || o.From != c.who.ID || chunkSubject(o, n) != subject {
		return nil, forbidden(c.who, "publish to "+subject)
	}
	if err := transport.ValidateChunk(o, n, m.Data); err != nil {
		return nil, err
	}
	if most := g.bus.maxFile; most > 0 && int64(n) > (most-1)/transport.FileChunk {
		return nil, fmt.Errorf("%w: %w: a file may have at most %s here (--max-file of the Cortex that runs)", transport.ErrInvalid, transport.ErrTooLarge, transport.SizeText(most))
	}
	if err := g.fileRoom(c); err != nil {
		return nil, err
	}
	c.chunks++
	return &natsgo.Msg{Subject: subject, Header: natsgo.Header{}, Data: m.Data}, nil
}

// fileRoom returns ErrFilesFull when who keeps as much as it may. It is counted when that may be so: when it first asks, and when what was
// counted has come to the bound, since some of it may have been deleted.
func (g *gateway) fileRoom(c *caller) error {
	if c.counted && c.chunks < g.ownChunks {
		return nil
	}
	if err := g.charge(c, countCost, 0); err != nil {
		return err
	}
	var info struct {
		Error *jetstream.APIError `json:"error"`
		Total int                 `json:"total"`
	}
	filter := filePrefix + transport.Escape(g.tenant) + ".*." + transport.Escape(c.who.ID) + ".>"
	ctx, cancel := context.WithTimeout(g.ctx, apiTimeout)
	defer cancel()
	g.counting.Lock()
	defer g.counting.Unlock()
	request, err := apiMessage("STREAM.INFO."+fileStream, infoGet{Subjects: filter, Offset: math.MaxInt32})
	if err != nil {
		return err
	}
	m, err := g.counts.RequestWithContext(ctx, request.Subject, request.Data)
	if err != nil {
		return translate(err)
	}
	err = json.Unmarshal(m.Data, &info)
	if err == nil && info.Error != nil {
		err = info.Error
	}
	if err != nil { // which is not to say that there is nothing
		return fmt.Errorf("%w: the files of %s cannot be counted, try again later: %w", transport.ErrUnavailable, c.who, err)
	}
	if c.counted, c.chunks = true, info.Total; c.chunks >= g.ownChunks {
		return fmt.Errorf("%w: %s keeps %d GiB of files already, which is as much as one may: delete conversations that have some (`cortex sessions delete`)",
			transport.ErrFilesFull, c.who, g.ownChunks*transport.FileChunk>>30)
	}
	return nil
}

// chunk lets who read a chunk of a file whose name it knows. Only a reference to the file has the key to it.
func (g *gateway) chunk(c *caller, request string, m *natsgo.Msg) (*natsgo.Msg, error) {
	var asked msgGet
	if json.Unmarshal(m.Data, &asked) != nil || !g.within(filePrefix, asked.Last, false) {
		return nil, forbidden(c.who, "ask for "+request)
	}
	return g.messages(c, request, msgGet{Last: asked.Last}, m.Reply)
}
