package agents

import "sync"

// placeShare is how many times as many as are free somebody may have of a host's places: alone three quarters of all, so that there is room for others.
const placeShare = 3

// places counts the agents of a host that are at work, and for whom, so that nobody has all of what a host serves at a time. It is safe for concurrent use.
type places struct {
	most int

	mu sync.Mutex
	at map[string]map[string]int // tasks by agent, then by requester
	of map[string]int            // agents by requester
}

func newPlaces(most int) *places {
	return &places{most: most, at: map[string]map[string]int{}, of: map[string]int{}}
}

// begin reports whether an agent may begin a task for a requester; then end has to be called. It may if it is at work already, or if it must, having perhaps
// begun the task before.
func (p *places) begin(agent, requester string, must bool) bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	n := p.of[requester]
	if p.at[agent] == nil {
		if sated := n > 0 && n >= placeShare*(p.most-len(p.at)); sated && !must {
			return false
		}
		p.at[agent] = map[string]int{}
	}
	if p.at[agent][requester]++; p.at[agent][requester] == 1 {
		p.of[requester]++
	}
	return true
}

func (p *places) end(agent, requester string) {
	p.mu.Lock()
	defer p.mu.Unlock()
	theirs := p.at[agent]
	if theirs[requester]--; theirs[requester] > 0 {
		return
	}
	if delete(theirs, requester); len(theirs) == 0 {
		delete(p.at, agent)
	}
	if p.of[requester]--; p.of[requester] == 0 {
		delete(p.of, requester)
	}
}
