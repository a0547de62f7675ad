package router

import "math"

// signals are several measures of how well an agent fits, each from about 0 to 1. See README.md.
type signals struct {
	bm      float64 // BM25 over words and their parts, as a share of the best possible score
	whole   float64 // cosine similarity of request and card
	name    float64 // how much of the agent's name, or of a skill's, the request contains
	won     float64 // the agent's share in the competition of the candidates' texts
	gained  float64 // what evidence adds to won, for ranking
	sure    float64 // the same for saying that the agent fits
	about   float64 // similarity to the best of name, description and skills
	example float64 // similarity to the best example
	lent    float64 // a substitute for example for agents without examples, when others have some
	named   bool    // the request contains the agent's id
}

// Weights of the signals. They are round on purpose, since they have to work for unknown cards and requests.
const (
	bmWeight    = 2.65
	wholeWeight = 1.0
	wonWeight   = 1.1
	nameWins    = 0.15
	lentWeight  = 1.2

	// The sum from which an agent fits. The more words a request has, the smaller the share that any card can contain. The more agents there are, the
	// better the best one is by chance, but less so for long requests.
	enough     = 1.12
	lessIfLong = 0.35
	moreIfMany = 0.16
	usualAll   = 5.0 // logAll of about 130 agents
	steepness  = 5.0

	// By the cards alone, the likelihood of a candidate is proportional to exp(sharpness × sum), which makes the right ones of public data most likely.
	// usualGain is about what an agent that fits gains by evidence.
	sharpness = 10
	usualGain = 0.4

	namedScore = 0.99 // the minimum score of an agent that the request names

	// A request with few words has little in common with a card even if the card contains them all. So it is treated as if it had more, rare words.
	unsaid       = 0.3
	unsaidLength = 0.1 // of the vector, squared
)

// sum combines the signals, with gained as the gain by evidence.
func (s *signals) sum(gained float64) float64 {
	return bmWeight*s.bm + wholeWeight*s.whole + nameWins*s.name*s.name + wonWeight*(s.won+gain*gained) + lentWeight*s.lent
}

// score converts a sum to a score.
func (s *signals) score(sum float64) float64 {
	p := round(1 / (1 + math.Exp(-steepness*sum)))
	if s.named {
		p = namedScore + (1-namedScore)*p
	}
	return p
}

// bar returns the sum from which an agent fits, for a request as significant as this many rare words.
func bar(words, all float64) float64 {
	return enough - lessIfLong*math.Log1p(words) + moreIfMany*(all-usualAll)/math.Sqrt(max(1, words))
}

// round removes floating-point noise.
func round(x float64) float64 { return math.Round(x*1e9) / 1e9 }
