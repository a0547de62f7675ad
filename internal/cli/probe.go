package cli

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/cortex-orchestrator/cortex/llm"
)

// probeSchema is like that of a decision: a word first, and a text that takes several pieces to write.
const probeSchema = `{"type":"object","properties":{"kind":{"type":"string","enum":["respond"]},"say":{"type":"string"}},` +
	`"required":["kind","say"],"additionalProperties":false}`

// probed is what came of one tiny call.
type probed struct {
	err    error
	model  string
	text   string
	pieces int
	first  time.Duration // until the first piece of text
	took   time.Duration
	usage  llm.Usage
}

// probe calls c once.
func probe(ctx context.Context, c llm.Client, schema bool) probed {
	r := &llm.Request{
		System:    `You are being checked. Reply with exactly one JSON object of the form {"kind": "respond", "say": "..."} and nothing else.`,
		Messages:  []llm.Message{{Role: llm.RoleUser, Text: `Let "say" be the numbers from one to ten, in words.`}},
		CacheKey:  "check",
		MaxTokens: 2048, // a model that thinks counts its thoughts
	}
	if schema {
		r.Schema = json.RawMessage(probeSchema)
	}
	began := time.Now()
	var p probed
	var text strings.Builder
	for chunk, err := range c.Generate(ctx, r) {
		if err != nil {
			p.err, p.usage = err, llm.UsageOf(err)
			break
		}
		if chunk.Text != "" && text.Len() < llm.MaxDecision {
			if p.pieces++; p.pieces == 1 {
				p.first = time.Since(began)
			}
			text.WriteString(chunk.Text)
		}
		if chunk.Done {
			p.model, p.usage = chunk.Model, chunk.Usage
		}
	}
	p.text, p.took = text.String(), time.Since(began)
	return p
}

// report adds a row for each thing that can work or not, and returns whether the endpoint can be used.
func (p *probed) report(t *table, schemaErr error, ep *endpoint) bool {
	const ok, failed, untried = "ok", "failed", "not tried"
	if p.err != nil {
		// What answers with an error of this kind did not mind what comes before it.
		steps := []string{"reach", "auth", "model", "JSON", "stream", "usage"}
		at := 3
		switch {
		case errors.Is(p.err, llm.ErrAuth), errors.Is(p.err, llm.ErrQuota):
			at = 1
		case errors.Is(p.err, llm.ErrNoModel):
			at = 2
		case errors.Is(p.err, llm.ErrUnavailable), errors.Is(p.err, llm.ErrRateLimited), errors.Is(p.err, context.DeadlineExceeded):
			at = 0
		}
		for i, step := range steps {
			switch {
			case i < at:
				t.row(step, ok)
			case i == at:
				t.row(step, failed)
			default:
				t.row(step, untried)
			}
		}
		return false
	}
	usable := true
	t.row("reach", ok, fmt.Sprintf("in %s", p.took.Round(time.Millisecond)))
	t.row("auth", ok)
	t.row("model", ok, p.model)
	d, err := llm.ParseDecision(p.text)
	switch {
	case err != nil || d.Say == "":
		usable = false
		t.row("JSON", failed, "it wrote "+fmt.Sprintf("%.40q", p.text))
	case schemaErr != nil:
		usable = false
		t.row("JSON", failed, "without a schema only: set structured: json_object")
	default:
		t.row("JSON", ok, string(cmp.Or(ep.Structured, llm.StructuredSchema)))
	}
	if p.pieces > 1 {
		t.row("stream", ok, fmt.Sprintf("%d pieces, the first after %s", p.pieces, p.first.Round(time.Millisecond)))
	} else {
		t.row("stream", "no", "the answer comes in one piece")
	}
	switch {
	case p.usage.Tokens() == 0:
		t.row("usage", "no", "tokens are not counted: no budget can hold")
	case p.usage.Cost > 0:
		t.row("usage", ok, usageLine(p.usage))
	default:
		t.row("usage", ok, usageLine(p.usage)+", no price is set")
	}
	return usable
}
