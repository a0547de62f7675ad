package cli

import (
	"bytes"
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/spf13/cobra"

	"github.com/cortex-orchestrator/cortex/cortex/budget"
	"github.com/cortex-orchestrator/cortex/internal/cli/typed"
	"github.com/cortex-orchestrator/cortex/internal/document"
	"github.com/cortex-orchestrator/cortex/internal/llms"
	"github.com/cortex-orchestrator/cortex/internal/usage"
	"github.com/cortex-orchestrator/cortex/llm"
	"github.com/cortex-orchestrator/cortex/transport"
)

// readConfig reads the config file. It returns the values of settings as texts of flags. Unknown keys are errors.
func (s *settings) readConfig(cmd *cobra.Command) (map[string]string, *document.Document, error) {
	if !s.flags.Lookup("config").Changed { // a command may have a flag of its own with this name
		var set bool
		if s.config, set = os.LookupEnv("CORTEX_CONFIG"); set {
			s.given["config"] = fromEnv
		} else if s.config = foundConfig(); s.config == "" {
			return nil, nil, nil
		}
	}
	if s.config == "" {
		return nil, nil, s.wrong("config", ": %w", usage.ErrEmpty)
	}
	b, err := document.Read(cmd.Context(), s.config, maxConfig)
	if cmd.Context().Err() != nil {
		return nil, nil, cmd.Context().Err()
	}
	if err != nil {
		return nil, nil, s.wrong("config", ": %w", err)
	}
	d, err := document.Parse(b)
	if err != nil {
		return nil, nil, usagef("%s: %w", s.config, err)
	}
	values, err := s.readKeys(d.JSON, flagKeys(cmd.Root()))
	if err != nil {
		return nil, nil, usagef("%s: %w", s.config, d.Explain(err))
	}
	return values, d, nil
}

// readKeys reads the keys of a config file. Its errors begin with the key.
func (s *settings) readKeys(plain []byte, known map[string]kind) (map[string]string, error) {
	raw := map[string]json.RawMessage{}
	if err := json.Unmarshal(plain, &raw); err != nil {
		return nil, errNoKeys
	}
	if len(raw) == 0 {
		return nil, errSaysNothing
	}
	values := map[string]string{}
	for _, k := range slices.Sorted(maps.Keys(raw)) {
		var err error
		switch {
		case k == "llms":
			err = s.readEndpoints(raw[k])
		case k == "budget":
			if err = readBudget(raw[k], &s.budget); err != nil {
				err = fmt.Errorf("budget%w", err)
			}
		case k == peerKey:
			err = s.readPeers(raw[k])
		case known[k] == isSetting || known[k] == isList:
			if values[k], err = plainValue(raw[k], known[k] == isList); err != nil {
				err = fmt.Errorf("%s: %w", k, err)
			} else if flag := strings.ReplaceAll(k, "_", "-"); flag == "data" || slices.Contains(pathFlags, flag) || slices.Contains(portPaths, flag) {
				values[k] = s.beside(values[k])
			}
		case known[k] == isAction:
			err = fmt.Errorf("%s: this is no setting: it says what one command is to do, and is only given to that one as a flag", k)
		default:
			near := typed.Nearest(k, slices.Sorted(maps.Keys(known)))
			if near != "" {
				near = fmt.Sprintf("did you mean %s? ", near)
			}
			err = fmt.Errorf("unknown key %q: %sa key is a flag's name with _ for -, or llms, budget or a2a_agents", k, near)
		}
		if err != nil {
			return nil, err
		}
	}
	return values, nil
}

// beside resolves a path in the config file, which is relative to the folder of that file unless that is no file, but a pipe.
func (s *settings) beside(path string) string {
	if info, err := os.Stat(s.config); path == "" || path == "none" || filepath.IsAbs(path) || err != nil || !info.Mode().IsRegular() {
		return path
	}
	return filepath.Join(filepath.Dir(s.config), path)
}

// maxConfig bounds the config file, in bytes.
const maxConfig = 256 << 10

// errNoKeys and errSaysNothing are the errors for a file without settings: a wrong file, or a template that nobody has filled in.
var (
	errNoKeys      = errors.New("want keys and values, such as `llm: openai`")
	errSaysNothing = errors.New("it says nothing: give keys and values, such as `llm: openai`, or leave the file out")
)

