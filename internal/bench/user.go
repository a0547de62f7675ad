package bench

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/a2aproject/a2a-go/v2/a2a"

	"github.com/cortex-orchestrator/cortex/client"
	"github.com/cortex-orchestrator/cortex/cortex/conversation"
	"github.com/cortex-orchestrator/cortex/transport"
)

const (
	payload     = 256              // bytes of a user's message, and of the floor's
	defaultWait = 30 * time.Second // after which an answer counts as lost
	lookFirst   = 2 * time.Second  // a waiting user reads the log after this time, and then after twice as long each time, as a chat does
	lookLast    = 4 * lookFirst
)

// errLost means that a message was not answered.
var errLost = errors.New("no answer")

// user is a person with a conversation of their own, who sends one message after the other. The results of all messages are counted.
type user struct {
	n         *node
	contextID string
	id        string
	wait      time.Duration
	live      transport.Subscription
	served    chan struct{}
	got       chan struct{} // the awaited message is answered
	fence     chan struct{} // the fence has arrived

	mu      sync.Mutex
	said    int
	waiting string          // id of the message whose answer is awaited
	wants   map[string]int  // by message id: how many agents have to echo it; missing: all of the node's
	answers map[string]int  // by message id: number of answers
	logged  map[string]bool // messages whose answers are in the log
	wrong   string          // the first wrong answer

	// How late chunks of a Model arrived, and of these the first of each turn.
	late, first []time.Duration
	drafted     string // turn of the latest chunk
	timed       bool   // a Model is asked
}

// tally has the results of messages.
type tally struct {
	lost, dup int
	wrong     string // the first wrong answer, for people
}

func (t *tally) add(o tally) {
	t.lost += o.lost
	t.dup += o.dup
	t.wrong = cmp.Or(t.wrong, o.wrong)
}

// newUser begins a conversation: the user watches it from now on. The caller ends that with Close.
func (n *node) newUser(contextID string, wait time.Duration) (*user, error) {
	wait = cmp.Or(wait, defaultWait)
	u := &user{
		n: n, contextID: contextID, id: "user:" + contextID, wait: wait, served: make(chan struct{}), got: make(chan struct{}, 1), fence: make(chan struct{}, 1),
		wants: map[string]int{}, answers: map[string]int{}, logged: map[string]bool{},
	}
	var err error
	if u.live, err = n.users.Subscribe(n.ctx, transport.Live("", contextID), &transport.SubscribeOptions{Concurrency: 1}); err != nil {
		return nil, fmt.Errorf("watch %s: %w", contextID, err)
	}
	go func() {
		defer close(u.served)
		u.live.Serve(n.ctx, u.watch) //nolint:errcheck // it ends with the node, or with Close
	}()
	return u, nil
}

// Close stops watching.
func (u *user) Close() {
	u.live.Close()
	<-u.served
}

// watch counts the answers that are published.
func (u *user) watch(_ context.Context, e *transport.Event) error {
	switch p := e.Payload.(type) {
	case *transport.Delta:
		if p.Turn == fenceTurn {
			u.fence <- struct{}{}
		}
		u.draft(p)
	case *a2a.Message:
		id := transport.MetaString(p, transport.MetaMessage)
		if !u.right(id, p) {
			return nil
		}
		u.mu.Lock()
		defer u.mu.Unlock()
		u.answers[id]++
		if u.waiting == id {
			u.waiting = ""
			u.got <- struct{}{}
		}
	}
	return nil
}

// draft notes how late text of a Model is.
func (u *user) draft(d *transport.Delta) {
	now := time.Now()
	u.mu.Lock()
	defer u.mu.Unlock()
	if !u.timed {
		return
	}
	for word := range strings.FieldsSeq(d.Text) {
		sent, err := strconv.ParseInt(word, 10, 64)
		if err != nil { // the id of the message
			continue
		}
		late := now.Sub(time.UnixMicro(sent))
		u.late = append(u.late, late)
		if u.drafted != d.Turn {
			u.drafted, u.first = d.Turn, append(u.first, late)
		}
	}
}

// right reports whether an answer has what the message with this id asked for, from each agent.
func (u *user) right(id string, m *a2a.Message) bool {
	text := transport.Text(m.Parts)
	failed, _ := m.Metadata[transport.MetaFailed].(bool)
	said := 0
	for word := range strings.FieldsSeq(text) {
		if word == id {
			said++
		}
	}
	u.mu.Lock()
	defer u.mu.Unlock()
	want, ok := u.wants[id]
	if !ok {
		want = len(u.n.agents)
	}
	if want == 0 || !failed && said >= want {
		return true
	}
	u.wrong = cmp.Or(u.wrong, text)
	return false
}

