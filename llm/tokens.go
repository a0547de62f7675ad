package llm

import (
	"cmp"
	"math"
	"sync"
)

// gauge estimates the number of tokens of prompts for one model. It is safe for concurrent use.
type gauge struct {
	mu    sync.Mutex
	ratio float64 // average bytes per token; 0: not yet measured
}

// Bytes per token. Three is a safe estimate for prose, code and Chinese; the bounds keep implausible counts of an endpoint from making every prompt
// fit, or none. A ratio above the maximum means that the endpoint counted only uncached tokens, and is ignored.
const (
	usualRatio = 3
	leastRatio = 1
	mostRatio  = 6
	gaugeGain  = 0.25 // weight of a new measurement
)

// tokens estimates the tokens of this many bytes, rounded up.
func (g *gauge) tokens(bytes int) int { return int(math.Ceil(float64(bytes) / g.perToken())) }

// prompt estimates the tokens of r.
func (g *gauge) prompt(r *Request) int {
	bytes, images := r.Size()
	return g.tokens(bytes) + images*ImageTokens
}

// bytes estimates the bytes of this many tokens, rounded down.
func (g *gauge) bytes(tokens int) int { return int(float64(tokens) * g.perToken()) }

func (g *gauge) perToken() float64 {
	g.mu.Lock()
	defer g.mu.Unlock()
	if g.ratio == 0 {
		return usualRatio
	}
	return g.ratio
}

// measured updates the estimate from a prompt of this many bytes and the tokens that the endpoint counted; 0 when it did not.
func (g *gauge) measured(bytes, tokens int) {
	if bytes <= 0 || tokens <= 0 {
		return
	}
	ratio := max(float64(bytes)/float64(tokens), leastRatio)
	if ratio > mostRatio {
		return
	}
	g.mu.Lock()
	defer g.mu.Unlock()
	if g.ratio != 0 {
		ratio = g.ratio + gaugeGain*(ratio-g.ratio)
	}
	g.ratio = ratio
}

// promptOf returns the tokens of an answer's prompt according to its last chunk; 0 when unknown. If more tokens were cached than counted, Input does
// not include the cached ones.
func promptOf(done *Chunk) int {
	if done.Prompt != 0 {
		return done.Prompt
	}
	if u := done.Usage; u.Cached > u.Input {
		return u.Input + u.Cached
	}
	return done.Usage.Input
}

// defaultAnswer is the number of tokens reserved for an answer of unlimited length.
const defaultAnswer = 4096

// room returns how many tokens a prompt may have to leave room for an answer of this many tokens, at most a quarter of the window; 0 stands for the
// default. A tenth of the window is reserved, since tokens are estimated.
func (o *DeciderOptions) room(answer int) int {
	answer = cmp.Or(max(answer, 0), defaultAnswer)
	return max(0, o.Window-(o.Window+9)/10-min(answer, o.Window/4))
}

// left returns how many bytes can be added to r so that there is still room for an answer.
func (d *decider) left(r *Request) int {
	if d.options.Window <= 0 {
		return math.MaxInt
	}
	bytes, images := r.Size()
	return d.gauge.bytes(d.options.room(d.options.MaxTokens)-images*ImageTokens) - bytes
}

// leastShare is the share of the window that an answer may always have.
const leastShare = 8

// answer returns the bound of the answer to r, when want tokens are wanted: endpoints refuse a request for more than the window leaves. Since that is
// estimated, the bound is at least a share of the window.
func (d *decider) answer(r *Request, want int) int {
	w := d.options.Window
	if w <= 0 || want <= 0 {
		return want
	}
	return min(want, max(w-d.gauge.prompt(r), w/leastShare))
}
