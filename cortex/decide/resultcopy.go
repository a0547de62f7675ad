package decide

import (
	"cmp"
	"context"
	"fmt"
	"io"
	"maps"
	"slices"
	"strings"

	"github.com/a2aproject/a2a-go/v2/a2a"

	"github.com/cortex-orchestrator/cortex/evaluate"
	"github.com/cortex-orchestrator/cortex/prompt"
	"github.com/cortex-orchestrator/cortex/transport"
)

// copied is a copy of a result that may be changed.
type copied struct {
	event   *transport.Event
	rules   []evaluate.Evaluator
	slots   []slot
	values  []*value
	size    int   // of the texts, in bytes
	changed bool  // something that is no text
	unread  error // for people: why not all of it can be checked
}

// slot is a text of a result, which another can replace.
type slot struct {
	text   string
	aside  bool                        // a judge does not see it
	stored bool                        // it is not in the event
	set    func(text, by string) error // by is the evaluator that has changed it
}

// Bounds of what is checked of a result, which is held in memory.
const (
	maxChecked = 16 << 20 // bytes of its texts and text files
	maxSlots   = 1 << 17  // texts: each string in data is one
)

// copyOf copies a result, and reads its texts: text and data, text files, the names of all, and what else its sender may write.
func (m *Maker) copyOf(ctx context.Context, tenant string, e *transport.Event, rules []evaluate.Evaluator) *copied {
	event := *e
	c := &copied{event: &event, rules: rules}
	switch p := e.Payload.(type) {
	case *a2a.Task:
		task := *p
		c.changed = task.History != nil
		task.History = nil // it repeats what was said
		c.meta(&task.Metadata, nil)
		task.Status.Message = m.copyMessage(ctx, tenant, c, p.Status.Message)
		task.Artifacts = slices.Clone(p.Artifacts)
		for i, a := range p.Artifacts {
			if a == nil {
				continue
			}
			one := *a
			c.word(&one.Name, false)
			c.word(&one.Description, false)
			redactWord(c, &one.ID)
			redactWords(c, &one.Extensions)
			c.meta(&one.Metadata, nil)
			one.Parts = m.copyParts(ctx, tenant, c, a.Parts)
			task.Artifacts[i] = &one
		}
		event.Payload = &task
	case *a2a.TaskStatusUpdateEvent:
		update := *p
		c.meta(&update.Metadata, nil)
		update.Status.Message = m.copyMessage(ctx, tenant, c, p.Status.Message)
		event.Payload = &update
	case *a2a.Message:
		event.Payload = m.copyMessage(ctx, tenant, c, p)
	}
	return c
}

func (m *Maker) copyMessage(ctx context.Context, tenant string, c *copied, said *a2a.Message) *a2a.Message {
	if said == nil {
		return nil
	}
	one := *said
	redactWord(c, &one.ID)
	redactWords(c, &one.Extensions)
	redactWords(c, &one.ReferenceTasks)
	c.meta(&one.Metadata, nil)
	one.Parts = m.copyParts(ctx, tenant, c, said.Parts)
	return &one
}

func (m *Maker) copyParts(ctx context.Context, tenant string, c *copied, of a2a.ContentParts) a2a.ContentParts {
	of = slices.Clone(of)
	for i, p := range of {
		if p == nil {
			continue
		}
		one := *p
		of[i] = &one
		c.word(&one.Filename, false)
		c.word(&one.MediaType, true)
		if transport.IsFileRef(&one) {
			c.meta(&one.Metadata, transport.IsFileMeta)
		} else {
			c.meta(&one.Metadata, nil)
		}
		switch content := p.Content.(type) {
		case a2a.Text:
			c.add(string(content), false, func(text, _ string) error { one.Content = a2a.Text(text); return nil })
		case a2a.Data:
			c.value(content.Value, func(v any) { one.Content = a2a.Data{Value: v} }, func(by string) error {
				return fmt.Errorf("the result is no JSON any more, since the evaluator %s has redacted it", by)
			})
		case a2a.URL, a2a.Raw:
			if url, ok := content.(a2a.URL); ok && !transport.IsFileRef(p) {
				c.add(string(url), false, func(text, _ string) error { one.Content = a2a.Text(text); return nil })
			} else {
				m.copyFile(ctx, tenant, c, &one)
			}
		}
	}
	return of
}

