package llm

import (
	"math"
	"sync"
)

// gauge estimates how many tokens a prompt has for one model. It is safe for concurrent use.
type gauge struct {
	mu    sync.Mutex
	ratio float64 // bytes in a token, on average; 0: nothing was measured yet
}

// How many bytes a token has. Three is on the safe side for prose, code and Chinese alike; the bounds keep an endpoint that
// counts strangely from making every prompt fit, or none. No text has more than the most, but a prompt of which only the tokens
// were counted that no cache had: that tells nothing.
const (
	usualRatio = 3
	leastRatio = 1
	mostRatio  = 6
	gaugeGain  = 0.25 // what a measurement counts for, against all before
)

// tokens estimates the tokens of so many bytes, rounded up.
func (g *gauge) tokens(bytes int) int { return int(math.Ceil(float64(bytes) / g.perToken())) }

// prompt estimates the tokens of r.
func (g *gauge) prompt(r *Request) int {
	bytes, images := r.Size()
	return g.tokens(bytes) + images*ImageTokens
}

// bytes estimates the bytes of so many tokens, rounded down.
func (g *gauge) bytes(tokens int) int { return int(float64(tokens) * g.perToken()) }

func (g *gauge) perToken() float64 {
	g.mu.Lock()
	defer g.mu.Unlock()
	if g.ratio == 0 {
		return usualRatio
	}
	return g.ratio
}

// measured learns from a prompt of so many bytes, of which the endpoint says how many tokens it had; 0 when it does not.
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

// promptOf returns how many tokens the prompt of an answer had, as its last chunk tells; 0 when it does not. What is said to be
// cached of less than that was not counted with it.
func promptOf(done *Chunk) int {
	if done.Prompt != 0 {
		return done.Prompt
	}
	if u := done.Usage; u.Cached > u.Input {
		return u.Input + u.Cached
	}
	return done.Usage.Input
}

// defaultAnswer is how many tokens are kept free for an answer whose length is not bounded.
const defaultAnswer = 4096

// room is how many tokens a prompt may have so that an answer of so many, or of a quarter of the window, fits behind it; 0
// stands for the default. A tenth is kept free, since tokens are estimated.
func (o *DeciderOptions) room(answer int) int {
	if answer <= 0 {
		answer = defaultAnswer
	}
	return max(0, o.Window-(o.Window+9)/10-min(answer, o.Window/4))
}

// left is how many bytes can be added to r so that it has still room for an answer.
func (d *decider) left(r *Request) int {
	if d.options.Window <= 0 {
		return math.MaxInt
	}
	bytes, images := r.Size()
	return d.gauge.bytes(d.options.room(d.options.MaxTokens)-images*ImageTokens) - bytes
}

// leastShare is the share of the window that an answer may always have.
const leastShare = 8

// answer is how many tokens the answer to r may have, when so many are wanted: endpoints refuse a request for more than the
// window leaves. Since that is estimated, there is always some of it.
func (d *decider) answer(r *Request, want int) int {
	w := d.options.Window
	if w <= 0 || want <= 0 {
		return want
	}
	return min(want, max(w-d.gauge.prompt(r), w/leastShare))
}
