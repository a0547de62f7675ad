package conversation

import "time"

// Measured is what the process that made an entry has measured on the way, for those that observe it. No log has it, and nothing follows from it.
type Measured struct {
	FirstText time.Time     // when text for the user was first shown; zero: none was before the entry
	Shown     int           // agents that the prompt of the last decision showed
	Routing   time.Duration // that choosing them took; 0: nothing chose
	Appending time.Duration // that the store took
	Exhausted string        // which budget ended the turn: "turn", "conversation" or "day"; "": none
}
