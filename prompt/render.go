package prompt

// Role says whose words a Message holds.
type Role string

// The roles of a Message.
const (
	RoleUser      Role = "user"
	RoleAssistant Role = "assistant"
)

// Message is one message of the conversation as a model sees it.
type Message struct {
	Role  Role
	Text  string
	Files []File // that Text names
}

// Prompt is what a model is sent.
type Prompt struct {
	// System holds the instructions and the agents that they list. It changes only with the list.
	System string
	// Messages alternate between user and assistant, beginning and ending with the user.
	Messages []Message
}

// Render returns the prompt for in. Equal inputs give equal bytes. What it writes for a turn never depends on what came
// later, and what changes from call to call (the time, waiting tasks, whether it is the last step) stands at the very end,
// so that everything before it is a prefix of the next prompt of the conversation.
//
// Each text is bounded here; the numbers of agents, turns and steps are the caller's to bound. The only error is that of
// a replaced template that fails on in.
func (t *Templates) Render(in *Input) (*Prompt, error) {
	system, err := t.execute("system.tmpl", viewSystem(in))
	if err != nil {
		return nil, err
	}
	p := &Prompt{System: system}
	summary := in.Summary // stands before the first turn
	for i := range in.History {
		h := &in.History[i]
		if err := t.turn(p, summary, h.User, h.Files, &h.Update, h.Steps, in.Choice); err != nil {
			return nil, err
		}
		p.add(RoleAssistant, viewAnswer(h, in.Choice), nil)
		summary = ""
	}
	if err := t.turn(p, summary, in.User, in.Files, &in.Update, in.Steps, in.Choice); err != nil {
		return nil, err
	}
	facts, err := t.execute("facts.tmpl", viewFacts(in))
	if err != nil {
		return nil, err
	}
	if facts != "" {
		p.Messages[len(p.Messages)-1].Text += "\n\n" + facts
	}
	return p, nil
}

// turn adds what the user said and what was done about it. It ends with a user message.
func (t *Templates) turn(p *Prompt, summary, user string, files []File, u *Update, steps []Step, choice bool) error {
	var before string
	if summary = viewEarlier(summary); summary != "" {
		text, err := t.execute("earlier.tmpl", earlierView{Summary: summary})
		if err != nil {
			return err
		}
		before = text + "\n\n"
	}
	text, err := t.message(u, choice, "user.tmpl", userView{Text: viewText(user, maxUser), Files: viewFiles(files)})
	if err != nil {
		return err
	}
	p.add(RoleUser, before+text, shownFiles(files))
	for i := range steps {
		p.add(RoleAssistant, viewDelegations(&steps[i], choice), nil)
		var v resultsView
		var shown []File
		for j := range steps[i].Tasks {
			v.Tasks = append(v.Tasks, viewResult(&steps[i].Tasks[j]))
			shown = append(shown, shownFiles(steps[i].Tasks[j].Files)...)
		}
		if text, err = t.message(&steps[i].Update, choice, "results.tmpl", v); err != nil {
			return err
		}
		p.add(RoleUser, text, shown)
	}
	return nil
}

// message is the text of a template, after how the agents had changed then.
func (t *Templates) message(u *Update, choice bool, name string, data any) (string, error) {
	text, err := t.execute(name, data)
	if err != nil || len(u.Joined)+len(u.Left) == 0 {
		return text, err
	}
	update, err := t.execute("update.tmpl", viewUpdate(u, choice))
	if err != nil {
		return "", err
	}
	return update + "\n\n" + text, nil
}

func (p *Prompt) add(r Role, text string, files []File) {
	p.Messages = append(p.Messages, Message{Role: r, Text: text, Files: files})
}
