package conversation

import (
	"bytes"
	"encoding/json"
	"maps"
	"slices"
	"strconv"
	"strings"

	"github.com/a2aproject/a2a-go/v2/a2a"

	"github.com/cortex-orchestrator/cortex/internal/nesting"
	"github.com/cortex-orchestrator/cortex/llm"
	"github.com/cortex-orchestrator/cortex/prompt"
	"github.com/cortex-orchestrator/cortex/transport"
)

// Files go through a conversation as the parts that brought them, each with a key. A task gets the files that its decision names, or else
// those of the message that began its turn, and those of the results that it depends on. The texts of results have keys, too, see
// [prompt.Task.Key]: a decision names them like files. The answer gets the files of all results of its
// turn. A conversation keeps large files as references (see [transport.FileRef]) and a bounded amount of the bytes of others.
const (
	maxCarried = 2 << 20   // bytes of files in one message of Cortex, before base64; references do not count
	maxKept    = 512 << 10 // bytes of files of answered turns that a conversation keeps
)

// wordsOf returns the text of a message without its files, or the names of its files when it has no other text.
func wordsOf(parts a2a.ContentParts) string {
	isFile := func(p *a2a.Part) bool {
		_, _, _, ok := transport.FileOf(p)
		return ok
	}
	if !slices.ContainsFunc(parts, isFile) {
		return partsText(parts)
	}
	if text := partsText(slices.DeleteFunc(slices.Clone(parts), isFile)); strings.TrimSpace(text) != "" {
		return text
	}
	return partsText(parts)
}

// resultFiles returns the files of a result. A file without a name gets that of its artifact.
func resultFiles(said *a2a.Message, artifacts []*a2a.Artifact) []*a2a.Part {
	var files []*a2a.Part
	if said != nil {
		files = transport.FilesOf(said.Parts)
	}
	for _, a := range artifacts {
		if a == nil {
			continue
		}
		for _, p := range transport.FilesOf(a.Parts) {
			if p.Filename == "" && a.Name != "" {
				named := *p
				named.Filename = a.Name
				p = &named
			}
			files = append(files, p)
		}
	}
	return files[:min(len(files), transport.MaxFiles)]
}

// Brought returns the references to stored files that an event brings into its conversation, each once: those of a message, and of a result that
// is one or a question. They are at most [transport.MaxFiles], which are as many as a conversation takes.
func Brought(e *transport.Event) []*a2a.Part {
	var refs []*a2a.Part
	add := func(parts a2a.ContentParts) {
		for _, p := range parts {
			known := func(q *a2a.Part) bool { return p.Content == q.Content }
			if transport.IsFileRef(p) && !transport.IsForgotten(p) && len(refs) < transport.MaxFiles && !slices.ContainsFunc(refs, known) {
				refs = append(refs, p)
			}
		}
	}
	said := func(s a2a.TaskStatus) bool {
		if s.State != a2a.TaskStateCompleted && authAsInput(s.State) != a2a.TaskStateInputRequired {
			return false
		}
		if s.Message != nil {
			add(s.Message.Parts)
		}
		return true
	}
	switch p := e.Payload.(type) {
	case *a2a.Message:
		add(p.Parts)
	case *a2a.TaskStatusUpdateEvent:
		said(p.Status)
	case *a2a.Task:
		if said(p.Status) {
			for _, a := range p.Artifacts {
				if a != nil {
					add(a.Parts)
				}
			}
		}
	}
	return refs
}

// filesFor returns the files that go with a task.
func (c *Conversation) filesFor(t *Task) []*a2a.Part {
	var files []*a2a.Part
	if turn := c.Turn(t.Turn); t.Along != nil {
		files = slices.Clone(t.Along)
	} else if turn != nil {
		files = slices.Clone(turn.Files)
	}
	for _, id := range t.DependsOn {
		if d := c.Tasks[id]; d != nil {
			files = append(files, d.Files...)
		}
	}
	return files
}

// results returns the files that turn's tasks returned.
func (c *Conversation) results(turn *Turn) []*a2a.Part {
	var files []*a2a.Part
	for _, t := range c.TasksOf(turn) {
		if t.Phase == Completed || t.Phase == Asking {
			files = append(files, t.Files...)
		}
	}
	return slices.Clip(fitIntoMessage(files))
}

