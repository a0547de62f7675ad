package console

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"net/http"
	"strconv"
	"time"

	"github.com/cortex-orchestrator/cortex/cortex/conversation"
	"github.com/cortex-orchestrator/cortex/prompt"
)

// maxMissed bounds how far behind the end of the journal a stream begins, in versions. A browser that has missed more loads the page again.
const maxMissed = 20_000

// Events of the stream of what happens. Their id is the position in the journal that the browser has with them.
type (
	rowsEvent struct {
		HTML  string `json:"html"` // the oldest first
		Count int    `json:"count"`
	}
	goneEvent struct {
		Versions []conversation.Version `json:"versions"`
	}
)

// activityEvents streams what happens after a position in the journal and passes a filter.
func (c *Console) activityEvents(w http.ResponseWriter, r *http.Request, who Person) error {
	if c.feed == nil {
		return errNoPage
	}
	leave, err := c.enterStream(w, who)
	if err != nil {
		return err
	}
	defer leave()
	at, err := position(r)
	if err != nil {
		return err
	}
	info, err := c.feed.journal.Journal(r.Context())
	if err != nil {
		return err
	}
	if r.Header.Get("Last-Event-ID") == "" && !r.URL.Query().Has("after") {
		at = info.Last
	}
	s := &stream{c: c, w: w, control: http.NewResponseController(w), who: who}
	if err := s.begin(); err != nil {
		return nil //nolint:nilerr // the browser is gone
	}
	if at > info.Last || info.Last-at > maxMissed { // the journal is another one, or the browser has slept
		_ = s.send("resync", 0, struct{}{})
		return nil
	}
	defer c.feed.enter(at)()
	f := filterOf(r.URL.Query())
	if err := s.follow(r.Context(), at, &f); err != nil && r.Context().Err() == nil && !errors.Is(err, errGone) {
		_ = s.send("notice", 0, noticeEvent{Text: prompt.Clean(err.Error(), maxLine)})
	}
	return nil
}

// follow sends what has happened after a position in the journal, and what happens from then on.
func (s *stream) follow(ctx context.Context, at conversation.Version, f *filter) error {
	ping := time.NewTicker(pingTime)
	defer ping.Stop()
	told := at // the position that the browser has
	for {
		rows, to, changed, err := s.c.feed.after(ctx, at, s.read)
		if err != nil {
			return err
		}
		sent, err := s.rows(rows, to, f)
		if err != nil {
			return err
		}
		if sent {
			told = to
		}
		if to > at {
			at = to
			continue
		}
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-s.c.cfg.Done:
			return nil // the browser comes again, to another process perhaps
		case <-changed:
		case <-ping.C:
			text := ": ping\n\n"
			if told < at { // nothing passed the filter
				text, told = "id: "+strconv.FormatUint(uint64(at), 10)+"\n\n", at
			}
			if err := s.write(text); err != nil {
				return err
			}
		}
	}
}

// rows sends those of some happenings that pass a filter, which complete a position in the journal.
func (s *stream) rows(rows []happening, to conversation.Version, f *filter) (sent bool, err error) {
	var html bytes.Buffer
	var gone goneEvent
	n := 0
	now := s.c.cfg.Now()
	for i := range rows {
		if gone.Versions = append(gone.Versions, rows[i].Erased...); rows[i].Erased != nil || !f.wants(&rows[i]) {
			continue
		}
		if err := templates["activity"].ExecuteTemplate(&html, "happening", map[string]any{"Row": &rows[i], "Now": now}); err != nil {
			return false, err
		}
		n++
	}
	events := []struct {
		name string
		is   bool
		v    any
	}{{"rows", n > 0, rowsEvent{html.String(), n}}, {"gone", len(gone.Versions) > 0, gone}}
	for _, e := range events {
		if !e.is {
			continue
		}
		b, err := json.Marshal(e.v)
		if err != nil {
			return false, err
		}
		sent = true
		if err := s.write("event: " + e.name + "\nid: " + strconv.FormatUint(uint64(to), 10) + "\ndata: " + string(b) + "\n\n"); err != nil {
			return false, err
		}
	}
	return sent, nil
}
