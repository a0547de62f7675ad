package a2a

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"strings"

	"github.com/a2aproject/a2a-go/v2/a2a"

	"github.com/cortex-orchestrator/cortex/agents"
	"github.com/cortex-orchestrator/cortex/agents/internal/result"
	"github.com/cortex-orchestrator/cortex/internal/nesting"
	"github.com/cortex-orchestrator/cortex/transport"
)

// Bounds of what a task gives.
const (
	maxOutput   = 64 << 20 // bytes of all artifacts; data counts as it is in memory
	maxParts    = 10_000   // of all artifacts
	maxQuestion = 16 << 10 // bytes
)

// outputs collects the artifacts of a task. They are held until they are dropped.
type outputs struct {
	host    string // of the peer
	all     []*artifact
	bytes   int
	parts   int
	words   int // bytes of a message that may be the result
	counted int // of all these, in [held]

	strayed bool // what was shown is not the beginning of the text any more
}

// artifact is an artifact, or the part of it that has come.
type artifact struct {
	id     a2a.ArtifactID
	name   string
	pieces []piece
	bytes  int
}

// piece is a part of an artifact, without what is not passed on. The bytes of a text or a file, which are only here, grow with each chunk.
type piece struct {
	*a2a.Part
	b []byte
}

func (p *piece) isText() bool { _, ok := p.Content.(a2a.Text); return ok }
func (p *piece) isRaw() bool  { _, ok := p.Content.(a2a.Raw); return ok }

// drop drops all artifacts.
func (o *outputs) drop() {
	held.give(o.host, o.counted)
	*o = outputs{host: o.host, strayed: o.strayed}
}

// count has all that is held counted. If there is no room for it, it is dropped.
func (o *outputs) count() error {
	n := o.bytes + o.words + (o.parts+len(o.all))*pieceHeld
	for _, f := range o.all {
		n += len(f.id) + len(f.name)
	}
	if err := held.take(o.host, n-o.counted); err != nil {
		o.drop()
		return err
	}
	o.counted = n
	return nil
}

// hear counts a message that may be the result.
func (o *outputs) hear(m *a2a.Message) error {
	o.words = 0
	if m != nil {
		for _, p := range m.Parts {
			n, err := weigh(p)
			if err != nil {
				return err
			}
			o.words += 2 * (n + pieceHeld) // as it has come, and as it is passed on
		}
	}
	return o.count()
}

// set replaces all artifacts, by those of a snapshot. What was counted stays so until these are there: a task keeps its room.
func (o *outputs) set(t *agents.Task, all []*a2a.Artifact) error {
	was := o.text()
	*o = outputs{host: o.host, strayed: o.strayed, counted: o.counted}
	for _, f := range all {
		if f == nil {
			continue
		}
		if err := o.put(f, false); err != nil {
			return err
		}
	}
	if err := o.count(); err != nil {
		return err
	}
	o.stream(t, was)
	return nil
}

// update applies an event.
func (o *outputs) update(t *agents.Task, e *a2a.TaskArtifactUpdateEvent) error {
	if e.Artifact == nil {
		return nil
	}
	n := len(o.all)
	grows := e.Append && n > 0 && o.all[n-1].id == e.Artifact.ID // the usual case, without a look at what was before
	was := ""
	if !grows {
		was = o.text()
	}
	if err := o.put(e.Artifact, e.Append); err != nil {
		return err
	}
	if err := o.count(); err != nil {
		return err
	}
	if !grows {
		o.stream(t, was)
		return nil
	}
	for _, p := range e.Artifact.Parts {
		if p == nil || p.Filename != "" || o.strayed {
			continue
		}
		if c, ok := p.Content.(a2a.Text); ok {
			t.Stream(string(c))
		}
	}
	return nil
}

// stream shows what has come behind the text that was.
func (o *outputs) stream(t *agents.Task, was string) {
	rest, ok := strings.CutPrefix(o.text(), was)
	o.strayed = o.strayed || !ok || o.bytes > agents.MaxResultText
	if !o.strayed && rest != "" {
		t.Stream(rest)
	}
}

func (o *outputs) put(f *a2a.Artifact, add bool) error {
	if len(f.ID) > maxID {
		return fmt.Errorf("%w: the id of an artifact has more than %d bytes", errStrange, maxID)
	}
	at := slices.IndexFunc(o.all, func(is *artifact) bool { return is.id == f.ID })
	switch {
	case at < 0:
		at = len(o.all)
		o.all = append(o.all, &artifact{id: f.ID, name: said(f.Name, maxID)})
	case !add:
		o.bytes, o.parts = o.bytes-o.all[at].bytes, o.parts-len(o.all[at].pieces)
		o.all[at] = &artifact{id: f.ID, name: said(f.Name, maxID)}
	}
	to := o.all[at]
	before, pieces := to.bytes, len(to.pieces)
	for _, p := range f.Parts {
		if err := to.add(p); err != nil {
			return err
		}
	}
	o.bytes, o.parts = o.bytes+to.bytes-before, o.parts+len(to.pieces)-pieces
	if o.bytes > maxOutput || o.parts > maxParts || len(o.all) > agents.MaxArtifacts {
		return fmt.Errorf("%w: a task has at most %d artifacts with %d parts and %d MiB", errTooMuch, agents.MaxArtifacts, maxParts, maxOutput>>20)
	}
	return nil
}