// words returns the text for each agent, which the agents echo: the message's id and filler, together as long as size.
func words(id string, agents []string, size int) string {
	var b strings.Builder
	for i, agent := range agents {
		if i > 0 {
			b.WriteString(" and ")
		}
		fmt.Fprintf(&b, "@%s %s ", agent, id)
	}
	const filler = "please say all of these words once more so that we can see that nothing of them was lost on the long way there and back again "
	for b.Len() < size {
		b.WriteString(filler[:min(len(filler), size-b.Len())])
	}
	return b.String()
}

// saying is a message to agents.
type saying struct {
	to     []string               // agents, which echo it
	any    bool                   // any answer counts, since they may not echo
	size   int                    // of the message, in bytes; 0 is payload
	ask    func(id string) string // the message, instead of words
	cancel time.Duration          // time after which the user cancels it, repeatedly until it ends; 0: never
}

// turn sends a message to all agents of the node, see say.
func (u *user) turn(ctx context.Context) (time.Duration, error) {
	return u.say(ctx, saying{to: u.n.agents})
}

// result is what a look into the log has shown.
type result struct {
	found bool
	err   error
}

// say sends a message and returns how long the answer took: from before the message is published until the answer arrives. It returns errLost when
// there is none. One turn at a time.
func (u *user) say(ctx context.Context, s saying) (time.Duration, error) {
	want := len(s.to)
	if s.any {
		want = 0
	}
	u.mu.Lock()
	u.said++
	id := u.messageID(u.said)
	u.waiting, u.timed = id, s.ask != nil
	if want != len(u.n.agents) {
		u.wants[id] = want
	}
	u.mu.Unlock()
	defer u.stopWaiting()
	text := words(id, s.to, cmp.Or(s.size, payload))
	if s.ask != nil {
		text = s.ask(id)
	}
	begin := time.Now()
	m := &a2a.Message{ID: id, ContextID: u.contextID, Role: a2a.MessageRoleUser, Parts: a2a.ContentParts{a2a.NewTextPart(text)}}
	err := u.publish(ctx, transport.Inbox("", transport.Cortex), id, m)
	for err != nil && errors.Is(err, transport.ErrUnavailable) && ctx.Err() == nil && time.Since(begin) < u.wait { // thousands speak at once
		err = u.publish(ctx, transport.Inbox("", transport.Cortex), id, m)
	}
	if err != nil {
		return 0, err
	}
	var enough <-chan time.Time
	if s.cancel > 0 {
		impatience := time.NewTicker(s.cancel)
		defer impatience.Stop()
		enough = impatience.C
	}
	giveUp := time.NewTimer(u.wait)
	defer giveUp.Stop()
	pause := min(lookFirst, u.wait)
	look := time.NewTimer(pause)
	defer look.Stop()
	var looked chan result // nil: nobody looks
	for {
		select {
		case <-u.got:
			return time.Since(begin), nil
		case <-enough:
			if err := u.cancel(ctx, id); err != nil {
				return 0, err
			}
		case <-look.C:
			if looked == nil { // an answer may arrive meanwhile
				looked = make(chan result, 1)
				go func(looked chan result) {
					found, err := u.look(ctx, id)
					looked <- result{found, err}
				}(looked)
			}
			pause = min(2*pause, lookLast)
			look.Reset(pause)
		case r := <-looked:
			if r.found || r.err != nil {
				return time.Since(begin), r.err
			}
			looked = nil
		case <-giveUp.C:
			if found, err := u.look(ctx, id); err != nil || found {
				return time.Since(begin), err
			}
			return 0, errLost
		case <-ctx.Done():
			return 0, ctx.Err()
		case <-u.n.ctx.Done():
			return 0, context.Cause(u.n.ctx)
		}
	}
}

// publish publishes an event of the user.
func (u *user) publish(ctx context.Context, t transport.Topic, id string, p transport.Payload) error {
	err := u.n.users.Publish(ctx, t, &transport.Event{
		ID: id, Time: time.Now(), From: u.id, To: transport.Cortex, ContextID: u.contextID, Payload: p,
	})
	if err != nil {
		return fmt.Errorf("say something in %s: %w", u.contextID, err)
	}
	return nil
}

