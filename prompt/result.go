package prompt

import (
	"iter"
	"strings"

	"github.com/cortex-orchestrator/cortex/internal/lines"
)

// Sizes of what a prompt shows of a result: a short one whole, of a longer one the first lines.
const (
	maxShown     = 8 << 10 // bytes of the text of a result that is shown whole
	maxBegins    = 1 << 10 // bytes of the beginning of a longer one, and of all its artifacts
	maxFirst     = 10      // lines of it
	minKeyed     = 1 << 10 // bytes from which on the key is shown: a shorter result can be copied
	maxWork      = 16 << 10
	keyedLetters = 8 // of a task's id in the key of its result
)

type result struct {
	Task      string     `json:"task,omitempty"`
	Agent     string     `json:"agent"`
	Asked     string     `json:"asked_to,omitempty"`
	State     string     `json:"state"`
	Key       string     `json:"key,omitempty"`
	Bytes     int        `json:"bytes,omitempty"` // of a result that is not shown whole, as are lines
	Lines     int        `json:"lines,omitempty"`
	Begins    string     `json:"begins,omitempty"`
	Result    *string    `json:"result,omitempty"` // nil if it is not shown whole
	Artifacts []artifact `json:"artifacts,omitempty"`
	More      int        `json:"more_artifacts,omitempty"`
	Files     []file     `json:"files,omitempty"`
	MoreFiles int        `json:"more_files,omitempty"`
}

type artifact struct {
	Name string `json:"name"`
	Text string `json:"text"`
}

// viewResult returns a result for a reader who can read on in it.
func viewResult(t *Task, name string) string {
	v := &result{Task: name, Agent: id(t.Agent), State: state(t.State)}
	switch n := t.size(); {
	case n > maxShown:
		text := t.Whole()
		v.Key, v.Bytes, v.Lines = t.Key(), len(text), lines.Count(text)
		v.Begins = CleanText(lines.Head(text, maxFirst, maxBegins), maxBegins)
	case n > minKeyed:
		v.Key = t.Key()
		fallthrough
	default:
		v.show(t, maxShown)
	}
	for _, f := range shownFiles(t.Files) {
		v.Files = append(v.Files, viewFile(&f))
	}
	v.MoreFiles = len(t.Files) - len(v.Files)
	return encode(v)
}

// viewWork is viewResult for a reader who sees neither the delegation nor its id, and cannot read on.
func viewWork(t *Task) string {
	v := &result{Agent: id(t.Agent), State: state(t.State), Asked: CleanText(t.Text, maxTask)}
	v.show(t, maxWork)
	return encode(v)
}

// show shows the texts of a result, in at most limit bytes, and as many of its artifacts.
func (v *result) show(t *Task, limit int) {
	text := CleanText(t.Result, limit)
	v.Result = &text
	for i, a := range t.Artifacts {
		if i == maxArtifacts || limit <= 0 {
			v.More = len(t.Artifacts) - i
			break
		}
		text := CleanText(a.Text, limit)
		limit -= len(text)
		v.Artifacts = append(v.Artifacts, artifact{Name: Clean(a.Name, maxName), Text: text})
	}
}

// size returns the size of the texts of a result, in bytes.
func (t *Task) size() int {
	n := len(t.Result)
	for i := range t.Artifacts {
		n += len(t.Artifacts[i].Text)
	}
	return n
}

// Key returns the name of a task's result in its conversation, which a decision gives to read it or to pass it on: a2a/AGENT/TASK/result, with the first
// 8 characters of the task's id, since models copy long ids with mistakes.
func (t *Task) Key() string {
	return "a2a/" + id(t.Agent) + "/" + string(t.ID)[:min(len(t.ID), keyedLetters)] + "/result"
}

// Whole returns the text of a result with those of its artifacts, each after a line with its name.
func (t *Task) Whole() string {
	if len(t.Artifacts) == 0 {
		return t.Result
	}
	var b strings.Builder
	begin := func(name, text string) {
		if b.Len() > 0 && !strings.HasSuffix(b.String(), "\n") {
			b.WriteByte('\n')
		}
		b.WriteString(name + text)
	}
	if t.Result != "" {
		begin("", t.Result)
	}
	for _, a := range t.Artifacts {
		begin("--- "+Clean(a.Name, maxName)+"\n", a.Text)
	}
	return b.String()
}

// Results yields the tasks with a text, of the history and of this turn, the oldest first.
func (in *Input) Results() iter.Seq[*Task] {
	return func(yield func(*Task) bool) {
		for steps := range in.steps() {
			for i := range steps {
				for j := range steps[i].Tasks {
					if t := &steps[i].Tasks[j]; t.size() > 0 && !yield(t) {
						return
					}
				}
			}
		}
	}
}

// steps yields the steps of each turn, the oldest first.
func (in *Input) steps() iter.Seq[[]Step] {
	return func(yield func([]Step) bool) {
		for i := range in.History {
			if !yield(in.History[i].Steps) {
				return
			}
		}
		yield(in.Steps)
	}
}

// Result returns the task whose result has a key, or nil. The key may have the whole id of the task, too.
func (in *Input) Result(key string) *Task {
	var found *Task // the last one, should two ids begin alike
	for t := range in.Results() {
		if t.HasKey(key) {
			found = t
		}
	}
	return found
}

// HasKey reports whether key names the result of t, with the whole id of the task or with its beginning.
func (t *Task) HasKey(key string) bool {
	return key == t.Key() || key == "a2a/"+t.Agent+"/"+string(t.ID)+"/result"
}
