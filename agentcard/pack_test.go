package agentcard_test

import (
	"encoding/json"
	"reflect"
	"runtime"
	"strings"
	"testing"

	"github.com/a2aproject/a2a-go/v2/a2a"

	"github.com/cortex-orchestrator/cortex/agentcard"
)

// TestPack: a packed card says the same as the card, and takes little more memory than its JSON.
func TestPack(t *testing.T) {
	const own = `{"name":"a","version":"1","skills":[{"id":"s","name":"s","description":"d","tags":[]}],"capabilities":{"extensions":[{"uri":"` + agentcard.ExtensionURI + `","params":{`
	heavy := func(one string) string { return "[" + strings.Repeat(one+",", 6000) + one + "]" }
	properties := `{"type":"object","properties":{"p":{"type":"string"},"q":{"enum":["<b>",1e2,null]}}}`
	for name, text := range map[string]string{
		"plain":      `{"name":"a","version":"1","skills":[{"id":"s","name":"s","description":"d","tags":["t"]}]}`,
		"spec":       own + `"tags":["x","y"],"labels":{"k":"v"},"owner_team":"o","supported_patterns":["swarm_peer"],"max_retries":2,"evaluators":["strict",1],"tools":["a"],"abilities":{"s":{"input_schema":` + properties + `,"output_schema":true,"confidence_hint":0.5,"confirm":true},"other":{"input_schema":{}}}}}]}}`,
		"objects":    own + `"tools":` + heavy(`{"a":1}`) + `}}]}}`,
		"lists":      own + `"tags":` + heavy(`[]`) + `,"supported_patterns":` + heavy(`"swarm_peer"`) + `}}]}}`,
		"evaluators": own + `"evaluators":["strict",` + heavy(`{}`) + `]}}]}}`,
		"schema":     own + `"abilities":{"s":{"input_schema":{"type":"object","anyOf":` + "[" + strings.Repeat("{},", 4000) + `{}]}}}}}]}}`,
		"large":      own + `"abilities":{"s":{"output_schema":{"anyOf":` + heavy(`{}`) + `}}}}}]}}`,
		"no schemas": own + `"abilities":{"s":{"input_schema":[],"output_schema":"x"}}}}]}}`,
		"deep":       own + `"tools":` + strings.Repeat("[", 100) + strings.Repeat("]", 100) + `,"abilities":{"s":{"input_schema":{"not":` + strings.Repeat(`{"not":`, 100) + "{}" + strings.Repeat("}", 100) + `}}}}}]}}`,
		"foreign":    `{"name":"a","version":"1","skills":[],"capabilities":{"extensions":[{"uri":"urn:x","params":{"a":` + heavy(`{"a":{}}`) + `,"b":"c"}}]}}`,
		"signatures": `{"name":"a","version":"1","skills":[],"signatures":[{"protected":"p","signature":"s","header":{"a":` + heavy(`[[]]`) + `}}]}`,
	} {
		t.Run(name, func(t *testing.T) {
			var card *a2a.AgentCard
			if err := json.Unmarshal([]byte(text), &card); err != nil {
				t.Fatal(err)
			}
			packed := agentcard.Pack(card)
			if got, want := jsonOf(t, packed), jsonOf(t, card); got != want {
				t.Errorf("its JSON is %.300s, want %.300s", got, want)
			}
			got, want := agentcard.SpecOf(packed), agentcard.SpecOf(card)
			if is, was := got.Evaluators(), want.Evaluators(); !reflect.DeepEqual(is, was) {
				t.Errorf("the evaluators are %q, want %q", is, was)
			}
			if is, was := jsonOf(t, got), jsonOf(t, want); is != was {
				t.Errorf("the spec is %.300s, want %.300s", is, was)
			}
			if is, was := jsonOf(t, agentcard.AbilityOf(packed, "s")), jsonOf(t, agentcard.AbilityOf(card, "s")); is != was {
				t.Errorf("the ability is %.300s, want %.300s", is, was)
			}
			if agentcard.TakesPart(packed, agentcard.SwarmPeer) != agentcard.TakesPart(card, agentcard.SwarmPeer) {
				t.Error("it takes part in another pattern")
			}
			if size, weight := len(jsonOf(t, card)), agentcard.Weight(packed); weight > 2*size+4<<10 {
				t.Errorf("it takes %d bytes, and its JSON %d", weight, size)
			}
			if twice := agentcard.Pack(packed); jsonOf(t, agentcard.SpecOf(twice)) != jsonOf(t, want) {
				t.Error("packed again, it has another spec")
			}
		})
	}
}

// TestWeight: a card's weight is about the memory that it takes.
func TestWeight(t *testing.T) {
	for name, text := range map[string]string{
		"tags":       `{"skills":[{"id":"s","tags":[` + strings.Repeat(`"",`, 20_000) + `""]}]}`,
		"extensions": `{"capabilities":{"extensions":[` + strings.Repeat(`{},`, 20_000) + `{}]}}`,
		"objects":    `{"capabilities":{"extensions":[{"params":{"a":[` + strings.Repeat(`{"a":{}},`, 5000) + `{}]}}]}}`,
		"text":       `{"description":"` + strings.Repeat("word ", 100_000) + `"}`,
	} {
		var card *a2a.AgentCard
		var before, after runtime.MemStats
		runtime.GC()
		runtime.GC() // what other tests left in pools
		runtime.ReadMemStats(&before)
		if err := json.Unmarshal([]byte(text), &card); err != nil {
			t.Fatal(err)
		}
		runtime.GC()
		runtime.ReadMemStats(&after)
		weight, is := float64(agentcard.Weight(card)), float64(after.HeapAlloc)-float64(before.HeapAlloc)
		if weight < is/2 || weight > is*2 {
			t.Errorf("%s: the card takes %.0f bytes, and its weight is %.0f", name, is, weight)
		}
		runtime.KeepAlive(card)
	}
}

func jsonOf(t *testing.T, v any) string {
	t.Helper()
	b, err := json.Marshal(v)
	if err != nil {
		t.Fatal(err)
	}
	return string(b)
}
