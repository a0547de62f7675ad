package conversation

import (
	"cmp"
	"slices"
	"strings"
	"time"

	"github.com/cortex-orchestrator/cortex/transport"
)

// A chain has a board: agents whose cards say so post on it while they work on a task of the chain, and read what others have posted. A board is part of
// the log, and ends with its chain. Nobody sees another chain's board: a post or a reading names a task, whose agent alone may send it.

// Bounds of a board.
const (
	maxPosts     = 64        // at a time
	maxBoard     = 128 << 10 // bytes at a time, of texts and names
	maxPostsOf   = 16        // of one agent at a time; of more, its oldest gives way
	maxPostsEver = 256       // in the course of a chain: each is an entry of the log
	postTTL      = time.Hour
)

// whyNoBoard returns why the sender of e may not use a board, or "" and the chain whose board it is.
func (c *Conversation) whyNoBoard(e *transport.Event) (t *Task, chain *Chain, why string) {
	t = c.Tasks[e.TaskID]
	if t == nil || t.Agent != e.From || !t.Running() {
		return nil, nil, "a board is for those who work on a task of it"
	}
	turn := c.Turn(t.Turn)
	if !t.Terms.Board || turn == nil || c.Chains[turn.Root] == nil {
		return nil, nil, "its card does not say that it uses a board, or a rule forbids it"
	}
	return t, c.Chains[turn.Root], ""
}

// meaningOfPost returns why a post changes nothing, or "".
func (c *Conversation) meaningOfPost(e *transport.Event, p *transport.Post) string {
	_, chain, why := c.whyNoBoard(e)
	if why != "" {
		return why
	}
	if chain.Posted >= maxPostsEver {
		return "the board has taken as many posts as it takes for one request"
	}
	board := chain.boardAfter(e.From, p)
	size := len(p.Name) + len(p.Text)
	for i := range board {
		size += len(board[i].Name) + len(board[i].Text)
	}
	if len(board) >= maxPosts || size > maxBoard {
		return "the board is full"
	}
	return ""
}

// boardAfter returns the board without what gives way to an agent's post.
func (chain *Chain) boardAfter(agent string, p *transport.Post) []transport.BoardPost {
	board := slices.DeleteFunc(slices.Clone(chain.Board), func(b transport.BoardPost) bool { return b.Agent == agent && b.Name == p.Name })
	surplus := 1 - maxPostsOf
	for i := range board {
		if board[i].Agent == agent {
			surplus++
		}
	}
	return slices.DeleteFunc(board, func(b transport.BoardPost) bool {
		if b.Agent == agent {
			surplus--
		}
		return b.Agent == agent && surplus >= 0
	})
}

// post puts what e brings on the board.
func (c *Conversation) post(e *Entry, p *transport.Post) {
	t, chain, why := c.whyNoBoard(e.Cause)
	if why != "" {
		return
	}
	chain.Posted++ // one that is rejected is an entry as well
	if e.Rejected != "" {
		return
	}
	ttl := cmp.Or(p.TTL, postTTL)
	chain.Board = append(chain.boardAfter(t.Agent, p), transport.BoardPost{
		Seq: e.Seq, Agent: t.Agent, Task: t.ID, Name: p.Name, Text: strings.ToValidUTF8(p.Text, "\uFFFD"), Time: e.Time, Expires: e.Time.Add(ttl),
	})
}

// expirePosts removes what has expired at time now from the boards.
func (c *Conversation) expirePosts(now time.Time) {
	for _, chain := range c.Chains {
		if len(chain.Board) > 0 {
			chain.Board = slices.DeleteFunc(slices.Clone(chain.Board), func(b transport.BoardPost) bool { return !b.Expires.After(now) })
		}
	}
}

// Board returns the answer to an event that asks for a board, at time now; false when it is none, or its sender may not read it.
func (c *Conversation) Board(e *transport.Event, now time.Time) (Effect, bool) {
	if _, ok := e.Payload.(*transport.ReadBoard); !ok {
		return Effect{}, false
	}
	t, chain, why := c.whyNoBoard(e)
	if why != "" {
		return Effect{}, false
	}
	board := &transport.Board{Read: e.ID}
	for _, b := range chain.Board {
		if b.Expires.After(now) {
			board.Posts = append(board.Posts, b)
		}
	}
	var out []Effect
	effects{c: c, seq: c.Seq, out: &out}.add(c.Turn(t.Turn), transport.Control(c.Tenant, t.Agent), transport.Event{
		ID: c.ID(c.Seq, "read:"+e.ID, 0), Time: now, TaskID: t.ID, Payload: board,
	})
	return out[0], true
}

// posted tells the other agents that may read a board what entry seq has posted on it.
func (o effects) posted() {
	for root, chain := range o.c.Chains {
		i := slices.IndexFunc(chain.Board, func(b transport.BoardPost) bool { return b.Seq == o.seq })
		if i < 0 {
			continue
		}
		post := chain.Board[i]
		for _, t := range o.c.Running() {
			turn := o.c.Turn(t.Turn)
			if !t.Terms.Board || t.ID == post.Task || turn == nil || turn.Root != root {
				continue
			}
			o.add(turn, transport.Control(o.c.Tenant, t.Agent), transport.Event{
				ID: o.id("posted:"+string(t.ID), 0), Time: post.Time, TaskID: t.ID, Payload: &transport.Board{Posts: []transport.BoardPost{post}},
			})
		}
		return
	}
}