// fitIntoMessage returns files for one message: each once, and a line of text in place of each that exceeds the limits of a message.
func fitIntoMessage(files []*a2a.Part) []*a2a.Part {
	var out []*a2a.Part
	room, n := maxCarried, 0
	for _, p := range files {
		if slices.ContainsFunc(out, func(q *a2a.Part) bool { return sameFile(p, q) }) {
			continue
		}
		raw, _ := p.Content.(a2a.Raw)
		if n++; n > transport.MaxFiles || len(raw) > room {
			out = append(out, a2a.NewTextPart("["+transport.FileLine(p)+": left out, the message would be too large]"))
			continue
		}
		room -= len(raw)
		out = append(out, p)
	}
	return out
}

// sameFile reports whether two parts are the same file under the same name.
func sameFile(p, q *a2a.Part) bool {
	if p.Filename != q.Filename || p.MediaType != q.MediaType {
		return false
	}
	a, inline := p.Content.(a2a.Raw)
	if b, ok := q.Content.(a2a.Raw); inline || ok {
		return inline && ok && bytes.Equal(a, b)
	}
	return p.Content == q.Content
}

// trimFiles drops the bytes of the files of older answered turns beyond maxKept, and keeps their names. Restore gets the bytes from the log.
func (c *Conversation) trimFiles() {
	if !slices.ContainsFunc(c.Turns, func(t *Turn) bool { return len(t.Files)+len(t.Out) > 0 }) {
		return
	}
	turns, room := c.answered(), maxKept
	for _, turn := range slices.Backward(turns) {
		for _, files := range [][]*a2a.Part{turn.Files, turn.Out} {
			for j, p := range files {
				raw, inline := p.Content.(a2a.Raw)
				if room -= len(raw); inline && room < 0 && turn.AnswerSeq != c.Seq {
					files[j], c.historyCache = withKey(transport.ForgottenFile(p), FileKey(p)), nil // it weighs less
				}
			}
		}
	}
}

// Trimmed reports whether entry seq answered a turn with files whose bytes trimFiles has dropped.
func (c *Conversation) Trimmed(seq uint64) bool {
	return slices.ContainsFunc(c.Turns, func(t *Turn) bool { return t.AnswerSeq == seq && slices.ContainsFunc(t.Out, transport.IsForgotten) })
}

// Restore gives the answers of the last entry of then the files that they had when then was folded from the log, until undo is called.
func (c *Conversation) Restore(then *Conversation) (undo func()) {
	trimmed := map[*Turn][]*a2a.Part{}
	for _, turn := range c.Turns {
		if was := then.Turn(turn.ID); was != nil && turn.AnswerSeq == then.Seq && was.AnswerSeq == then.Seq {
			trimmed[turn], turn.Out = turn.Out, was.Out
		}
	}
	return func() {
		for turn, out := range trimmed {
			turn.Out = out
		}
	}
}

// assignKeys gives each file the next key of the conversation, and ignores keys that it had before.
func (c *Conversation) assignKeys(files []*a2a.Part) {
	for i, p := range files {
		c.Numbered++
		files[i] = withKey(p, "f"+strconv.Itoa(c.Numbered))
	}
}

func withKey(p *a2a.Part, key string) *a2a.Part {
	named := *p
	named.Metadata = fileMeta(p)
	if len(p.MediaType) > maxMediaType {
		named.MediaType = ""
	}
	named.SetMeta(transport.MetaFile, key)
	return &named
}

// Bounds of what is kept of a file beside its content and its name: conversations are weighed by these. Whoever sends a file may say anything of it.
const (
	maxFileMeta  = 4 << 10 // of its metadata in memory, in bytes
	maxMediaType = 256     // bytes
)

// fileMeta returns a copy of the metadata of a file; if they are large, only what says where and what its file is.
func fileMeta(p *a2a.Part) map[string]any {
	if b, err := json.Marshal(p.Metadata); err == nil && nesting.Weight(b) <= maxFileMeta {
		return maps.Clone(p.Metadata)
	}
	is := map[string]any{}
	for key, v := range p.Metadata {
		text, isText := v.(string)
		_, isNumber := v.(float64)
		if transport.IsFileMeta(key) && (isText && len(text) <= maxFileMeta/4 || isNumber) {
			is[key] = v
		}
	}
	return is
}

// FileKey returns the key by which a decision names a file of the conversation; "" for a part that is no file.
func FileKey(p *a2a.Part) string { return transport.MetaString(p, transport.MetaFile) }

