package nats

import (
	"context"
	"encoding/json"
	"fmt"
	"math"

	natsgo "github.com/nats-io/nats.go"

	"github.com/cortex-orchestrator/cortex/transport"
)

// maxOwnChunks bounds what one agent or person keeps of files, in chunks: 16 GiB.
const maxOwnChunks = 1 << 16

// file lets through a chunk of a file that who stores. Its bytes are charged as those of events.
func (d *gateway) file(v *caller, subject string, m *natsgo.Msg) (*natsgo.Msg, error) {
	o, n, err := parseChunkSubject(subject)
	if err != nil || o.Tenant != d.tenant || o.From != v.who.ID || chunkSubject(o, n) != subject {
		return nil, forbidden(v.who, "publish to "+subject)
	}
	if err := transport.ValidateChunk(o, n, m.Data); err != nil {
		return nil, err
	}
	if most := d.bus.maxFile; most > 0 && int64(n) > (most-1)/transport.FileChunk {
		return nil, fmt.Errorf("%w: %w: a file may have at most %s here (--max-file of the Cortex that runs)", transport.ErrInvalid, transport.ErrTooLarge, transport.SizeText(most))
	}
	if err := d.fileRoom(v); err != nil {
		return nil, err
	}
	v.chunks++
	return &natsgo.Msg{Subject: subject, Header: natsgo.Header{}, Data: m.Data}, nil
}

// fileRoom returns ErrUnavailable when who keeps as much as it may. It is counted when that may be so: when it first asks, and when what was
// counted has come to the bound, since some of it may have been deleted.
func (d *gateway) fileRoom(v *caller) error {
	if v.counted && v.chunks < d.ownChunks {
		return nil
	}
	if err := d.charge(v, countCost, 0); err != nil {
		return err
	}
	var info struct {
		Total int `json:"total"`
	}
	filter := filePrefix + transport.Escape(d.tenant) + ".*." + transport.Escape(v.who.ID) + ".>"
	ctx, cancel := context.WithTimeout(d.ctx, apiTimeout)
	defer cancel()
	d.counting.Lock()
	defer d.counting.Unlock()
	request, err := apiMessage("STREAM.INFO."+fileStream, infoGet{Subjects: filter, Offset: math.MaxInt32})
	if err != nil {
		return err
	}
	m, err := d.counts.RequestWithContext(ctx, request.Subject, request.Data)
	if err != nil {
		return translate(err)
	}
	if err := json.Unmarshal(m.Data, &info); err != nil {
		return err
	}
	if v.counted, v.chunks = true, info.Total; v.chunks >= d.ownChunks {
		return fmt.Errorf("%w: %s keeps %d GiB of files already, which is as much as one may: delete conversations that have some",
			transport.ErrUnavailable, v.who, d.ownChunks*transport.FileChunk>>30)
	}
	return nil
}

// chunk lets who read a chunk of a file whose name it knows. Only a reference to the file has the key to it.
func (d *gateway) chunk(v *caller, request string, m *natsgo.Msg) (*natsgo.Msg, error) {
	var asked msgGet
	if json.Unmarshal(m.Data, &asked) != nil || !d.within(filePrefix, asked.Last, false) {
		return nil, forbidden(v.who, "ask for "+request)
	}
	return d.messages(v, request, msgGet{Last: asked.Last}, m.Reply)
}
