package conversation_test

import (
	"fmt"
	"strings"
	"testing"

	"github.com/a2aproject/a2a-go/v2/a2a"

	"github.com/cortex-orchestrator/cortex/cortex/conversation"
	"github.com/cortex-orchestrator/cortex/transport"
)

// TestBarsCommand has strangers choose the ids of the command that the owner copies: in a shell it does nothing else.
func TestBarsCommand(t *testing.T) {
	for _, test := range []struct{ contextID, from, want string }{
		{"c1", "user:bob", "cortex conversations share c1 bob"},
		{"$(touch x)", "user:bob;id", "cortex conversations share '$(touch x)' 'bob;id'"},
		{"it's", "beta", `cortex conversations share 'it'\''s' agent:beta`},
		{"c1", "user:agent:beta", "cortex conversations share c1 user:agent:beta"}, // without its prefix it would let the agent in
		{"c1", "user:user", "cortex conversations share c1 user:user"},
		{"c1", "user:user:ada", "cortex conversations share c1 user:user:ada"},
		{"c1", "agent:beta", "cortex conversations share c1 agent:agent:beta"},
		{"c1", "user", "cortex conversations share c1 user"},
		{"--yes", "user:bob", "cortex conversations share -- --yes bob"},
		{"c1", "user:-x", "cortex conversations share -- c1 -x"},
	} {
		c := &conversation.Conversation{ContextID: test.contextID, Owner: "user:ada", Seq: 1}
		why := c.WhyRefused(&transport.Event{ContextID: test.contextID, From: test.from, Payload: &a2a.Message{Role: a2a.MessageRoleUser}})
		if !strings.HasSuffix(why, ", who can let you in: "+test.want) {
			t.Errorf("Bars = %q, want a command %s", why, test.want)
		}
	}
}

// TestFullIsSharedNoMore checks that letting in and out in turn does not lengthen a full log without end, while those who were let in can be shut out.
func TestFullIsSharedNoMore(t *testing.T) {
	c := conversation.NewConversation("", "c1")
	c.Owner, c.Seq, c.Shared = "user:ada", conversation.MaxEntries, []string{"user:bob"}
	for _, test := range []struct {
		share *transport.Share
		want  conversation.Action
	}{
		{&transport.Share{With: []string{"user:eve"}}, conversation.Ignore},
		{&transport.Share{With: []string{"user:eve"}, Revoke: []string{"user:bob"}}, conversation.Ignore},
		{&transport.Share{Revoke: []string{"user:bob"}}, conversation.Work},
		{&transport.Share{Revoke: []string{"user:eve"}}, conversation.Ignore},
	} {
		e := &transport.Event{ID: "s", From: "user:ada", ContextID: "c1", Payload: test.share}
		if plan := c.Plan(e, t0, true); plan.Do != test.want {
			t.Errorf("%+v: %+v, want %v", test.share, plan, test.want)
		}
	}
}

// TestNobodyIsCutOff shares a conversation with one more than possible: it is shared with those as before.
func TestNobodyIsCutOff(t *testing.T) {
	c := conversation.NewConversation("", "c1")
	c.Owner, c.Seq = "user:ada", 1
	for i := range conversation.MaxShared {
		c.Shared = append(c.Shared, fmt.Sprintf("user:m%03d", i))
	}
	for _, test := range []struct {
		share *transport.Share
		want  conversation.Action
	}{
		{&transport.Share{With: []string{"user:a"}}, conversation.Ignore},
		{&transport.Share{With: []string{"user:a"}, Revoke: []string{"user:m000"}}, conversation.Work},
		{&transport.Share{Revoke: []string{"user:m000"}}, conversation.Work},
	} {
		e := &transport.Event{ID: "s", From: "user:ada", ContextID: "c1", Payload: test.share}
		if plan := c.Plan(e, t0, true); plan.Do != test.want {
			t.Errorf("%+v: %+v, want %v", test.share, plan, test.want)
		}
	}
}
