package prompt

import (
	"cmp"
	"encoding/json"
	"slices"
	"strconv"
	"strings"
	"time"
	_ "time/tzdata" // for machines without a time zone database

	"github.com/a2aproject/a2a-go/v2/a2a"

	"github.com/cortex-orchestrator/cortex/agentcard"
	"github.com/cortex-orchestrator/cortex/internal/lookalike"
)

// Limits of external texts in a prompt: in characters for single lines, in bytes for texts.
const (
	maxID          = 256
	maxName        = 64
	maxDescription = 500
	maxSkills      = 25
	maxSkillText   = 200
	maxExamples    = 4
	maxExample     = 120
	maxTags        = 8
	maxTag         = 32
	maxSkillBytes  = 6 << 10 // all skills of an agent
	maxWhy         = 160
	maxUnavailable = 20
	maxAwayBytes   = 1280 // all unavailable agents: their ids are external, too
	maxUser        = 64 << 10
	maxAnswer      = 16 << 10
	maxTask        = 4 << 10
	maxSummary     = 16 << 10
	maxArtifacts   = 8
	maxWaiting     = 10
	maxReason      = 300
)

// The data of the templates. All external texts are cleaned, truncated and quoted as JSON strings here, so that a replaced template cannot forget it.
// The exceptions are the texts in blocks of their own (a user's message, a summary, an answer in [turnView]), and the JSON objects of results and
// waiting tasks.
type (
	systemView struct {
		Agents      []agentView
		MaxParallel int // 0: no limit stated
		Choice      bool
		Searches    int // maximum number in a decision
		ReasonFirst bool
	}
	agentView struct {
		ID, Name    string // Name is empty when it adds nothing to ID
		Like        string // another agent in the list whose id looks the same; empty when there is none
		Description string
		Seen        bool
		Skills      []skillView
		More        int // skills that are not shown
	}
	skillView struct {
		ID, Name       string
		Description    string
		Tags, Examples []string
		Input          string // a JSON Schema; empty when there is none
	}
	userView struct {
		Text  string
		Files []string
	}
	earlierView struct{ Summary string }
	updateView  struct {
		Joined []agentView
		Left   []string
		Choice bool
	}
	resultsView struct{ Tasks []string }
	factsView   struct {
		Time        string // empty when unknown
		Zone        string // the user's, in which Time is; empty when unknown
		Locale      string // the user's; empty when unknown
		Omitted     int
		Waiting     []string
		Unavailable []string
		More        int // agents that are not shown
		Choice      bool
		Last        bool
		Reads       int // maximum number in a decision; 0: there is nothing to read
		ReasonFirst bool
	}
)

func viewSystem(in *Input) *systemView {
	v := &systemView{MaxParallel: in.MaxParallel, Choice: in.Choice, Searches: MaxSearches, ReasonFirst: in.ReasonFirst}
	agents := in.Agents
	if in.Listed != nil {
		agents = in.Listed
	}
	v.Agents = viewAgents(agents)
	return v
}

func viewUpdate(u *Update, choice bool) *updateView {
	v := &updateView{Joined: viewAgents(u.Joined), Choice: choice}
	for _, s := range u.Left {
		v.Left = append(v.Left, encode(id(s)))
	}
	return v
}

func viewAgents(all []Agent) []agentView {
	var out []agentView
	var alike lookalike.Set
	for i := range all {
		alike.Add(all[i].ID)
	}
	for i := range all {
		v := viewAgent(&all[i])
		if other := alike.Like(all[i].ID); other != "" {
			v.Like = encode(id(other))
		}
		out = append(out, v)
	}
	return out
}

