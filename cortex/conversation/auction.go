package conversation

// Auction is how a delegation of a decision got its agent: by bids of the agents that take part. The decision names the winner.
type Auction struct {
	Delegation string `json:"delegation"` // its id
	Chosen     string `json:"chosen"`     // the agent that was decided for before the bids
	Winner     string `json:"winner"`
	Bids       []Bid  `json:"bids"` // of each agent that was asked, the best first
}

// Bid is what an agent has answered, and what it counted for.
type Bid struct {
	Agent      string  `json:"agent"`
	Confidence float64 `json:"confidence,omitempty"` // as stated
	Cost       float64 `json:"cost,omitempty"`
	Seconds    float64 `json:"seconds,omitempty"`
	Done       float64 `json:"done,omitempty"` // tasks of the skill that it is known to have done, and not: old ones count less
	Failed     float64 `json:"failed,omitempty"`
	Score      float64 `json:"score,omitempty"`
	Why        string  `json:"why,omitempty"` // why it counts for nothing, for people; "": it counts
}

// Patterns are what an entry records of the ways in which several agents take part in its decision, other than by delegations.
type Patterns struct {
	Auctions []Auction `json:"auctions,omitempty"`
	Swarm    *Swarm    `json:"swarm,omitempty"` // the round that the decision begins
	Ended    SwarmEnd  `json:"ended,omitempty"` // how the swarm ended that the decision answers
}
