// Package sdk has the packages for agents in other languages, which speak the protocol of package jsonl: sdk/python and sdk/typescript. Each is
// one file that works beside a program as it is, so `cortex agent new` writes it there, and nothing needs to be installed.
package sdk

import _ "embed"

var (
	//go:embed python/cortex_agent/__init__.py
	python []byte
	//go:embed typescript/cortex-agent.mjs
	typescript []byte
	//go:embed typescript/cortex-agent.d.mts
	types []byte
)

// File is a file that a program needs beside it.
type File struct {
	Name, About string
	Text        []byte
}

// Files returns the files that a program in a language needs, or nil.
func Files(language string) []File {
	switch language {
	case "python":
		return []File{{"cortex_agent.py", "what speaks with Cortex: leave it as it is", python}}
	case "typescript":
		return []File{
			{"cortex-agent.mjs", "what speaks with Cortex: leave it as it is", typescript},
			{"cortex-agent.d.mts", "its types, for editors and tsc", types},
		}
	}
	return nil
}
