package tests

import (
	"context"
	"errors"
	"fmt"
	"iter"
	"net"
	"net/http"
	"os"
	"strings"

	"github.com/a2aproject/a2a-go/v2/a2a"
	"github.com/a2aproject/a2a-go/v2/a2asrv"

	"github.com/cortex-orchestrator/cortex/transport"
)

// a2apeer is an A2A agent for scripts. Its arguments are a file, to which it adds a line for each task that it begins or cancels, and a file for its URL, which stays
// the same when it is started again. It says a text loudly, says through whom it was asked, and takes orders, for which it
// asks for details.
func a2apeer() {
	address := "127.0.0.1:0"
	if b, err := os.ReadFile(os.Args[2]); err == nil {
		address = strings.TrimPrefix(string(b), "http://")
	}
	l, err := net.Listen("tcp", address)
	url := ""
	if err == nil {
		url = "http://" + l.Addr().String()
		err = os.WriteFile(os.Args[2], []byte(url), 0o600)
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
	card := &a2a.AgentCard{
		Name: "crier", Description: "Says things loudly", Version: "3.2.1", Capabilities: a2a.AgentCapabilities{Streaming: true},
		DefaultInputModes: []string{"text/plain"}, DefaultOutputModes: []string{"text/plain"},
		SupportedInterfaces: []*a2a.AgentInterface{a2a.NewAgentInterface(url+"/rpc", a2a.TransportProtocolJSONRPC)},
		Skills: []a2a.AgentSkill{
			{ID: "shout", Name: "shout", Description: "Says a text loudly", Tags: []string{"text"}},
			{ID: "order", Name: "order", Description: "Orders a meal", Tags: []string{"food"}},
		},
	}
	mux := http.NewServeMux()
	mux.Handle(a2asrv.WellKnownAgentCardPath, a2asrv.NewStaticAgentCardHandler(card))
	mux.Handle("/rpc", a2asrv.NewJSONRPCHandler(a2asrv.NewHandler(crier{os.Args[1]})))
	if err := http.Serve(l, mux); err != nil {
		os.Exit(1)
	}
}

// crier does what the peer's tasks ask.
type crier struct{ notes string }

// note adds a line to the notes.
func (c crier) note(line string) error {
	f, err := os.OpenFile(c.notes, os.O_WRONLY|os.O_CREATE|os.O_APPEND, 0o600)
	if err != nil {
		return err
	}
	_, err = fmt.Fprintln(f, line)
	return errors.Join(err, f.Close())
}

// Execute implements [a2asrv.AgentExecutor].
func (c crier) Execute(_ context.Context, x *a2asrv.ExecutorContext) iter.Seq2[a2a.Event, error] {
	return func(yield func(a2a.Event, error) bool) {
		said := ""
		for _, p := range x.Message.Parts {
			said += p.Text()
		}
		if x.StoredTask == nil {
			if err := c.note(said); err != nil {
				yield(nil, err)
				return
			}
			if !yield(a2a.NewSubmittedTask(x, x.Message), nil) {
				return
			}
		}
		state := func(s a2a.TaskState, text string) {
			yield(a2a.NewStatusUpdateEvent(x, s, a2a.NewMessageForTask(a2a.MessageRoleAgent, x, a2a.NewTextPart(text))), nil)
		}
		switch {
		case x.StoredTask != nil:
			state(a2a.TaskStateCompleted, "one "+said)
		case strings.HasPrefix(said, "a meal"):
			state(a2a.TaskStateInputRequired, "Which meal?")
		case strings.HasPrefix(said, "who asks"):
			state(a2a.TaskStateCompleted, fmt.Sprintf("hops %v by %v", x.Message.Metadata[transport.MetaHops], x.Message.Metadata[transport.MetaAncestors]))
		case strings.HasPrefix(said, "nothing"):
			state(a2a.TaskStateRejected, "there is nothing to say")
		default:
			if yield(a2a.NewArtifactEvent(x, a2a.NewTextPart(strings.ToUpper(said))), nil) {
				state(a2a.TaskStateCompleted, "")
			}
		}
	}
}

// Cancel implements [a2asrv.AgentExecutor].
func (c crier) Cancel(_ context.Context, x *a2asrv.ExecutorContext) iter.Seq2[a2a.Event, error] {
	return func(yield func(a2a.Event, error) bool) {
		if err := c.note("canceled"); err != nil {
			yield(nil, err)
			return
		}
		yield(a2a.NewStatusUpdateEvent(x, a2a.TaskStateCanceled, nil), nil)
	}
}
