package cli

import (
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"os"
	"runtime"
	"strings"

	"github.com/cortex-orchestrator/cortex/internal/document"
)

// maxSecret bounds a file with a key, in bytes.
const maxSecret = 64 << 10

// key returns the endpoint's API key: from its file, or from the first of the variables that is set. "" is for endpoints
// that need none.
func (ep *endpoint) key() (string, error) {
	if ep.KeyFile != "" {
		key, err := readSecret(ep.KeyFile)
		if err != nil {
			return "", fmt.Errorf("llms.%s: api_key_file: %w", ep.Name, err)
		}
		return key, checkKey("api_key_file", key)
	}
	if ep.KeyEnv == "" {
		return "", nil
	}
	names := strings.Split(ep.KeyEnv, ",")
	for _, name := range names {
		if key := strings.TrimSpace(os.Getenv(name)); key != "" {
			return key, checkKey(name, key)
		}
	}
	return "", errNoKey{ep.Name, names[0]}
}

// checkKey finds what people paste with a key.
func checkKey(from, key string) error {
	if strings.HasPrefix(strings.ToLower(key), "bearer ") || strings.ContainsAny(key, "\"' \t\r\n") ||
		strings.ContainsFunc(key, func(r rune) bool { return r < '!' || r > '~' }) {
		return fmt.Errorf("%s: this is no key: want the key alone, without quotes, spaces or Bearer", from)
	}
	return nil
}

// errNoKey says that a key is not there.
type errNoKey struct{ name, variable string }

func (e errNoKey) Error() string {
	return fmt.Sprintf("--llm %s: %s is not set: `export %[2]s=…` with your key, or set api_key_file for %[1]s in the config file", e.name, e.variable)
}

// errNoProject says that Google's project is not known.
type errNoProject struct{ name string }

func (e errNoProject) Error() string {
	return fmt.Sprintf("--llm %s: which project? `export GOOGLE_CLOUD_PROJECT=…`, or set project for %[1]s in the config file", e.name)
}

// readSecret reads a file that only its owner can read.
func readSecret(path string) (string, error) {
	b, info, err := document.ReadRegular(path, maxSecret)
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return "", fmt.Errorf("%s does not exist", path)
	case errors.Is(err, document.ErrTooLarge):
		return "", fmt.Errorf("%w: that is no key", err)
	case err != nil:
		return "", err
	case runtime.GOOS != "windows" && info.Mode().Perm()&0o077 != 0: // there the bits say nothing
		return "", fmt.Errorf("others can read %s: `chmod 600 %[1]s`", path)
	}
	key := strings.TrimSpace(string(b))
	if key == "" || strings.ContainsAny(key, "\r\n") {
		return "", fmt.Errorf("%s: want one line with the key", path)
	}
	return key, nil
}

// allHeaders returns the headers that are sent with each request, those from the environment included.
func (ep *endpoint) allHeaders() (map[string]string, error) {
	all := make(map[string]string, len(ep.Headers)+len(ep.HeadersEnv))
	maps.Copy(all, ep.Headers)
	for h, name := range ep.HeadersEnv {
		v := os.Getenv(name)
		if v == "" {
			return nil, fmt.Errorf("--llm %s: %s is not set: it holds a header of the config file", ep.Name, name)
		}
		all[h] = v
	}
	return all, nil
}
