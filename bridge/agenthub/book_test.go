package agenthub

import (
	"errors"
	"fmt"
	"strings"
	"sync"
	"testing"
	"time"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/proto"

	"github.com/cortex-orchestrator/cortex/agentcard"
	"github.com/cortex-orchestrator/cortex/bridge/agenthub/hubpb"
	"github.com/cortex-orchestrator/cortex/transport"
)

// TestBookIsBounded checks that a task keeps its first message, and the newest ones, that it has a size, and that the task that was used longest ago is
// forgotten first.
func TestBookIsBounded(t *testing.T) {
	var b book
	add := func(task, id, text string) error {
		_, err := b.message(&hubpb.Message{MessageId: id, TaskId: task, Content: []*hubpb.Part{textPart(text)}}, time.Now())
		return err
	}
	for i := range maxHistory + 10 {
		must(t, add("long", fmt.Sprint(i), ""))
	}
	task, err := b.get("long", 0)
	must(t, err)
	if n := len(task.History); n != maxHistory || task.History[0].MessageId != "0" || task.History[1].MessageId != "11" {
		t.Errorf("%d messages, the first ones %s and %s", n, task.History[0].MessageId, task.History[1].MessageId)
	}
	must(t, add("large", "1", strings.Repeat("x", maxTask-1000)))
	if err := add("large", "2", strings.Repeat("x", 1000)); status.Code(err) != codes.ResourceExhausted {
		t.Errorf("a task that is too large: %v", err)
	}
	for i := range maxTasks - 1 {
		must(t, add(fmt.Sprint("task ", i), "m", ""))
	}
	if _, err := b.get("long", 0); status.Code(err) != codes.NotFound {
		t.Errorf("the oldest task: %v", err)
	}
	if _, err := b.get("large", 0); err != nil {
		t.Errorf("the one behind it: %v", err)
	}
	all, next, err := b.list(&hubpb.ListTasksRequest{})
	if err != nil || len(all) != maxListed || next == "" || all[0].Id != fmt.Sprint("task ", maxTasks-2) {
		t.Errorf("%d are listed, next %q, %v", len(all), next, err)
	}
	if _, _, err := b.list(&hubpb.ListTasksRequest{PageToken: "x"}); status.Code(err) != codes.InvalidArgument {
		t.Errorf("another's token: %v", err)
	}
}

// TestTaskIsChangedAlone has many add to one task at the same time: nothing gets lost, and whoever has the task sees it as it was. Meanwhile others use the book.
func TestTaskIsChangedAlone(t *testing.T) {
	var b book
	add := func(task, id string) error {
		return b.artifact(&hubpb.TaskArtifactUpdateEvent{TaskId: task, Append: true, Artifact: &hubpb.Artifact{ArtifactId: "a", Parts: []*hubpb.Part{textPart(id)}}})
	}
	must(t, add("one", "first"))
	say := func(id string) (*hubpb.Task, error) {
		return b.message(&hubpb.Message{TaskId: "one", MessageId: id}, time.Now())
	}
	is, err := say("m1")
	must(t, err)
	before := proto.CloneOf(is)
	var adding sync.WaitGroup
	_, err = b.change("one", func(*hubpb.Task) error {
		for n := range 64 {
			adding.Go(func() {
				if err := add("one", fmt.Sprint(n)); err != nil {
					t.Error(err)
				}
			})
		}
		if !b.mu.TryLock() {
			return errors.New("nobody else can use the book while a task is changed")
		}
		b.mu.Unlock()
		return add("other", "first")
	})
	adding.Wait()
	must(t, err)
	_, err = say("m2")
	must(t, err)
	now, err := b.get("one", 0)
	must(t, err)
	if n := len(now.Artifacts[0].Parts); n != 65 || len(now.History) != 2 || now.Status.Update.GetMessageId() != "m2" {
		t.Errorf("the task has %d parts and the messages %v, want 65 and two", n, now.History)
	}
	if !proto.Equal(is, before) {
		t.Errorf("who has the task sees it change: %v", is)
	}
}

// TestCard checks what becomes of a card: the order and the ids of its skills say nothing.
func TestCard(t *testing.T) {
	long := strings.Repeat("x", 10_000)
	skill := func(id, name string) *hubpb.AgentSkill {
		return &hubpb.AgentSkill{Id: id, Name: name, Description: long, Tags: []string{long}}
	}
	c, err := cardOf(&hubpb.AgentCard{Name: "a", Description: long, Skills: []*hubpb.AgentSkill{skill("skill_0", "Do it!"), skill("skill_1", "do-it"), skill("skill_2", "Über uns")}}, "hub.")
	must(t, err)
	again, err := cardOf(&hubpb.AgentCard{Name: "a", Description: long, Skills: []*hubpb.AgentSkill{skill("skill_0", "Über uns"), skill("skill_1", "Do it!"), skill("skill_2", "do-it")}}, "hub.")
	must(t, err)
	var ids, others []string
	for i := range c.Skills {
		ids = append(ids, c.Skills[i].ID+"="+agentcard.SpecOf(c).Abilities[c.Skills[i].ID].DispatchKey)
		others = append(others, again.Skills[i].ID+"="+agentcard.SpecOf(again).Abilities[again.Skills[i].ID].DispatchKey)
	}
	const want = "do-it=Do it! do-it-2=do-it über-uns=Über uns"
	if got := strings.Join(ids, " "); c.Name != "hub.a" || got != want || strings.Join(others, " ") != want || len(c.Description) != maxAbout || len(c.Skills[0].Tags[0]) != maxWord {
		t.Errorf("%s has %s, and %s", c.Name, got, others)
	}
	for key, want := range map[string]string{"do-it": "do-it", "do-it-2": "do-it", "über-uns": "Über uns", "Do it!": "Do it!", "new": "new"} {
		if got, err := taskType(c, key); err != nil || got != want {
			t.Errorf("taskType(%q) = %q, %v, want %q", key, got, err, want)
		}
	}
	if _, err := taskType(c, ""); err == nil {
		t.Error("one of three skills is chosen")
	}
	many := &hubpb.AgentCard{Name: "many"}
	for i := range transport.MaxSkills + 1 {
		many.Skills = append(many.Skills, &hubpb.AgentSkill{Name: fmt.Sprint(i)})
	}
	for what, card := range map[string]*hubpb.AgentCard{"too many skills": many, "a long name": {Name: "a", Skills: []*hubpb.AgentSkill{{Name: long}}}, "a person's name": {Name: "user"}} {
		if _, err := cardOf(card, ""); err == nil {
			t.Errorf("%s: no error", what)
		}
	}
}

// TestSender checks that each peer is one sender with conversations of its own.
func TestSender(t *testing.T) {
	if got := sender("agent_chat_cli"); got != "user:agenthub/agent_chat_cli" {
		t.Errorf("the sender is %s", got)
	}
	odd := sender("a\nb c")
	if transport.CheckID(odd) != nil || odd == sender("a b c") {
		t.Errorf("the sender is %q", odd)
	}
	if contextID("a", "b") == contextID("a", "c") || contextID("a", "bc") == contextID("ab", "c") || messageID("a", "b", "c", "d") == messageID("a", "b", "c", "e") {
		t.Error("two are one")
	}
}
