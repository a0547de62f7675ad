package llms

import (
	"context"
	"encoding/json"
	"io"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/cortex-orchestrator/cortex/llm"
)

// probeSchema resembles the schema of a decision: first a word, then a text that arrives in several pieces.
const probeSchema = `{"type":"object","properties":{"kind":{"type":"string","enum":["respond"]},"say":{"type":"string"}},` +
	`"required":["kind","say"],"additionalProperties":false}`

// Probed is the result of one small call.
type Probed struct {
	Err    error
	Model  string
	Text   string
	Pieces int
	First  time.Duration // until the first piece of text
	Took   time.Duration
	Usage  llm.Usage
}

// Probe calls ep's model once, for at most limit. It returns an error only when the client cannot be made; errors of the call are in p.
func Probe(ctx context.Context, ep *Endpoint, limit time.Duration) (p Probed, err error) {
	client, err := ep.open(ctx)
	if err != nil {
		return p, err
	}
	if closer, ok := client.(io.Closer); ok {
		defer closer.Close()
	}
	c := ep.withPrices(withOwnSettings{client, ep, ep}, ep.silence(limit, 1))
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
			p.Err, p.Usage = err, llm.UsageOf(err)
			break
		}
		if chunk.Text != "" && text.Len() < llm.MaxDecision {
			if p.Pieces++; p.Pieces == 1 {
				p.First = time.Since(began)
			}
			text.WriteString(chunk.Text)
		}
		if chunk.Done {
			p.Model, p.Usage = chunk.Model, chunk.Usage
		}
	}
	p.Text, p.Took = text.String(), time.Since(began)
	return p, nil
}

// remedies are settings that may make an endpoint accept a request that it refused.
func remedies(ep *Endpoint) map[string]func(*Endpoint) {
	never := false
	all := map[string]func(*Endpoint){
		"structured: prompt": func(ep *Endpoint) { ep.Structured = llm.StructuredPrompt },
	}
	if !ep.by.claude { // its protocol has no such mode
		all["structured: json_object"] = func(ep *Endpoint) { ep.Structured = llm.StructuredObject }
	}
	if !ep.by.google && !ep.by.claude && !ep.by.own {
		if ep.API == "responses" {
			all["api: chat"] = func(ep *Endpoint) { ep.API = "chat" }
		}
		all["stream_usage: false"] = func(ep *Endpoint) { ep.StreamUsage = &never }
		all["max_tokens_field: max_tokens"] = func(ep *Endpoint) { ep.MaxTokensField = "max_tokens" }
		all["max_tokens_field: max_completion_tokens"] = func(ep *Endpoint) { ep.MaxTokensField = "max_completion_tokens" }
	}
	if ep.Temperature != nil {
		all["no temperature"] = func(ep *Endpoint) { ep.Temperature = nil }
	}
	return all
}

// Remedied tries the remedies until one helps.
func Remedied(ctx context.Context, ep *Endpoint, limit time.Duration) (p Probed, better *Endpoint, remedy string) {
	all := remedies(ep)
	for _, remedy := range slices.Sorted(maps.Keys(all)) {
		changed := *ep
		all[remedy](&changed)
		if p, err := Probe(ctx, &changed, limit); err == nil && p.Err == nil {
			return p, &changed, remedy
		}
	}
	return p, nil, ""
}