// plainValue returns a value as the text of a flag. list says that it may be a list.
func plainValue(raw json.RawMessage, list bool) (string, error) {
	var v any
	d := json.NewDecoder(bytes.NewReader(raw))
	d.UseNumber()
	if err := d.Decode(&v); err != nil {
		return "", err
	}
	switch v := v.(type) {
	case []any:
		if !list {
			return "", errors.New("want one value, not a list")
		}
		var all []json.RawMessage
		if err := json.Unmarshal(raw, &all); err != nil {
			return "", err
		}
		parts := make([]string, len(all))
		for i := range all {
			var err error
			if parts[i], err = plainValue(all[i], false); err != nil {
				return "", err
			}
		}
		if len(parts) == 0 {
			return "", usage.ErrEmpty
		}
		return strings.Join(parts, ","), nil
	case string:
		if v == "" {
			return "", usage.ErrEmpty
		}
		return v, nil
	case map[string]any, nil:
		return "", errors.New("want a plain value")
	default:
		return fmt.Sprint(v), nil
	}
}

func (s *settings) readEndpoints(raw json.RawMessage) error {
	all := map[string]json.RawMessage{}
	if err := json.Unmarshal(raw, &all); err != nil || len(all) == 0 {
		return errors.New("llms: want names, each with its settings")
	}
	s.llms = make(map[string]*llms.Endpoint, len(all))
	known := llms.Providers(s.program.Providers)
	for _, name := range slices.Sorted(maps.Keys(all)) {
		if err := transport.CheckID(name); err != nil || strings.ContainsAny(name, ",*") {
			return fmt.Errorf("llms: %q is no good name: use letters, digits and -", name)
		}
		ep, err := llms.Read(name, all[name], known)
		if err != nil {
			return err
		}
		ep.KeyFile, ep.CredentialsFile = s.beside(ep.KeyFile), s.beside(ep.CredentialsFile)
		if err := cmp.Or(absolute(&ep.KeyFile), absolute(&ep.CredentialsFile)); err != nil {
			return fmt.Errorf("llms.%s: %w", name, err)
		}
		if ep.KeyCommand != nil {
			dir := s.beside(".")
			if err := absolute(&dir); err != nil {
				return fmt.Errorf("llms.%s: %w", name, err)
			}
			ep.RunIn(dir)
		}
		s.llms[name] = ep
	}
	return nil
}

func readBudget(raw json.RawMessage, to *budget.Limits) error {
	type bound struct {
		Tokens *int     `json:"tokens"`
		Cost   *float64 `json:"cost"`
	}
	d := json.NewDecoder(bytes.NewReader(raw))
	d.DisallowUnknownFields()
	var in struct {
		Turn         *bound `json:"turn"`
		Conversation *bound `json:"conversation"`
		Day          *bound `json:"day"`
	}
	if err := d.Decode(&in); err != nil {
		return errors.New(llms.ExplainJSON(err))
	}
	none := true
	for _, b := range []struct {
		name string
		in   *bound
		to   *llm.Budget
	}{{"turn", in.Turn, &to.Turn}, {"conversation", in.Conversation, &to.Conversation}, {"day", in.Day, &to.Day}} {
		if b.in == nil {
			continue
		}
		none = false
		switch t, c := b.in.Tokens, b.in.Cost; { // a budget without bounds is a mistake
		case t == nil && c == nil:
			return fmt.Errorf(".%s: want tokens, or cost, or both", b.name)
		case t != nil && *t <= 0:
			return fmt.Errorf(".%s.tokens: %d: it must be more than nothing", b.name, *t)
		case c != nil && *c <= 0:
			return fmt.Errorf(".%s.cost: %v: it must be more than nothing", b.name, *c)
		}
		if b.in.Tokens != nil {
			b.to.Tokens = *b.in.Tokens
		}
		if b.in.Cost != nil {
			b.to.Cost = *b.in.Cost
		}
	}
	if none {
		return errors.New(": want turn, conversation or day, each with tokens, or cost, or both")
	}
	return nil
}
