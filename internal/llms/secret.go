package llms

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"runtime"
	"strings"

	"github.com/cortex-orchestrator/cortex/internal/document"
)

// maxSecret bounds a file with a key, in bytes.
const maxSecret = 64 << 10

// key returns the endpoint's API key, from its file or from the first of its variables that is set; "" for endpoints without keys.
func (ep *Endpoint) key() (string, error) {
	if ep.KeyFile != "" {
		key, err := ReadSecret(ep.KeyFile)
		if err != nil {
			return "", fmt.Errorf("llms.%s: api_key_file: %w", ep.Name, err)
		}
		return key, checkKey("api_key_file", key)
	}
	if ep.token != nil {
		if err := ep.token.Check(); err != nil {
			return "", lacks(ep.Name, filepath.Base(ep.KeyCommand[0]), "api_key_command: %v", err)
		}
		return "", nil
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
	return "", lacksKey(ep.Name, names[0])
}

// tokens returns the source of the tokens that stand in the place of a key, or nil.
func (ep *Endpoint) tokens() func(ctx context.Context, refused string) (string, error) {
	if ep.token == nil {
		return nil
	}
	return func(ctx context.Context, refused string) (string, error) {
		token, err := ep.token.Token(ctx, refused)
		if err != nil && ctx.Err() == nil {
			err = fmt.Errorf("api_key_command: %w", err)
		}
		return token, err
	}
}

// insteadOfTokens says what a provider has that does not take tokens.
func (p *Provider) insteadOfTokens() string {
	if p.google {
		return ": without a key, the credentials of project are used, which renew themselves"
	}
	return ""
}

// checkKey rejects what is commonly copied together with a key.
func checkKey(from, key string) error {
	if strings.HasPrefix(strings.ToLower(key), "bearer ") || strings.ContainsAny(key, "\"' \t\r\n") ||
		strings.ContainsFunc(key, func(r rune) bool { return r < '!' || r > '~' }) {
		return fmt.Errorf("%s: this is no key: want the key alone, without quotes, spaces or Bearer", from)
	}
	return nil
}

// LackError says what an endpoint lacks, without which it cannot be asked. Its text follows the setting that names the endpoint.
type LackError struct {
	name, what string
	Short      string // a few words for a table
}

func (e *LackError) Error() string { return e.name + ": " + e.what }

func lacks(name, short, format string, args ...any) error {
	return &LackError{name, fmt.Sprintf(format, args...), "needs " + short}
}

func lacksKey(name, variable string) error {
	return lacks(name, variable, "%s is not set: `export %[1]s=…` with your key, or set api_key_file for %s in the config file", variable, name)
}

func lacksProject(name string) error {
	const variable = "GOOGLE_CLOUD_PROJECT"
	return lacks(name, variable, "which project? `export %s=…`, or set project for %s in the config file", variable, name)
}

// lacksModel returns the error text for a missing model. aside names the setting whose model was ignored; "" if none was.
func lacksModel(name, aside string) error {
	what := fmt.Sprintf("which model? name it with --model, or `model` in the config file: `cortex llm list %s` lists those that are there", name)
	if aside != "" {
		what += "; " + aside + " is left aside, since it is meant for the llm that is given beside it"
	}
	return lacks(name, "--model", "%s", what)
}

// ReadSecret reads a file of one line that only its owner may read, such as a key.
func ReadSecret(path string) (string, error) {
	b, info, err := document.ReadRegular(path, maxSecret)
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return "", fmt.Errorf("%s does not exist", path)
	case errors.Is(err, document.ErrTooLarge):
		return "", fmt.Errorf("%w: that is no key", err)
	case err != nil:
		return "", err
	case runtime.GOOS != "windows" && info.Mode().Perm()&0o077 != 0: // on Windows the mode says nothing about access
		return "", fmt.Errorf("others can read %s: `chmod 600 %[1]s`", path)
	}
	key := strings.TrimSpace(string(b))
	if key == "" || strings.ContainsAny(key, "\r\n") {
		return "", fmt.Errorf("%s: want one line with the key", path)
	}
	return key, nil
}

// allHeaders returns the headers that are sent with each request, including those from the environment.
func (ep *Endpoint) allHeaders() (map[string]string, error) {
	all := make(map[string]string, len(ep.Headers)+len(ep.HeadersEnv))
	maps.Copy(all, ep.Headers)
	for h, name := range ep.HeadersEnv {
		v := os.Getenv(name)
		if v == "" {
			return nil, lacks(ep.Name, name, "%s is not set: it holds a header of the config file", name)
		}
		all[h] = v
	}
	return all, nil
}