func viewAgent(a *Agent) agentView {
	v := agentView{ID: encode(id(a.ID)), Seen: a.Seen, More: a.More}
	if a.Card == nil {
		return v
	}
	if name := Clean(a.Card.Name, maxName); name != a.ID {
		v.Name = quote(name)
	}
	v.Description = quote(Clean(a.Card.Description, maxDescription))
	input := inputsOf(a)
	size := 0
	for i := range a.Card.Skills {
		s := viewSkill(&a.Card.Skills[i], input)
		size += len(s.ID) + len(s.Name) + len(s.Description) + len(s.Input)
		for _, t := range append(s.Tags, s.Examples...) {
			size += len(t)
		}
		if i == maxSkills || size > maxSkillBytes {
			v.More += len(a.Card.Skills) - i
			break
		}
		v.Skills = append(v.Skills, s)
	}
	return v
}

// size returns the approximate size of v in a prompt, in bytes.
func (v *agentView) size() int {
	n := len("- id , name \n") + len(v.ID) + len(v.Name)
	if !v.Seen {
		n += 70 // the note about it
	}
	if v.Description != "" {
		n += len("  description \n") + len(v.Description)
	}
	for i := range v.Skills {
		s := &v.Skills[i]
		n += len("  skill , name \n") + len(s.ID) + len(s.Name)
		if s.Description != "" {
			n += len("    description \n") + len(s.Description)
		}
		if s.Input != "" {
			n += len("    input schema \n") + len(s.Input)
		}
		for _, list := range [][]string{s.Tags, s.Examples} {
			if len(list) > 0 {
				n += len("    examples \n")
			}
			for _, text := range list {
				n += len(text) + len(", ")
			}
		}
	}
	if v.More > 0 {
		n += len("  … and 1000 more skills\n")
	}
	return n
}

func viewSkill(s *a2a.AgentSkill, input func(skill string) string) skillView {
	name := Clean(s.Name, maxName)
	v := skillView{ID: encode(id(s.ID)), Description: quote(Clean(s.Description, maxSkillText))}
	switch {
	case s.ID == "": // the name replaces the id
		v.ID = encode(id(s.Name))
	case name != s.ID:
		v.Name = quote(name)
	}
	v.Input = input(agentcard.SkillID(s))
	v.Tags = quoteSome(s.Tags, maxTags, maxTag)
	v.Examples = quoteSome(s.Examples, maxExamples, maxExample)
	return v
}

// id bounds an id without changing it otherwise, since the model has to copy it exactly.
func id(s string) string {
	if len(s) > maxID {
		return Clean(s, maxID)
	}
	return strings.ToValidUTF8(s, "\uFFFD")
}

// quote returns s as a JSON string; "" for an empty one.
func quote(s string) string {
	if s == "" {
		return ""
	}
	return encode(s)
}

// quoteSome is cleanSome with quotes.
func quoteSome(all []string, most, limit int) []string {
	out := cleanSome(all, most, limit)
	for i, s := range out {
		out[i] = encode(s)
	}
	return out
}

// form says which form the model's replies have.
type form struct {
	choice      bool // they have a search
	reasonFirst bool
}

// answer and delegation have the form that the model has to write, so that its earlier replies are not examples of another form.
type answer struct {
	First       *string      `json:"reason,omitempty"` // in the form with the reason first
	Kind        string       `json:"kind"`
	Say         *string      `json:"say"`
	Delegations []delegation `json:"delegations"`
	// Search is null where the form has it; searches are not shown again.
	Search json.RawMessage `json:"search,omitempty"`
}

// view returns an answer as the model would have written it.
func (f form) view(kind, say, reason string, ds []delegation) string {
	reason = Clean(reason, maxReason)
	v := &answer{Kind: kind, Delegations: ds}
	if say != "" {
		v.Say = &say
	}
	if f.choice {
		v.Search = json.RawMessage("null")
	}
	if f.reasonFirst {
		v.First = &reason
		return encode(v)
	}
	return encode(struct {
		*answer
		Reason string `json:"reason"`
	}{v, reason})
}

type delegation struct {
	ID        string   `json:"id"`
	Agent     string   `json:"agent"`
	Skill     *string  `json:"skill"`
	Task      string   `json:"task"`
	Input     *string  `json:"input"`
	Files     []string `json:"files"` // null: those of the user's message
	DependsOn []string `json:"depends_on"`
}

