package prompt

import (
	"errors"
	"strings"
)

type (
	summaryView struct {
		Summary string // of earlier turns; empty when there is none
		Turns   []turnView
	}
	turnView struct {
		User    string
		Results []string // of all steps, with the requests
		Kind    string   // of the answer: respond, clarify, refuse
		Answer  string   // empty when there was none
	}
)

// Summary returns the prompt that asks a model for a summary of in.Summary and the first turns of in.History, or of all of them when turns is larger.
// The model's answer replaces both, as [Input.Summary]. Texts are bounded as in [Templates.Render]. It is an error if turns or the History is empty.
func (t *Templates) Summary(in *Input, turns int) (*Prompt, error) {
	turns = min(turns, len(in.History))
	if turns <= 0 {
		return nil, errors.New("render prompt: no turn to summarise")
	}
	system, err := t.execute("summary_system.tmpl", struct{}{})
	if err != nil {
		return nil, err
	}
	v := summaryView{Summary: viewEarlier(in.Summary)}
	for i := range in.History[:turns] {
		v.Turns = append(v.Turns, viewTurn(&in.History[i]))
	}
	text, err := t.execute("summary.tmpl", v)
	if err != nil {
		return nil, err
	}
	p := &Prompt{System: system}
	p.add(RoleUser, text, nil)
	return p, nil
}

func viewTurn(h *Turn) turnView {
	v := turnView{User: viewText(h.User, maxUser) + viewNames(h.Files), Kind: viewKind(h.Kind), Answer: viewText(h.Answer, maxAnswer)}
	for i := range h.Steps {
		for j := range h.Steps[i].Tasks {
			v.Results = append(v.Results, viewWork(&h.Steps[i].Tasks[j]))
		}
	}
	return v
}

// viewEarlier returns a summary for a block of its own; "" when it is blank.
func viewEarlier(summary string) string { return strings.TrimSpace(viewText(summary, maxSummary)) }

// viewText returns an external text for a block of its own.
func viewText(s string, limit int) string { return plain(CleanText(s, limit)) }