// add appends a part. Pieces of one text, or of one file, become one part.
func (f *artifact) add(p *a2a.Part) error {
	weight, err := weigh(p)
	if p == nil || err != nil {
		return err
	}
	f.bytes += weight
	next := piece{Part: bare(p)}
	switch c := p.Content.(type) {
	case a2a.Text:
		next.Content, next.b = a2a.Text(""), []byte(c)
	case a2a.Raw:
		next.Content, next.b = a2a.Raw(nil), c
	}
	if n := len(f.pieces); n > 0 && next.b != nil {
		last := &f.pieces[n-1]
		same := last.Filename == p.Filename && last.MediaType == p.MediaType
		if same && (last.isText() && next.isText() || last.isRaw() && next.isRaw() && p.Filename != "") {
			last.b = append(last.b, next.b...)
			return nil
		}
	}
	next.b = slices.Clip(next.b)
	f.pieces = append(f.pieces, next)
	return nil
}

// bare returns a part without what is not passed on.
func bare(p *a2a.Part) *a2a.Part {
	return &a2a.Part{Content: p.Content, Filename: p.Filename, MediaType: p.MediaType}
}

// weigh returns how many bytes a part takes in memory.
func weigh(p *a2a.Part) (int, error) {
	if p == nil {
		return 0, nil
	}
	n := len(p.Filename) + len(p.MediaType)
	switch c := p.Content.(type) {
	case a2a.Text:
		n += len(c)
	case a2a.Raw:
		n += len(c)
	case a2a.URL:
		n += len(c)
	case a2a.Data:
		b, err := transport.EncodeValue(c.Value)
		if err != nil {
			return 0, fmt.Errorf("%w: its data: %w", errStrange, err)
		}
		n += nesting.Weight(b)
	}
	return n, nil
}

// text returns the texts of all artifacts that are no files, as far as they are short enough to be shown while they come.
func (o *outputs) text() string {
	if o.strayed || o.bytes > agents.MaxResultText {
		return ""
	}
	var all []string
	for _, f := range o.all {
		var b strings.Builder
		for i := range f.pieces {
			if p := &f.pieces[i]; p.isText() && p.Filename == "" {
				b.Write(p.b)
			}
		}
		if b.Len() > 0 {
			all = append(all, b.String())
		}
	}
	return strings.Join(all, "\n")
}

// result returns the result of a task that is done: its artifacts or, if these say nothing, its last words.
func (o *outputs) result(ctx context.Context, t *agents.Task, words *a2a.Message) (*agents.Result, error) {
	if err := o.hear(words); err != nil {
		return nil, err
	}
	r := result.New(ctx, t)
	for _, f := range o.all {
		if err := add(r, f.pieces, f.name); err != nil {
			return nil, err
		}
	}
	if len(r.Parts) == 0 && words != nil {
		said := &artifact{}
		for _, p := range words.Parts {
			if err := said.add(p); err != nil {
				return nil, err
			}
		}
		if err := add(r, said.pieces, ""); err != nil {
			return nil, err
		}
	}
	return r.Result(), nil
}

func add(r *result.Builder, pieces []piece, name string) error {
	for i := range pieces {
		p := &pieces[i]
		var err error
		switch c := p.Content.(type) {
		case a2a.Text, a2a.Raw:
			if p.isText() && p.Filename == "" {
				err = r.Bytes(p.b)
			} else if len(p.b) > 0 {
				err = r.File(cmp.Or(p.Filename, name), p.MediaType, p.b)
			}
		case a2a.Data:
			err = r.Data(c.Value)
		case a2a.URL: // others than to the web are left out: what they mean to whoever follows them is not for strangers to say
			to := string(c)
			r.Link(to, p.Filename, p.MediaType, strings.HasPrefix(to, "https://") || strings.HasPrefix(to, "http://"))
		}
		if err != nil {
			return err
		}
	}
	return nil
}

// words returns what a message says, bounded.
func words(m *a2a.Message, instead string) string {
	if m != nil {
		if text := strings.TrimSpace(said(transport.Text(m.Parts), maxQuestion)); text != "" {
			return text
		}
		for _, p := range m.Parts {
			if p == nil {
				continue
			}
			if d, ok := p.Content.(a2a.Data); ok {
				if b, err := transport.EncodeValue(d.Value); err == nil && d.Value != nil {
					return said(string(b), maxQuestion)
				}
			}
		}
	}
	return instead
}
