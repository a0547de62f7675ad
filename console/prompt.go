package console

import (
	"net/http"
	"strconv"

	"github.com/cortex-orchestrator/cortex/internal/view"
)

// promptPage shows the prompt of a decision, rendered again from the log.
func (c *Console) promptPage(w http.ResponseWriter, r *http.Request, who Person) error {
	id, err := contextOf(r)
	if err != nil {
		return err
	}
	seq, err := strconv.ParseUint(r.PathValue("entry"), 10, 64)
	if err != nil || c.cfg.Prompt == nil {
		return errNoPage
	}
	leave, err := c.enterPage(r.Context(), w, who, 2*maxShown)
	if err != nil {
		return err
	}
	defer leave()
	p, err := view.Prompt(r.Context(), c.reader(), id, seq, c.cfg.Prompt)
	if err != nil {
		return err
	}
	if wantsJSON(r) {
		return answerJSON(w, p)
	}
	c.show(w, r, http.StatusOK, &page{Name: "prompt", Title: "Prompt", Section: "chat", Data: struct {
		*view.PromptJSON
		ContextID string
	}{p, id}})
	return nil
}
