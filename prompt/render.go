package prompt

// Role is the author of a Message.
type Role string

// The roles of a Message.
const (
	RoleUser      Role = "user"
	RoleAssistant Role = "assistant"
)

// Message is one message of the conversation for a model.
type Message struct {
	Role  Role
	Text  string
	Files []File // the files that Text names
}

// Prompt is a rendered prompt.
type Prompt struct {
	// System has the instructions and the list of agents. It changes only with the list.
	System string
	// Messages alternate between user and assistant. The first and the last are the user's.
	Messages []Message
}

// Render returns the prompt for in. Equal inputs give equal bytes. The text of a turn never depends on later ones, and what changes from call to call
// (the time, waiting tasks, whether it is the last step) is at the very end, so that everything before it is a prefix of the conversation's next
// prompt.
//
// Render bounds each text; the caller bounds the numbers of agents, turns and steps. It returns an error only when a replaced template fails on in.
func (t *Templates) Render(in *Input) (*Prompt, error) {
	system, err := t.system(in)
	if err != nil {
		return nil, err
	}
	p := &Prompt{System: system}
	f := form{in.Choice, in.ReasonFirst}
	for i := range in.History {
		past, err := t.past(&in.History[i], f)
		if err != nil {
			return nil, err
		}
		p.Messages = append(p.Messages, past...)
	}
	if err := t.turn(p, in.User, in.Files, &in.Update, in.Steps, f); err != nil {
		return nil, err
	}
	if summary := viewEarlier(in.Summary); summary != "" {
		text, err := t.execute("earlier.tmpl", earlierView{Summary: summary})
		if err != nil {
			return nil, err
		}
		p.Messages[0].Text = text + "\n\n" + p.Messages[0].Text
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

// turn appends a user's message and the steps of its turn. It ends with a message of the user's role.
func (t *Templates) turn(p *Prompt, user string, files []File, u *Update, steps []Step, f form) error {
	text, err := t.message(u, f.choice, "user.tmpl", userView{Text: viewText(user, maxUser), Files: viewFiles(files)})
	if err != nil {
		return err
	}
	p.add(RoleUser, text, shownFiles(files))
	for i := range steps {
		p.add(RoleAssistant, viewDelegations(&steps[i], f), nil)
		var v resultsView
		var shown []File
		for j := range steps[i].Tasks {
			v.Tasks = append(v.Tasks, viewResult(&steps[i].Tasks[j], taskName(j)))
			shown = append(shown, shownFiles(steps[i].Tasks[j].Files)...)
		}
		if text, err = t.message(&steps[i].Update, f.choice, "results.tmpl", v); err != nil {
			return err
		}
		p.add(RoleUser, text, shown)
	}
	return nil
}

// message renders a template, after the changes of agents at that time.
func (t *Templates) message(u *Update, choice bool, name string, data any) (string, error) {
	text, err := t.execute(name, data)
	if err != nil || u.empty() {
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
