package torture

import (
	"encoding/json"
	"errors"
	"fmt"
	"hash/fnv"
	"os"
	"path/filepath"
	"strconv"
	"strings"
)

// Plan is the common configuration of a run's processes. It is a file in the folder of the run.
type Plan struct {
	URL           string `json:"url"`           // of the NATS server, or of several
	Agents        int    `json:"agents"`        // different ones
	Clients       int    `json:"clients"`       // processes
	Conversations int    `json:"conversations"` // of all clients together
	Long          int    `json:"long"`          // how many of these were long from the beginning
	Seed          uint64 `json:"seed"`
}

// planFile is the name of a Plan's file.
const planFile = "plan.json"

// drainFile tells clients to send no more messages, and to end when everything is answered.
const drainFile = "drain"

// readPlan reads the plan of the run in a folder.
func readPlan(folder string) (*Plan, error) {
	b, err := os.ReadFile(filepath.Join(folder, planFile))
	if err != nil {
		return nil, fmt.Errorf("read the plan: %w", err)
	}
	p := new(Plan)
	if err := json.Unmarshal(b, p); err != nil {
		return nil, fmt.Errorf("read the plan in %s: %w", folder, err)
	}
	if p.URL == "" || p.Agents < 2 || p.Clients < 1 || p.Conversations < 1 {
		return nil, fmt.Errorf("read the plan in %s: it is not complete", folder)
	}
	return p, nil
}

func (p *Plan) write(folder string) error {
	b, err := json.Marshal(p)
	if err != nil {
		return err
	}
	return os.WriteFile(filepath.Join(folder, planFile), b, 0o600)
}

// talk is one conversation of a plan: its number determines its messages and their right answers.
type talk struct {
	plan *Plan
	n    int
	id   string // contextID
}

func (p *Plan) talk(n int) talk {
	id := "talk-" + strconv.Itoa(n)
	if n < p.Long {
		id = "long-" + strconv.Itoa(n)
	}
	return talk{p, n, id}
}

// talks returns the conversations of a client.
func (p *Plan) talks(client int) []talk {
	var talks []talk
	for n := client; n < p.Conversations; n += p.Clients {
		talks = append(talks, p.talk(n))
	}
	return talks
}

// Kinds of conversation, assigned in turn.
const (
	oneAgent  = iota // a task of one agent for each message
	twoAgents        // a task of two agents for each message
	asksBack         // the agent asks, the next message is the reply
	slowAgent        // the agent takes its time
	kinds
)

func (t talk) kind() int { return t.n % kinds }

// window returns how many messages may be unanswered at the same time.
func (t talk) window() int {
	if t.kind() == oneAgent || t.kind() == twoAgents {
		return 2
	}
	return 1
}

// user returns the sender.
func (t talk) user() string { return "user:client-" + strconv.Itoa(t.n%t.plan.Clients) }

// message is a message of a conversation.
type message struct {
	id   string
	n    int // its place in the conversation, from 0
	text string
}

func (t talk) message(n int) message {
	first, second := agentName((t.n+n)%t.plan.Agents), agentName((t.n+n+1)%t.plan.Agents)
	token := t.token(n)
	m := message{id: t.id + "." + strconv.Itoa(n), n: n}
	switch t.kind() {
	case twoAgents:
		m.text = fmt.Sprintf("@%s sum %s and @%s sum %s", first, token, second, token)
	case asksBack:
		if m.text = fmt.Sprintf("@%s inquire %s", first, token); n%2 == 1 {
			m.text = "reply " + token // it finds its task by itself
		}
	case slowAgent:
		m.text = fmt.Sprintf("@%s slowly %s", first, token)
	default:
		m.text = fmt.Sprintf("@%s sum %s", first, token)
	}
	return m
}

// token returns a word that no other message has.
func (t talk) token(n int) string { return fmt.Sprintf("t%dn%d", t.n, n) }

// number returns the index of the message with this id.
func (t talk) number(id string) (int, error) {
	rest, ok := strings.CutPrefix(id, t.id+".")
	n, err := strconv.Atoi(rest)
	if !ok || err != nil || n < 0 || t.message(n).id != id {
		return 0, errors.New("nobody said that")
	}
	return n, nil
}

// wrong returns what is wrong with the answer to message n, or "". before is the answer to the previous message, which matters if that was a
// question.
func (t talk) wrong(n int, answer, before string) string {
	first, second := agentName((t.n+n)%t.plan.Agents), agentName((t.n+n+1)%t.plan.Agents)
	token := t.token(n)
	want := sum(first, token)
	switch {
	case t.kind() == twoAgents:
		want = fmt.Sprintf("%s: %s\n%s: %s", first, want, second, sum(second, token))
	case t.kind() == asksBack && n%2 == 0:
		if task, ok := strings.CutPrefix(answer, question(token, "")); ok && task != "" {
			return ""
		}
		want = question(token, "the task")
	case t.kind() == asksBack:
		task, _ := strings.CutPrefix(before, question(t.token(n-1), ""))
		want = reply(agentName((t.n+n-1)%t.plan.Agents), token, task)
	}
	if answer == want {
		return ""
	}
	return fmt.Sprintf("the answer is %.200q, want %q", answer, want)
}

func agentName(n int) string { return "worker" + strconv.Itoa(n) }

// sum returns an agent's result for a token, which only that agent computes.
func sum(agent, token string) string {
	h := fnv.New64a()
	_, _ = h.Write([]byte(agent + " " + token)) // never fails
	return fmt.Sprintf("%s(%s)=%016x", agent, token, h.Sum64())
}

func question(token, task string) string { return "what goes with " + token + "? " + task }

func reply(agent, token, task string) string { return sum(agent, token) + " for " + task }
