package cli

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/cortex-orchestrator/cortex/internal/llms"
	"github.com/cortex-orchestrator/cortex/internal/table"
	"github.com/cortex-orchestrator/cortex/internal/view"
	"github.com/cortex-orchestrator/cortex/llm"
)

// States in the table.
const (
	works   = "ok"
	fails   = "failed"
	unknown = "not known"
)

// reportError adds the rows that follow from p.err.
func reportError(p *llms.Probed, t *table.Table) {
	is := func(kinds ...error) bool {
		return slices.ContainsFunc(kinds, func(kind error) bool { return errors.Is(p.Err, kind) })
	}
	reach, auth, model := works, unknown, unknown
	var vendor *llm.Error
	switch {
	case is(llm.ErrAuth, llm.ErrQuota):
		auth = fails
	case is(llm.ErrNoModel):
		auth, model = works, fails
	case is(llm.ErrRefused, llm.ErrLength, llm.ErrEmpty, llm.ErrTruncated, llm.ErrTooLong), p.Pieces > 0:
		auth, model = works, works
	case is(llm.ErrUnavailable, context.DeadlineExceeded) && !(errors.As(p.Err, &vendor) && vendor.Status != 0):
		reach = fails
	}
	t.Row("reach", reach)
	t.Row("auth", auth)
	t.Row("model", model)
	for _, step := range []string{"JSON", "stream", "usage"} {
		t.Row(step, unknown)
	}
}

// report adds a row for each aspect, and returns whether the endpoint can be used. remedy is the setting that made it work, when its own settings did
// not.
func report(p *llms.Probed, t *table.Table, ep *llms.Endpoint, remedy string) bool {
	if p.Err != nil {
		reportError(p, t)
		return false
	}
	usable := true
	t.Row("reach", works, fmt.Sprintf("in %s", p.Took.Round(time.Millisecond)))
	t.Row("auth", works)
	t.Row("model", works, p.Model)
	if remedy != "" {
		usable = false
		t.Row("settings", fails, "set "+remedy)
	}
	if d, err := llm.ParseDecision(p.Text); err != nil || d.Say == "" {
		usable = false
		t.Row("JSON", fails, "it wrote "+fmt.Sprintf("%.40q", p.Text))
	} else {
		t.Row("JSON", works, string(cmp.Or(ep.Structured, llm.StructuredSchema)))
	}
	if p.Pieces > 1 {
		t.Row("stream", works, fmt.Sprintf("%d pieces, the first after %s", p.Pieces, p.First.Round(time.Millisecond)))
	} else {
		t.Row("stream", "no", "the answer comes in one piece")
	}
	switch {
	case p.Usage.Tokens() == 0:
		t.Row("usage", "no", "tokens are not counted: no budget can hold")
	case ep.Price == nil:
		t.Row("usage", works, view.UsageLine(p.Usage)+", no price is set")
	default:
		t.Row("usage", works, view.UsageLine(p.Usage))
	}
	return usable
}