// cancel cancels the turn of a message, as a chat does.
func (u *user) cancel(ctx context.Context, id string) error {
	x := &transport.Cancel{Turn: transport.TurnID("", u.contextID, u.id, id), Reason: "by the user"}
	if err := u.publish(ctx, transport.Control("", transport.Cortex), id+"-cancel", x); err != nil {
		return err
	}
	return u.publish(ctx, transport.Inbox("", transport.Cortex), id+"-cancel", x)
}

// stopWaiting stops waiting for an answer, which is then only counted.
func (u *user) stopWaiting() {
	u.mu.Lock()
	defer u.mu.Unlock()
	u.waiting = ""
	select {
	case <-u.got:
	default:
	}
}

// look reads the answer to a message from the log, in case the published one was missed.
func (u *user) look(ctx context.Context, id string) (bool, error) {
	m, ok, err := u.n.log(ctx, client.Turn{ContextID: u.contextID, From: u.id, MessageID: id})
	if err != nil || !ok || !u.right(id, m) {
		return false, err
	}
	u.mu.Lock()
	defer u.mu.Unlock()
	u.logged[id] = true
	return true, nil
}

// fenceTurn marks the event that is sent after all others.
const fenceTurn = "fence"

// tally returns the results of the user's messages. The node has settled, so Cortex has published everything.
func (u *user) tally(ctx context.Context) (tally, error) {
	// The orchestrator's connection sends it, so that it arrives after everything that the orchestrator has sent.
	err := u.n.bus.Publish(ctx, transport.Live("", u.contextID), &transport.Event{
		ID: u.contextID + "-fence", From: transport.Cortex, ContextID: u.contextID, Payload: &transport.Delta{Turn: fenceTurn, Attempt: "1"},
	})
	if err != nil {
		return tally{}, err
	}
	late := time.NewTimer(defaultWait)
	defer late.Stop()
	select {
	case <-u.fence:
	case <-late.C:
		return tally{}, fmt.Errorf("watch %s: %w", u.contextID, errLate)
	case <-u.n.ctx.Done():
		return tally{}, context.Cause(u.n.ctx)
	}
	if err := u.lookBack(ctx); err != nil {
		return tally{}, err
	}
	return u.count(), nil
}

// lookBack reads the answers from the log that did not arrive in time, or at all.
func (u *user) lookBack(ctx context.Context) error {
	missing := map[string]string{} // messages, by their turns
	u.mu.Lock()
	for i := range u.said {
		if id := u.messageID(i + 1); u.answers[id] == 0 && !u.logged[id] {
			missing[transport.TurnID("", u.contextID, u.id, id)] = id
		}
	}
	u.mu.Unlock()
	if len(missing) == 0 {
		return nil
	}
	conv := conversation.NewConversation("", u.contextID)
	for e, err := range u.n.store.Load(ctx, "", u.contextID, 0) {
		if err == nil {
			err = conv.Apply(e)
		}
		if err != nil {
			return err
		}
		id := missing[e.Turn]
		if m, ok := conv.AnswerOf(u.id, id); ok && id != "" && u.right(id, m) {
			u.mu.Lock()
			u.logged[id] = true
			u.mu.Unlock()
		}
	}
	return nil
}

// messageID returns the id of the user's message with this number, from 1.
func (u *user) messageID(i int) string { return fmt.Sprintf("%s-%d", u.contextID, i) }

// count returns the results of the user's messages so far.
func (u *user) count() tally {
	u.mu.Lock()
	defer u.mu.Unlock()
	t := tally{lost: u.said - len(u.answers), wrong: u.wrong}
	for id := range u.logged {
		if u.answers[id] == 0 {
			t.lost--
		}
	}
	for _, n := range u.answers {
		t.dup += n - 1
	}
	return t
}

// newTurns is the number of turns for which a conversation counts as new.
const newTurns = 5

// newcomer is a user who begins another conversation whenever one is no longer new.
type newcomer struct {
	n      *node
	prefix string
	begun  int
	user   *user
}

// turn is that of [user]. The first one of each conversation is not measured.
func (c *newcomer) turn(ctx context.Context, _ int) (time.Duration, error) {
	if c.user == nil || c.user.said > newTurns {
		c.Close()
		c.begun++
		u, err := c.n.newUser(fmt.Sprintf("%s-%d", c.prefix, c.begun), 0)
		if err != nil {
			return 0, err
		}
		c.user = u
		if _, err := u.turn(ctx); err != nil {
			return 0, err
		}
	}
	return c.user.turn(ctx)
}

// Close ends the last conversation.
func (c *newcomer) Close() {
	if c.user != nil {
		c.user.Close()
		c.user = nil
	}
}