// copyFile adds the content of a text file, which can be left out but not changed. Whether it is a text is seen in what is stored, and not by what a
// reference says.
func (m *Maker) copyFile(ctx context.Context, tenant string, c *copied, p *a2a.Part) {
	if transport.IsForgotten(p) {
		*p, c.changed = *transport.ForgottenFile(p), true
		return
	}
	name := func() string {
		name, kind, _, _ := transport.FileOf(p)
		return transport.FileName(name, kind, 1)
	}
	if c.unread != nil && transport.IsFileRef(p) {
		return
	}
	text, head, err := m.textOf(ctx, tenant, p, maxChecked-c.size)
	if err != nil {
		c.fail(fmt.Errorf("the file %s cannot be checked: %w", name(), err))
		return
	}
	if transport.CorrectHead(p, head) {
		c.changed = true
	}
	if head == "" {
		return // no text
	}
	n := len(c.slots)
	c.add(text, false, func(_, by string) error {
		if _, left := p.Content.(a2a.Text); left {
			return nil
		}
		*p = a2a.Part{Content: a2a.Text("[" + name() + " is left out: the evaluator " + by + " does not pass it]")}
		return nil
	})
	for i := n; i < len(c.slots); i++ {
		c.slots[i].stored = transport.IsFileRef(p)
	}
}

// textOf returns a text file and its beginning; "" for a file that is no text, of which it reads no more than the first chunk.
func (m *Maker) textOf(ctx context.Context, tenant string, p *a2a.Part, room int) (text, head string, err error) {
	keeper, _ := m.cfg.Transport.(transport.Files)
	r, err := transport.OpenPart(ctx, keeper, tenant, p)
	if err != nil {
		return "", "", err
	}
	defer r.Close()
	first, err := io.ReadAll(io.LimitReader(r, transport.FileChunk))
	if err != nil {
		return "", "", err
	}
	if head = transport.HeadOf(&a2a.Part{Content: a2a.Raw(first)}); head == "" {
		return "", "", nil
	}
	if _, _, size, _ := transport.FileOf(p); size > int64(room) {
		return "", "", fmt.Errorf("%w: of one result at most %d bytes are checked", transport.ErrTooLarge, maxChecked)
	}
	rest, err := io.ReadAll(r)
	return string(first) + string(rest), head, err
}

// fail keeps the first reason why a result cannot be checked. Its stored files are not checked then: they take long, and the log has their names only.
func (c *copied) fail(err error) {
	c.unread = cmp.Or(c.unread, err)
	c.slots = slices.DeleteFunc(c.slots, func(s slot) bool { return s.stored })
}

// add adds a text, and, if that differs, what people and models are shown of it, without invisible characters, which could hide a match from rules.
func (c *copied) add(text string, aside bool, set func(text, by string) error) {
	if c.size += len(text); c.size > maxChecked || len(c.slots) >= maxSlots {
		c.fail(fmt.Errorf("the result is too long to be checked: at most %d bytes are, in %d texts", maxChecked, maxSlots))
		return
	}
	c.slots = append(c.slots, slot{text: text, aside: aside, set: set})
	if seen := prompt.CleanText(text, len(text)); seen != text {
		c.slots = append(c.slots, slot{text: seen, aside: true, set: set})
	}
}

// word adds a name or a description, or, aside, a word that says nothing about the work.
func (c *copied) word(s *string, aside bool) {
	if *s != "" {
		c.add(*s, aside, func(text, _ string) error { *s = text; return nil })
	}
}

// redactWord redacts an id, which no verdict is about: rules match some ids by chance, and nobody reads them.
func redactWord[S ~string](c *copied, s *S) {
	if text := S(redacted(c.rules, string(*s))); text != *s {
		*s, c.changed = text, true
	}
}

func redactWords[S ~string](c *copied, list *[]S) {
	*list = slices.Clone(*list)
	for i := range *list {
		redactWord(c, &(*list)[i])
	}
}

