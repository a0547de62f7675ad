package repl

import (
	"os"
	"path/filepath"
	"strings"
)

// atHome returns a path that may begin with ~, which a shell would have replaced.
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

// pathsFrom returns what a path that is being typed can become. Hidden files are named when their dot is.
func pathsFrom(typed string) (word string, options []string) {
	dir, name := filepath.Split(typed)
	at := atHome(dir)
	if at == "" {
		at = "."
	}
	entries, _ := os.ReadDir(at)
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