// Files returns the files that a decision about turn can give to a task, the oldest first: those of the messages and results that its
// prompt shows, if their bytes are still kept. It skips the first turns of the window that are summarised.
func (c *Conversation) Files(turn *Turn, summarised int) []*a2a.Part {
	if c.Numbered == 0 {
		return nil
	}
	var files []*a2a.Part
	seen := map[string]bool{}
	add := func(all []*a2a.Part) {
		for _, p := range all {
			if key := FileKey(p); key != "" && !seen[key] && !transport.IsForgotten(p) {
				seen[key] = true
				files = append(files, p)
			}
		}
	}
	history := c.History()
	for _, past := range history[min(summarised, len(history)):] {
		add(past.Files)
		add(past.Out)
	}
	for _, t := range c.Asking() {
		add(t.Files)
	}
	add(turn.Files)
	for _, t := range c.TasksOf(turn) {
		add(t.Files)
	}
	return files
}

// Along returns the files, and the texts of results, that a delegation for turn gives to its task. A task that was asked about may name those that it had.
// Texts for which a message has no room are cut.
func (c *Conversation) Along(turn *Turn, d *llm.Delegation) []*a2a.Part {
	if d.Files == nil {
		return turn.Files
	}
	all := c.Files(turn, 0)
	if t := c.Tasks[a2a.TaskID(d.ID)]; t != nil {
		all = append(slices.Clone(t.Along), all...)
	}
	files := []*a2a.Part{}
	room := roomForTexts(d.Task)
	for _, key := range d.Files[:min(len(d.Files), transport.MaxFiles)] {
		if i := slices.IndexFunc(all, func(p *a2a.Part) bool { return FileKey(p) == key }); i >= 0 {
			files = append(files, all[i])
			continue
		}
		if t := c.resultWith(turn, key); t != nil && room > 0 {
			text := Truncate(t.Whole(), room)
			room -= len(text)
			files = append(files, withKey(&a2a.Part{Content: a2a.Text(text), Filename: key, Metadata: map[string]any{transport.MetaAgentID: t.Agent}}, key))
		}
	}
	return files
}

// resultWith returns the task whose result has a key, of those that the prompt of turn shows, or nil.
func (c *Conversation) resultWith(turn *Turn, key string) *prompt.Task {
	if !strings.HasPrefix(key, "a2a/") {
		return nil
	}
	c.History()
	return (&prompt.Input{History: c.promptHistory, Steps: c.promptSteps(turn)}).Result(key)
}

// roomForTexts returns how many bytes of the texts of results go with a task.
func roomForTexts(task string) int { return transport.MaxText/2 - len(task) }

// AlongName returns the name for people of part i of those that [Conversation.Along] returns.
func AlongName(p *a2a.Part, i int) string {
	name, kind, _, ok := transport.FileOf(p)
	if !ok {
		return FileKey(p)
	}
	return transport.FileName(name, kind, i+1)
}

// Keys returns the keys of files; nil for nil.
func Keys(files []*a2a.Part) []string {
	if files == nil {
		return nil
	}
	keys := make([]string, len(files))
	for i, p := range files {
		keys[i] = FileKey(p)
	}
	return keys
}

// promptFiles returns files as prompts show them.
func promptFiles(parts []*a2a.Part) []prompt.File {
	var files []prompt.File
	for _, p := range parts {
		name, kind, size, ok := transport.FileOf(p)
		if !ok {
			continue
		}
		files = append(files, prompt.File{Key: FileKey(p), Name: Truncate(name, transport.MaxFileName), Type: kind, Size: size, Head: transport.HeadOf(p)})
	}
	return files
}

// headsWeight estimates the memory that files take in prompts, in bytes.
func headsWeight(files []prompt.File) int {
	n := 0
	for i := range files {
		n += 128 + len(files[i].Name) + len(files[i].Head)
	}
	return n
}

// metaWeight estimates the memory that metadata of a file take beyond those that each one has, in bytes.
func metaWeight(meta map[string]any) int {
	n := 0
	for key, v := range meta {
		if key == transport.MetaFile {
			continue
		}
		n += 64 + len(key)
		switch v := v.(type) {
		case string:
			n += len(v)
		case float64, bool, nil:
		default:
			n += maxFileMeta
		}
	}
	return min(n, maxFileMeta) // see fileMeta
}

// filesWeight estimates the memory that files take, in bytes.
func filesWeight(files []*a2a.Part) int {
	n := 0
	for _, p := range files {
		raw, _ := p.Content.(a2a.Raw)
		url, _ := p.Content.(a2a.URL)
		n += 512 + len(raw) + len(url) + len(p.Text()) + len(p.Filename) + len(p.MediaType) + metaWeight(p.Metadata)
	}
	return n
}
