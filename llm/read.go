package llm

import (
	"bytes"
	"cmp"
	"context"
	"errors"
	"fmt"
	"strings"
	"unicode/utf8"

	"github.com/cortex-orchestrator/cortex/internal/shorten"
	"github.com/cortex-orchestrator/cortex/prompt"
)

// Bounds of what a decision reads.
const (
	maxReadFile = 16 << 20 // bytes of a file: it is held in memory
	maxReadFind = 200      // bytes of what is looked for
)

// checkRead returns why r is not allowed, or nil.
func (w *wishes) checkRead(r *Read) error {
	switch {
	case r == nil:
		return fmt.Errorf(`kind %q, but "read" is null; it is {"key": "...", "from": 1, "find": null}`, KindRead)
	case !w.turn.Readable():
		return errors.New("there is nothing to read: you see all results whole")
	case len(w.reads) == prompt.MaxReads:
		return fmt.Errorf("you have read %d times for this decision; decide with what you know", prompt.MaxReads)
	case len(r.Find) > maxReadFind:
		return fmt.Errorf(`"find" is %d bytes, at most %d are allowed; it is a text that the lines have`, len(r.Find), maxReadFind)
	case strings.ContainsAny(r.Find, "\r\n"):
		return errors.New(`"find" has a line end; lines are searched one by one`)
	}
	r.Key = strings.TrimSpace(r.Key)
	return nil
}

// read returns the message with a part of a result or of a file.
func (w *wishes) read(ctx context.Context, tmpl *prompt.Templates, r *Read, room int) (string, error) {
	if w.turn.Result(r.Key) == nil && w.turn.File(r.Key) == nil {
		r.Key = w.keyOf(r.Key)
	}
	text, err := w.text(ctx, r.Key)
	if err != nil {
		return "", err
	}
	w.reads = append(w.reads, *r)
	return tmpl.Read(&prompt.Read{Key: r.Key, From: r.From, Find: r.Find, Text: text, Left: prompt.MaxReads - len(w.reads)}, room)
}

// text returns the text of the result or the file with a key.
func (w *wishes) text(ctx context.Context, key string) (string, error) {
	if t := w.turn.Result(key); t != nil {
		return t.Whole(), nil
	}
	f := w.turn.File(key)
	if f == nil {
		return "", fmt.Errorf("%w: nothing has the key %s; those that can be read are %q", ErrInvalidDecision, excerpt(key), w.keys())
	}
	if w.turn.Open == nil {
		return "", fmt.Errorf("%w: files cannot be read here", ErrInvalidDecision)
	}
	b, err := w.turn.Open(ctx, key, maxReadFile)
	switch {
	case err != nil:
		return "", fmt.Errorf("%w: %s cannot be read: %s", ErrInvalidDecision, excerpt(key), prompt.Clean(shorten.To(err.Error(), maxWhy), maxWhy))
	case !utf8.Valid(b) || bytes.IndexByte(b, 0) >= 0:
		return "", fmt.Errorf("%w: %s is no text; an agent may be able to work with it", ErrInvalidDecision, excerpt(key))
	}
	return string(b), nil
}

// keyOf returns the key of the only text file with a name, since models give names for keys; or else the name.
func (w *wishes) keyOf(name string) string {
	key := ""
	for f := range w.turn.Named() {
		switch {
		case f.Name != name || f.Head == "" || f.Key == key:
		case key != "":
			return name
		default:
			key = f.Key
		}
	}
	return cmp.Or(key, name)
}

// keys returns the newest keys that can be read.
func (w *wishes) keys() []string {
	var all []string
	for t := range w.turn.Results() {
		all = append(all, t.Key())
	}
	for f := range w.turn.Named() {
		if f.Head != "" {
			all = append(all, f.Key)
		}
	}
	return all[max(0, len(all)-maxNearest):]
}
