package cli

import "testing"

func TestPathText(t *testing.T) {
	for path, want := range map[string]string{
		"/data/a b/é.jsonl":                  "/data/a b/é.jsonl",
		"/data/evil\x1b[31m\nset aside 2020": `"/data/evil\x1b[31m\nset aside 2020"`,
		"/data/\xff":                         `"/data/\xff"`,
	} {
		if got := pathText(path); got != want {
			t.Errorf("pathText(%q) = %s, want %s", path, got, want)
		}
	}
}