func viewAnswer(h *Turn, f form) string {
	say := cmp.Or(CleanText(h.Answer, maxAnswer), "(no answer)")
	return f.view(viewKind(h.Kind), say, h.Reason, []delegation{})
}

// viewKind returns the kind of an answer. A turn that failed has none, and its answer is shown as a response.
func viewKind(kind string) string {
	if kind == "" || kind == delegate {
		return "respond"
	}
	return id(kind)
}

// delegate is the kind of a step, which is no answer.
const delegate = "delegate"

func viewDelegations(s *Step, f form) string {
	ds := []delegation{}
	for i := range s.Tasks {
		t := &s.Tasks[i]
		d := delegation{ID: taskName(i), Agent: id(t.Agent), Task: CleanText(t.Text, maxTask), DependsOn: viewNeeds(s, t)}
		if t.Skill != "" {
			skill := id(t.Skill)
			d.Skill = &skill
		}
		if len(t.Input) > 0 && string(t.Input) != "null" {
			input := CleanText(string(t.Input), maxTask)
			d.Input = &input
		}
		if t.Along != nil {
			d.Files = []string{}
		}
		for _, key := range t.Along {
			d.Files = append(d.Files, id(key))
		}
		ds = append(ds, d)
	}
	return f.view(delegate, CleanText(s.Say, maxAnswer), s.Reason, ds)
}

// taskName returns the name that stands for task i of a step: ids are long, and models copy them with mistakes. It is one as the model chooses itself.
func taskName(i int) string {
	if i < 26 {
		return string(rune('a' + i))
	}
	return "d" + strconv.Itoa(i+1)
}

// waitingName returns the name that stands for task i of those that wait.
func waitingName(i int) string { return "t" + strconv.Itoa(i+1) }

// viewNeeds returns the tasks of step s that t depends on, without duplicates and unknown ids.
func viewNeeds(s *Step, t *Task) []string {
	needs := []string{}
	for i := range s.Tasks {
		if slices.Contains(t.DependsOn, s.Tasks[i].ID) {
			needs = append(needs, taskName(i))
		}
	}
	return needs
}

// state formats a state as in "input-required".
func state(s a2a.TaskState) string {
	if s == a2a.TaskStateUnspecified {
		return "unknown"
	}
	return strings.ReplaceAll(strings.ToLower(Clean(strings.TrimPrefix(string(s), "TASK_STATE_"), maxTag)), "_", "-")
}

type waiting struct {
	Task     string `json:"task"`
	Agent    string `json:"agent"`
	Asked    string `json:"asked_to"`
	Question string `json:"question"`
}

type unavailable struct {
	Agent string `json:"agent"`
	Why   string `json:"why"`
}

func viewFacts(in *Input) *factsView {
	v := &factsView{Omitted: in.Omitted, Last: in.Last, Choice: in.Choice, Locale: in.Locale, ReasonFirst: in.ReasonFirst}
	if in.Readable() {
		v.Reads = MaxReads
	}
	if in.Choice && !in.Last {
		v.More = in.More
	}
	if !in.Now.IsZero() {
		now := in.Now
		if zone, err := time.LoadLocation(in.TimeZone); err == nil && in.TimeZone != "" && in.TimeZone != "Local" {
			now, v.Zone = now.In(zone), in.TimeZone
		}
		v.Time = now.Format("Monday, 2006-01-02T15:04:05Z07:00")
	}
	for i, t := range in.shownWaiting() {
		v.Waiting = append(v.Waiting, encode(waiting{
			Task: waitingName(i), Agent: id(t.Agent), Asked: Clean(t.Text, maxSkillText), Question: CleanText(t.Result, maxTask),
		}))
	}
	room := maxAwayBytes
	for _, u := range in.Unavailable[:min(len(in.Unavailable), maxUnavailable)] {
		line := encode(unavailable{Agent: id(u.ID), Why: Clean(u.Why, maxWhy)})
		if room -= len(line) + 1; room < 0 {
			break
		}
		v.Unavailable = append(v.Unavailable, line)
	}
	return v
}
