package cli

import (
	"testing"

	"github.com/cortex-orchestrator/cortex/internal/document"
	"github.com/cortex-orchestrator/cortex/internal/document/documenttest"
)

// FuzzConfig checks that nothing panics, and that only settings are accepted as settings.
func FuzzConfig(f *testing.F) {
	for _, s := range documenttest.Seeds() {
		f.Add("llm: fake\n" + s)
	}
	for _, s := range []string{
		"auth: \"\"", "auth: []", "agents: []", "agents: [[]]", "agents: [echo, \"\"]", "llms: {main: {provider: openai, timeout: 3s, fallback: [x]}}\nbudget: {turn: {tokens: 3}}", "budget: {turn: {cost: .inf}}",
		"llms: {a: {provider: vertexai, credentials_file: \"\"}}", "task_timeout: 1e400", "policy: [a, [b]]", "llms: []",
		"a2a_agents: [https://example.com, {url: https://example.com/a, prefix: x, refresh: 1m, allow_host: [b]}]", "a2a_agents: [{directory: \"\"}]", "a2a_agents: [[]]",
	} {
		f.Add(s)
	}
	known := map[string]kind{"llm": isSetting, "auth": isSetting, "policy": isSetting, "agents": isList, "task_timeout": isSetting, "all": isAction}
	f.Fuzz(func(t *testing.T, text string) {
		d, err := document.Parse([]byte(text))
		if err != nil {
			return
		}
		values, err := (&settings{program: self}).readKeys(d.JSON, known)
		if err != nil {
			if err = d.Explain(err); oneLine(err) == "" {
				t.Errorf("%q: an error without words", text)
			}
			return
		}
		for k, v := range values {
			if known[k] != isSetting && known[k] != isList || v == "" {
				t.Errorf("%q: %s is %q", text, k, v)
			}
		}
	})
}
