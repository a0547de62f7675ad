package repl

import (
	"cmp"
	"os"
	"path/filepath"
	"strings"
)

// atHome replaces a leading ~ in a path, as a shell would.
func atHome(path string) string {
	rest, ok := strings.CutPrefix(path, "~")
	if !ok || rest != "" && !os.IsPathSeparator(rest[0]) {
		return path
	}
	home, err := os.UserHomeDir()
	if err != nil {
		return path
	}
	return home + rest
}

// pathsFrom returns the completions of a path. Hidden files are offered only when their dot was typed.
func pathsFrom(typed string) (word string, options []string) {
	dir, name := filepath.Split(typed)
	entries, _ := os.ReadDir(cmp.Or(atHome(dir), "."))
	for _, e := range entries {
		option := dir + e.Name()
		if !strings.HasPrefix(e.Name(), name) || strings.HasPrefix(e.Name(), ".") && name == "" || oneLine(option) != option {
			continue
		}
		if e.IsDir() {
			option += string(filepath.Separator)
		}
		options = append(options, option)
	}
	return typed, options
}
