package router

import "math"

// signals say in several ways how well an agent fits; each is about 0 to 1. See README.md.
type signals struct {
	bm      float64 // share of the best score that a card could have by BM25, over words and their parts
	whole   float64 // cosine of request and card
	name    float64 // how much of the agent's name, or of a skill's, the request has
	won     float64 // what the agent's texts won of the request against the other candidates'
	gained  float64 // what evidence adds to that, to rank the agent
	sure    float64 // and to say that it fits
	about   float64 // cosine with the best of name, description and skills
	example float64 // cosine with the best example
	lent    float64 // what an agent without examples is lent for them, where others have some
	named   bool    // the request has the agent's id
}

// How the signals make one figure: round on purpose, since they have to serve for cards and requests that nobody has seen yet.
const (
	bmWeight    = 2.65
	wholeWeight = 1.0
	wonWeight   = 1.1
	nameWins    = 0.15
	lentWeight  = 1.2

	// The sum from which an agent fits. The more a request says, the smaller is the share of it that any card can have. The more
	// agents, the better is the best by chance; less so where a request says much.
	enough     = 1.12
	lessIfLong = 0.35
	moreIfMany = 0.16
	usualAll   = 5.0 // logAll of some 130 agents
	steepness  = 5.0

	// By the cards alone, the likelihood of the candidates is as exp(sharpness × sum): so the right ones of public data are most
	// likely. One that fits gains about so much by evidence.
	sharpness = 10
	usualGain = 0.4

	namedScore = 0.99 // what an agent has at least that the request names

	// A request that says little has little in common with a card even if it has all in common: what it says is taken to be more,
	// in rare words.
	unsaid       = 0.3
	unsaidLength = 0.1 // of the vector, squared
)

// sum makes one figure of the signals, with what was gained by evidence.
func (s *signals) sum(gained float64) float64 {
	return bmWeight*s.bm + wholeWeight*s.whole + nameWins*s.name*s.name + wonWeight*(s.won+gain*gained) + lentWeight*s.lent
}

// score makes a score of a sum.
func (s *signals) score(sum float64) float64 {
	p := round(1 / (1 + math.Exp(-steepness*sum)))
	if s.named {
		p = namedScore + (1-namedScore)*p
	}
	return p
}

// bar is the sum from which an agent fits, for a request that says as much as that many rare words.
func bar(words, all float64) float64 {
	return enough - lessIfLong*math.Log1p(words) + moreIfMany*(all-usualAll)/math.Sqrt(max(1, words))
}

// round leaves off what is noise of floating-point arithmetic.
func round(x float64) float64 { return math.Round(x*1e9) / 1e9 }