// meta redacts metadata like ids, but for the keys for which except is true. What cannot be redacted is left out.
func (c *copied) meta(of *map[string]any, except func(key string) bool) {
	excepted := func(k string, _ any) bool { return except != nil && except(k) }
	rest := maps.Clone(*of)
	maps.DeleteFunc(rest, excepted)
	if len(rest) == 0 {
		return
	}
	next, changed := redactedValue(c.rules, rest)
	if !changed {
		return
	}
	for k, v := range *of {
		if excepted(k, v) {
			next[k] = v
		}
	}
	*of, c.changed = next, true
}

// redactedValue returns of without what rules match, or nothing of it if that cannot be; changed is false if they match nothing.
func redactedValue(rules []evaluate.Evaluator, of map[string]any) (next map[string]any, changed bool) {
	none := map[string]any{}
	b, err := transport.EncodeValue(of)
	if err != nil {
		return none, true
	}
	root, err := transport.DecodeValue(b)
	if err != nil {
		return none, true
	}
	changed = redacted(rules, string(b)) != string(b)
	for _, s := range evaluate.Strings(root, func(string) {}) {
		if text := redacted(rules, s.Text); text != s.Text {
			s.Set(text)
			changed = true
		}
	}
	next, is := root.(map[string]any)
	if b, err = transport.EncodeValue(root); err != nil || !is || redacted(rules, string(b)) != string(b) {
		return none, changed
	}
	return next, changed
}

// value is JSON of a result: its text, and each string in it, since a rule may match only one of both.
type value struct {
	root   any
	leaves bool   // a string in root was changed
	text   string // the JSON that was redacted; "" if it was not
	put    func(v any)
	fail   func(by string) error
}

// value adds JSON, to be replaced by put, or by fail when it would be none any more.
func (c *copied) value(of any, put func(v any), fail func(by string) error) {
	b, err := transport.EncodeValue(of)
	if err != nil {
		c.fail(fmt.Errorf("its data cannot be checked: %w", err))
		return
	}
	v := &value{put: put, fail: fail}
	if v.root, err = transport.DecodeValue(b); err != nil {
		c.fail(fmt.Errorf("its data cannot be checked: %w", err))
		return
	}
	c.values = append(c.values, v)
	c.add(string(b), false, func(text, _ string) error { v.text = text; return nil })
	for _, in := range evaluate.Strings(v.root, func(text string) { v.root = text }) {
		c.add(in.Text, true, func(text, _ string) error {
			v.leaves = true
			in.Set(text)
			return nil
		})
	}
}

// settle puts the redacted value into the result.
func (v *value) settle(rules []evaluate.Evaluator, by string) error {
	switch b, err := transport.EncodeValue(v.root); {
	case v.leaves && err == nil && (v.text == "" || !evaluate.Redacts(rules, string(b))):
		v.put(v.root)
		return nil
	case v.leaves:
		return v.fail(by)
	case v.text == "":
		return nil
	}
	changed, err := transport.DecodeValue([]byte(v.text))
	if err != nil {
		return v.fail(by)
	}
	v.put(changed)
	return nil
}

// texts returns the texts of the result.
func (c *copied) texts() []string {
	all := make([]string, len(c.slots))
	for i := range c.slots {
		all[i] = c.slots[i].text
	}
	return all
}

// shown returns what a judge sees of texts.
func (c *copied) shown(texts []string) string {
	var all []string
	for i, s := range c.slots {
		if !s.aside {
			all = append(all, texts[i])
		}
	}
	return strings.Join(all, "\n")
}

// replace replaces the texts that differ. It returns false if none does.
func (c *copied) replace(texts []string, by string) (changed bool, err error) {
	changed = c.changed
	for i, s := range c.slots {
		if texts[i] == s.text {
			continue
		}
		changed = true
		if err := s.set(texts[i], by); err != nil {
			return true, err
		}
	}
	for _, v := range c.values {
		if err := v.settle(c.rules, by); err != nil {
			return true, err
		}
	}
	return changed, nil
}
