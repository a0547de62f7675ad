package tests

import (
	"regexp"
	"strings"
	"testing"
)

// TestServeOnATerminal checks that a service tells a person in a few aligned lines what it is and how to join it, then who comes and goes; and that it
// writes a log where one is wanted.
func TestServeOnATerminal(t *testing.T) {
	t.Parallel()
	data := t.TempDir()
	serve := openSized(t, 50, []string{"CORTEX_LLM=fake"}, "serve", "--data", data, "--http", "127.0.0.1:0", "--agents", "calc,clock")
	serve.shows("--card CARD -- PROGRAM")
	page := regexp.MustCompile(`^cortex is ready · \S+ · Ctrl-C ends it

address    nats://127.0.0.1:\d+
data       /[^:]*
decides    offline by words; for a language model:
           --llm … \(cortex llm list\)
agents     agent_calc, agent_clock
console    http://127.0.0.1:\d+/\?token=[\w\s-]+
health     http://127.0.0.1:\d+/readyz
as a tool  http://127.0.0.1:\d+/mcp

Next:
    # talk to it
    cortex chat[^:]*
    # have a program join
    cortex agent exec[^:]* PROGRAM\n*$`)
	if text := trimmed(serve); !page.MatchString(text) {
		t.Errorf("it shows\n%s\nwant %s", text, page)
	}
	agent := open(t, "agent", "echo", "--data", data)
	serve.shows("agent_echo is there: A simple echo")
	agent.types("\x03")
	agent.ends(0)
	serve.shows("agent_echo has left")
	ask := open(t, "ask", "--data", data, "17*23")
	ask.shows("391")
	ask.ends(0)
	serve.types("\x03")
	serve.ends(0)
	text := trimmed(serve)
	if !regexp.MustCompile(`(?m)^\d\d:\d\d:\d\d  cortex is stopping\n\d\d:\d\d:\d\d  cortex has stopped: 2 decisions, 1 task$`).MatchString(text) {
		t.Errorf("it ends with\n%s", text)
	}
	if strings.Contains(text, "level=") || strings.Contains(text, "decided (") {
		t.Errorf("there are lines of a log:\n%s", text)
	}

	logged := open(t, "serve", "--data", data, "--http", "none", "--log-level", "info")
	logged.shows(`level=INFO msg="cortex is ready" url=nats`)
	logged.types("\x03")
	logged.ends(0)
}
