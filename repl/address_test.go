package repl

import (
	"context"
	"errors"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/cortex-orchestrator/cortex/transport"
)

func TestAddressee(t *testing.T) {
	list := func(context.Context) ([]AgentInfo, error) {
		return []AgentInfo{{ID: "agent_echo"}, {ID: "shop"}}, nil
	}
	for text, want := range map[string]*transport.Direct{
		"@shop shoes":               {Agent: "shop"},
		"  @SHOP, shoes":            {Agent: "shop"},
		"@shop: shoes":              {Agent: "shop"},
		"@shop/find shoes":          {Agent: "shop", Skill: "find"},
		"@shop":                     {Agent: "shop"},
		"@echo hello":               {Agent: "agent_echo"},
		"@shop ask @shop again":     {Agent: "shop"},
		"@shop mail bob@example.eu": {Agent: "shop"},
		"@shop and @nobody":         {Agent: "shop"},
		"@shop shoes and @echo hi":  nil, // the model splits it
		"@nobody hello":             nil,
		"shop shoes":                nil,
		"ask @shop for shoes":       nil,
		"@":                         nil,
		"":                          nil,
	} {
		if diff := cmp.Diff(want, addressee(t.Context(), list, text)); diff != "" {
			t.Errorf("addressee(%q) (-want +got):\n%s", text, diff)
		}
	}
	failing := func(context.Context) ([]AgentInfo, error) { return nil, errors.New("away") }
	if to := addressee(t.Context(), failing, "@shop shoes"); to != nil {
		t.Errorf("without a list: %v, want nobody", to)
	}
}
