package nats

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"math"
	"time"

	natsgo "github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"github.com/cortex-orchestrator/cortex/transport"
)

// removeTries is how often the removal of a message is tried again.
const removeTries = 3

// message returns the first message of a stream at or after seq whose subject matches filter, or ErrNotFound. It asks the stream's leader, which
// has every acknowledged message; another replica may be behind.
func (b *Bus) message(ctx context.Context, stream, filter string, seq uint64) (*jetstream.RawStreamMsg, error) {
	m, err := b.get(ctx, stream, map[string]any{"seq": seq, "next_by_subj": filter})
	if err == nil && (m.Sequence < seq || m.Sequence == math.MaxUint64) { // who goes on behind it would come back to it for ever
		return nil, fmt.Errorf("stream %s: the server answers with message %d to a request for what follows %d", stream, m.Sequence, seq)
	}
	return m, err
}

// get returns the requested message of a stream, or ErrNotFound.
func (b *Bus) get(ctx context.Context, stream string, asked map[string]any) (*jetstream.RawStreamMsg, error) {
	var answer struct {
		Error   *jetstream.APIError `json:"error"`
		Message *struct {
			Subject string    `json:"subject"`
			Seq     uint64    `json:"seq"`
			Header  []byte    `json:"hdrs"`
			Data    []byte    `json:"data"`
			Time    time.Time `json:"time"`
		} `json:"message"`
	}
	err := b.ask(ctx, "STREAM.MSG.GET."+stream, asked, &answer)
	switch {
	case err != nil:
		return nil, err
	case answer.Error != nil && answer.Error.ErrorCode == jetstream.JSErrCodeMessageNotFound:
		return nil, transport.ErrNotFound
	case answer.Error != nil:
		return nil, translate(answer.Error)
	case answer.Message == nil:
		return nil, fmt.Errorf("stream %s: the server answers without a message", stream)
	}
	m := answer.Message
	raw := &jetstream.RawStreamMsg{Subject: m.Subject, Sequence: m.Seq, Data: m.Data, Time: m.Time}
	if len(m.Header) > 0 {
		if raw.Header, err = natsgo.DecodeHeadersMsg(m.Header); err != nil {
			raw.Header = natsgo.Header{} // a stranger's message; decoding reports the missing headers
		}
	}
	return raw, nil
}

// eraseMessage removes a message from a stream and overwrites it in the server's files. A missing message is no error.
func (b *Bus) eraseMessage(ctx context.Context, stream string, seq uint64) error {
	return b.removeMessage(ctx, stream, seq, true)
}

// removeMessage removes a message from a stream. Overwriting it makes the server rewrite the whole file, of up to 4 MB. A server under load was
// seen to answer that a message is missing that it still returns, so removeMessage tries again while it does.
func (b *Bus) removeMessage(ctx context.Context, stream string, seq uint64, overwrite bool) error {
	for failed := 0; ; failed++ {
		var answer struct {
			Error *jetstream.APIError `json:"error"`
		}
		if err := b.ask(ctx, "STREAM.MSG.DELETE."+stream, map[string]any{"seq": seq, "no_erase": !overwrite}, &answer); err != nil {
			return err
		}
		if answer.Error == nil {
			return nil
		}
		// The server has several errors for a missing message.
		raw, err := b.message(ctx, stream, ">", seq)
		if errors.Is(err, transport.ErrNotFound) || err == nil && raw.Sequence != seq {
			return nil
		}
		if failed == removeTries || ctx.Err() != nil {
			return fmt.Errorf("remove message %d of %s: %w", seq, stream, translate(answer.Error))
		}
		b.pause(ctx, retryDelay(failed)/4)
	}
}

// find is message, which insists.
func (b *Bus) find(ctx context.Context, stream, filter string, seq uint64) (m *jetstream.RawStreamMsg, err error) {
	err = b.insist(ctx, func() (err error) {
		m, err = b.message(ctx, stream, filter, seq)
		return err
	})
	return m, err
}

// insist repeats a request while the server is unavailable, for as long as Publish would: it may be restarting, or have too much to do.
func (b *Bus) insist(ctx context.Context, request func() error) error {
	for end := time.Now().Add(publishTimeout); ; {
		if err := ctx.Err(); err != nil {
			return err
		}
		if b.isClosed() {
			return transport.ErrClosed
		}
		err := request()
		if err == nil || !errors.Is(err, transport.ErrUnavailable) || time.Now().After(end) {
			return err
		}
		b.pause(ctx, retryPause)
	}
}

// ask sends a request to the server's API and decodes its answer.
func (b *Bus) ask(ctx context.Context, method string, req, answer any) error {
	data, err := json.Marshal(req)
	if err != nil {
		return err
	}
	asking, cancel := b.asking(ctx)
	defer cancel()
	m, err := b.nc.RequestWithContext(asking, jsAPI+method, data)
	switch {
	case err != nil && ctx.Err() != nil:
		return ctx.Err()
	case err != nil && errors.Is(err, context.Canceled):
		return translate(natsgo.ErrDisconnected)
	case err != nil:
		return translate(err)
	}
	return json.Unmarshal(m.Data, answer)
}
