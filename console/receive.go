package console

import (
	"context"
	"io"
	"mime"
	"net/http"
	"net/url"

	"github.com/cortex-orchestrator/cortex/internal/httpserver"
)

// maxForm bounds a form without files, in bytes: a text of [transport.MaxText], of which each byte is three.
const maxForm = 4 << 20

// Bounds of what the forms take that are being read or sent, in bytes. One takes several times as much while it is decoded, and encoded as an event.
const (
	mostRoom = 64 << 20
	ownRoom  = 16 << 20 // of a person
)

// freeField is the beginning of a field, in bytes, that needs no room.
const freeField = 64 << 10

var errNoRoom = wrong{http.StatusTooManyRequests, "too much of yours, or of all, is being sent: send it again in a moment"}

// isMultipart reports whether a form may have files. Its parts are read by readSaid, as they come.
func isMultipart(r *http.Request) bool {
	kind, _, _ := mime.ParseMediaType(r.Header.Get("Content-Type"))
	return kind == "multipart/form-data"
}

// receive reads the form of a request, but for one with files, and keeps its room until give is called.
func (c *Console) receive(w http.ResponseWriter, r *http.Request, who Person) (give func(), err error) {
	if r.Method != http.MethodPost || isMultipart(r) {
		return func() {}, nil
	}
	n := httpserver.Need(r, maxForm)
	if !c.room.Take(r.Context(), who.User, n) {
		return func() {}, errNoRoom
	}
	give = func() { c.room.Give(who.User, n) }
	form, err := httpserver.ReadAll(w, r, maxForm)
	if err != nil {
		return give, wrong{http.StatusRequestEntityTooLarge, "the form is too large, or did not arrive"}
	}
	r.Body = http.NoBody
	if r.PostForm, err = url.ParseQuery(string(form)); err != nil {
		return give, wrong{http.StatusBadRequest, "the form cannot be read"}
	}
	return give, nil
}

// parts is the room of a form with files.
type parts struct {
	room *httpserver.Room
	who  string
	took int64
}

func (p *parts) take(ctx context.Context, n int) error {
	if !p.room.Take(ctx, p.who, int64(n)) {
		return errNoRoom
	}
	p.took += int64(n)
	return nil
}

// read reads at most so many bytes of a part. The room for all of them is taken when it is a large one.
func (p *parts) read(ctx context.Context, part io.Reader, most int) ([]byte, error) {
	b, err := io.ReadAll(io.LimitReader(part, int64(min(freeField, most))))
	if err != nil || len(b) < min(freeField, most) || len(b) == most {
		return b, err
	}
	if err := p.take(ctx, most); err != nil {
		return nil, err
	}
	rest, err := io.ReadAll(io.LimitReader(part, int64(most-len(b))))
	return append(b, rest...), err
}

func (p *parts) give() { p.room.Give(p.who, p.took) }
