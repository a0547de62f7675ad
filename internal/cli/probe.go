package cli

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/cortex-orchestrator/cortex/internal/table"
	"github.com/cortex-orchestrator/cortex/internal/view"
	"github.com/cortex-orchestrator/cortex/llm"
)

// probeSchema resembles the schema of a decision: first a word, then a text that arrives in several pieces.
const probeSchema = `{"type":"object","properties":{"kind":{"type":"string","enum":["respond"]},"say":{"type":"string"}},` +
	`"required":["kind","say"],"additionalProperties":false}`

// probed is the result of one small call.
type probed struct {
	err    error
	model  string
	text   string
	pieces int
	first  time.Duration // until the first piece of text
	took   time.Duration
	usage  llm.Usage
}

// probe calls ep's model once. It returns an error only when the client cannot be made; errors of the call are in p.
func probe(ctx context.Context, ep *endpoint) (p probed, err error) {
	client, err := ep.open(ctx)
	if err != nil {
		return p, err
	}
	if closer, ok := client.(io.Closer); ok {
		defer closer.Close()
	}
	c := ep.withPrices(withOwnSettings{client, ep, ep}, ep.silence(checkTimeout, 1))
	r := &llm.Request{
		System:    `You are being checked. Reply with exactly one JSON object of the form {"kind": "respond", "say": "..."} and nothing else.`,
		Messages:  []llm.Message{llm.User(`Let "say" be the numbers from one to ten, in words.`)},
		CacheKey:  "check",
		MaxTokens: 2048, // a model that thinks counts its thoughts
		Schema:    json.RawMessage(probeSchema),
	}
	began := time.Now()
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
	return p, nil
}

// remedies are settings that may make an endpoint accept a request that it refused.
func remedies(ep *endpoint) map[string]func(*endpoint) {
	never := false
	all := map[string]func(*endpoint){
		"structured: prompt": func(ep *endpoint) { ep.Structured = llm.StructuredPrompt },
	}
	if !ep.by.claude { // its protocol has no such mode
		all["structured: json_object"] = func(ep *endpoint) { ep.Structured = llm.StructuredObject }
	}
	if !ep.by.google && !ep.by.claude && !ep.by.own {
		if ep.API == "responses" {
			all["api: chat"] = func(ep *endpoint) { ep.API = "chat" }
		}
		all["stream_usage: false"] = func(ep *endpoint) { ep.StreamUsage = &never }
		all["max_tokens_field: max_tokens"] = func(ep *endpoint) { ep.MaxTokensField = "max_tokens" }
		all["max_tokens_field: max_completion_tokens"] = func(ep *endpoint) { ep.MaxTokensField = "max_completion_tokens" }
	}
	if ep.Temperature != nil {
		all["no temperature"] = func(ep *endpoint) { ep.Temperature = nil }
	}
	return all
}

// remedied tries the remedies until one helps.
func remedied(ctx context.Context, ep *endpoint) (p probed, better *endpoint, remedy string) {
	all := remedies(ep)
	for _, remedy := range slices.Sorted(maps.Keys(all)) {
		changed := *ep
		all[remedy](&changed)
		if p, err := probe(ctx, &changed); err == nil && p.err == nil {
			return p, &changed, remedy
		}
	}
	return p, nil, ""
}

// States in the table.
const (
	works   = "ok"
	fails   = "failed"
	unknown = "not known"
)

// reportError adds the rows that follow from p.err.
func (p *probed) reportError(t *table.Table) {
	is := func(kinds ...error) bool {
		return slices.ContainsFunc(kinds, func(kind error) bool { return errors.Is(p.err, kind) })
	}
	reach, auth, model := works, unknown, unknown
	var vendor *llm.Error
	switch {
	case is(llm.ErrAuth, llm.ErrQuota):
		auth = fails
	case is(llm.ErrNoModel):
		auth, model = works, fails
	case is(llm.ErrRefused, llm.ErrLength, llm.ErrEmpty, llm.ErrTruncated, llm.ErrTooLong), p.pieces > 0:
		auth, model = works, works
	case is(llm.ErrUnavailable, context.DeadlineExceeded) && !(errors.As(p.err, &vendor) && vendor.Status != 0):
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
func (p *probed) report(t *table.Table, ep *endpoint, remedy string) bool {
	if p.err != nil {
		p.reportError(t)
		return false
	}
	usable := true
	t.Row("reach", works, fmt.Sprintf("in %s", p.took.Round(time.Millisecond)))
	t.Row("auth", works)
	t.Row("model", works, p.model)
	if remedy != "" {
		usable = false
		t.Row("settings", fails, "set "+remedy)
	}
	if d, err := llm.ParseDecision(p.text); err != nil || d.Say == "" {
		usable = false
		t.Row("JSON", fails, "it wrote "+fmt.Sprintf("%.40q", p.text))
	} else {
		t.Row("JSON", works, string(cmp.Or(ep.Structured, llm.StructuredSchema)))
	}
	if p.pieces > 1 {
		t.Row("stream", works, fmt.Sprintf("%d pieces, the first after %s", p.pieces, p.first.Round(time.Millisecond)))
	} else {
		t.Row("stream", "no", "the answer comes in one piece")
	}
	switch {
	case p.usage.Tokens() == 0:
		t.Row("usage", "no", "tokens are not counted: no budget can hold")
	case ep.Price == nil:
		t.Row("usage", works, view.UsageLine(p.usage)+", no price is set")
	default:
		t.Row("usage", works, view.UsageLine(p.usage))
	}
	return usable
}
