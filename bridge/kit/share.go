package kit

import (
	"errors"
	"fmt"
	"iter"
)

// share is how many times as many as are free somebody may have of what there is a bound of: alone three quarters of all, so that there is room for others.
const share = 3

// Sated reports whether somebody who has n of what there is at most most of has as many as they may have, when taken are taken.
func Sated(n, taken, most int) bool { return n > 0 && n >= share*(most-taken) }

// Other returns the machine that an address is of, as [Host] does, and "" if that is this machine.
func Other(address string) string {
	if IsLoopback(address) {
		return ""
	}
	return Host(address)
}

// Card is the card of an agent of a bridge.
type Card struct {
	Weight int    // what it takes in memory, in bytes
	From   string // the machine that it came from, see [Other]; "": that does not count
}

// Fits returns an error if a bridge that has at most most agents, whose cards take at most held bytes, cannot take a card beside all others; old is the one
// that it replaces, nil for an agent that is not registered. One that is there may always have a smaller card. Who registers chooses the names of agents, so
// each machine has a share.
func Fits(others iter.Seq[Card], c Card, old *Card, most, held int) error {
	count, weight, theirs, theirWeight := 0, c.Weight, 0, c.Weight
	for other := range others {
		count++
		weight += other.Weight
		if other.From == c.From {
			theirs++
			theirWeight += other.Weight
		}
	}
	larger := old == nil || c.Weight > old.Weight
	switch {
	case old == nil && count >= most:
		return fmt.Errorf("%d agents are registered: no more are allowed", most)
	case old == nil && c.From != "" && Sated(theirs, count, most):
		return fmt.Errorf("%s has registered %d of all %d agents: no more are allowed", c.From, theirs, most)
	case larger && weight > held:
		return errors.New("the cards of all agents take too much memory with this one: make it shorter, or have others leave")
	case larger && c.From != "" && theirWeight > share*(held-weight+c.Weight):
		return fmt.Errorf("the cards of all agents of %s take too much memory with this one: make it shorter, or have others leave", c.From)
	}
	return nil
}
