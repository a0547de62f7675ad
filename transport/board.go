package transport

import (
	"fmt"
	"time"

	"github.com/a2aproject/a2a-go/v2/a2a"
)

// Post puts a text on the board of the task that its event names. The agents that work on tasks of the same request, and whose cards say that they use a
// board, may read it. A later post of the same agent with the same name replaces it.
type Post struct {
	Name string        `json:"name"`          // a word; at most [MaxPostName] bytes
	Text string        `json:"text"`          // at most [MaxPost] bytes
	TTL  time.Duration `json:"ttl,omitempty"` // after which it is gone, from a second to [MaxPostTTL]; 0: an hour
}

// ReadBoard asks for the board of the task that its event names. The answer is a [Board].
type ReadBoard struct{}

// Board is what is on the board of a task: all of it, as the answer to a [ReadBoard], or what was just posted.
type Board struct {
	Read  string      `json:"read,omitempty"` // the id of the ReadBoard's event; "": these have just been posted
	Posts []BoardPost `json:"posts,omitempty"`
}

// BoardPost is a post on a board.
type BoardPost struct {
	Seq     uint64     `json:"seq"` // grows with each post; a replaced one has the later number
	Agent   string     `json:"agent"`
	Task    a2a.TaskID `json:"task"` // for which the agent worked
	Name    string     `json:"name"`
	Text    string     `json:"text"`
	Time    time.Time  `json:"time"`
	Expires time.Time  `json:"expires"`
}

// Bounds of posts.
const (
	MaxPostName = 64
	MaxPost     = 8 << 10
	MaxPostTTL  = 24 * time.Hour
)

func (p *Post) validate() error {
	switch err := CheckID(p.Name); {
	case err != nil:
		return fmt.Errorf("post: its name %w", err)
	case len(p.Name) > MaxPostName:
		return fmt.Errorf("post: its name is %d bytes long, at most %d are allowed", len(p.Name), MaxPostName)
	case p.Text == "" || len(p.Text) > MaxPost:
		return fmt.Errorf("post: its text is %d bytes long, 1 to %d are allowed", len(p.Text), MaxPost)
	case p.TTL != 0 && (p.TTL < time.Second || p.TTL > MaxPostTTL):
		return fmt.Errorf("post: it stays %v, it must be from a second to %v", p.TTL, MaxPostTTL)
	}
	return nil
}
