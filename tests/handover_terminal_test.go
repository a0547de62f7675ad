package tests

import (
	"context"
	"encoding/json"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	natsgo "github.com/nats-io/nats.go"
)

// left has the fields that the tests read of the file that a node leaves in its data folder.
type left struct {
	URL     string
	PID     int
	Passing bool
	Node    struct{ Flags map[string]string }
}

func whoRuns(data string) (l left) {
	b, err := os.ReadFile(filepath.Join(data, "server.json"))
	if err != nil || json.Unmarshal(b, &l) != nil {
		return left{}
	}
	return l
}

// TestChatTakesOverWhole ends the chat that runs Cortex with keys and settings of its own: the chat that had joined it takes over with all of them,
// and at no time does the port admit a client without keys.
func TestChatTakesOverWhole(t *testing.T) {
	t.Parallel()
	data, dir := t.TempDir(), t.TempDir()
	keys, templates := filepath.Join(dir, "keys"), filepath.Join(dir, "templates")
	cortex := cortexPath(t)
	if out, err := exec.CommandContext(t.Context(), cortex, "auth", "init", keys).CombinedOutput(); err != nil {
		t.Fatalf("auth init: %v: %s", err, out)
	}
	if err := os.Mkdir(templates, 0o700); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(filepath.Join(templates, "system.tmpl"), []byte("You are the replaced one.\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	first := open(t, "chat", "--data", data, "--auth", keys, "--prompts", templates, "--retain", "30d", "--task-timeout", "77s",
		"--shortlist", "5", "--sync", "200ms", "--learning=false", "--agents", "echo")
	first.shows("1 agent online")
	before := whoRuns(data)
	second := open(t, "chat", "--data", data)
	second.shows("joined " + before.URL)

	ctx, stop := context.WithCancel(t.Context())
	letIn := make(chan int)
	go func() { // a client without keys keeps connecting
		n := 0
		for ctx.Err() == nil {
			if nc, err := natsgo.Connect(before.URL, natsgo.Timeout(time.Second)); err == nil {
				n++
				nc.Close()
			}
		}
		letIn <- n
	}()
	first.types("\x04")
	first.ends(0)
	second.shows("cortex is back")
	second.types("echo the house\r")
	second.shows("Echo: the house")
	after := whoRuns(data)
	stop()
	if n := <-letIn; n > 0 {
		t.Errorf("somebody without keys was let in %d times", n)
	}
	if after.PID == before.PID || after.URL != before.URL {
		t.Errorf("process %d at %s runs, before it was %d at %s; want another at the same address", after.PID, after.URL, before.PID, before.URL)
	}
	if diff := cmp.Diff(before.Node.Flags, after.Node.Flags); diff != "" || len(after.Node.Flags) != 8 {
		t.Errorf("its settings (-before +after):\n%s", diff)
	}
	second.types("/prompt\r")
	second.shows("You are the replaced one.")
	second.prompts()
	second.types("\x04")
	second.ends(0)
}

// TestServiceComesNext checks that a service that waits for a chat's data folder has precedence over another chat, which had joined, and that this
// chat continues with the service.
func TestServiceComesNext(t *testing.T) {
	t.Parallel()
	data := t.TempDir()
	first := open(t, "chat", "--data", data)
	first.shows("3 agents online")
	before := whoRuns(data)
	second := open(t, "chat", "--data", data)
	second.shows("joined " + before.URL)
	serve := open(t, "serve", "--data", data, "--http", "none", "--agents", "echo")
	serve.shows("waiting for the data folder")
	first.types("\x04")
	first.ends(0)
	serve.shows("cortex is ready")
	if after := whoRuns(data); after.PID == before.PID || after.Passing {
		t.Errorf("%+v runs, want the service", after)
	}
	second.shows("cortex is back")
	second.types("echo the house\r")
	second.shows("Echo: the house")
	second.types("\x04")
	second.ends(0)
	serve.types("\x03")
	serve.ends(0)
}

// TestChatEndsWithItsFolder removes the data folder of the chat that runs Cortex on it.
func TestChatEndsWithItsFolder(t *testing.T) {
	t.Parallel()
	data := filepath.Join(t.TempDir(), "data")
	chat := open(t, "chat", "--data", data)
	chat.shows("3 agents online")
	if err := os.Rename(data, data+".gone"); err != nil {
		t.Fatal(err)
	}
	chat.ends(1)
	chat.shows("cortex: the folder")
}

// TestChatTakesOverLater removes the policy of a chat that is to take over: the chat says so, and takes over when the policy is back.
func TestChatTakesOverLater(t *testing.T) {
	t.Parallel()
	data := t.TempDir()
	policy := filepath.Join(t.TempDir(), "policy.yaml")
	rules := []byte("rules:\n  - agents: [clock]\n    at_once: 1\n")
	if err := os.WriteFile(policy, rules, 0o600); err != nil {
		t.Fatal(err)
	}
	first := open(t, "chat", "--data", data, "--policy", policy)
	first.shows("3 agents online")
	before := whoRuns(data)
	second := open(t, "chat", "--data", data)
	second.shows("joined " + before.URL)
	if err := os.Remove(policy); err != nil {
		t.Fatal(err)
	}
	first.types("\x04")
	first.ends(0)
	second.shows("no cortex runs now: --policy: ")
	newcomer := open(t, "ask", "--data", data, "hello") // must not run Cortex without the policy
	newcomer.ends(1)
	newcomer.shows("a chat that is open")
	if err := os.WriteFile(policy, rules, 0o600); err != nil {
		t.Fatal(err)
	}
	second.shows("cortex is back")
	second.types("echo the house\r")
	second.shows("Echo: the house")
	after := whoRuns(data)
	if after.PID == before.PID || after.URL != before.URL {
		t.Errorf("%+v runs, before it was %+v", after, before)
	}
	if diff := cmp.Diff(before.Node.Flags, after.Node.Flags); diff != "" {
		t.Errorf("its settings (-before +after):\n%s", diff)
	}
	second.types("\x04")
	second.ends(0)
}

// TestChatTakesOverWithItsOwn checks a chat that joins one with other settings. It lists all of its unused settings on a screen of any width, and
// takes over with them, and with the other settings of the first chat.
func TestChatTakesOverWithItsOwn(t *testing.T) {
	t.Parallel()
	data := t.TempDir()
	policy := filepath.Join(t.TempDir(), "policy.yaml")
	if err := os.WriteFile(policy, []byte("rules:\n  - agents: [clock]\n    at_once: 1\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	first := open(t, "chat", "--data", data, "--retain", "30d", "--shortlist", "7", "--agents", "echo")
	first.shows("1 agent online")
	second := open(t, "chat", "--data", data, "--policy", policy, "--retain", "1d", "--sync", "200ms", "--task-timeout", "77s", "--learning=false")
	second.shows("1 agent online")
	const warning = "warning: --learning, --policy, --retain, --sync and --task-timeout are not used until this one takes over: the cortex that runs is set otherwise"
	if got := strings.Join(strings.Fields(second.text()), " "); !strings.Contains(got, warning) {
		t.Errorf("the chat does not say %q:\n%s", warning, second.text())
	}
	first.types("\x04")
	first.ends(0)
	second.shows("this one runs cortex now, with its own --learning, --policy, --retain, --sync and --task-timeout")
	second.shows("cortex is back")
	want := map[string]string{"agents": "echo", "shortlist": "7", "policy": policy, "retain": "1d", "sync": "200ms", "task-timeout": "1m17s", "learning": "false"}
	if diff := cmp.Diff(want, whoRuns(data).Node.Flags); diff != "" {
		t.Errorf("its settings (-want +got):\n%s", diff)
	}
	second.types("\x04")
	second.ends(0)
}

// TestKeysWaitForAChat checks that a question with keys waits for the end of a chat that runs Cortex without keys, as a service does.
func TestKeysWaitForAChat(t *testing.T) {
	t.Parallel()
	data, keys := t.TempDir(), filepath.Join(t.TempDir(), "keys")
	cortex := cortexPath(t)
	if out, err := exec.CommandContext(t.Context(), cortex, "auth", "init", keys).CombinedOutput(); err != nil {
		t.Fatalf("auth init: %v: %s", err, out)
	}
	config := filepath.Join(t.TempDir(), "config.yaml")
	if err := os.WriteFile(config, []byte("auth: "+keys+"\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	chat := open(t, "chat", "--data", data)
	chat.shows("3 agents online")
	ask := open(t, "ask", "--data", data, "--config", config, "echo the house")
	ask.shows("cortex: waiting for the data folder: a chat or a question")
	chat.types("\x04")
	chat.ends(0)
	ask.shows("Echo: the house")
	ask.ends(0)
}

// TestChatSucceedsTheNext checks that a chat that has joined a service does not take over from it, but from the chat that comes after. Messages in
// between are not sent, and the chat says so.
func TestChatSucceedsTheNext(t *testing.T) {
	t.Parallel()
	data := t.TempDir()
	serve := open(t, "serve", "--data", data, "--http", "none", "--agents", "echo")
	serve.shows("cortex is ready")
	before := whoRuns(data)
	first := open(t, "chat", "--data", data)
	first.shows("joined " + before.URL)
	serve.types("\x03")
	serve.ends(0)
	first.shows("the connection to cortex is lost")
	first.types("echo to nobody\r")
	first.shows("error: not sent: cortex cannot be reached now. Say it again when it is back.")
	second := open(t, "chat", "--data", data)
	second.shows("3 agents online")
	first.shows("cortex is back")
	between := whoRuns(data)
	second.types("\x04")
	second.ends(0)
	first.types("echo the house\r")
	first.shows("Echo: the house")
	if after := whoRuns(data); after.PID == between.PID || after.URL != between.URL || !after.Passing {
		t.Errorf("%+v runs, before it was %+v", after, between)
	}
	first.types("\x04")
	first.ends(0)
}

// TestKeysUnderAChat restarts the service of a chat with keys, which it did not have before. The chat ends and says what to do, as do an agent and a
// watch; started again, they use the available credentials. They must not wait forever for the old service.
func TestKeysUnderAChat(t *testing.T) {
	t.Parallel()
	data := t.TempDir()
	cortex := cortexPath(t)
	for _, args := range [][]string{{"init"}, {"add", "agent", "clock"}} {
		if out, err := exec.CommandContext(t.Context(), cortex, append([]string{"auth", "--data", data}, args...)...).CombinedOutput(); err != nil {
			t.Fatalf("auth %s: %v: %s", args, err, out)
		}
	}
	all := [][]string{{"chat", "--data", data}, {"agent", "clock", "--data", data}, {"agents", "watch", "--data", data}}
	begins := []string{"joined ", "agent_clock joins ", "registered "}
	serve := open(t, "serve", "--data", data, "--http", "none", "--agents", "echo")
	serve.shows("cortex is ready")
	for _, keyed := range []bool{false, true} {
		var opened []*terminal
		for i, args := range all {
			opened = append(opened, open(t, args...))
			opened[i].shows(begins[i])
		}
		if keyed {
			opened[0].types("echo the house\r")
			opened[0].shows("Echo: the house")
			for _, o := range opened {
				o.types("\x03\x03")
			}
			break
		}
		serve.types("\x03")
		serve.ends(0)
		serve = open(t, "serve", "--data", data, "--http", "none", "--agents", "echo", "--auth", filepath.Join(data, "auth"))
		serve.shows("cortex is ready")
		for _, o := range opened {
			o.ends(1)
			if got := strings.Join(strings.Fields(o.text()), " "); !strings.Contains(got, "has keys now, and had none when it was joined: start this again") {
				t.Errorf("it does not say why it ends:\n%s", o.text())
			}
		}
	}
	serve.types("\x03")
	serve.ends(0)
}
