package console_test

import (
	"encoding/json"
	"fmt"
	"net/url"
	"strings"
	"testing"
	"time"

	"github.com/a2aproject/a2a-go/v2/a2a"
	"github.com/chromedp/chromedp"

	"github.com/cortex-orchestrator/cortex/client"
	"github.com/cortex-orchestrator/cortex/console"
	"github.com/cortex-orchestrator/cortex/cortex/registry"
	"github.com/cortex-orchestrator/cortex/transport"
	"github.com/cortex-orchestrator/cortex/transport/memory"
)

// TestAgents looks at the agents, filters them, and tries one by the form of its schema.
func TestAgents(t *testing.T) {
	w := newWorld(t)
	w.join("<script>alert(1)</script>", hostile)
	w.join("agent_clock", "Tells the current time and date in any time zone, city or country")
	p := newTab(t)
	p.open(w.link())
	p.open(w.url + "agents")
	p.says("4 known now")
	p.says("cortex agent exec --card weather/card.yaml -- ./weather/weather.sh") // what agent new writes
	p.size(900, 800)
	if n := eval[int](p, "document.querySelector('a[href=\"/agents/agent_clock\"]').getClientRects().length"); n != 1 {
		t.Errorf("agent_clock is in %d lines", n)
	}
	p.size(1280, 800)
	p.picture("agents")
	p.noOverflow()
	p.do(chromedp.KeyEvent("/"))
	p.await("document.activeElement.matches('[data-slash]')")
	eval[string](p, "document.activeElement.value = ''") // the protocol types the key as well
	p.do(chromedp.KeyEvent("undone\r"))
	p.says("1 of them fit")
	p.open(w.url + "agents/" + url.PathEscape(must1(transport.AgentID("<script>alert(1)</script>"))(t)))
	p.says("Its card, as A2A has it")
	p.open(w.url + "agents/worker")
	p.do(chromedp.Click(chromedp.CSS("#skill-order summary")))
	p.picture("agent")
	p.do(chromedp.SendKeys(chromedp.CSS("#skill-order [name='in.what']"), "tea"), chromedp.SendKeys(chromedp.CSS("#skill-order [name='in.times']"), "2"))
	p.do(chromedp.Click(chromedp.CSS("#skill-order .primary")))
	p.says("done: order")
	p.size(360, 700)
	p.open(w.url + "agents/worker")
	p.noOverflow()
	p.open(w.url + "agents")
	p.noOverflow()
}

// TestTryIt sends the form of a skill with wrong values: the page says which, and keeps what was entered.
func TestTryIt(t *testing.T) {
	w := newWorld(t)
	b := w.browser()
	for form, want := range map[string]string{
		"skill=order&in.what=tea&in.times=many": "times: want a whole number",
		"skill=order&in.times=2":                "what",
		"skill=order&in.what=tea&in.how=x":      "how: want one of its values",
		"skill=do":                              "Say what is to be done.",
	} {
		code, text := status(t, b, "POST", w.url+"agents/worker/try", form)
		if code != 400 && code != 303 || code == 400 && !strings.Contains(text, want) {
			t.Errorf("%s is answered with %d, want %s", form, code, want)
		}
		if strings.Contains(form, "tea") && !strings.Contains(text, ">tea</textarea>") {
			t.Errorf("%s: what was entered is lost", form)
		}
	}
	if code, text := status(t, b, "GET", w.url+"agents?tag=office", "", "Accept", "application/json"); code != 200 || !strings.Contains(text, `"id": "worker"`) || strings.Contains(text, `"danger"`) {
		t.Errorf("the agents are %d:\n%s", code, text)
	}
	if code, _ := status(t, b, "GET", w.url+"agents/nobody", ""); code != 404 {
		t.Errorf("nobody's page answers %d", code)
	}
}

// TestTenThousandAgents measures the page of ten thousand agents.
func TestTenThousandAgents(t *testing.T) {
	bus := memory.New(nil)
	defer bus.Close()
	r := registry.New(registry.Config{})
	go func() { _ = r.Run(t.Context(), bus) }()
	<-r.Synced()
	const many = 10_000
	for i := range many {
		id := fmt.Sprintf("agent-%05d", i)
		must(t, bus.Publish(t.Context(), transport.Cards(""), &transport.Event{ID: id, Time: time.Now(), From: id, Payload: &transport.Card{AgentID: id, Instance: "i", TTL: time.Hour, Card: &a2a.AgentCard{
			Name: id, Description: strings.Repeat("Does something useful with invoices and letters. ", 4), Version: "1.0.0",
			Skills: []a2a.AgentSkill{{ID: "invoice-read", Name: "Read", Description: "Reads"}, {ID: "invoice-write", Name: "Write", Description: "Writes"}},
		}}}))
	}
	until(t, "all agents are there", func() bool { return len(r.Snapshot().Agents()) == many })
	w := newWorld(t, func(c *console.Config) { c.Agents = r.Snapshot })
	b := w.browser()
	for _, path := range []string{"agents", "agents?text=invoice&after=agent-04999", "agents/agent-00001", ""} {
		began := time.Now()
		code, text := status(t, b, "GET", w.url+path, "")
		t.Logf("/%s: %d KB in %v", path, len(text)>>10, time.Since(began).Round(time.Millisecond))
		if code != 200 || len(text) > 300_000 {
			t.Errorf("/%s answers %d with %d bytes, want at most 300 KB", path, code, len(text))
		}
	}
	var all []json.RawMessage
	if _, text := status(t, b, "GET", w.url+"agents", "", "Accept", "application/json"); json.Unmarshal([]byte(text), &all) != nil || len(all) != many {
		t.Errorf("as JSON there are %d agents", len(all))
	}
}

// TestWorkOfAgents shows what agents were given: what is open, done and failed, and the last tasks of one.
func TestWorkOfAgents(t *testing.T) {
	w := newWorld(t)
	defer close(w.gate)
	w.ask("x", "hello")
	w.ask("x", "again")
	w.ask("y", "fail")
	must1((&client.Client{Transport: w.bus}).Send(t.Context(), client.Text("z", "slow work")))(t)
	b := w.browser()
	until(t, "the slow task is with its agent", func() bool {
		_, text := status(t, b, "GET", w.url+"tasks", "")
		return strings.Contains(text, "slow work")
	})
	_, text := status(t, b, "GET", w.url+"agents", "")
	if !strings.Contains(text, `<td class="num">1</td><td class="num optional nowrap" title="2 done, 1 failed">66 %</td>`) {
		t.Errorf("the agents are:\n%s", text)
	}
	_, text = status(t, b, "GET", w.url+"agents/worker", "")
	for _, want := range []string{"2 done, 1 failed (66 % done)", "1 open now", "the printer is out of paper", `href="/c/z">slow work</a>`} {
		if !strings.Contains(text, want) {
			t.Errorf("the agent's page has no %q", want)
		}
	}
	if i, j := strings.Index(text, ">slow work<"), strings.Index(text, ">hello<"); i < 0 || j < i {
		t.Error("its last task is not the first one of the list")
	}
	_, text = status(t, b, "GET", w.url+"agents/danger", "")
	if strings.Contains(text, "Its last tasks") {
		t.Error("an agent that was given nothing has tasks")
	}
}
